//! What the disk did wrong, in a form that people, logs and metrics can use.
//!
//! Every command that failed is in exactly one place of [`DiskErrorCounts`]: what it was for, and how it failed.
//! The last one is kept whole ([`DiskErrorReport`]). What happened is also told as it happens, as [`DiskEvent`]s
//! of which a bounded number waits for whoever asks. Nothing here decides anything.

use nearhead_disk::{At, DiskErrorKind, Lane, Nanos};
use std::fmt;

/// What a command that failed was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskWork {
    /// Reading: for a client, for cleaning, at recovery.
    Read,
    /// Writing to a block's home: for a client, a checkpoint, or because no log has room.
    HomeWrite,
    /// Writing a record to a log.
    LogWrite,
    /// Writing a snapshot of the map, or the journal on a map device.
    MapWrite,
    /// Emptying the disk's cache.
    Flush,
    /// Telling the disk that a range is not needed any more.
    Trim,
    /// Reading or writing copies on the read cache's device.
    Cache,
}

/// Kinds of failure, in the order of the counts.
const KINDS: [DiskErrorKind; 5] = [
    DiskErrorKind::Io,
    DiskErrorKind::OutOfSpace,
    DiskErrorKind::Gone,
    DiskErrorKind::Invalid,
    DiskErrorKind::ReadOnly,
];

impl DiskWork {
    /// All of them, in the order of the counts.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::HomeWrite,
        Self::LogWrite,
        Self::MapWrite,
        Self::Flush,
        Self::Trim,
        Self::Cache,
    ];

    /// One word for reports and labels of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::HomeWrite => "home-write",
            Self::LogWrite => "log-write",
            Self::MapWrite => "map-write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Cache => "cache",
        }
    }

    fn told(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::HomeWrite => "writing in place",
            Self::LogWrite => "writing a log",
            Self::MapWrite => "writing the map",
            Self::Flush => "flushing the disk's cache",
            Self::Trim => "trimming",
            Self::Cache => "reading or writing the read cache's device",
        }
    }
}

/// One word for a kind of failure, for reports and labels of metrics.
pub fn disk_error_name(kind: DiskErrorKind) -> &'static str {
    match kind {
        DiskErrorKind::Io => "io",
        DiskErrorKind::OutOfSpace => "no-space",
        DiskErrorKind::Gone => "gone",
        DiskErrorKind::Invalid => "invalid",
        DiskErrorKind::ReadOnly => "read-only",
    }
}

/// How many commands failed, by what they were for and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskErrorCounts([[u64; KINDS.len()]; DiskWork::ALL.len()]);

impl DiskErrorCounts {
    /// How many commands for `work` failed as `kind`.
    pub fn of(&self, work: DiskWork, kind: DiskErrorKind) -> u64 {
        self.0[work as usize][kind as usize]
    }

    /// How many commands for `work` failed, in whatever way.
    pub fn of_work(&self, work: DiskWork) -> u64 {
        self.0[work as usize].iter().sum()
    }

    /// How many commands failed for want of space.
    pub fn no_space(&self) -> u64 {
        DiskWork::ALL.iter().map(|work| self.of(*work, DiskErrorKind::OutOfSpace)).sum()
    }

    /// How many commands failed.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Every count: what for, how, how many.
    pub fn iter(&self) -> impl Iterator<Item = (DiskWork, DiskErrorKind, u64)> + '_ {
        let of_work = |work: DiskWork| KINDS.map(|kind| (work, kind, self.of(work, kind)));
        DiskWork::ALL.into_iter().flat_map(of_work)
    }

    /// One more.
    pub(crate) fn note(&mut self, work: DiskWork, kind: DiskErrorKind) {
        self.0[work as usize][kind as usize] += 1;
    }
}

/// One command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskErrorReport {
    /// What it was for.
    pub work: DiskWork,
    /// How it failed.
    pub kind: DiskErrorKind,
    /// On which of the volume's devices.
    pub lane: Lane,
    /// First byte of that device; none for a flush.
    pub offset: Option<u64>,
    /// Bytes.
    pub len: u64,
    /// When, on the clock that the engine is driven by.
    pub at: Nanos,
    /// What the disk said.
    pub detail: String,
}

impl fmt::Display for DiskErrorReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "disk error while {}", self.work.told())?;
        if let Some(offset) = self.offset {
            let at = At { lane: self.lane, offset };
            write!(formatter, " {} bytes at {at}", self.len)?;
        } else if let Some(position) = self.lane.data_position() {
            write!(formatter, " of data device {position}")?;
        }
        write!(formatter, ": {}", self.detail)
    }
}

/// Commands that the disk does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStall {
    /// When the oldest of them left.
    pub since: Nanos,
    /// How many had waited for too long when that was last looked at.
    pub commands: u32,
    /// What the oldest is for.
    pub work: DiskWork,
}

/// Writes to logs or to the map that wait for space under a sparse image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// When the first of them failed.
    pub since: Nanos,
}

/// What is told as it happens. Its text is one line for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// A command failed.
    Failed(DiskErrorReport),
    /// So many more failed, too many to tell one by one; they are counted all the same.
    MoreFailed {
        /// How many.
        commands: u64,
    },
    /// There is no space for what must be written to a log or the map: writes wait, or fail after a while.
    NoSpace {
        /// How long a write waits at most before it fails.
        wait_max: Nanos,
    },
    /// There is space again.
    SpaceIsBack {
        /// How long there was none.
        after: Nanos,
    },
    /// The disk does not answer.
    Stalled {
        /// How many commands have waited for too long.
        commands: u32,
        /// How long the oldest has waited.
        waited: Nanos,
        /// What the oldest is for.
        work: DiskWork,
    },
    /// The read cache's device failed, and is done without.
    CacheDropped {
        /// What it said.
        detail: String,
    },
    /// It does again: nothing waits for that long any more.
    Answered {
        /// How long the slowest command took.
        after: Nanos,
    },
}

impl fmt::Display for DiskEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(report) => write!(formatter, "{report}"),
            Self::MoreFailed { commands } => {
                write!(formatter, "{commands} more disk errors, not told one by one")
            }
            Self::NoSpace { wait_max } => write!(
                formatter,
                "no space under the volume's image: writes wait for up to {:.0} s and then fail with \
                 \"no space\" until some is freed; nothing acknowledged is lost",
                wait_max.as_secs_f64()
            ),
            Self::SpaceIsBack { after } => write!(
                formatter,
                "there is space under the volume's image again, after {:.1} s: writes go on",
                after.as_secs_f64()
            ),
            Self::Stalled { commands, waited, work } => write!(
                formatter,
                "the disk does not answer: {commands} commands wait, the oldest ({}) for {:.0} s; \
                 requests wait with them, see the kernel log",
                work.told(),
                waited.as_secs_f64()
            ),
            Self::CacheDropped { detail } => write!(
                formatter,
                "the read cache's device failed and is used no more: {detail}; reads go to the disks, nothing is lost; mend \
                 it and serve the volume anew"
            ),
            Self::Answered { after } => write!(
                formatter,
                "the disk answers again, the slowest command after {:.1} s",
                after.as_secs_f64()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_on_a_data_device_names_it_also_without_a_byte() {
        let told = |lane: Lane, offset: Option<u64>| {
            let (work, kind, at) = (DiskWork::Flush, DiskErrorKind::Io, Nanos::ZERO);
            let detail = "EIO".to_owned();
            DiskErrorReport { work, kind, lane, offset, len: 512, at, detail }.to_string()
        };
        assert!(told(Lane::data(1), None).ends_with(" of data device 1: EIO"));
        assert!(told(Lane::data(1), Some(7)).ends_with("device byte 7 of data device 1: EIO"));
        assert!(!told(Lane::MAIN, None).contains("data device"));
    }
}
