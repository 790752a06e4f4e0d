//! A group descriptor: where a group's bitmaps and inodes are, and how much of it is free.
//!
//! ```text
//!  0      4      8      12   14   16   18   20      24  26  28   30   32     (64 bytes: the high halves follow)
//!  | block| inode| inode|free|free|dirs|flag| exclu-| bb| ib| un-|sum |
//!  | bmap | bmap | table|blks|inos|    |    | de    |sum|sum|used|    |
//! ```
//!
//! The checksum guards against rot and against a descriptor of another group; the bitmaps' checksums stand here because a
//! bitmap has no room for its own. `unused` are inodes at the end of the table that were never used: their blocks may hold
//! anything.

use crate::checksum::{Sums, crc16, crc32c};
use crate::geometry::Geometry;
use nearhead_basics::little_endian::{put, u16_at, u32_at};

/// The inode bitmap and table were never written.
pub(crate) const INODE_UNINIT: u16 = 1;
/// The block bitmap was never written.
pub(crate) const BLOCK_UNINIT: u16 = 2;

const CHECKSUM_AT: usize = 0x1E;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
    pub(crate) unused_inodes: u32,
    pub(crate) flags: u16,
    pub(crate) block_bitmap_sum: u32,
    pub(crate) inode_bitmap_sum: u32,
}

impl Descriptor {
    /// From its 32 or 64 bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let high32 = |at| if bytes.len() >= 64 { u64::from(u32_at(bytes, at)) << 32 } else { 0 };
        let high16 = |at| if bytes.len() >= 64 { u32::from(u16_at(bytes, at)) << 16 } else { 0 };
        let low32 = |at| u64::from(u32_at(bytes, at));
        let low16 = |at| u32::from(u16_at(bytes, at));
        Self {
            block_bitmap: low32(0) | high32(0x20),
            inode_bitmap: low32(4) | high32(0x24),
            inode_table: low32(8) | high32(0x28),
            free_blocks: low16(0x0C) | high16(0x2C),
            free_inodes: low16(0x0E) | high16(0x2E),
            directories: low16(0x10) | high16(0x30),
            flags: u16_at(bytes, 0x12),
            block_bitmap_sum: low16(0x18) | high16(0x38),
            inode_bitmap_sum: low16(0x1A) | high16(0x3A),
            unused_inodes: low16(0x1C) | high16(0x32),
        }
    }

    /// Counts, flags and the bitmaps' checksums into its bytes; where things are never changes.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) {
        let mut put_halves = |low: usize, high: usize, value: u32| {
            put(bytes, low, &(value as u16).to_le_bytes());
            if bytes.len() >= 64 {
                put(bytes, high, &((value >> 16) as u16).to_le_bytes());
            }
        };
        put_halves(0x0C, 0x2C, self.free_blocks);
        put_halves(0x0E, 0x2E, self.free_inodes);
        put_halves(0x10, 0x30, self.directories);
        put_halves(0x18, 0x38, self.block_bitmap_sum);
        put_halves(0x1A, 0x3A, self.inode_bitmap_sum);
        put_halves(0x1C, 0x32, self.unused_inodes);
        put(bytes, 0x12, &self.flags.to_le_bytes());
    }
}

/// The checksum of the descriptor in `bytes`, its field left out.
pub(crate) fn checksum(geometry: &Geometry, group: u32, bytes: &[u8]) -> u16 {
    let number = group.to_le_bytes();
    match geometry.sums {
        Sums::None => 0,
        Sums::Descriptors => {
            let before = crc16(crc16(crc16(!0, &geometry.uuid), &number), &bytes[..CHECKSUM_AT]);
            crc16(before, &bytes[CHECKSUM_AT + 2..])
        }
        Sums::All => {
            let before = crc32c(crc32c(geometry.seed, &number), &bytes[..CHECKSUM_AT]);
            crc32c(crc32c(before, &[0, 0]), &bytes[CHECKSUM_AT + 2..]) as u16
        }
    }
}

/// As it is stored.
pub(crate) fn stored_checksum(bytes: &[u8]) -> u16 {
    u16_at(bytes, CHECKSUM_AT)
}

pub(crate) fn store_checksum(bytes: &mut [u8], sum: u16) {
    put(bytes, CHECKSUM_AT, &sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_written_is_read_as_it_was() {
        for len in [32, 64] {
            let mut bytes: Vec<u8> = (1..=len).collect();
            let mut descriptor = Descriptor::decode(&bytes);
            let before = descriptor.clone();
            descriptor.encode_into(&mut bytes);
            assert_eq!(bytes, (1..=len).collect::<Vec<u8>>());
            descriptor.free_blocks = 0x7F00;
            descriptor.unused_inodes = 0x1234;
            descriptor.flags = 0x0506;
            descriptor.encode_into(&mut bytes);
            assert_eq!(Descriptor::decode(&bytes), descriptor);
            assert_ne!(before, descriptor);
            assert_eq!(bytes[0x0C..0x0E], [0x00, 0x7F]);
            assert_eq!(bytes[0x12..0x14], [0x06, 0x05]);
        }
    }
}
