//! Counters of what was asked of a modelled disk, whatever it is made of.

use serde::Serialize;

/// Commands that a disk completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Commands completed.
    pub commands: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them, zeroes included.
    pub writes: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Commands completed with an error.
    pub errors: u64,
    /// Bytes of completed reads.
    pub read_bytes: u64,
    /// Bytes of completed writes.
    pub write_bytes: u64,
    /// Reads served from the drive's memory alone.
    pub read_hits: u64,
}

impl Served {
    /// The same of so many commands, so many of which failed: whoever keeps the commands counts them.
    pub(crate) fn completed(self, commands: u64, errors: u64) -> Self {
        Self { commands, errors, ..self }
    }
}
