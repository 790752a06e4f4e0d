//! Counters of a modelled disk: where its time goes, which a real disk never tells.
//!
//! For reports and control sockets only; nothing above a disk may decide by them.

use crate::served::Served;
use serde::Serialize;

/// What a disk did since it was made or [reset](crate::HddModel::reset_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// What was asked of it.
    #[serde(flatten)]
    pub served: Served,
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
