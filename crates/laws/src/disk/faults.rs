//! What a disk does wrong: failures of single commands, and trouble that lasts until somebody mends it. All places are bytes of
//! the whole medium, whichever device of it has them.

use nearhead_disk::Command;
use std::ops::Range;

/// Which commands fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Reads,
    Writes,
    Flushes,
}

/// A failure to come.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    /// Only commands that touch these bytes, if given; a flush touches all of its device.
    pub range: Option<Range<u64>>,
    /// Matching commands that still succeed.
    pub after: u64,
    /// All later ones fail too.
    pub sticky: bool,
    /// The command has its effect although it fails.
    pub has_effect: bool,
}

impl Fault {
    /// Whether it concerns this command; `part` is what of the disk the device has that was told it.
    pub(super) fn matches(&self, command: &Command, part: &Range<u64>) -> bool {
        let (kind, start, len) = match command {
            Command::Read { offset, len } => (FaultKind::Reads, *offset, u64::from(*len)),
            Command::Write { offset, parts, .. } => {
                (FaultKind::Writes, *offset, nearhead_disk::total_len(parts) as u64)
            }
            Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
                (FaultKind::Writes, *offset, *len)
            }
            Command::Flush => (FaultKind::Flushes, part.start, part.end - part.start),
        };
        let inside =
            self.range.as_ref().is_none_or(|range| start < range.end && range.start < start + len);
        kind == self.kind && inside
    }
}

/// What of a write arrives that touches a bad sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrives {
    #[default]
    Nothing,
    /// What stands before the first bad sector.
    Before,
    /// All but the bad sectors.
    Around,
    /// All of it: the error is a lie.
    All,
}

/// What is wrong with the disk for as long as nobody mends it.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// One in so many writes fails, with or without effect; 0 for none.
    pub one_write_in: u64,
    /// Chance.
    pub seed: u64,
    /// Writes that touch these bytes fail.
    pub bad: Vec<Range<u64>>,
    /// What arrives of such a write.
    pub arrives: Arrives,
    /// Writes that touch these bytes find no space.
    pub full: Vec<Range<u64>>,
    /// Nothing is answered.
    pub is_silent: bool,
}
