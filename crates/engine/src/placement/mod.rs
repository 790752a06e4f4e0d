//! Where a record goes: which log takes the next one.
//!
//! A policy sees only what a host knows: where the engine takes the head to be from the commands it sent
//! and which logs can take the record. It never sees where the head really is.

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
    /// The log for a record of `blocks` log blocks that leaves `reserve` blocks free, if any has
    /// room and is claimed. `head_offset` is the device byte where the head is taken to be.
    fn choose(&self, logs: &Logs, head_offset: u64, blocks: u32, reserve: u32) -> Option<Choice>;
}
