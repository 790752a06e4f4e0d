//! Counters of a modelled disk: where its time goes, which a real disk never tells.
//!
//! For reports and control sockets only; nothing above a disk may decide by them.

use serde::Serialize;

/// What a disk did since it was made or [reset](crate::HddModel::reset_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
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
    /// Reads that went on where the head was reading ahead.
    pub read_streams: u64,
    /// Writes acknowledged from the write cache.
    pub writes_cached: u64,
    /// Runs written from the write cache to the medium.
    pub destages: u64,
    /// Bytes of them.
    pub destage_bytes: u64,
    /// Movements of the arm to another cylinder to begin a command.
    pub seeks: u64,
    /// Time on commands and destaging, in ns: the next three together.
    pub busy_ns: u64,
    /// Moving and settling, in ns.
    pub seek_ns: u64,
    /// Waiting for sectors to come round, in ns.
    pub rotation_ns: u64,
    /// Sectors passing under the head, in ns.
    pub transfer_ns: u64,
    /// Power cuts.
    pub power_cuts: u64,
}
