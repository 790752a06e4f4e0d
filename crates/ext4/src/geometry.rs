//! What the superblock says once and for all: sizes, features, seeds. Refuses what this implementation does not have.
//!
//! Counts that change (free blocks, times) are not here: they are read from block 0 as it is now. Every number is checked
//! before anything is computed from it, so that the rest may trust a geometry.
//!
//! ```text
//!  block 0   0            1024                                  2048                 4096
//!            | boot code  | superblock, its checksum the last 4 | nothing of ours    |
//!  block 1.. | group descriptors, 32 or 64 bytes each           |
//! ```

use crate::checksum::{Sums, crc32c};
use crate::error::OpenError;
use crate::features::{self, Features};
use crate::types::BLOCK_BYTES;
use nearhead_basics::little_endian::{array_at, u16_at, u32_at};

/// Where the superblock stands in block 0.
pub(crate) const SUPERBLOCK_AT: usize = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC: u16 = 0xEF53;
/// Bytes of an inode: the only size supported.
pub(crate) const INODE_BYTES: usize = 256;
/// Inodes in a block.
pub(crate) const INODES_PER_BLOCK: u32 = (BLOCK_BYTES / INODE_BYTES) as u32;

/// Offsets in block 0.
pub(crate) mod at {
    use super::SUPERBLOCK_AT as S;
    pub(crate) const INODES: usize = S;
    pub(crate) const BLOCKS_LOW: usize = S + 0x04;
    pub(crate) const RESERVED_LOW: usize = S + 0x08;
    pub(crate) const FREE_BLOCKS_LOW: usize = S + 0x0C;
    pub(crate) const FREE_INODES: usize = S + 0x10;
    pub(crate) const FIRST_DATA_BLOCK: usize = S + 0x14;
    pub(crate) const LOG_BLOCK_SIZE: usize = S + 0x18;
    pub(crate) const BLOCKS_PER_GROUP: usize = S + 0x20;
    pub(crate) const INODES_PER_GROUP: usize = S + 0x28;
    pub(crate) const MOUNTED: usize = S + 0x2C;
    pub(crate) const WRITTEN: usize = S + 0x30;
    pub(crate) const MOUNTS: usize = S + 0x34;
    pub(crate) const MAGIC: usize = S + 0x38;
    pub(crate) const STATE: usize = S + 0x3A;
    pub(crate) const REVISION: usize = S + 0x4C;
    pub(crate) const FIRST_INO: usize = S + 0x54;
    pub(crate) const INODE_SIZE: usize = S + 0x58;
    /// The group that a copy stands in.
    pub(crate) const GROUP: usize = S + 0x5A;
    pub(crate) const COMPATIBLE: usize = S + 0x5C;
    pub(crate) const INCOMPATIBLE: usize = S + 0x60;
    pub(crate) const READ_ONLY_COMPATIBLE: usize = S + 0x64;
    pub(crate) const UUID: usize = S + 0x68;
    pub(crate) const LABEL: usize = S + 0x78;
    pub(crate) const RESERVED_DESCRIPTOR_BLOCKS: usize = S + 0xCE;
    pub(crate) const LAST_ORPHAN: usize = S + 0xE8;
    pub(crate) const DESCRIPTOR_SIZE: usize = S + 0xFE;
    pub(crate) const BLOCKS_HIGH: usize = S + 0x150;
    pub(crate) const RESERVED_HIGH: usize = S + 0x154;
    pub(crate) const FREE_BLOCKS_HIGH: usize = S + 0x158;
    pub(crate) const WANT_EXTRA_ISIZE: usize = S + 0x15E;
    pub(crate) const FLEX_LOG: usize = S + 0x174;
    pub(crate) const CHECKSUM_KIND: usize = S + 0x175;
    pub(crate) const MOUNTED_HIGH: usize = S + 0x275;
    pub(crate) const WRITTEN_HIGH: usize = S + 0x274;
    pub(crate) const CHECKSUM_SEED: usize = S + 0x270;
    pub(crate) const CHECKSUM: usize = S + 0x3FC;
}

/// What an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of 4096 bytes of the file system, from the start of the volume.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u32,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its label, without the zeros behind it.
    pub label: Vec<u8>,
    /// Names of the features that are on.
    pub features: Vec<&'static str>,
    pub(crate) groups: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) descriptor_bytes: usize,
    pub(crate) reserved_descriptor_blocks: u32,
    pub(crate) first_ino: u32,
    pub(crate) sums: Sums,
    pub(crate) seed: u32,
    pub(crate) extra_isize: u16,
    pub(crate) flex_groups: u32,
    pub(crate) on: Features,
}

impl Geometry {
    /// What the first block says, if this implementation can serve it.
    pub(crate) fn parse(first_block: &[u8]) -> Result<Self, OpenError> {
        let block = first_block.get(..BLOCK_BYTES).ok_or_else(|| {
            let found = first_block.len();
            OpenError::NotExt4(format!("expected the first 4096 bytes of a volume, found {found}"))
        })?;
        let magic = u16_at(block, at::MAGIC);
        if magic != MAGIC {
            return Err(OpenError::NotExt4(format!(
                "superblock at byte 1024: expected the magic number ef53, found {magic:04x}; make \
                 a file system with `mkfs.ext4 -O ^has_journal,^dir_index,^resize_inode`"
            )));
        }
        let on = features::check(
            u32_at(block, at::COMPATIBLE),
            u32_at(block, at::INCOMPATIBLE),
            u32_at(block, at::READ_ONLY_COMPATIBLE),
        )?;
        check_sizes(block)?;
        let uuid: [u8; 16] = array_at(block, at::UUID);
        let seed =
            if on.checksum_seed { u32_at(block, at::CHECKSUM_SEED) } else { crc32c(!0, &uuid) };
        let label: [u8; 16] = array_at(block, at::LABEL);
        let high = |offset| if on.is_64bit { u64::from(u32_at(block, offset)) << 32 } else { 0 };
        let blocks = u64::from(u32_at(block, at::BLOCKS_LOW)) | high(at::BLOCKS_HIGH);
        let blocks_per_group = u32_at(block, at::BLOCKS_PER_GROUP);
        let sums = match (on.metadata_csum, on.gdt_csum) {
            (true, _) => Sums::All,
            (false, true) => Sums::Descriptors,
            (false, false) => Sums::None,
        };
        let geometry = Self {
            blocks,
            inodes: u32_at(block, at::INODES),
            uuid,
            label: label.into_iter().take_while(|byte| *byte != 0).collect(),
            features: on.names.clone(),
            groups: u32::try_from(blocks.div_ceil(u64::from(blocks_per_group.max(1))))
                .unwrap_or(u32::MAX),
            blocks_per_group,
            inodes_per_group: u32_at(block, at::INODES_PER_GROUP),
            descriptor_bytes: if on.is_64bit { 64 } else { 32 },
            reserved_descriptor_blocks: u32::from(u16_at(block, at::RESERVED_DESCRIPTOR_BLOCKS)),
            first_ino: u32_at(block, at::FIRST_INO),
            sums,
            seed,
            extra_isize: u16_at(block, at::WANT_EXTRA_ISIZE).clamp(32, 96) & !3,
            flex_groups: 1 << u32::from(block[at::FLEX_LOG]).min(20),
            on,
        };
        geometry.check_checksum(block)?;
        geometry.check_numbers(block)?;
        Ok(geometry)
    }

    fn check_checksum(&self, block: &[u8]) -> Result<(), OpenError> {
        if self.sums != Sums::All {
            return Ok(());
        }
        let kind = block[at::CHECKSUM_KIND];
        if kind != 1 {
            return Err(bad("kind of checksum", "1 (crc32c)", kind));
        }
        let (expected, found) = (superblock_checksum(block), u32_at(block, at::CHECKSUM));
        if expected != found {
            return Err(bad("checksum", &format!("{expected:08x}"), format!("{found:08x}")));
        }
        Ok(())
    }

    fn check_numbers(&self, block: &[u8]) -> Result<(), OpenError> {
        let per_group = self.blocks_per_group;
        if !(256..=32_768).contains(&per_group) || !per_group.is_multiple_of(8) {
            return Err(bad("blocks per group", "256 to 32768, a multiple of 8", per_group));
        }
        let inodes = self.inodes_per_group;
        if !(16..=32_768).contains(&inodes) || !inodes.is_multiple_of(INODES_PER_BLOCK) {
            return Err(bad("inodes per group", "16 to 32768, a multiple of 16", inodes));
        }
        let expected = u64::from(self.groups) * u64::from(inodes);
        if expected != u64::from(self.inodes) {
            return Err(bad("inodes", &format!("{expected}"), self.inodes));
        }
        if self.blocks < 64 || self.blocks >= 1 << 48 {
            return Err(bad("blocks", "64 to 2^48", self.blocks));
        }
        let meta = 1 + self.descriptor_blocks() + u64::from(self.reserved_descriptor_blocks);
        if meta >= u64::from(per_group).min(self.blocks) {
            return Err(bad("blocks of group descriptors", "less than a group", meta));
        }
        let size = usize::from(u16_at(block, at::DESCRIPTOR_SIZE));
        if self.on.is_64bit && size != 64 {
            return Err(bad("size of a group descriptor", "64", size));
        }
        if self.first_ino < 11 || self.first_ino > inodes {
            return Err(bad("first inode", "11 up to the first group's last", self.first_ino));
        }
        Ok(())
    }

    /// Blocks of the descriptor table, from block 1 on.
    pub(crate) fn descriptor_blocks(&self) -> u64 {
        (u64::from(self.groups) * self.descriptor_bytes as u64).div_ceil(BLOCK_BYTES as u64)
    }

    /// The group that a block is in.
    pub(crate) fn group_of(&self, block: u64) -> u32 {
        (block / u64::from(self.blocks_per_group)) as u32
    }

    /// First block of a group.
    pub(crate) fn first_of(&self, group: u32) -> u64 {
        u64::from(group) * u64::from(self.blocks_per_group)
    }

    /// Blocks of a group: the last one may be short.
    pub(crate) fn blocks_in(&self, group: u32) -> u32 {
        let rest = self.blocks.saturating_sub(self.first_of(group));
        rest.min(u64::from(self.blocks_per_group)) as u32
    }

    /// Whether a group starts with a superblock and descriptors.
    pub(crate) fn has_superblock(&self, group: u32) -> bool {
        let is_power_of = |base: u32| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        };
        group <= 1 || !self.on.sparse_super || [3, 5, 7].into_iter().any(is_power_of)
    }

    /// Blocks at the start of a group that superblock and descriptors take.
    pub(crate) fn base_blocks(&self, group: u32) -> u32 {
        if !self.has_superblock(group) {
            return 0;
        }
        1 + self.descriptor_blocks() as u32 + self.reserved_descriptor_blocks
    }

    /// Whether inodes may be told apart by it: 1 up to the last.
    pub(crate) fn has_ino(&self, ino: u32) -> bool {
        (1..=self.inodes).contains(&ino)
    }
}

/// Of a superblock in its block, the field itself left out.
pub(crate) fn superblock_checksum(block: &[u8]) -> u32 {
    crc32c(!0, &block[SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_BYTES - 4])
}

/// What must hold before anything is computed.
fn check_sizes(block: &[u8]) -> Result<(), OpenError> {
    let log = u32_at(block, at::LOG_BLOCK_SIZE);
    if log != 2 {
        return Err(OpenError::Refused(format!(
            "superblock: expected blocks of 4096 bytes, found {}; make the file system with \
             `mkfs.ext4 -b 4096`",
            1024_u64.checked_shl(log).unwrap_or(0)
        )));
    }
    let size = u16_at(block, at::INODE_SIZE);
    if u32_at(block, at::REVISION) < 1 || usize::from(size) != INODE_BYTES {
        return Err(OpenError::Refused(format!(
            "superblock: expected inodes of 256 bytes, found {size}; make the file system with \
             `mkfs.ext4 -I 256`"
        )));
    }
    let first = u32_at(block, at::FIRST_DATA_BLOCK);
    if first != 0 {
        return Err(bad("first data block", "0", first));
    }
    Ok(())
}

fn bad(what: &str, expected: &str, found: impl std::fmt::Display) -> OpenError {
    OpenError::Corrupt(format!(
        "superblock: {what}: expected {expected}, found {found}; run e2fsck on the image, it has \
         copies"
    ))
}
