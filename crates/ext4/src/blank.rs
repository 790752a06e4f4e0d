//! An empty file system of many whole groups, made without mkfs.ext4: for simulations, whose disks are large and may start no program.
//!
//! Each group has its own tables, as without `flex_bg`; those that hold nothing yet count as never written, so few blocks are not zeros.
//! Not a replacement of mkfs.ext4, which knows of options, labels and reserved room. e2fsck finds it clean.
//!
//! ```text
//!  group 0    | super | descriptors | block bitmap | inode bitmap | inodes .. | root | lost+found | free ..
//!  group n    | (a copy of both, if sparse_super says so)   block bitmap | inode bitmap | inodes .. | free ..
//! ```

use crate::bitmap;
use crate::error::OpenError;
use crate::geometry::{Geometry, INODES_PER_BLOCK, SUPERBLOCK_AT, at, superblock_checksum};
use crate::group::{BLOCK_UNINIT, Descriptor, INODE_UNINIT};
use crate::sample::{self, Block, FIRST_INO};
use crate::types::{BLOCK_BYTES, BlockBytes, Timestamp};
use crate::verify::{block_bitmap_sum, inode_bitmap_sum};
use nearhead_basics::little_endian::put;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks of a group.
pub const GROUP_BLOCKS: u64 = 32_768;
const DESCRIPTOR_BYTES: usize = 64;
/// Descriptors in a block.
const IN_BLOCK: usize = BLOCK_BYTES / DESCRIPTOR_BYTES;

/// The blocks that are not all zeros of a file system of so many groups of 32,768 blocks (128 MiB), each with so many inodes, a multiple
/// of 16.
pub fn image(
    groups: u32,
    inodes_per_group: u32,
    uuid: [u8; 16],
    now: Timestamp,
) -> Result<BTreeMap<u64, BlockBytes>, OpenError> {
    let blocks = u32::try_from(u64::from(groups) * GROUP_BLOCKS).map_err(|_| {
        OpenError::Refused(format!("expected at most 131071 groups, found {groups}"))
    })?;
    let mut first = sample::superblock(blocks, uuid, now);
    put(&mut first, at::INODES_PER_GROUP, &inodes_per_group.to_le_bytes());
    let inodes = u64::from(groups) * u64::from(inodes_per_group);
    put(&mut first, at::INODES, &(inodes as u32).to_le_bytes());
    seal(&mut first);
    let geometry = Geometry::parse(&first)?;
    let mut made: BTreeMap<u64, Block> = BTreeMap::new();
    let mut descriptors = vec![[0; BLOCK_BYTES]; geometry.descriptor_blocks() as usize];
    let mut free_blocks = 0;
    for group in 0..groups {
        let mut descriptor = empty_group(&geometry, group);
        if group == 0 {
            fill_first_group(&geometry, &mut descriptor, &mut made, now);
        }
        free_blocks += u64::from(descriptor.free_blocks);
        let (nth, at) = (group as usize / IN_BLOCK, group as usize % IN_BLOCK * DESCRIPTOR_BYTES);
        let bytes = &mut descriptors[nth][at..at + DESCRIPTOR_BYTES];
        sample::put_descriptor(&geometry, group, &descriptor, bytes);
    }
    put(&mut first, at::FREE_BLOCKS_LOW, &(free_blocks as u32).to_le_bytes());
    put(&mut first, at::FREE_INODES, &(inodes as u32 - FIRST_INO).to_le_bytes());
    seal(&mut first);
    for group in (0..groups).filter(|group| geometry.has_superblock(*group)) {
        let base = geometry.first_of(group);
        made.insert(base, if group == 0 { first } else { copy_in(group, &first) });
        made.extend((base + 1..).zip(descriptors.iter().copied()));
    }
    Ok(made.into_iter().map(|(block, bytes)| (block, Arc::new(bytes))).collect())
}

fn seal(block: &mut Block) {
    let sum = superblock_checksum(block);
    put(block, at::CHECKSUM, &sum.to_le_bytes());
}

/// A copy of the superblock stands at the start of its block: there is no boot code before it.
fn copy_in(group: u32, first: &Block) -> Block {
    let mut moved = *first;
    put(&mut moved, at::GROUP, &(group as u16).to_le_bytes());
    seal(&mut moved);
    let mut copy = [0; BLOCK_BYTES];
    copy[..BLOCK_BYTES - SUPERBLOCK_AT].copy_from_slice(&moved[SUPERBLOCK_AT..]);
    copy
}

/// A group in which nothing was ever used.
fn empty_group(geometry: &Geometry, group: u32) -> Descriptor {
    let base = geometry.base_blocks(group);
    let block_bitmap = geometry.first_of(group) + u64::from(base);
    let inodes = geometry.inodes_per_group;
    Descriptor {
        block_bitmap,
        inode_bitmap: block_bitmap + 1,
        inode_table: block_bitmap + 2,
        free_blocks: geometry.blocks_in(group) - base - 2 - inodes / INODES_PER_BLOCK,
        free_inodes: inodes,
        directories: 0,
        unused_inodes: inodes,
        flags: BLOCK_UNINIT | INODE_UNINIT,
        block_bitmap_sum: 0,
        inode_bitmap_sum: 0,
    }
}

/// The first group has the reserved inodes, the root directory and lost+found.
fn fill_first_group(
    geometry: &Geometry,
    descriptor: &mut Descriptor,
    made: &mut BTreeMap<u64, Block>,
    now: Timestamp,
) {
    let inodes = geometry.inodes_per_group;
    let root = descriptor.inode_table + u64::from(inodes / INODES_PER_BLOCK);
    sample::put_directories(geometry, descriptor.inode_table, [root, root + 1], made, now);
    let mut bits = [0; BLOCK_BYTES];
    bitmap::fill(&mut bits, 0, root as u32 + 2, true);
    descriptor.block_bitmap_sum = block_bitmap_sum(geometry, &bits);
    made.insert(descriptor.block_bitmap, bits);
    let mut bits = [0; BLOCK_BYTES];
    bitmap::fill(&mut bits, 0, FIRST_INO, true);
    bitmap::fill(&mut bits, inodes, 8 * BLOCK_BYTES as u32, true);
    descriptor.inode_bitmap_sum = inode_bitmap_sum(geometry, &bits);
    made.insert(descriptor.inode_bitmap, bits);
    descriptor.free_blocks -= 2;
    descriptor.free_inodes -= FIRST_INO;
    descriptor.unused_inodes -= FIRST_INO;
    (descriptor.directories, descriptor.flags) = (2, 0);
}
