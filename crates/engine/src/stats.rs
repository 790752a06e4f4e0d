//! Counters and gauges of an engine, with their units in their names.

use crate::disk_report::{DiskErrorCounts, DiskErrorReport, DiskStall, Shortage};

/// What happened since the engine started. All counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with an error.
    pub requests_failed: u64,
    /// Client bytes of reads that were answered with success.
    pub read_bytes: u64,
    /// Client bytes of writes that were answered with success, logged or in place.
    pub written_bytes: u64,
    /// Those of them that went through a log.
    pub logged_bytes: u64,
    /// Those of them that went in place.
    pub in_place_bytes: u64,
    /// Records written.
    pub records: u64,
    /// Bytes of records, headers and padding included.
    pub record_bytes: u64,
    /// Records that had to go to a farther log because the near one was not claimed or full.
    pub records_far: u64,
    /// Entries invalidated by in-place writes.
    pub invalidated_entries: u64,
    /// Map snapshots written.
    pub snapshots: u64,
    /// Bytes of snapshots.
    pub snapshot_bytes: u64,
    /// Bytes checkpointed home.
    pub checkpointed_bytes: u64,
    /// Bands of a shingled disk that checkpoints wrote as a whole.
    pub bands_written: u64,
    /// Logs moved to a cold place.
    pub swaps: u64,
    /// Bytes moved by swaps.
    pub swapped_bytes: u64,
    /// Times a small write found no room in any log and went in place.
    pub spills: u64,
    /// Small writes that went home at once because they waited alone.
    pub alone_home: u64,
    /// Times a small write waited for room in memory.
    pub stage_waits: u64,
    /// Device flushes.
    pub device_flushes: u64,
    /// Chunks read from a log whose checksum did not match at first.
    pub checksum_retries: u64,
    /// Reads refused because a checksum did not match or the address is poisoned.
    pub unreadable: u64,
    /// Errors of the disk; [`Status::disk_errors`] says of what kind.
    pub disk_errors: u64,
}

/// The state of an engine at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `recovering`, `serving`, `draining`, `stopped` or `failed`.
    pub phase: &'static str,
    /// Why, if failed.
    pub failure: Option<String>,
    /// Entries in the map.
    pub map_entries: u64,
    /// Memory of the map.
    pub map_bytes: u64,
    /// Small writes waiting in memory.
    pub staged_bytes: u64,
    /// Logs on the volume.
    pub logs: u32,
    /// Logs a recovery would scan.
    pub logs_claimed: u32,
    /// Share of log space in use, 0 to 100.
    pub log_fill_pct: u32,
    /// Sequence of the newest durable record.
    pub record_sequence: u64,
    /// Number of the newest snapshot.
    pub snapshot_number: u64,
    /// Whether a checkpoint is under way.
    pub checkpointing: bool,
    /// Whether a checkpoint that can wait is due, or runs on a permit; never without coordination.
    pub wants_checkpoint_permit: bool,
    /// Commands that failed, by what they were for and how.
    pub disk_errors: DiskErrorCounts,
    /// The last of them.
    pub last_disk_error: Option<DiskErrorReport>,
    /// Blocks that stay in the logs, or in memory, because their homes could not be written; each is tried again.
    pub homes_failed: u64,
    /// Commands that the disk does not answer.
    pub stall: Option<DiskStall>,
    /// How often it was found not to.
    pub stalls: u64,
    /// Writes wait for space under a sparse image.
    pub shortage: Option<Shortage>,
    /// Bytes of regions whose home is known to be zeros; what is logged of them counts too.
    pub blank_bytes: u64,
    /// Findings of recovery that lost or doubt data; empty for a healthy volume.
    pub damage: Vec<String>,
    /// Bytes read by recovery.
    pub recovery_read_bytes: u64,
    /// Records replayed by recovery.
    pub recovery_records: u64,
    /// Logs scanned by recovery.
    pub recovery_logs: u32,
    /// Counters.
    pub stats: Stats,
}
