//! Why a volume accepts no change any more.
//!
//! A failure is for good: only opening the volume again ends it. Which one it is, is a fact for programs; its words are for
//! people, say what the disk said, and where.

use std::fmt;

/// Why a volume accepts no change any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A flush of a device failed: what it was to make durable may be lost, and a second try proves nothing (law 7).
    Flush {
        /// What the disk said.
        error: String,
    },
    /// No place of any log takes a record.
    Record {
        /// The record.
        sequence: u64,
        /// How often all places were tried.
        rounds: u32,
        /// The last of them.
        log_index: u32,
        /// The block in it.
        block: u32,
        /// What the disk said.
        error: String,
    },
    /// The device that has the map's journal does not take an entry.
    MapDevice {
        /// What it said.
        error: String,
    },
    /// What a power cut left of a record cannot be made to stay no record.
    Remains {
        /// Device byte where it begins.
        offset: u64,
        /// What the disk said.
        error: String,
    },
    /// There was no space for far longer than a request waits.
    NoSpace {
        /// What the disk said.
        error: String,
    },
    /// A stop found no space for what was not durable yet.
    NoSpaceAtStop {
        /// What the disk said.
        error: String,
    },
    /// A snapshot that a stop needs cannot be written.
    Snapshot {
        /// Which, and what the disk said.
        problem: String,
    },
    /// A snapshot would free what is needed, and fails time and again.
    NeedsSnapshot {
        /// What is needed.
        why: &'static str,
        /// Why snapshots fail.
        problem: String,
    },
    /// No log has room, and homes cannot be written either.
    Homes {
        /// Why not.
        problem: String,
    },
    /// A stop could not write blocks that somebody relied on.
    BlocksLost {
        /// What the disk said.
        error: String,
    },
    /// The volume could not be opened.
    Recovery {
        /// Why not.
        problem: String,
    },
    /// Whoever drives the engine knows that writes are lost.
    GivenUp {
        /// Why.
        reason: String,
    },
    /// The engine contradicts itself: nothing is written on the strength of that.
    Internal {
        /// In what.
        problem: String,
    },
}

impl Failure {
    /// One word for reports and programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Flush { .. } => "flush",
            Self::Record { .. } => "record",
            Self::MapDevice { .. } => "map-device",
            Self::Remains { .. } => "remains",
            Self::NoSpace { .. } => "no-space",
            Self::NoSpaceAtStop { .. } => "no-space-at-stop",
            Self::Snapshot { .. } => "snapshot",
            Self::NeedsSnapshot { .. } => "needs-snapshot",
            Self::Homes { .. } => "homes",
            Self::BlocksLost { .. } => "blocks-lost",
            Self::Recovery { .. } => "recovery",
            Self::GivenUp { .. } => "given-up",
            Self::Internal { .. } => "internal",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush { error } => write!(formatter, "a device flush failed: {error}"),
            Self::Record { sequence, rounds, log_index, block, error } => write!(
                formatter,
                "record {sequence} could not be written to any place of the logs that have room for it, in {rounds} \
                 rounds; the last one was log {log_index} at log block {block}: {error}"
            ),
            Self::MapDevice { error } => write!(formatter, "the map device failed: {error}"),
            Self::Remains { offset, error } => write!(
                formatter,
                "what is left at device byte {offset} of a record that a power cut tore could not be overwritten, \
                 and could be taken for a newer one later: {error}"
            ),
            Self::NoSpace { error } => write!(formatter, "no space for far too long: {error}"),
            Self::NoSpaceAtStop { error } => {
                write!(formatter, "stopping without space for what is not durable yet: {error}")
            }
            Self::NeedsSnapshot { why, problem } => {
                write!(formatter, "{why}, and the snapshot that would free some fails: {problem}")
            }
            Self::Homes { problem } => {
                write!(formatter, "no log has room and writing in place failed: {problem}")
            }
            Self::BlocksLost { error } => {
                write!(formatter, "blocks that were acknowledged, not flushed, are lost: {error}")
            }
            Self::Snapshot { problem } | Self::Recovery { problem } => formatter.write_str(problem),
            Self::GivenUp { reason } => formatter.write_str(reason),
            Self::Internal { problem } => write!(formatter, "internal: {problem}"),
        }
    }
}
