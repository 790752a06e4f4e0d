//! What a file system's transaction is, and which mode writes which part of it where.
//!
//! A transaction is the data and the metadata that have to become durable together. A [`Mode`] says of each part whether it goes in
//! place first, or into the record of the transaction. What stays true whatever a mode says: data that metadata names for the first
//! time is durable before that metadata is, or in the same record; and the metadata of a transaction is one record.
//!
//! It decides and writes nothing itself, has no clock, and knows no file system: offsets are bytes of the device.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bare;
mod mode;
mod modes;
mod transaction;

pub use bare::{BareJournal, Steps, blocks_on_bare_disk};
pub use mode::{Mode, Placement, Unit, UnknownMode};
pub use modes::{DEFAULT_MODE, MODES, mode_named, small_run_bytes};
pub use transaction::{Piece, merged};
