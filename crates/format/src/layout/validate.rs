//! The one gate that every layout passes, whether planned or read from a superblock.
//!
//! It multiplies and adds only what it has bounded before; the methods of [`Layout`] rely on it.

use super::plan::{FRAGMENT_ROOM_BYTES_MIN, check_device};
use super::{
    LOG_BYTES_MIN, Layout, LayoutError, LayoutField, SLOT_BYTES_MIN, SUPERBLOCK_1_OFFSET,
    SUPERBLOCK_BYTES,
};
use crate::BLOCK_BYTES;
use crate::data_device::DATA_START_BYTES;
use crate::record::NO_POSITION;

const GROUPS_ALIGN: u64 = 1 << 20;

impl Layout {
    /// Checks every number against every other, with no arithmetic that could overflow.
    pub fn validate(&self) -> Result<(), LayoutError> {
        check_device(self.device_bytes)?;
        self.validate_units()?;
        self.validate_data_parts()?;
        self.validate_slots()?;
        self.validate_group()?;
        self.validate_fragments()?;
        if self.logs_are_apart() {
            return self.validate_apart();
        }
        let end = self.groups_limit();
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

    /// Needs slots and groups that were checked before.
    fn validate_fragments(&self) -> Result<(), LayoutError> {
        if !self.fragments {
            return Ok(());
        }
        if self.is_chain() || self.log_bytes == 0 {
            return Err(LayoutError::new(
                LayoutField::Fragments,
                "none in a volume without homes or without logs",
                1,
                "the superblock is damaged; try another copy",
            ));
        }
        let least = SLOT_BYTES_MIN + FRAGMENT_ROOM_BYTES_MIN;
        if self.slot_bytes >= least {
            return Ok(());
        }
        Err(LayoutError::new(
            LayoutField::SlotBytes,
            format_args!("at least {least}, with room for what is left of fragments"),
            self.slot_bytes,
            "the superblock is damaged; try another copy",
        ))
    }

    fn validate_slots(&self) -> Result<(), LayoutError> {
        let advice = "the superblock is damaged; try another copy";
        let aligned = self.slot_bytes.is_multiple_of(BLOCK_BYTES);
        if !aligned || !(SLOT_BYTES_MIN..=self.end_bytes()).contains(&self.slot_bytes) {
            let expected = format!("a multiple of 4096, at least {SLOT_BYTES_MIN}, on the device");
            return Err(LayoutError::new(
                LayoutField::SlotBytes,
                expected,
                self.slot_bytes,
                advice,
            ));
        }
        let refuse = |expected: String, found: u64| {
            Err(LayoutError::new(LayoutField::SlotOffset, expected, found, advice))
        };
        let metadata_end = SUPERBLOCK_1_OFFSET + SUPERBLOCK_BYTES;
        let has_parts = !self.data_parts.is_empty() && !self.is_chain();
        // With data devices they are on the first.
        let first_end = self.data_devices().next().map_or(0, |device| device.end);
        let first_start = self.device_bytes.saturating_add(DATA_START_BYTES);
        let mut free_from = if has_parts { first_start } else { metadata_end };
        for slot_offset in self.slot_offsets {
            let end = if has_parts { first_end } else { self.device_bytes };
            let inside = (free_from..=end).contains(&slot_offset);
            if !inside || !slot_offset.is_multiple_of(BLOCK_BYTES) {
                let expected = format!("a multiple of 4096, at least {free_from}, on the device");
                return refuse(expected, slot_offset);
            }
            free_from = slot_offset + self.slot_bytes;
        }
        if self.slot_is_far() {
            let end = self.superblock_offsets()[2];
            if self.logs_are_apart() || free_from > end {
                let expected =
                    format!("a slot that ends before {end}, beside logs in their groups");
                return refuse(expected, self.slot_offsets[1]);
            }
            free_from = self.slot_offsets[0] + self.slot_bytes;
        }
        if has_parts {
            free_from = metadata_end;
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
        // In a chain what is more than the log is promised, and nowhere.
        let least = if self.is_chain() { LOG_BYTES_MIN } else { 1 << 20 };
        if !aligned(self.group_bytes) || !(least..=self.end_bytes()).contains(&self.group_bytes) {
            return Err(LayoutError::new(
                LayoutField::GroupBytes,
                format_args!("a multiple of 4096, at least {least}, on the device"),
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
}
