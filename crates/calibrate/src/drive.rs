//! What a calibration needs of a drive: to carry out one command, and to say when it left and when it ended.

use nearhead_disk::Nanos;
use std::fmt;

/// Sizes of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes of a logical sector, in which it is addressed.
    pub sector_bytes: u32,
    /// Bytes of a physical sector, in which it reads and writes.
    pub physical_sector_bytes: u32,
}

/// When a command left and when it ended, on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Just before it was handed over.
    pub left_at: Nanos,
    /// Just after it ended.
    pub ended_at: Nanos,
}

impl Timed {
    /// From one to the other.
    pub fn took(&self) -> Nanos {
        self.ended_at.since(self.left_at)
    }
}

/// Why a calibration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveError {
    /// What was asked, what was expected, what was found.
    pub problem: String,
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for DriveError {}

/// A drive, one command at a time, past every cache of the host.
pub trait Drive {
    /// Its sizes.
    fn facts(&self) -> Facts;

    /// The time.
    fn now(&self) -> Nanos;

    /// Reads.
    ///
    /// # Errors
    /// The drive's.
    fn read(&mut self, offset: u64, bytes: u32) -> Result<Timed, DriveError>;

    /// Writes anything, durably.
    ///
    /// # Errors
    /// The drive's.
    fn write(&mut self, offset: u64, bytes: u32) -> Result<Timed, DriveError>;
}
