//! A block of directory entries: walk, find room, insert, remove.
//!
//! ```text
//!  0       4        6        7      8
//!  | inode | length | name   | kind | name .. padding to a multiple of 4, and room
//!  last 12 bytes with metadata_csum: | 0 | 12 | 0 | DE | checksum |
//! ```
//!
//! Entries follow each other to the end of the block: an entry's length includes the room behind its name, and inode 0 says
//! that the whole entry is room. [`check`] is the gate; everything else trusts it. Entries never move, so that a position in
//! a directory stays good while other entries come and go.

use crate::checksum::Sums;
use crate::geometry::Geometry;
use crate::types::{BLOCK_BYTES, FileKind};
use nearhead_basics::little_endian::{put, u16_at, u32_at};

/// Where the tail with the checksum starts.
pub(crate) const TAIL_AT: usize = BLOCK_BYTES - 12;
pub(crate) const CHECKSUM_AT: usize = BLOCK_BYTES - 4;
const TAIL: [u8; 8] = [0, 0, 0, 0, 12, 0, 0, 0xDE];
const HEADER_BYTES: usize = 8;

/// Where entries end.
pub(crate) fn end(geometry: &Geometry) -> usize {
    if geometry.sums == Sums::All { TAIL_AT } else { BLOCK_BYTES }
}

/// What an entry takes at least.
pub(crate) fn bytes_for(name_bytes: usize) -> usize {
    (HEADER_BYTES + name_bytes).next_multiple_of(4)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) at: usize,
    pub(crate) ino: u32,
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
}

impl Entry<'_> {
    /// What it does not need of its length.
    fn room(&self) -> usize {
        if self.ino == 0 { self.len } else { self.len - bytes_for(self.name.len()) }
    }
}

/// The entry at a position where one starts.
pub(crate) fn entry(block: &[u8], at: usize) -> Entry<'_> {
    let name_bytes = usize::from(block[at + 6]);
    Entry {
        at,
        ino: u32_at(block, at),
        len: usize::from(u16_at(block, at + 4)),
        kind: block[at + 7],
        name: &block[at + HEADER_BYTES..at + HEADER_BYTES + name_bytes],
    }
}

/// All of a block, those that are room too.
pub(crate) fn entries(block: &[u8], end: usize) -> impl Iterator<Item = Entry<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let entry = (at < end).then(|| entry(block, at))?;
        at += entry.len;
        Some(entry)
    })
}

/// An entry that starts exactly there and is in use.
pub(crate) fn used_at(block: &[u8], end: usize, at: usize) -> Option<Entry<'_>> {
    (at < end).then(|| entry(block, at)).filter(|entry| entry.ino != 0)
}

/// Whether it is a block of entries, as a sentence if not.
pub(crate) fn check(block: &[u8], geometry: &Geometry) -> Result<(), String> {
    let end = end(geometry);
    if end == TAIL_AT && block[TAIL_AT..TAIL_AT + 8] != TAIL {
        return Err("expected a tail with a checksum, found none".to_owned());
    }
    let mut at = 0;
    while at < end {
        if at + HEADER_BYTES > end {
            return Err(format!("entry at {at}: expected an end at {end}"));
        }
        let (ino, len) = (u32_at(block, at), usize::from(u16_at(block, at + 4)));
        let name_bytes = usize::from(block[at + 6]);
        let least = bytes_for(if ino == 0 { 1 } else { name_bytes.max(1) });
        if len < least || len % 4 != 0 || at + len > end || HEADER_BYTES + name_bytes > len {
            return Err(format!(
                "entry at {at}: expected {least} to {} bytes, a multiple of 4, found {len}",
                end - at
            ));
        }
        let entry = entry(block, at);
        if ino != 0 && (name_bytes == 0 || entry.name.iter().any(|b| matches!(b, 0 | b'/'))) {
            return Err(format!("entry at {at}: expected a name, found {:?}", entry.name));
        }
        if ino > geometry.inodes {
            let max = geometry.inodes;
            return Err(format!("entry at {at}: expected an inode up to {max}, found {ino}"));
        }
        at += len;
    }
    Ok(())
}

/// A block that is all room.
pub(crate) fn format(block: &mut [u8], geometry: &Geometry) {
    block.fill(0);
    let end = end(geometry);
    put(block, 4, &(end as u16).to_le_bytes());
    if end == TAIL_AT {
        put(block, TAIL_AT, &TAIL);
    }
}

/// The first block of a directory.
pub(crate) fn format_first(block: &mut [u8], geometry: &Geometry, ino: u32, parent: u32) {
    format(block, geometry);
    let end = end(geometry);
    write(block, 0, 12, ino, FileKind::Directory, b".");
    write(block, 12, end - 12, parent, FileKind::Directory, b"..");
}

fn write(block: &mut [u8], at: usize, len: usize, ino: u32, kind: FileKind, name: &[u8]) {
    put(block, at, &ino.to_le_bytes());
    put(block, at + 4, &(len as u16).to_le_bytes());
    block[at + 6] = name.len() as u8;
    block[at + 7] = kind.entry_byte();
    put(block, at + HEADER_BYTES, name);
    let (from, to) = (at + HEADER_BYTES + name.len(), at + bytes_for(name.len()));
    block[from..to].fill(0);
}

/// The largest entry that there is room for, in bytes.
pub(crate) fn room(block: &[u8], end: usize) -> usize {
    entries(block, end).map(|entry| entry.room()).max().unwrap_or(0)
}

/// Puts an entry where there is room; says where it is.
pub(crate) fn insert(
    block: &mut [u8],
    end: usize,
    ino: u32,
    kind: FileKind,
    name: &[u8],
) -> Option<usize> {
    let needed = bytes_for(name.len());
    let place = entries(block, end).find(|entry| entry.room() >= needed)?;
    let (mut at, mut len) = (place.at, place.len);
    if place.ino != 0 {
        let own = bytes_for(place.name.len());
        put(block, at + 4, &(own as u16).to_le_bytes());
        (at, len) = (at + own, len - own);
    }
    write(block, at, len, ino, kind, name);
    Some(at)
}

/// Makes the entry at `at` room: of the entry before it, or of itself if it is the first.
pub(crate) fn remove(block: &mut [u8], end: usize, at: usize) {
    let before = entries(block, end).take_while(|entry| entry.at < at).last();
    let before = before.map(|entry| (entry.at, entry.len));
    let len = entry(block, at).len;
    if let Some((before, before_len)) = before {
        put(block, before + 4, &((before_len + len) as u16).to_le_bytes());
        block[at..at + len].fill(0);
    } else {
        block[at..at + 4].fill(0);
        block[at + 6..at + len].fill(0);
    }
}

/// Lets the entry at `at` lead somewhere else.
pub(crate) fn redirect(block: &mut [u8], at: usize, ino: u32, kind: FileKind) {
    put(block, at, &ino.to_le_bytes());
    block[at + 7] = kind.entry_byte();
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;
    use std::collections::BTreeMap;

    #[test]
    fn a_block_holds_what_was_put_in_and_not_taken_out_and_nothing_moves() {
        let end = TAIL_AT;
        let mut block = vec![0; BLOCK_BYTES];
        put(&mut block, 4, &(end as u16).to_le_bytes());
        let mut random = SplitMix::new(9);
        let mut model: BTreeMap<Vec<u8>, (u32, usize)> = BTreeMap::new();
        for step in 1..20_000_u32 {
            if random.below(100) < 52 {
                let bytes_max = random.below(255) + 1;
                let bytes = 1 + random.below(bytes_max) as usize;
                let name: Vec<u8> = format!("{step:0bytes$}").into_bytes();
                let has_room = room(&block, end) >= bytes_for(name.len());
                let at = insert(&mut block, end, step, FileKind::Fifo, &name);
                assert_eq!(at.is_some(), has_room);
                model.extend(at.map(|at| (name, (step, at))));
            } else if !model.is_empty() {
                let nth = random.below(model.len() as u64) as usize;
                let name = model.keys().nth(nth).unwrap().clone();
                let (_, at) = model.remove(&name).unwrap();
                remove(&mut block, end, at);
            }
            let used = entries(&block, end).filter(|entry| entry.ino != 0);
            let found: BTreeMap<_, _> =
                used.map(|entry| (entry.name.to_vec(), (entry.ino, entry.at))).collect();
            assert_eq!(found, model);
        }
    }

    #[test]
    fn an_entry_is_stored_in_these_bytes() {
        let mut block = vec![0; BLOCK_BYTES];
        put(&mut block, 4, &4096_u16.to_le_bytes());
        insert(&mut block, BLOCK_BYTES, 0x0102, FileKind::Symlink, b"abcde");
        assert_eq!(block[..16], [2, 1, 0, 0, 0, 0x10, 5, 7, b'a', b'b', b'c', b'd', b'e', 0, 0, 0]);
    }
}
