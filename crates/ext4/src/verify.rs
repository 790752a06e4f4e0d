//! The gate between a block that was given and its first use: is it what it is supposed to be?
//!
//! Checksums first, then whatever the users of such a block trust without looking again. A block that fails is an error
//! that says which block, as what, what was expected and what was found; it is looked at again at every use.

use crate::cache::Kind;
use crate::checksum::{Sums, crc32c, inode_seed};
use crate::error::{Stop, corrupt};
use crate::geometry::Geometry;
use crate::group::{self, Descriptor};
use crate::types::BLOCK_BYTES;
use crate::{bitmap, dirent, extent_node, xattr_block};
use nearhead_basics::little_endian::u32_at;

/// Whether `bytes` of `block` are of this kind. Bitmaps come with their group's descriptor.
pub(crate) fn verify(
    geometry: &Geometry,
    block: u64,
    kind: Kind,
    bytes: &[u8; BLOCK_BYTES],
    descriptor: Option<&Descriptor>,
) -> Result<(), Stop> {
    let what = match kind {
        Kind::Superblock | Kind::InodeTable | Kind::Link => return Ok(()),
        Kind::Descriptors(nth) => {
            return verify_descriptors(geometry, block, nth, bytes);
        }
        Kind::BlockBitmap(group) => format!("block bitmap of group {group}"),
        Kind::InodeBitmap(group) => format!("inode bitmap of group {group}"),
        Kind::Directory(ino, _) => format!("directory block of inode {ino}"),
        Kind::Extents(ino, _) => format!("extent block of inode {ino}"),
        Kind::Xattrs => "block of extended attributes".to_owned(),
    };
    let wrong = |found: String| corrupt(format!("block {block}: {what}: {found}"));
    if geometry.sums == Sums::All {
        let (expected, found) = sums_of(geometry, block, kind, bytes, descriptor);
        if expected != found {
            return Err(wrong(format!("expected checksum {expected:08x}, found {found:08x}")));
        }
    }
    let checked = match kind {
        Kind::BlockBitmap(group) => {
            let free = descriptor.map_or(0, |descriptor| descriptor.free_blocks);
            check_free(bytes, geometry.blocks_in(group), free)
        }
        Kind::InodeBitmap(_) => {
            let free = descriptor.map_or(0, |descriptor| descriptor.free_inodes);
            check_free(bytes, geometry.inodes_per_group, free)
        }
        Kind::Directory(..) => dirent::check(bytes, geometry),
        Kind::Extents(..) => extent_node::check(bytes, false, geometry),
        Kind::Xattrs => xattr_block::check(bytes),
        _ => Ok(()),
    };
    checked.map_err(wrong)
}

/// The checksum that the bytes have, and the one that is stored.
fn sums_of(
    geometry: &Geometry,
    block: u64,
    kind: Kind,
    bytes: &[u8; BLOCK_BYTES],
    descriptor: Option<&Descriptor>,
) -> (u32, u32) {
    let mask = if geometry.descriptor_bytes >= 64 { !0 } else { 0xFFFF };
    match kind {
        Kind::BlockBitmap(_) => {
            let stored = descriptor.map_or(0, |descriptor| descriptor.block_bitmap_sum);
            (block_bitmap_sum(geometry, bytes) & mask, stored & mask)
        }
        Kind::InodeBitmap(_) => {
            let stored = descriptor.map_or(0, |descriptor| descriptor.inode_bitmap_sum);
            (inode_bitmap_sum(geometry, bytes) & mask, stored & mask)
        }
        Kind::Directory(ino, generation) => {
            (directory_sum(geometry, ino, generation, bytes), u32_at(bytes, dirent::CHECKSUM_AT))
        }
        Kind::Extents(ino, generation) => {
            let stored = u32_at(bytes, extent_node::CHECKSUM_AT);
            (extents_sum(geometry, ino, generation, bytes), stored)
        }
        Kind::Xattrs => (xattrs_sum(geometry, block, bytes), xattr_block::stored_checksum(bytes)),
        _ => (0, 0),
    }
}

fn check_free(bytes: &[u8], bits: u32, expected: u32) -> Result<(), String> {
    let found = bitmap::count_zeros(bytes, bits);
    if found == expected { Ok(()) } else { Err(format!("expected {expected} free, found {found}")) }
}

pub(crate) fn block_bitmap_sum(geometry: &Geometry, bytes: &[u8]) -> u32 {
    crc32c(geometry.seed, &bytes[..geometry.blocks_per_group as usize / 8])
}

pub(crate) fn inode_bitmap_sum(geometry: &Geometry, bytes: &[u8]) -> u32 {
    crc32c(geometry.seed, &bytes[..geometry.inodes_per_group as usize / 8])
}

pub(crate) fn directory_sum(geometry: &Geometry, ino: u32, generation: u32, bytes: &[u8]) -> u32 {
    crc32c(inode_seed(geometry.seed, ino, generation), &bytes[..dirent::TAIL_AT])
}

pub(crate) fn extents_sum(geometry: &Geometry, ino: u32, generation: u32, bytes: &[u8]) -> u32 {
    crc32c(inode_seed(geometry.seed, ino, generation), &bytes[..extent_node::CHECKSUM_AT])
}

pub(crate) fn xattrs_sum(geometry: &Geometry, block: u64, bytes: &[u8]) -> u32 {
    let at = xattr_block::CHECKSUM_AT;
    let before = crc32c(crc32c(geometry.seed, &block.to_le_bytes()), &bytes[..at]);
    crc32c(crc32c(before, &[0; 4]), &bytes[at + 4..])
}

/// Each descriptor's checksum, and that what it points to is in the volume.
fn verify_descriptors(
    geometry: &Geometry,
    block: u64,
    nth: u32,
    bytes: &[u8; BLOCK_BYTES],
) -> Result<(), Stop> {
    let size = geometry.descriptor_bytes;
    let first = nth * (BLOCK_BYTES / size) as u32;
    for (index, bytes) in bytes.chunks_exact(size).enumerate() {
        let number = first + index as u32;
        if number >= geometry.groups {
            break;
        }
        let wrong = |text: String| {
            Err(corrupt(format!("block {block}: descriptor of group {number}: {text}")))
        };
        let (expected, found) =
            (group::checksum(geometry, number, bytes), group::stored_checksum(bytes));
        if geometry.sums != Sums::None && expected != found {
            return wrong(format!("expected checksum {expected:04x}, found {found:04x}"));
        }
        let descriptor = Descriptor::decode(bytes);
        let table_blocks = u64::from(geometry.inodes_per_group / crate::geometry::INODES_PER_BLOCK);
        let is_inside = |start: u64, len: u64| {
            start > geometry.descriptor_blocks() && start.saturating_add(len) <= geometry.blocks
        };
        if !is_inside(descriptor.block_bitmap, 1)
            || !is_inside(descriptor.inode_bitmap, 1)
            || !is_inside(descriptor.inode_table, table_blocks)
        {
            return wrong("expected bitmaps and inodes inside the file system".to_owned());
        }
        if descriptor.free_blocks > geometry.blocks_in(number)
            || descriptor.free_inodes > geometry.inodes_per_group
            || descriptor.unused_inodes > descriptor.free_inodes
            || descriptor.directories > geometry.inodes_per_group
        {
            return wrong(format!("its counts are larger than the group: {descriptor:?}"));
        }
    }
    Ok(())
}
