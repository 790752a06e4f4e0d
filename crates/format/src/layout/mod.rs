//! Where everything is on a device: pure arithmetic over ten numbers.
//!
//! ```text
//! 0        64 KiB     slot_offsets[0]   [1]      groups_offset                      last 4 KiB
//! | sb 0 | | sb 1 | | snapshot slot 0 | slot 1 | group 0 | group 1 | ... | unused | sb 2 |
//!                                              /           \
//!                                     | data first half | log | data second half |
//! ```
//!
//! The log is in the middle of its group, which halves the mean distance to it. The client's
//! address space is the data of all groups, one after the other. It keeps true that every client
//! byte has exactly one home, that no home lies in a log, slot or superblock, and that a 4 KiB home
//! block is never split.

mod error;
mod near;
mod plan;

pub use error::{LayoutError, LayoutField};
pub use near::LogsNear;
pub use plan::{
    GROUP_BYTES_DEFAULT, LOG_BYTES_DEFAULT, LayoutOptions, SINGLE_LOG_BYTES_DEFAULT_MAX,
};

use crate::record::NO_POSITION;
use crate::{BLOCK_BYTES, SECTOR_BYTES};
use plan::check_device;
use std::fmt;

/// Smallest device that can hold a volume.
pub const DEVICE_BYTES_MIN: u64 = 64 << 20;
/// Largest device that can hold a volume: the arithmetic is checked up to here.
pub const DEVICE_BYTES_MAX: u64 = 1 << 50;
/// Smallest log.
pub const LOG_BYTES_MIN: u64 = 512 << 10;
/// Size of each superblock copy.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// Smallest snapshot slot.
pub const SLOT_BYTES_MIN: u64 = 1 << 20;
/// Where the second superblock copy is.
const SUPERBLOCK_1_OFFSET: u64 = 64 << 10;
const GROUPS_ALIGN: u64 = 1 << 20;

/// A named choice of policies; the layout follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Preset {
    /// Everything in place.
    NoLog = 0,
    /// One log in the middle of the disk.
    SingleLog = 1,
    /// Manylogs, block level: a log in every group.
    Mlb = 2,
}

impl Preset {
    /// The preset with this number in a superblock.
    pub fn from_number(number: u16) -> Option<Self> {
        [Self::NoLog, Self::SingleLog, Self::Mlb]
            .into_iter()
            .find(|&preset| preset as u16 == number)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoLog => "nolog",
            Self::SingleLog => "singlelog",
            Self::Mlb => "mlb",
        })
    }
}

/// Where everything is. All in bytes; public so that a superblock can be shown and compared, but
/// only [`Layout::plan`] and a decoded superblock give one whose methods may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Size of the device when the volume was created or last grown.
    pub device_bytes: u64,
    /// Sector of the device: 512 or 4096.
    pub sector_bytes: u32,
    /// Unit of the logs: 512 or 4096.
    pub log_block_bytes: u32,
    /// Where the two snapshot slots start.
    pub slot_offsets: [u64; 2],
    /// Size of each.
    pub slot_bytes: u64,
    /// Where the first group starts, a multiple of 1 MiB.
    pub groups_offset: u64,
    /// Size of each group, log included.
    pub group_bytes: u64,
    /// Size of the log in each group; 0 if there is none.
    pub log_bytes: u64,
    /// Number of groups.
    pub group_count: u32,
}

/// A run of client bytes that is contiguous on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HomePiece {
    /// First byte in the client's address space.
    pub client_offset: u64,
    /// First byte on the device.
    pub device_offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// What a device byte is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    /// A superblock copy.
    Superblock {
        /// Which: 0 to 2.
        copy_index: u32,
    },
    /// A snapshot slot.
    Slot {
        /// Which: 0 or 1.
        slot: u32,
    },
    /// Home of a client byte.
    Data {
        /// That byte.
        client_offset: u64,
    },
    /// A log.
    Log {
        /// Which.
        log_index: u32,
        /// Bytes from its start.
        offset: u64,
    },
    /// Nothing.
    Unused,
}

/// Where the superblock copies are on a device of that size: at its start, at 64 KiB, and in its
/// last whole 4 KiB. Zeros for a device too small for three.
pub fn superblock_offsets(device_bytes: u64) -> [u64; 3] {
    let last = (device_bytes / SUPERBLOCK_BYTES).saturating_sub(1) * SUPERBLOCK_BYTES;
    [0, SUPERBLOCK_1_OFFSET, last]
}

impl Layout {
    /// Data bytes of each group: what the client sees of it.
    #[inline]
    pub fn data_bytes(&self) -> u64 {
        self.group_bytes - self.log_bytes
    }

    /// Data bytes before the log of each group.
    #[inline]
    pub fn first_half_bytes(&self) -> u64 {
        self.data_bytes() / 2 / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Size of the client's address space.
    #[inline]
    pub fn client_bytes(&self) -> u64 {
        self.data_bytes() * u64::from(self.group_count)
    }

    /// Number of logs: one per group, or none.
    #[inline]
    pub fn log_count(&self) -> u32 {
        if self.log_bytes == 0 { 0 } else { self.group_count }
    }

    /// Log blocks in each log.
    #[inline]
    pub fn log_blocks(&self) -> u32 {
        (self.log_bytes / u64::from(self.log_block_bytes)) as u32
    }

    /// Where the superblock copies are.
    pub fn superblock_offsets(&self) -> [u64; 3] {
        superblock_offsets(self.device_bytes)
    }

    /// Home of the client byte at `client_offset` and how many bytes from there on are contiguous
    /// both for the client and on the device; `None` past the end.
    #[inline]
    pub fn home(&self, client_offset: u64) -> Option<HomePiece> {
        let data_bytes = self.data_bytes();
        let (group, within) = (client_offset / data_bytes, client_offset % data_bytes);
        if group >= u64::from(self.group_count) {
            return None;
        }
        let start = self.groups_offset + group * self.group_bytes + within;
        let client_left = self.client_bytes() - client_offset;
        let first_half = self.first_half_bytes();
        let (device_offset, len) = if self.log_bytes == 0 {
            (start, client_left)
        } else if within < first_half {
            (start, first_half - within)
        } else {
            // The second half of a group and the first half of the next touch.
            (start + self.log_bytes, (data_bytes - within + first_half).min(client_left))
        };
        Some(HomePiece { client_offset, device_offset, len })
    }

    /// The homes of client bytes `client_offset .. client_offset + len`, in order, merged where
    /// neighbours are contiguous on the device; stops at the end of the address space.
    pub fn home_pieces(&self, client_offset: u64, len: u64) -> HomePieces<'_> {
        HomePieces { layout: self, client_offset, left: len }
    }

    /// Device offset of log `log_index`; `None` if there is no such log.
    #[inline]
    pub fn log_offset(&self, log_index: u32) -> Option<u64> {
        (log_index < self.log_count()).then(|| self.log_start(log_index))
    }

    /// Device offset of block `position` of log `log_index`; `None` outside the log.
    #[inline]
    pub fn log_block_offset(&self, log_index: u32, position: u32) -> Option<u64> {
        let start = self.log_offset(log_index)?;
        let offset = u64::from(position) * u64::from(self.log_block_bytes);
        (offset < self.log_bytes).then_some(start + offset)
    }

    #[inline]
    fn log_start(&self, log_index: u32) -> u64 {
        let group = self.groups_offset + u64::from(log_index) * self.group_bytes;
        group + self.first_half_bytes()
    }

    /// The group that holds a device offset; the nearest one for an offset outside all groups.
    #[inline]
    pub fn group_of(&self, device_offset: u64) -> u32 {
        let group = device_offset.saturating_sub(self.groups_offset) / self.group_bytes;
        group.min(u64::from(self.group_count - 1)) as u32
    }

    /// What the byte at `device_offset` is used for.
    pub fn region(&self, device_offset: u64) -> Region {
        let within = |start: u64, len: u64| (start..start + len).contains(&device_offset);
        for (copy_index, start) in (0..).zip(self.superblock_offsets()) {
            if within(start, SUPERBLOCK_BYTES) {
                return Region::Superblock { copy_index };
            }
        }
        for (slot, start) in (0..).zip(self.slot_offsets) {
            if within(start, self.slot_bytes) {
                return Region::Slot { slot };
            }
        }
        if !within(self.groups_offset, self.groups_bytes()) {
            return Region::Unused;
        }
        self.region_in_group(device_offset)
    }

    fn region_in_group(&self, device_offset: u64) -> Region {
        let group = self.group_of(device_offset);
        let start = self.groups_offset + u64::from(group) * self.group_bytes;
        let within = device_offset - start;
        let first_half = self.first_half_bytes();
        let client_start = u64::from(group) * self.data_bytes();
        if within < first_half {
            Region::Data { client_offset: client_start + within }
        } else if within < first_half + self.log_bytes {
            Region::Log { log_index: group, offset: within - first_half }
        } else {
            Region::Data { client_offset: client_start + within - self.log_bytes }
        }
    }

    fn groups_bytes(&self) -> u64 {
        self.group_bytes * u64::from(self.group_count)
    }

    /// Checks every number against every other, with no arithmetic that could overflow.
    pub fn validate(&self) -> Result<(), LayoutError> {
        check_device(self.device_bytes)?;
        self.validate_units()?;
        self.validate_slots()?;
        self.validate_group()?;
        let end = self.superblock_offsets()[2];
        let last = u64::from(self.group_count)
            .checked_mul(self.group_bytes)
            .and_then(|bytes| bytes.checked_add(self.groups_offset));
        if self.group_count >= 1 && last.is_some_and(|last| last <= end) {
            return Ok(());
        }
        Err(LayoutError::new(
            LayoutField::GroupCount,
            format_args!("from 1 to {}", end.saturating_sub(self.groups_offset) / self.group_bytes),
            u64::from(self.group_count),
            "the superblock is damaged or the device too small; try another copy",
        ))
    }

    fn validate_units(&self) -> Result<(), LayoutError> {
        if !matches!(self.sector_bytes, 512 | 4096)
            || !self.device_bytes.is_multiple_of(u64::from(self.sector_bytes))
        {
            return Err(LayoutError::new(
                LayoutField::SectorBytes,
                format_args!("512 or 4096, dividing the device's {} bytes", self.device_bytes),
                u64::from(self.sector_bytes),
                "use a device whose size is a whole number of 512- or 4096-byte sectors",
            ));
        }
        if matches!(self.log_block_bytes, 512 | 4096) && self.log_block_bytes >= self.sector_bytes {
            return Ok(());
        }
        Err(LayoutError::new(
            LayoutField::LogBlockBytes,
            format_args!("512 or 4096, at least the sector of {}", self.sector_bytes),
            u64::from(self.log_block_bytes),
            "use the device's physical sector",
        ))
    }

    fn validate_slots(&self) -> Result<(), LayoutError> {
        let advice = "the superblock is damaged; try another copy";
        let aligned = self.slot_bytes.is_multiple_of(BLOCK_BYTES);
        if !aligned || !(SLOT_BYTES_MIN..=self.device_bytes).contains(&self.slot_bytes) {
            let expected = format!("a multiple of 4096, at least {SLOT_BYTES_MIN}, on the device");
            return Err(LayoutError::new(
                LayoutField::SlotBytes,
                expected,
                self.slot_bytes,
                advice,
            ));
        }
        let mut free_from = SUPERBLOCK_1_OFFSET + SUPERBLOCK_BYTES;
        for slot_offset in self.slot_offsets {
            let inside = (free_from..=self.device_bytes).contains(&slot_offset);
            if !inside || !slot_offset.is_multiple_of(BLOCK_BYTES) {
                let expected = format!("a multiple of 4096, at least {free_from}, on the device");
                return Err(LayoutError::new(
                    LayoutField::SlotOffset,
                    expected,
                    slot_offset,
                    advice,
                ));
            }
            free_from = slot_offset + self.slot_bytes;
        }
        let inside = (free_from..=self.device_bytes).contains(&self.groups_offset);
        if inside && self.groups_offset.is_multiple_of(GROUPS_ALIGN) {
            return Ok(());
        }
        let expected = format!("a multiple of 1 MiB, at least {free_from}, on the device");
        Err(LayoutError::new(LayoutField::GroupsOffset, expected, self.groups_offset, advice))
    }

    fn validate_group(&self) -> Result<(), LayoutError> {
        let aligned = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES);
        if !aligned(self.group_bytes) || !(1 << 20..=self.device_bytes).contains(&self.group_bytes)
        {
            return Err(LayoutError::new(
                LayoutField::GroupBytes,
                "a multiple of 4096, at least 1 MiB, on the device",
                self.group_bytes,
                "choose another group size or a larger device",
            ));
        }
        let log_max = self.group_bytes - 2 * BLOCK_BYTES;
        let blocks_max = u64::from(NO_POSITION) * u64::from(self.log_block_bytes);
        let log_max = log_max.min(blocks_max / BLOCK_BYTES * BLOCK_BYTES);
        let sound = aligned(self.log_bytes) && (LOG_BYTES_MIN..=log_max).contains(&self.log_bytes);
        if self.log_bytes == 0 || sound {
            return Ok(());
        }
        Err(LayoutError::new(
            LayoutField::LogBytes,
            format_args!("0 or a multiple of 4096 from {LOG_BYTES_MIN} to {log_max}"),
            self.log_bytes,
            "choose another log size or larger groups",
        ))
    }

    /// Bytes of a snapshot body that fit a slot beside its header.
    pub fn snapshot_body_bytes_max(&self) -> u64 {
        self.slot_bytes - SUPERBLOCK_BYTES
    }

    /// The range of client bytes that `sectors` home sectors from `home_sector` on are, if the
    /// client's address space has them.
    #[inline]
    pub fn client_range(&self, home_sector: u64, sectors: u64) -> Option<std::ops::Range<u64>> {
        let start = home_sector.checked_mul(SECTOR_BYTES)?;
        let end = home_sector.checked_add(sectors)?.checked_mul(SECTOR_BYTES)?;
        (end <= self.client_bytes()).then_some(start..end)
    }
}

/// Iterator over homes; see [`Layout::home_pieces`].
#[derive(Clone, Debug)]
pub struct HomePieces<'a> {
    layout: &'a Layout,
    client_offset: u64,
    left: u64,
}

impl Iterator for HomePieces<'_> {
    type Item = HomePiece;

    fn next(&mut self) -> Option<HomePiece> {
        if self.left == 0 {
            return None;
        }
        let mut piece = self.layout.home(self.client_offset)?;
        piece.len = piece.len.min(self.left);
        self.client_offset += piece.len;
        self.left -= piece.len;
        Some(piece)
    }
}
