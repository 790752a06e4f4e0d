//! Finding the superblock of a volume, and saying clearly why there is none.

use crate::data_devices;
use crate::generations::Generations;
use crate::presets::NamedPreset;
use crate::sync_io::SyncIo;
use crate::without_log::part;
use nearhead_disk::{DiskError, Zones};
use nearhead_format::superblock::{Choice, SuperblockError, choose};
use nearhead_format::{BLOCK_BYTES, Layout, Superblock};
use std::fmt;

/// A superblock that counts, and the copies that should be written again.
#[derive(Clone, Debug)]
pub struct Found {
    /// The newest sound copy.
    pub superblock: Superblock,
    /// What it was created with.
    pub preset: NamedPreset,
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
        /// Whether no copy could be read, so that nothing is known.
        is_unreadable: bool,
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
    /// The device is not shingled as the volume expects.
    Zones {
        /// The device.
        device: String,
        /// The volume's preset.
        preset: String,
        /// Bytes from the start on that are not to be shingled.
        expected: u64,
        /// Those that are not, if the device says so.
        found: Option<u64>,
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
            Self::NoVolume { device, problems, is_unreadable } => write!(
                formatter,
                "open {device}: expected a Nearhead volume, found no sound superblock ({problems}); check the path; {}",
                if *is_unreadable {
                    "nothing is known of what is on a disk that cannot be read: see the kernel log, and copy it to another \
                     one first (`ddrescue`)"
                } else {
                    "if a volume was here, keep the device as it is: `nearhead restore-metadata` takes a backup of its \
                     metadata, and without one `nearhead repair` with --lost-superblocks --dry-run looks for what is left of it"
                }
            ),
            Self::Newer { device, problem } | Self::Recovery { device, problem } => {
                write!(formatter, "open {device}: {problem}")
            }
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
            Self::Zones { device, preset, expected, found } => {
                let found = found.map_or_else(
                    || "one that does not tell where it is shingled".to_owned(),
                    |bytes| format!("one with {bytes} such bytes"),
                );
                write!(
                    formatter,
                    "open {device}: expected the shingled disk that this {preset} volume was made \
                     on, with {expected} non-shingled bytes, found {found}; name the disk as it \
                     was named at creation (model:PROFILE,file=PATH)"
                )
            }
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

/// Every copy of the superblock as it is on the device.
#[derive(Clone, Debug)]
pub struct Copies {
    /// Where each was looked for.
    pub offsets: [u64; 3],
    /// What was found there.
    pub copies: [Result<Superblock, SuperblockError>; 3],
}

/// Reads every copy of the superblock.
///
/// The last copy is at the end of the volume, which is not the end of a device that has grown: then
/// the first copies say where it is.
pub fn read_copies(io: &mut SyncIo<'_>) -> Copies {
    let mut offsets =
        nearhead_format::layout::superblock_offsets(io.disk().properties().capacity_bytes);
    let first = [read_copy(io, 0, offsets[0]), read_copy(io, 1, offsets[1])];
    let told = first.iter().flatten().max_by_key(|copy| copy.generation);
    let last = read_copy(io, 2, offsets[2]);
    let is_newer = |last: &Superblock| told.is_none_or(|told| told.generation <= last.generation);
    if let Some(told) = told
        && !last.as_ref().is_ok_and(is_newer)
        && told.layout.superblock_offsets()[2] < offsets[2]
    {
        offsets[2] = told.layout.superblock_offsets()[2];
        let last = read_copy(io, 2, offsets[2]);
        return with_last(offsets, first, last);
    }
    with_last(offsets, first, last)
}

fn with_last(
    offsets: [u64; 3],
    [first, second]: [Result<Superblock, SuperblockError>; 2],
    last: Result<Superblock, SuperblockError>,
) -> Copies {
    Copies { offsets, copies: [first, second, last] }
}

fn read_copy(io: &mut SyncIo<'_>, copy: u32, offset: u64) -> Result<Superblock, SuperblockError> {
    match io.read(offset, 4096) {
        Ok(bytes) => io.presets().decode(&bytes, copy),
        Err(error) => Err(SuperblockError::Unreadable { detail: error.detail }),
    }
}

/// Reads every copy of the superblock and picks the one that counts; its data devices must be there, if it has those, and none of
/// its devices may be older than the others.
pub fn find_superblock(io: &mut SyncIo<'_>) -> Result<Found, OpenError> {
    let found = find_own_superblock(io)?;
    data_devices::join(io, &found.superblock)?;
    if found.superblock.has_several_devices() {
        check_generations(io, &found.superblock)?;
    }
    Ok(found)
}

/// The same with the generations of its devices.
pub(crate) fn find_with_generations(
    io: &mut SyncIo<'_>,
) -> Result<(Found, Generations), OpenError> {
    let found = find_own_superblock(io)?;
    data_devices::join(io, &found.superblock)?;
    let generations = check_generations(io, &found.superblock)?;
    Ok((found, generations))
}

fn check_generations(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
) -> Result<Generations, OpenError> {
    let generations = Generations::read(io, superblock);
    generations.check(superblock).map_err(|problem| {
        let device = io.disk().properties().name.clone();
        OpenError::Recovery { device, problem }
    })?;
    Ok(generations)
}

/// The same for who needs nothing but the volume's own disk.
pub fn find_own_superblock(io: &mut SyncIo<'_>) -> Result<Found, OpenError> {
    let properties = io.disk().properties();
    let (device, capacity) = (properties.name.clone(), properties.capacity_bytes);
    let sector_bytes = properties.sector_bytes;
    let Copies { offsets, copies } = read_copies(io);
    let Choice { superblock, to_repair } = match choose(&copies) {
        Ok(choice) => choice,
        Err(error) => {
            return Err(match part(io).filter(|_| !is_of_newer(&error)) {
                Some(part) => OpenError::Recovery { device, problem: part.describe() },
                None => no_superblock(device, &copies, &error),
            });
        }
    };
    let preset = preset_of(io, &superblock)?;
    check_size(&device, &superblock.layout, capacity)?;
    check_zones(&device, &superblock, &preset, io.disk().zones())?;
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
    Ok(Found { superblock: superblock.clone(), preset, to_repair })
}

/// The preset of a superblock, wherever that came from.
pub(crate) fn preset_of(
    io: &SyncIo<'_>,
    superblock: &Superblock,
) -> Result<NamedPreset, OpenError> {
    io.presets().of(superblock).map_err(|error| {
        let device = io.disk().properties().name.clone();
        OpenError::Newer { device, problem: error.to_string() }
    })
}

/// The same for whoever changes what is there: refused if a newer program knows more about it.
pub fn find_superblock_to_change(io: &mut SyncIo<'_>) -> Result<Found, OpenError> {
    let found = find_superblock(io)?;
    let device = io.disk().properties().name.clone();
    refuse_if_newer(&device, &found.superblock)?;
    Ok(found)
}

/// Refuses to change a volume with features that must be known for that.
pub fn refuse_if_newer(device: &str, superblock: &Superblock) -> Result<(), OpenError> {
    if !superblock.must_be_read_only() {
        return Ok(());
    }
    let problem = format!(
        "superblock feature_ro_compat: expected only known features of a volume that is to be changed, found \
         {:#x}; it can be served and looked at, use a newer version of the program to change it",
        superblock.feature_ro_compat
    );
    Err(OpenError::Newer { device: device.to_owned(), problem })
}

/// On another disk, or on the bare content of this one, the logs would be looked for in the wrong
/// places.
fn check_zones(
    device: &str,
    superblock: &Superblock,
    preset: &NamedPreset,
    zones: Option<&Zones>,
) -> Result<(), OpenError> {
    let found = zones.map(Zones::non_shingled_start_bytes);
    let expected = superblock.layout.data_offset;
    let agrees = found.is_some_and(|found| found.next_multiple_of(BLOCK_BYTES) == expected);
    if agrees || !preset.layout.is_for_shingled() {
        return Ok(());
    }
    let (device, preset) = (device.to_owned(), preset.name.to_owned());
    Err(OpenError::Zones { device, preset, expected, found })
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

/// Whether a sound copy says what this program does not know, so that it is not its to judge.
pub fn is_of_newer(error: &SuperblockError) -> bool {
    matches!(
        error,
        SuperblockError::Version { .. }
            | SuperblockError::Features { .. }
            | SuperblockError::Preset { .. }
    )
}

fn no_superblock(
    device: String,
    copies: &[Result<Superblock, SuperblockError>; 3],
    error: &SuperblockError,
) -> OpenError {
    if is_of_newer(error) {
        return OpenError::Newer { device, problem: error.to_string() };
    }
    let problems: Vec<String> = copies
        .iter()
        .enumerate()
        .filter_map(|(copy, found)| Some(format!("copy {copy}: {}", found.as_ref().err()?)))
        .collect();
    let is_unreadable =
        copies.iter().all(|copy| matches!(copy, Err(SuperblockError::Unreadable { .. })));
    OpenError::NoVolume { device, problems: problems.join("; "), is_unreadable }
}

#[cfg(test)]
mod tests;
