//! A small image made without mkfs.ext4, for tests, examples and fuzzers: one group, a root directory, lost+found.
//!
//! Not a replacement of mkfs.ext4, which knows of large volumes, backups and options. e2fsck finds it clean.
//!
//! ```text
//!  block 0     1            2             3             4 .. 7          8     9           10 ..
//!  | super     | descriptor | block bitmap| inode bitmap| 64 inodes     | root| lost+found| free |
//! ```

use crate::bitmap;
use crate::dirent;
use crate::error::OpenError;
use crate::extent_node::{self, Extent, ROOT_ENTRIES_MAX};
use crate::geometry::{Geometry, INODE_BYTES, at, superblock_checksum};
use crate::group::{Descriptor, checksum, store_checksum};
use crate::inode::{EXTENTS_FLAG, Inode, Time};
use crate::types::{BLOCK_BYTES, BlockBytes, FileKind, Ino, ROOT, Timestamp};
use crate::verify::{block_bitmap_sum, directory_sum, inode_bitmap_sum};
use nearhead_basics::little_endian::put;
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK_BITMAP: u64 = 2;
const INODE_BITMAP: u64 = 3;
const INODE_TABLE: u64 = 4;
const INODES: u32 = 64;
const ROOT_BLOCK: u64 = 8;
const LOST_BLOCK: u64 = 9;
const FIRST_FREE: u32 = 10;
pub(crate) const FIRST_INO: u32 = 11;

pub(crate) type Block = [u8; BLOCK_BYTES];

/// The blocks of an image of `blocks` blocks, 64 to 32,768, that are not all zeros.
pub fn image(
    blocks: u32,
    uuid: [u8; 16],
    now: Timestamp,
) -> Result<BTreeMap<u64, BlockBytes>, OpenError> {
    let mut first = superblock(blocks, uuid, now);
    let geometry = Geometry::parse(&first)?;
    let mut made: BTreeMap<u64, Block> = BTreeMap::new();
    let mut bits = [0; BLOCK_BYTES];
    bitmap::fill(&mut bits, 0, FIRST_FREE, true);
    bitmap::fill(&mut bits, blocks, 8 * BLOCK_BYTES as u32, true);
    let block_sum = block_bitmap_sum(&geometry, &bits);
    made.insert(BLOCK_BITMAP, bits);
    let mut bits = [0; BLOCK_BYTES];
    bitmap::fill(&mut bits, 0, FIRST_INO, true);
    bitmap::fill(&mut bits, INODES, 8 * BLOCK_BYTES as u32, true);
    let inode_sum = inode_bitmap_sum(&geometry, &bits);
    made.insert(INODE_BITMAP, bits);
    put_directories(&geometry, INODE_TABLE, [ROOT_BLOCK, LOST_BLOCK], &mut made, now);
    let descriptor = Descriptor {
        block_bitmap: BLOCK_BITMAP,
        inode_bitmap: INODE_BITMAP,
        inode_table: INODE_TABLE,
        free_blocks: blocks - FIRST_FREE,
        free_inodes: INODES - FIRST_INO,
        directories: 2,
        unused_inodes: INODES - FIRST_INO,
        flags: 0,
        block_bitmap_sum: block_sum,
        inode_bitmap_sum: inode_sum,
    };
    let mut descriptors = [0; BLOCK_BYTES];
    put_descriptor(&geometry, 0, &descriptor, &mut descriptors[..64]);
    made.insert(1, descriptors);
    let sum = superblock_checksum(&first);
    put(&mut first, at::CHECKSUM, &sum.to_le_bytes());
    made.insert(0, first);
    Ok(made.into_iter().map(|(block, bytes)| (block, Arc::new(bytes))).collect())
}

pub(crate) fn superblock(blocks: u32, uuid: [u8; 16], now: Timestamp) -> Block {
    let mut block = [0; BLOCK_BYTES];
    let now = now.seconds.max(0) as u32;
    let per_group = 32_768_u32;
    // What mkfs.ext4 of Debian 12 turns on, but for groups that share their tables.
    let (compatible, incompatible, read_only) = (0x8_u32, 0xC2_u32, 0x46B_u32);
    for (offset, value) in [
        (at::INODES, INODES),
        (at::BLOCKS_LOW, blocks),
        (at::FREE_BLOCKS_LOW, blocks.saturating_sub(FIRST_FREE)),
        (at::FREE_INODES, INODES - FIRST_INO),
        (at::LOG_BLOCK_SIZE, 2),
        // The size of a cluster, which is a block.
        (at::LOG_BLOCK_SIZE + 4, 2),
        (at::BLOCKS_PER_GROUP, per_group),
        (at::BLOCKS_PER_GROUP + 4, per_group),
        (at::INODES_PER_GROUP, INODES),
        (at::WRITTEN, now),
        // Last checked.
        (at::STATE + 6, now),
        (at::REVISION, 1),
        (at::FIRST_INO, FIRST_INO),
        (at::COMPATIBLE, compatible),
        (at::INCOMPATIBLE, incompatible),
        (at::READ_ONLY_COMPATIBLE, read_only),
    ] {
        put(&mut block, offset, &value.to_le_bytes());
    }
    for (offset, value) in [
        (at::MAGIC, 0xEF53_u16),
        // Mounts before a check: any number.
        (at::MAGIC - 2, 0xFFFF),
        (at::STATE, 1),
        // On errors: go on.
        (at::STATE + 2, 1),
        (at::INODE_SIZE, INODE_BYTES as u16),
        (at::DESCRIPTOR_SIZE, 64),
        // Room that inodes have at least for fields of later versions.
        (at::WANT_EXTRA_ISIZE - 2, 32),
        (at::WANT_EXTRA_ISIZE, 32),
    ] {
        put(&mut block, offset, &value.to_le_bytes());
    }
    block[at::CHECKSUM_KIND] = 1;
    put(&mut block, at::UUID, &uuid);
    let sum = superblock_checksum(&block);
    put(&mut block, at::CHECKSUM, &sum.to_le_bytes());
    block
}

/// The root directory and lost+found, with their inodes.
pub(crate) fn put_directories(
    geometry: &Geometry,
    inode_table: u64,
    [root, lost]: [u64; 2],
    made: &mut BTreeMap<u64, Block>,
    now: Timestamp,
) {
    for (ino, links, block, mode) in [(ROOT, 3, root, 0o755), (Ino(FIRST_INO), 2, lost, 0o700)] {
        let inode = directory(geometry, ino, links, block, mode, now);
        let index = (ino.0 - 1) as usize;
        let table = inode_table + (index * INODE_BYTES / BLOCK_BYTES) as u64;
        let in_table = made.entry(table).or_insert([0; BLOCK_BYTES]);
        put(in_table, index * INODE_BYTES % BLOCK_BYTES, &inode.raw);
        let mut bytes = [0; BLOCK_BYTES];
        dirent::format_first(&mut bytes, geometry, ino.0, ROOT.0);
        if ino == ROOT {
            let end = dirent::end(geometry);
            let kind = FileKind::Directory;
            dirent::insert(&mut bytes, end, FIRST_INO, kind, b"lost+found");
        }
        let sum = directory_sum(geometry, ino.0, 0, &bytes);
        put(&mut bytes, dirent::CHECKSUM_AT, &sum.to_le_bytes());
        made.insert(block, bytes);
    }
}

fn directory(
    geometry: &Geometry,
    ino: Ino,
    links: u32,
    block: u64,
    mode: u16,
    now: Timestamp,
) -> Inode {
    let mut inode = Inode::new(ino, 0, 32);
    inode.set_mode(FileKind::Directory.mode_bits() | mode);
    inode.set_links(links);
    inode.set_size(BLOCK_BYTES as u64);
    inode.set_flags(EXTENTS_FLAG);
    inode.add_blocks(1);
    for time in [Time::Accessed, Time::Modified, Time::Changed, Time::Created] {
        inode.set_time(time, now);
    }
    let extent = Extent { logical: 0, len: 1, physical: block, is_unwritten: false };
    extent_node::format(inode.content_mut(), ROOT_ENTRIES_MAX, 0);
    extent_node::insert(inode.content_mut(), 0, &extent.encode());
    inode.seal(geometry);
    inode
}

/// The descriptor of a group, where it stands.
pub(crate) fn put_descriptor(
    geometry: &Geometry,
    group: u32,
    descriptor: &Descriptor,
    bytes: &mut [u8],
) {
    for (offset, place) in
        [(0, descriptor.block_bitmap), (4, descriptor.inode_bitmap), (8, descriptor.inode_table)]
    {
        put(bytes, offset, &(place as u32).to_le_bytes());
    }
    descriptor.encode_into(bytes);
    let sum = checksum(geometry, group, bytes);
    store_checksum(bytes, sum);
}
