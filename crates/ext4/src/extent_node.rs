//! A node of an extent tree: the 60 bytes in an inode, or a block.
//!
//! ```text
//!  0     2       4     6     8          12
//!  | F30A|entries|  max|depth| generation|
//!  leaf:   | logical 4 | len 2, above 32768: unwritten | physical high 2 | low 4 |
//!  index:  | logical 4 | child low 4 | high 2 | 0 2 |
//!  block:  340 entries end at 4092, the checksum follows
//! ```
//!
//! [`check`] is the gate: after it entries are in order, do not overlap and lie in the volume. Everything else here trusts
//! it.

use crate::geometry::Geometry;
use nearhead_basics::little_endian::{put, u16_at, u32_at};

const MAGIC: u16 = 0xF30A;
pub(crate) const HEADER_BYTES: usize = 12;
pub(crate) const ENTRY_BYTES: usize = 12;
/// Entries in a block.
pub(crate) const ENTRIES_MAX: u16 = 340;
/// Entries in an inode.
pub(crate) const ROOT_ENTRIES_MAX: u16 = 4;
/// Where a block's checksum is.
pub(crate) const CHECKSUM_AT: usize = 4092;
/// No tree is higher.
pub(crate) const DEPTH_MAX: u16 = 5;
/// Longest extent that is written.
pub(crate) const WRITTEN_MAX: u32 = 32_768;
/// Longest extent that is not.
pub(crate) const UNWRITTEN_MAX: u32 = 32_767;
/// One past the last block that a file may have.
pub(crate) const LOGICAL_END: u64 = 0xFFFF_FFFF;

const _: () = assert!(HEADER_BYTES + ENTRY_BYTES * ENTRIES_MAX as usize == CHECKSUM_AT);
const _: () = assert!(HEADER_BYTES + ENTRY_BYTES * ROOT_ENTRIES_MAX as usize == 60);

/// Consecutive blocks of a file that are consecutive on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) logical: u32,
    pub(crate) len: u32,
    pub(crate) physical: u64,
    pub(crate) is_unwritten: bool,
}

impl Extent {
    /// One past its last block of the file.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.len)
    }

    pub(crate) fn len_max(&self) -> u32 {
        if self.is_unwritten { UNWRITTEN_MAX } else { WRITTEN_MAX }
    }

    /// The part of it inside `first..end`.
    pub(crate) fn part(&self, first: u64, end: u64) -> Option<Self> {
        let from = first.max(u64::from(self.logical));
        let to = end.min(self.end());
        (from < to).then(|| Self {
            logical: from as u32,
            len: (to - from) as u32,
            physical: self.physical + (from - u64::from(self.logical)),
            is_unwritten: self.is_unwritten,
        })
    }

    /// Both as one, if `next` goes on where this ends.
    pub(crate) fn joined(&self, next: &Self) -> Option<Self> {
        let len = self.len + next.len;
        let goes_on = self.end() == u64::from(next.logical)
            && self.physical + u64::from(self.len) == next.physical
            && self.is_unwritten == next.is_unwritten
            && len <= self.len_max();
        goes_on.then_some(Self { len, ..*self })
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let len = if self.is_unwritten { self.len + WRITTEN_MAX } else { self.len };
        put(&mut bytes, 0, &self.logical.to_le_bytes());
        put(&mut bytes, 4, &(len as u16).to_le_bytes());
        put(&mut bytes, 6, &((self.physical >> 32) as u16).to_le_bytes());
        put(&mut bytes, 8, &(self.physical as u32).to_le_bytes());
        bytes
    }
}

/// A child of an index node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) logical: u32,
    pub(crate) block: u64,
}

impl Child {
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &self.logical.to_le_bytes());
        put(&mut bytes, 4, &(self.block as u32).to_le_bytes());
        put(&mut bytes, 8, &((self.block >> 32) as u16).to_le_bytes());
        bytes
    }
}

pub(crate) fn entries(node: &[u8]) -> usize {
    usize::from(u16_at(node, 2))
}

pub(crate) fn set_entries(node: &mut [u8], entries: usize) {
    put(node, 2, &(entries as u16).to_le_bytes());
}

pub(crate) fn entries_max(node: &[u8]) -> usize {
    usize::from(u16_at(node, 4))
}

pub(crate) fn depth(node: &[u8]) -> u16 {
    u16_at(node, 6)
}

/// An empty node.
pub(crate) fn format(node: &mut [u8], entries_max: u16, depth: u16) {
    node.fill(0);
    put(node, 0, &MAGIC.to_le_bytes());
    put(node, 4, &entries_max.to_le_bytes());
    put(node, 6, &depth.to_le_bytes());
}

fn offset(nth: usize) -> usize {
    HEADER_BYTES + nth * ENTRY_BYTES
}

/// First block of the file that the nth entry is about.
pub(crate) fn key(node: &[u8], nth: usize) -> u32 {
    u32_at(node, offset(nth))
}

pub(crate) fn set_key(node: &mut [u8], nth: usize, logical: u32) {
    put(node, offset(nth), &logical.to_le_bytes());
}

pub(crate) fn extent(node: &[u8], nth: usize) -> Extent {
    let at = offset(nth);
    let stored = u32::from(u16_at(node, at + 4));
    let is_unwritten = stored > WRITTEN_MAX;
    Extent {
        logical: u32_at(node, at),
        len: if is_unwritten { stored - WRITTEN_MAX } else { stored },
        physical: u64::from(u32_at(node, at + 8)) | u64::from(u16_at(node, at + 6)) << 32,
        is_unwritten,
    }
}

pub(crate) fn child(node: &[u8], nth: usize) -> Child {
    let at = offset(nth);
    Child {
        logical: u32_at(node, at),
        block: u64::from(u32_at(node, at + 4)) | u64::from(u16_at(node, at + 8)) << 32,
    }
}

/// One past the last block of the file that a node with entries is about, as far as it says.
pub(crate) fn end(node: &[u8]) -> u64 {
    let last = entries(node) - 1;
    if depth(node) == 0 { extent(node, last).end() } else { u64::from(key(node, last)) + 1 }
}

/// How many entries start at or before `logical`.
pub(crate) fn entries_up_to(node: &[u8], logical: u64) -> usize {
    let (mut low, mut high) = (0, entries(node));
    while low < high {
        let middle = low.midpoint(high);
        if u64::from(key(node, middle)) <= logical {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

pub(crate) fn replace(node: &mut [u8], nth: usize, entry: &[u8; ENTRY_BYTES]) {
    put(node, offset(nth), entry);
}

/// The caller knows that there is room.
pub(crate) fn insert(node: &mut [u8], nth: usize, entry: &[u8; ENTRY_BYTES]) {
    let count = entries(node);
    node.copy_within(offset(nth)..offset(count), offset(nth + 1));
    put(node, offset(nth), entry);
    set_entries(node, count + 1);
}

pub(crate) fn remove(node: &mut [u8], nth: usize) {
    let count = entries(node);
    node.copy_within(offset(nth + 1)..offset(count), offset(nth));
    node[offset(count - 1)..offset(count)].fill(0);
    set_entries(node, count - 1);
}

/// Moves the entries from the nth on to the end of `target`.
pub(crate) fn split_off(node: &mut [u8], nth: usize, target: &mut [u8]) {
    let (count, present) = (entries(node), entries(target));
    let moved = count - nth;
    target[offset(present)..offset(present + moved)]
        .copy_from_slice(&node[offset(nth)..offset(count)]);
    node[offset(nth)..offset(count)].fill(0);
    set_entries(node, nth);
    set_entries(target, present + moved);
}

/// Whether a node is one, as a sentence if not.
pub(crate) fn check(node: &[u8], is_root: bool, geometry: &Geometry) -> Result<(), String> {
    let (magic, max) = (u16_at(node, 0), entries_max(node));
    if magic != MAGIC {
        return Err(format!("expected the magic number f30a, found {magic:04x}"));
    }
    let expected_max = usize::from(if is_root { ROOT_ENTRIES_MAX } else { ENTRIES_MAX });
    let room = if max == 0 || max > expected_max { expected_max } else { max };
    let count = entries(node);
    if max != room || count > max {
        return Err(format!("expected up to {room} entries, found {count} of {max}"));
    }
    if depth(node) > DEPTH_MAX || (!is_root && count == 0) {
        return Err(format!("{count} entries at depth {}", depth(node)));
    }
    let is_leaf = depth(node) == 0;
    let mut free_from = 0_u64;
    for nth in 0..count {
        let logical = u64::from(key(node, nth));
        if logical < free_from {
            return Err(format!("entry {nth} starts at {logical}, expected {free_from} or later"));
        }
        let (start, len) = if is_leaf {
            let extent = extent(node, nth);
            (extent.physical, u64::from(extent.len))
        } else {
            (child(node, nth).block, 1)
        };
        let end = start.saturating_add(len);
        free_from = if is_leaf { logical + len } else { logical + 1 };
        if len == 0 || start == 0 || end > geometry.blocks || free_from > LOGICAL_END {
            return Err(format!("entry {nth} is {len} blocks at {start} for {logical}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_stored_in_these_bytes() {
        let extent = |is_unwritten| Extent {
            logical: 0x0102_0304,
            len: 5,
            physical: 0x0006_0708_090A,
            is_unwritten,
        };
        let bytes = [4, 3, 2, 1, 5, 0, 6, 0, 0x0A, 9, 8, 7];
        assert_eq!(extent(false).encode(), bytes);
        assert_eq!(extent(true).encode()[4..6], [5, 0x80]);
        let mut node = vec![0; 60];
        format(&mut node, ROOT_ENTRIES_MAX, 0);
        assert_eq!(node[..8], [0x0A, 0xF3, 0, 0, 4, 0, 0, 0]);
        insert(&mut node, 0, &extent(true).encode());
        assert_eq!(super::extent(&node, 0), self::extent_of(true));
        let child = Child { logical: 9, block: 0x1234_5678_9ABC };
        insert(&mut node, 1, &child.encode());
        assert_eq!(super::child(&node, 1), child);
    }

    fn extent_of(is_unwritten: bool) -> Extent {
        Extent { logical: 0x0102_0304, len: 5, physical: 0x0006_0708_090A, is_unwritten }
    }
}
