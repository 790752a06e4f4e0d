//! Counters and gauges of an engine, with their units in their names.

use crate::admission::TargetStatus;
use crate::damage::Damage;
use crate::disk::drive::DriveStatus;
use crate::disk::report::{DiskErrorCounts, DiskErrorReport, DiskStall, Shortage};
use crate::failure::Failure;
use crate::pass::Pass;
use nearhead_disk::{Lane, Nanos};

/// One counter, as every list of them names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// In reports for programs, and the field of [`Stats`].
    pub name: &'static str,
    /// As a metric, and what that is to people; `None` where metrics tell it in more detail.
    pub metric: Option<(&'static str, &'static str)>,
    /// How often, or how many.
    pub value: u64,
}

/// Makes of one list the struct and whatever goes through all of its counters, so that none can be forgotten.
macro_rules! counters {
    ($($(#[$about:meta])* $name:ident: $metric:expr,)*) => {
        /// What happened since the engine started. All counts only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Stats {
            /// All counters, in the order in which they are reported.
            pub fn counters(&self) -> impl Iterator<Item = Counter> + use<> {
                [$(Counter { name: stringify!($name), metric: $metric, value: self.$name },)*]
                    .into_iter()
            }

            /// The counter with this name, to set what a report says; `None` of a name that is unknown here.
            pub fn counter_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

counters! {
    /// Requests answered.
    requests: Some(("requests_total", "Requests answered")),
    /// Requests answered with an error.
    requests_failed: Some(("requests_failed_total", "Requests answered with an error")),
    /// Times the arm of a log device was taken where the next record goes.
    repositions: Some(("repositions_total", "Reads that took the arm of the log device on")),
    /// Client bytes of reads that were answered with success.
    read_bytes: Some(("read_bytes_total", "Client bytes read")),
    /// Client bytes of writes that were answered with success, logged or in place.
    written_bytes: Some(("written_bytes_total", "Client bytes written")),
    /// Those of them that went through a log.
    logged_bytes: Some(("logged_bytes_total", "Client bytes that went through a log")),
    /// Those of them that went in place.
    in_place_bytes: Some(("in_place_bytes_total", "Client bytes written in place")),
    /// Records written.
    records: Some(("records_total", "Records written")),
    /// Bytes of records, headers and padding included.
    record_bytes: Some(("record_bytes_total", "Bytes of records")),
    /// Runs of new bytes that records brought by themselves, without the rest of their sectors.
    fragments: Some(("fragments_total", "Runs of bytes logged without the rest of their sectors")),
    /// Bytes of those.
    fragment_bytes: Some(("fragment_bytes_total", "Bytes of those runs")),
    /// Records that had to go to a farther log because the near one was not claimed or full.
    records_far: Some(("records_far_total", "Records in a farther log than the nearest")),
    /// Entries invalidated by in-place writes.
    invalidated_entries: Some(("invalidated_entries_total", "Logged pieces that writes in place made old")),
    /// Map snapshots written.
    snapshots: Some(("snapshots_total", "Snapshots of the map")),
    /// Bytes of snapshots.
    snapshot_bytes: Some(("snapshot_bytes_total", "Bytes of snapshots")),
    /// Pages of a paged map read for clients' reads.
    map_pages_read: Some(("map_pages_read_total", "Pages of the map read for clients")),
    /// Bytes of the map read, for clients and to be merged.
    map_read_bytes: Some(("map_read_bytes_total", "Bytes of the map read")),
    /// Bytes checkpointed home.
    checkpointed_bytes: Some(("checkpointed_bytes_total", "Bytes copied home")),
    /// Bytes of those that were still in memory, and not read from a log.
    remembered_bytes: Some(("remembered_bytes_total", "Bytes copied home from memory, without a read of a log")),
    /// Bands of a shingled disk that checkpoints wrote as a whole.
    bands_written: Some(("bands_written_total", "Bands of a shingled disk written as a whole")),
    /// Logs moved to a cold place.
    swaps: Some(("swaps_total", "Logs moved to a cold place")),
    /// Logs compacted within their device.
    compactions: Some(("compactions_total", "Logs compacted within their device")),
    /// Bytes copied for that.
    compacted_bytes: Some(("compacted_bytes_total", "Bytes copied by compactions")),
    /// Bytes moved by swaps.
    swapped_bytes: Some(("swapped_bytes_total", "Bytes moved so")),
    /// Times a small write found no room in any log and went in place.
    spills: Some(("log_full_total", "Small writes that found no room in any log")),
    /// Small writes that went home at once because they waited alone.
    alone_home: Some(("alone_home_total", "Small writes that waited alone and went home")),
    /// Times a small write waited for room in memory.
    stage_waits: Some(("stage_waits_total", "Small writes that waited for memory")),
    /// Logged pieces on the tail of a chain that reads found in the read cache.
    read_cache_hits: Some(("read_cache_hits_total", "Pieces of the tail that reads found in the read cache")),
    /// Bytes of those.
    read_cache_hit_bytes: Some(("read_cache_hit_bytes_total", "Bytes of those")),
    /// Logged pieces on the tail that reads had to fetch from the disk, while there was a read cache.
    read_cache_misses: Some(("read_cache_misses_total", "Pieces of the tail that reads fetched from the disk beside a read cache")),
    /// Bytes of those.
    read_cache_miss_bytes: Some(("read_cache_miss_bytes_total", "Bytes of those that reads fetched")),
    /// Logged pieces on other devices of the chain that reads found in the read cache.
    read_cache_body_hits: Some(("read_cache_body_hits_total", "Pieces of the body that reads found in the read cache")),
    /// Copies in the read cache that did not match what the map says, and were read from the disk instead.
    read_cache_unsound: Some(("read_cache_unsound_total", "Copies in the read cache that did not match")),
    /// Copies that were not written to the read cache's device, as too many were on their way there.
    read_cache_left_out: Some(("read_cache_left_out_total", "Copies that the read cache's device was too slow for")),
    /// Device flushes.
    device_flushes: Some(("device_flushes_total", "Flushes of the device")),
    /// Data devices of which nothing more is asked since a flush of them failed.
    devices_given_up: Some(("devices_given_up_total", "Data devices given up, as a flush failed or they were not there")),
    /// Chunks read from a log whose checksum did not match at first.
    checksum_retries: Some(("checksum_retries_total", "Logged chunks that did not match at first look")),
    /// Reads refused because a checksum did not match or the address is poisoned.
    unreadable: Some(("unreadable_total", "Reads refused for a wrong checksum")),
    /// Errors of the disk; [`Status::disk_errors`] says of what kind.
    // The metrics tell these by kind.
    disk_errors: None,
}

/// Where a volume is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its disks are being read; requests wait.
    Recovering,
    /// Requests are answered.
    Serving,
    /// A stop was asked for: everything is being made durable.
    Draining,
    /// Nothing goes on any more.
    Stopped,
    /// No change is accepted; reads are.
    Failed,
}

impl Phase {
    /// One word for reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recovering => "recovering",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// What a device of a chain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Its logs.
    pub logs: u32,
    /// Those of them that may be begun anew.
    pub logs_free: u32,
    /// Bytes in them that are still needed.
    pub needed_bytes: u64,
    /// What it is in the chain now.
    pub role: LinkRole,
}

/// What a device of a chain is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRole {
    /// Records go there.
    Tail,
    /// What is there is read, and cleaned.
    Body,
    /// What is there is read; it takes no records, as several of its logs in a row did not.
    Closed,
    /// Nothing is asked of it: it is not there, or failed.
    Lost,
}

impl LinkRole {
    /// One word for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::Body => "body",
            Self::Closed => "closed",
            Self::Lost => "lost",
        }
    }
}

/// One of several log disks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDiskStatus {
    /// The device.
    pub lane: Lane,
    /// Its logs.
    pub logs: u32,
    /// The one of them that took its newest record, if any did since the volume was opened.
    pub log_in_use: Option<u32>,
    /// Bytes in them that are still needed.
    pub needed_bytes: u64,
    /// Whether records go there.
    pub state: LogDiskState,
    /// What is known of its drive, if it was found out where its tracks are.
    pub drive: Option<DriveStatus>,
}

/// Whether records go to a log disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDiskState {
    /// They do.
    TakesRecords,
    /// What is there is read; it takes no records, as several of its logs in a row did not.
    Closed,
    /// Nothing is asked of it: it is not there, or failed.
    Lost,
}

impl LogDiskState {
    /// One word for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TakesRecords => "in use",
            Self::Closed => "closed",
            Self::Lost => "lost",
        }
    }
}

/// Where the tail of a chain goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailMove {
    /// The device that takes records then.
    pub to: Lane,
    /// Bytes of logs that records begin before that, if nothing is freed meanwhile.
    pub left_bytes: u64,
}

/// How full a read cache is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCacheStatus {
    /// Memory in use for copies, with what is kept of each beside its bytes.
    pub memory_bytes: u64,
    /// As much as it may become.
    pub memory_bytes_max: u64,
    /// Bytes in use on its device.
    pub device_bytes: u64,
    /// As many as there may be; 0 without one.
    pub device_bytes_max: u64,
    /// Why its device is used no more, if so.
    pub dropped: Option<String>,
}

/// How far the newest snapshot of the map is behind: what a recovery would read beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLag {
    /// When it was begun, or the volume opened.
    pub since: Nanos,
    /// Bytes of records since.
    pub bytes: u64,
}

/// What one log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFill {
    /// Its number; they go up with the address on each device.
    pub log: u32,
    /// Share of it that cannot be written now, 0 to 100.
    pub fill_pct: u32,
    /// Bytes in it that are still needed.
    pub needed_bytes: u64,
}

/// What of a map is not resident, and what is besides its newest layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedMap {
    /// Entries in the body of the newest snapshot.
    pub entries: u64,
    /// Memory of what had changed when the snapshot under way began.
    pub frozen_bytes: u64,
    /// Memory of the index of its pages.
    pub index_bytes: u64,
    /// Memory of the pages that are here.
    pub cached_bytes: u64,
    /// Memory that all but the index may take.
    pub memory_bytes_max: u64,
}

/// The state of an engine at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Where it is in its life.
    pub phase: Phase,
    /// Why, if failed.
    pub failure: Option<Failure>,
    /// Entries in the map.
    pub map_entries: u64,
    /// Memory of the map; of one that is paged, of what changed since the last snapshot began.
    pub map_bytes: u64,
    /// The rest of a paged map.
    pub paged_map: Option<PagedMap>,
    /// Small writes waiting in memory.
    pub staged_bytes: u64,
    /// Logs on the volume.
    pub logs: u32,
    /// Logs a recovery would scan.
    pub logs_claimed: u32,
    /// Share of log space in use, 0 to 100.
    pub log_fill_pct: u32,
    /// How much of the room that a snapshot has for fragments they take, 0 to 100.
    pub fragment_fill_pct: u32,
    /// Sequence of the newest durable record.
    pub record_sequence: u64,
    /// Number of the newest snapshot.
    pub snapshot_number: u64,
    /// How far that is behind, if it is.
    pub snapshot_lag: Option<SnapshotLag>,
    /// Whether a checkpoint is under way.
    pub checkpointing: bool,
    /// Why, since when, and what it took home so far.
    pub pass: Option<Pass>,
    /// The last one that ended.
    pub last_pass: Option<Pass>,
    /// Device byte of the volume's own disk where its head is taken to be, if it has one that moves.
    pub head_offset: Option<u64>,
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
    /// What is known of the drive, if it was found out where its tracks are.
    pub drive: Option<DriveStatus>,
    /// The target for durable writes, and how it is kept, if there is one.
    pub target: Option<TargetStatus>,
    /// How much of the disk's time bulk keeps while there is any, in percent, if somebody asked for that.
    pub bulk_share_pct: Option<u8>,
    /// The devices of a chain, the volume's own first; none of anything else.
    pub links: Vec<LinkStatus>,
    /// The log disks, the volume's own first, if there are several.
    pub log_disks: Vec<LogDiskStatus>,
    /// How full the read cache is, if there is one.
    pub read_cache: Option<ReadCacheStatus>,
    /// Bytes of regions whose home is known to be zeros; what is logged of them counts too.
    pub blank_bytes: u64,
    /// Findings of recovery that lost or doubt data; empty for a healthy volume.
    pub damage: Vec<Damage>,
    /// Bytes read by recovery.
    pub recovery_read_bytes: u64,
    /// Records replayed by recovery.
    pub recovery_records: u64,
    /// Logs scanned by recovery.
    pub recovery_logs: u32,
    /// Counters.
    pub stats: Stats,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_found_under_its_name_and_has_a_metric_of_its_own() {
        let mut stats = Stats::default();
        let names: Vec<&str> = stats.counters().map(|counter| counter.name).collect();
        for (value, name) in (1..).zip(&names) {
            *stats.counter_mut(name).unwrap() = value;
        }
        let values: Vec<u64> = stats.counters().map(|counter| counter.value).collect();
        assert_eq!(values, (1..=names.len() as u64).collect::<Vec<_>>());
        assert_eq!(stats.counter_mut("unheard_of"), None);

        let mut metrics: Vec<&str> =
            stats.counters().filter_map(|counter| Some(counter.metric?.0)).collect();
        metrics.sort_unstable();
        metrics.dedup();
        assert_eq!(metrics.len(), names.len() - 1, "all but the errors of the disk");
    }
}
