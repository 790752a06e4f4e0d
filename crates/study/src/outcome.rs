//! What an experiment came to: figures, counters, and what was written down on the way.

use crate::meter::Visits;
use crate::recorder::Recorded;
use nearhead_basics::Histogram;
use nearhead_models::Report;
use serde_json::Value;

/// Requests of one kind.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// What they are.
    pub name: &'static str,
    /// Those that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed; they count nowhere else.
    pub failed: u64,
    /// What the first failure said.
    pub first_failure: Option<String>,
    /// From when they were due to their replies, in ns.
    pub latency_ns: Histogram,
}

/// What one workload got.
#[derive(Clone, Debug)]
pub struct LoadOutcome {
    /// Which kind of workload.
    pub kind: &'static str,
    /// Its requests by classes; the first one has all of them where there is one that does.
    pub classes: Vec<ClassOutcome>,
    /// What else its generator tells, by name.
    pub facts: Value,
}

/// Where a disk's time went, since the run began, in ns. Of several disks the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTimes {
    /// Moving and settling.
    pub seek: u64,
    /// Waiting for sectors to come round.
    pub rotation: u64,
    /// Sectors passing under the head.
    pub transfer: u64,
    /// Of all commands together, from submission to completion.
    pub response: u64,
    /// What commands waited beyond seek, rotation and transfer: for others, for what goes on in the disk, and for the interface. 0 where a write
    /// cache answers before the disk is at work.
    pub queueing: u64,
}

impl DiskTimes {
    /// Of a disk with this report, whose commands took `response`.
    pub(crate) fn of(report: &Report, response: u64) -> Self {
        let mut times = Self { response, ..Self::default() };
        times.add(report);
        let busy = times.seek + times.rotation + times.transfer;
        times.queueing = response.saturating_sub(busy);
        times
    }

    fn add(&mut self, report: &Report) {
        let drive = match report {
            Report::HardDisk(stats) => stats,
            Report::Shingled(stats) => &stats.drive,
            Report::Flash(_) => return,
            Report::Array { members, .. } => return members.iter().for_each(|one| self.add(one)),
        };
        self.seek += drive.seek_ns;
        self.rotation += drive.rotation_ns;
        self.transfer += drive.transfer_ns;
    }
}

/// What is told of a volume at the end.
#[derive(Clone, Debug)]
pub struct VolumeOutcome {
    /// The preset's name.
    pub preset: &'static str,
    /// Writes up to so many bytes were logged.
    pub logged_write_bytes_max: u32,
    /// All counters of the engine.
    pub counters: Vec<(&'static str, u64)>,
    /// Share of log space in use, 0 to 100.
    pub log_fill_pct: u32,
    /// Logs on the volume.
    pub logs: u32,
    /// Logs that a recovery would scan.
    pub logs_claimed: u32,
    /// Entries in the map.
    pub map_entries: u64,
    /// Memory of the map.
    pub map_bytes: u64,
}

/// What an experiment came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The disk's name.
    pub disk: String,
    /// Bytes that were served.
    pub size_bytes: u64,
    /// Whether each reply meant durable; else flush and FUA made durable.
    pub every_reply_is_durable: bool,
    /// A hash of every reply and its instant: the same for the same experiment, everywhere.
    pub digest: u64,
    /// Replies.
    pub replies: u64,
    /// Virtual time from the first request to the end.
    pub simulated_s: f64,
    /// Virtual time that was counted.
    pub measured_s: f64,
    /// Real time that it took.
    pub wall_s: f64,
    /// Each workload, in order.
    pub loads: Vec<LoadOutcome>,
    /// Of a volume; `None` of the plain disk.
    pub volume: Option<VolumeOutcome>,
    /// What the disk tells of itself.
    pub report: Report,
    /// Where its time went.
    pub times: DiskTimes,
    /// Commands that it answered.
    pub commands: u64,
    /// Every request, if that was asked for.
    pub recorded: Option<Recorded>,
    /// Every transfer of the disk, if that was asked for.
    pub visits: Option<Visits>,
}
