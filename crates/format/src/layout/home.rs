//! Where client bytes live, and the other way round: what a device byte is for.

use super::{Layout, SUPERBLOCK_BYTES};
use crate::SECTOR_BYTES;
use std::iter::FusedIterator;
use std::ops::Range;

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

impl Layout {
    /// Home of the client byte at `client_offset` and how many bytes from there on are contiguous
    /// both for the client and on the device; `None` past the end.
    #[inline]
    pub fn home(&self, client_offset: u64) -> Option<HomePiece> {
        if self.logs_are_apart() {
            return self.home_when_apart(client_offset);
        }
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

    /// The range of client bytes that `sectors` home sectors from `home_sector` on are, if the
    /// client's address space has them.
    #[inline]
    pub fn client_range(&self, home_sector: u64, sectors: u64) -> Option<Range<u64>> {
        let start = home_sector.checked_mul(SECTOR_BYTES)?;
        let end = home_sector.checked_add(sectors)?.checked_mul(SECTOR_BYTES)?;
        (end <= self.client_bytes()).then_some(start..end)
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
        if self.logs_are_apart() {
            return self.region_when_apart(device_offset);
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

impl FusedIterator for HomePieces<'_> {}
