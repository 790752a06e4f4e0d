//! Small tools that every crate may use, because they know nothing of storage.
//!
//! For what would otherwise be written again in each crate. Each file is one tool; the same calls give the same
//! results on every machine and in every later version. Nothing here reads a clock, opens a file, starts a thread or
//! finds chance by itself, so that the state machines may use it, and nothing depends on another crate of ours.

mod histogram;
pub mod little_endian;
mod number_hash;
pub mod pattern;
mod random;
mod slab;
mod table;

pub use histogram::Histogram;
pub use number_hash::{NumberHash, NumberHasher};
pub use random::{Random, SplitMix};
pub use slab::Slab;
pub use table::{Column, Side, Table};
