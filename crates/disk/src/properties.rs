//! What a host can know about a disk: its datasheet, not its state.

use crate::{Nanos, Striping};
use std::fmt;

/// Fixed facts about one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a datasheet")]
pub struct Properties {
    /// What to call the disk in messages: a path or a profile name.
    pub name: String,
    /// Bytes that can be addressed; a multiple of `sector_bytes`.
    pub capacity_bytes: u64,
    /// Smallest unit of a command: 512 or 4096.
    pub sector_bytes: u32,
    /// Smallest unit the medium rewrites without reading first: at least `sector_bytes`.
    pub physical_sector_bytes: u32,
    /// Whether a mechanical head must move (decides how much bulk I/O may be queued).
    pub rotational: bool,
    /// Time of one revolution, from the datasheet's rpm, if rotational and known.
    pub rotation_period: Option<Nanos>,
    /// Whether completed writes may still be lost at a power cut until a flush.
    pub volatile_cache: bool,
    /// Whether `Trim` has an effect, and trimmed bytes then read as zeros.
    pub trim_reads_zero: bool,
    /// Whether `WriteZeroes` is much faster than writing zeros.
    pub fast_zero: bool,
    /// Largest single transfer, in bytes.
    pub transfer_bytes_max: u32,
    /// Most commands that may be outstanding.
    pub queue_depth_max: u16,
    /// How many devices share the work: the members of a striped array, 1 for anything else. Who bounds
    /// what is on the disk at once needs as much for each of them.
    pub width: u32,
    /// How addresses go round them, if this is a striped array whose parts each move on their own.
    pub striping: Option<Striping>,
}

/// Facts that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertiesError {
    /// The disk's name.
    pub disk: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for PropertiesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "disk {}: {}", self.disk, self.problem)
    }
}

impl std::error::Error for PropertiesError {}

impl Properties {
    /// Of a disk that is neither slow nor particular in anything: no head, no cache, long transfers, a long queue.
    pub fn plain(name: &str, capacity_bytes: u64, sector_bytes: u32) -> Self {
        Self {
            name: name.to_owned(),
            capacity_bytes,
            sector_bytes,
            physical_sector_bytes: sector_bytes,
            rotational: false,
            rotation_period: None,
            volatile_cache: false,
            trim_reads_zero: false,
            fast_zero: true,
            transfer_bytes_max: 16 << 20,
            queue_depth_max: 1024,
            width: 1,
            striping: None,
        }
    }

    /// Checks the facts against each other.
    pub fn validate(&self) -> Result<(), PropertiesError> {
        let problem = if !matches!(self.sector_bytes, 512 | 4096) {
            format!("expected a sector of 512 or 4096 bytes, found {}", self.sector_bytes)
        } else if !self.physical_sector_bytes.is_multiple_of(self.sector_bytes) {
            format!(
                "expected a physical sector that is a multiple of {}, found {}",
                self.sector_bytes, self.physical_sector_bytes
            )
        } else if !self.capacity_bytes.is_multiple_of(u64::from(self.sector_bytes)) {
            format!("capacity {} is not a whole number of sectors", self.capacity_bytes)
        } else if self.transfer_bytes_max < 64 * 1024 || self.queue_depth_max == 0 {
            "a transfer limit under 64 KiB or an empty queue cannot be worked with".to_owned()
        } else {
            return Ok(());
        };
        Err(PropertiesError { disk: self.name.clone(), problem })
    }
}
