//! Which pieces a cache of bounded size keeps, and in which of its slots each of them is.
//!
//! Replacement is that of the library `quick_cache`, a CLOCK-PRO close to S3-FIFO: what was asked for once passes through a
//! small part of the room and leaves what is asked for again alone, so that a scan does not empty the cache. It keeps true:
//!
//! - there are never more pieces than slots, and no two pieces in one slot;
//! - the same calls give the same answers: the hash has a fixed key, and nothing here knows time or chance;
//! - a slot that is *held* (somebody is writing to it) is given to no other piece until it is released.
//!
//! No bytes are here: whoever has them puts them where the slot says. It must never be asked whether a piece is right:
//! who finds one checks it.

mod slots;

pub use slots::{Kept, Slots};
