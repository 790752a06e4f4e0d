//! Where a record goes: which log takes the next one.
//!
//! A policy sees only what a host knows: where the last in-place I/O ended and which logs can take
//! the record. It never sees the position of the disk's head.

mod near_head;
mod single_log;

pub use near_head::NearHead;
pub use single_log::SingleLog;

use crate::logs::Logs;

/// What the policy decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The log that takes this record; it is claimed and has room.
    pub log_index: u32,
    /// The log that would have been best; if different it is claimed in this record, for the next.
    pub wanted_index: u32,
}

/// The policy question *where does it go?*
pub trait Placement: Send {
    /// An in-place read or write ended at this device byte.
    fn note_in_place(&mut self, device_offset: u64);

    /// The log for a record of `blocks` log blocks that leaves `reserve` blocks free, if any has
    /// room and is claimed.
    fn choose(&mut self, logs: &Logs, blocks: u32, reserve: u32) -> Option<Choice>;
}
