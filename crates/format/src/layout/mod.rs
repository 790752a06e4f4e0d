//! Where everything is on the devices of a volume: pure arithmetic over a dozen numbers.
//!
//! ```text
//! 0        64 KiB     slot_offsets[0]   groups_offset               slot_offsets[1]   last 4 KiB
//! | sb 0 | | sb 1 | | snapshot slot 0 | group 0 | group 1 | ... | unused | snapshot slot 1 | sb 2 |
//!                                   /           \
//!                          | data first half | log | data second half |
//! ```
//!
//! One slot is at either end, so that no single blow hits both. Volumes made before have both in front of the groups
//! ([`Layout::slot_is_far`]), and so have shingled disks.
//!
//! The log is in the middle of its group, which halves the mean distance to it. On a shingled disk,
//! whose bands cannot hold logs, the logs are apart instead, in the part of the device that is not
//! shingled, which comes first (see `apart.rs`), or on a device of their own or several, with the data on others
//! (`data_parts.rs`), or on all devices, with no data beside them (`chain.rs`). The client's address space is the data of all
//! groups, one after the other. It keeps true that every client
//! byte has exactly one home, that no home lies in a log, slot or superblock, and that a 4 KiB home
//! block is never split.

mod apart;
mod chain;
mod data_parts;
mod error;
#[cfg(test)]
mod fragment_tests;
mod home;
mod kind;
mod log_runs;
mod near;
mod plan;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
pub(crate) mod tests;
mod validate;

pub use data_parts::{DATA_DEVICES_MAX, DATA_PART_ALIGN, DataParts};
pub use error::{LayoutError, LayoutField};
pub use home::{HomePiece, HomePieces, Region};
pub use kind::LayoutKind;
pub use near::LogsNear;
pub use plan::{
    GROUP_BYTES_DEFAULT, LOG_BYTES_DEFAULT, LayoutOptions, SINGLE_LOG_BYTES_DEFAULT_MAX,
};

use crate::{BLOCK_BYTES, Slots};

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

/// Where everything is. All in bytes; public so that a superblock can be shown and compared, but
/// only [`Layout::plan`] and a decoded superblock give one whose methods may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Size of the volume's own device when it was created or last grown.
    pub device_bytes: u64,
    /// Sector of the device: 512 or 4096.
    pub sector_bytes: u32,
    /// Unit of the logs: 512 or 4096.
    pub log_block_bytes: u32,
    /// Where the two snapshot slots start.
    pub slot_offsets: [u64; 2],
    /// Size of each.
    pub slot_bytes: u64,
    /// Where the first group starts, or the first log if the logs are apart; a multiple of 1 MiB.
    pub groups_offset: u64,
    /// Size of each group, log included.
    pub group_bytes: u64,
    /// Size of the log in each group; 0 if there is none.
    pub log_bytes: u64,
    /// Number of groups.
    pub group_count: u32,
    /// Where the data starts if the logs are apart from it; 0 if they are in the groups. Behind all devices if there is none.
    pub data_offset: u64,
    /// Whether a record may begin anywhere in its log, so that a recovery reads logs whole.
    pub records_anywhere: bool,
    /// What other devices add: those have the data then, while this one has the logs, or they have logs as well.
    pub data_parts: DataParts,
    /// Whether records may have [fragments](crate::record::Fragment).
    pub fragments: bool,
}

/// Where the superblock copies are on a device of that size: at its start, at 64 KiB, and in its
/// last whole 4 KiB (they overlap on a device far too small for a volume).
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
        if self.logs_are_on_several() {
            return self.log_start_on_devices(log_index);
        }
        if self.logs_are_apart() {
            return self.groups_offset + u64::from(log_index) * self.log_bytes;
        }
        let group = self.groups_offset + u64::from(log_index) * self.group_bytes;
        group + self.first_half_bytes()
    }

    /// The group that holds a device offset; the nearest one for an offset outside all groups.
    #[inline]
    pub fn group_of(&self, device_offset: u64) -> u32 {
        let group = if self.logs_are_apart() {
            self.group_when_apart(device_offset)
        } else {
            device_offset.saturating_sub(self.groups_offset) / self.group_bytes
        };
        group.min(u64::from(self.group_count - 1)) as u32
    }

    fn groups_bytes(&self) -> u64 {
        self.group_bytes * u64::from(self.group_count)
    }

    /// The slots of the map's snapshots on the volume's own disk; with a map device nothing is in them.
    pub fn slots(&self) -> Slots {
        Slots { offsets: self.slot_offsets, bytes: self.slot_bytes }
    }

    /// Bytes of a snapshot body that fit a slot between its header and the header's copy.
    pub fn snapshot_body_bytes_max(&self) -> u64 {
        self.slots().body_bytes_max()
    }

    /// Bytes of a snapshot body that are kept for what is left of fragments, in whole blocks; 0 if records have none. A share of all logs,
    /// but never what the map needs of a slot: a volume that grows far beyond what it was made for keeps the room that its slots have, and
    /// logs whole sectors once that is full.
    pub fn fragment_room_bytes(&self) -> u64 {
        if !self.fragments {
            return 0;
        }
        let wanted = plan::fragment_room_for(u64::from(self.log_count()), self.log_bytes);
        let free = self.slot_bytes.saturating_sub(SLOT_BYTES_MIN) / BLOCK_BYTES * BLOCK_BYTES;
        wanted.min(free)
    }

    /// Whether the second slot lies behind the groups, at the other end of the device.
    pub fn slot_is_far(&self) -> bool {
        self.data_parts.is_empty() && self.slot_offsets[1] > self.groups_offset && !self.is_chain()
    }

    /// Where the groups must end.
    pub fn groups_limit(&self) -> u64 {
        if self.slot_is_far() { self.slot_offsets[1] } else { self.superblock_offsets()[2] }
    }

    /// The same device with the records of each log in their order, if its logs are apart: as those were laid out first.
    #[must_use]
    pub fn with_records_in_order(self) -> Self {
        Self { records_anywhere: self.records_anywhere && !self.logs_are_apart(), ..self }
    }

    /// The same device with both slots in front of the groups, as volumes were laid out first: with as many groups, if
    /// they fit.
    #[must_use]
    pub fn with_near_slot(self) -> Self {
        if !self.slot_is_far() {
            return self;
        }
        let groups_offset = self.groups_offset + self.slot_bytes;
        let end = self.superblock_offsets()[2];
        let fit = end.saturating_sub(groups_offset) / self.group_bytes;
        Self {
            slot_offsets: [self.slot_offsets[0], self.slot_offsets[0] + self.slot_bytes],
            groups_offset,
            group_count: u32::try_from(fit).unwrap_or(u32::MAX).min(self.group_count),
            ..self
        }
    }

    /// Where the copy of a slot's header stands: the last block of the slot.
    pub fn snapshot_copy_offset(&self, slot: usize) -> u64 {
        self.slots().copy_offset(slot)
    }
}
