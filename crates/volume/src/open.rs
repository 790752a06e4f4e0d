//! Finding the superblock of a volume, and saying clearly why there is none.

use crate::sync_io::SyncIo;
use nearhead_disk::DiskError;
use nearhead_format::superblock::{Choice, SUPERBLOCK_MAGIC, SuperblockError, choose};
use nearhead_format::{Layout, Superblock};
use std::fmt;

/// A superblock that counts, and the copies that should be written again.
#[derive(Clone, Debug)]
pub struct Found {
    /// The newest sound copy.
    pub superblock: Superblock,
    /// Copies that are damaged or older, with what is wrong.
    pub to_repair: Vec<String>,
}

/// Why a device could not be opened as a volume.
#[derive(Debug)]
pub enum OpenError {
    /// No copy of the superblock is there.
    NoVolume {
        /// The device.
        device: String,
        /// What each copy's place holds.
        problems: String,
    },
    /// Made by a newer version of the program.
    Newer {
        /// The device.
        device: String,
        /// What the superblock says.
        problem: String,
    },
    /// The device is smaller than the volume on it.
    Truncated {
        /// The device.
        device: String,
        /// Bytes the volume needs.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The device's sectors are not those the volume was made for.
    Sectors {
        /// The device.
        device: String,
        /// Sector of the volume.
        expected: u32,
        /// Sector of the device.
        found: u32,
    },
    /// Recovery found damage that needs a decision.
    Recovery {
        /// The device.
        device: String,
        /// What was found.
        problem: String,
    },
    /// The device failed.
    Disk(DiskError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVolume { device, problems } => write!(
                formatter,
                "open {device}: expected a Nearhead volume, found no sound superblock ({problems}); \
                 check the path, or make one with `nearhead create`"
            ),
            Self::Newer { device, problem } => write!(formatter, "open {device}: {problem}"),
            Self::Truncated { device, expected, found } => write!(
                formatter,
                "open {device}: expected {expected} bytes as the superblock says, found {found}; \
                 the device or image was cut short, restore its full size first"
            ),
            Self::Sectors { device, expected, found } => write!(
                formatter,
                "open {device}: expected sectors of at most {expected} bytes, found {found}; \
                 move the volume back to a device with smaller sectors"
            ),
            Self::Recovery { device, problem } => write!(formatter, "open {device}: {problem}"),
            Self::Disk(error) => write!(formatter, "open: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// Reads every copy of the superblock and picks the one that counts.
pub fn find_superblock(io: &mut SyncIo<'_>) -> Result<Found, OpenError> {
    let properties = io.disk().properties();
    let (device, capacity) = (properties.name.clone(), properties.capacity_bytes);
    let sector_bytes = properties.sector_bytes;
    let offsets = nearhead_format::layout::superblock_offsets(capacity);
    let mut copies = Vec::with_capacity(offsets.len());
    for (copy, offset) in offsets.into_iter().enumerate() {
        copies.push(match io.read(offset, 4096) {
            Ok(bytes) => Superblock::decode(&bytes, copy as u32),
            Err(error) => Err(SuperblockError::Unreadable { detail: error.detail }),
        });
    }
    let copies: [Result<Superblock, SuperblockError>; 3] =
        copies.try_into().unwrap_or_else(|_| unreachable!("there are three copies"));
    let Choice { superblock, to_repair } = match choose(&copies) {
        Ok(choice) => choice,
        Err(error) => return Err(no_superblock(device, &copies, &error)),
    };
    check_size(&device, &superblock.layout, capacity)?;
    if sector_bytes > superblock.layout.sector_bytes {
        let expected = superblock.layout.sector_bytes;
        return Err(OpenError::Sectors { device, expected, found: sector_bytes });
    }
    let to_repair = to_repair
        .iter()
        .map(|copy| {
            let problem = match &copies[*copy as usize] {
                Ok(old) => format!("generation {} is older", old.generation),
                Err(error) => error.to_string(),
            };
            format!("superblock copy {copy} at byte {}: {problem}", offsets[*copy as usize])
        })
        .collect();
    Ok(Found { superblock: superblock.clone(), to_repair })
}

fn check_size(device: &str, layout: &Layout, capacity: u64) -> Result<(), OpenError> {
    if layout.device_bytes > capacity {
        return Err(OpenError::Truncated {
            device: device.to_owned(),
            expected: layout.device_bytes,
            found: capacity,
        });
    }
    Ok(())
}

fn no_superblock(
    device: String,
    copies: &[Result<Superblock, SuperblockError>; 3],
    error: &SuperblockError,
) -> OpenError {
    if matches!(error, SuperblockError::Version { .. }) {
        return OpenError::Newer { device, problem: error.to_string() };
    }
    let problems: Vec<String> = copies
        .iter()
        .enumerate()
        .filter_map(|(copy, found)| Some(format!("copy {copy}: {}", found.as_ref().err()?)))
        .collect();
    debug_assert_eq!(SUPERBLOCK_MAGIC.len(), 8);
    OpenError::NoVolume { device, problems: problems.join("; ") }
}
