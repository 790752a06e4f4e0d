//! What a report says of a disk's tracks, of a target for durable writes, of the devices of a chain and of several log disks: what is known, what is asked, and
//! how well it holds.

use nearhead_engine::admission::TargetStatus;
use nearhead_engine::{DriveStatus, LinkStatus, LogDiskStatus};
use nearhead_output::counted;
use nearhead_settings::units::ByteSize;
use serde::{Deserialize, Serialize};

/// What is known of a disk's tracks, and how well it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TracksKnown {
    /// Drives that they are of: the members of a striped array.
    #[serde(default = "one")]
    pub drives: u32,
    /// Length of a revolution, in us.
    pub period_us: f64,
    /// Zones known.
    pub zones: u32,
    /// Whether records go where the head is expected by that.
    pub is_followed: bool,
    /// Writes of which it was predicted when they begin, since the volume was opened.
    pub predicted: u64,
    /// Those that began at the angle where they were expected.
    pub held: u64,
    /// Those of these that came a revolution late.
    pub missed: u64,
}

/// What a report says that knows nothing of arrays.
fn one() -> u32 {
    1
}

impl TracksKnown {
    pub(super) fn of(drive: &DriveStatus) -> Self {
        let DriveStatus { drives, period, zones, is_followed, predicted, held, missed } = *drive;
        let period_us = period.as_millis_f64() * 1e3;
        Self { drives, period_us, zones, is_followed, predicted, held, missed }
    }

    pub(super) fn in_words(&self) -> String {
        let Self { drives, period_us, zones, predicted, held, missed, .. } = self;
        let of_each =
            if *drives > 1 { format!(" on each of {drives} drives") } else { String::new() };
        let followed = if self.is_followed {
            "records go where the head will be"
        } else {
            "not followed, as too few predictions hold: calibrate again"
        };
        format!(
            "{} known{of_each}, {:.3} ms a revolution; {followed} ({held} of {predicted} predictions held, {missed} came a revolution late)",
            counted(u64::from(*zones), "zone"),
            period_us / 1e3
        )
    }
}

/// A target for durable writes, and how it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TargetKept {
    /// What 99 of 100 durable writes are to take at most, in ms.
    pub p99_ms: f64,
    /// Durable writes since the volume was opened, those that waited together counted once.
    pub counted: u64,
    /// Those of them that took longer.
    pub slower: u64,
    /// Steps that bulk gives way now.
    pub step: u32,
    /// The most steps there are.
    pub step_max: u32,
    /// Largest piece of bulk now, in bytes.
    pub piece_bytes: u32,
}

impl TargetKept {
    pub(super) fn of(target: &TargetStatus) -> Self {
        let TargetStatus { p99, counted, slower, step, step_max, piece_bytes } = *target;
        Self { p99_ms: p99.as_millis_f64(), counted, slower, step, step_max, piece_bytes }
    }

    pub(super) fn in_words(&self) -> String {
        let Self { p99_ms, counted: writes, slower, step, step_max, piece_bytes } = self;
        let gives_way = if step == step_max {
            format!("bulk gives way as far as it can, in pieces of {piece_bytes} bytes")
        } else {
            format!("bulk gives way {step} of {step_max} steps, in pieces of {piece_bytes} bytes")
        };
        format!("{p99_ms} ms wanted, {slower} of {writes} took longer; {gives_way}")
    }
}

/// A device of a chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// `tail` while records go there, `lost` if it is not there or failed, `closed` if it takes no records any more, else `body`.
    pub role: String,
    /// Its logs.
    pub logs: u32,
    /// Those of them that may be begun anew.
    pub logs_free: u32,
    /// Bytes in them that are still needed.
    pub needed_bytes: u64,
}

impl Link {
    pub(super) fn of(link: &LinkStatus) -> Self {
        let LinkStatus { logs, logs_free, needed_bytes, role } = *link;
        Self { role: role.name().to_owned(), logs, logs_free, needed_bytes }
    }

    pub(super) fn in_words(&self, number: usize) -> String {
        let Self { role, logs, logs_free, needed_bytes } = self;
        format!(
            "{number}: {role}, {logs_free} of {logs} logs free, {} needed",
            ByteSize(*needed_bytes)
        )
    }
}

/// One of several log disks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogDisk {
    /// `in use` while records go there, `lost` if it is not there or failed, `closed` if it takes no records any more.
    pub state: String,
    /// Its logs.
    pub logs: u32,
    /// Bytes in them that are still needed.
    pub needed_bytes: u64,
    /// What is known of its tracks, if anything.
    pub tracks: Option<TracksKnown>,
}

impl LogDisk {
    pub(super) fn of(disk: &LogDiskStatus) -> Self {
        let LogDiskStatus { logs, needed_bytes, state, drive, .. } = *disk;
        let tracks = drive.as_ref().map(TracksKnown::of);
        Self { state: state.name().to_owned(), logs, needed_bytes, tracks }
    }

    pub(super) fn in_words(&self, number: usize) -> String {
        let Self { state, logs, needed_bytes, tracks } = self;
        // Of the first one they have a line of their own.
        let tracks = tracks.as_ref().filter(|_| number > 0).map(TracksKnown::in_words);
        let tracks = tracks.map_or_else(String::new, |words| format!("; {words}"));
        format!("{number}: {state}, {logs} logs, {} needed{tracks}", ByteSize(*needed_bytes))
    }
}
