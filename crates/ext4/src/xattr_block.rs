//! How extended attributes lie in the end of an inode and in a block of their own.
//!
//! ```text
//!  inode: | magic 4 | entries .. 0 0 0 0 | room | values |
//!  block: | magic 4 | references 4 | blocks 4 | hash 4 | checksum 4 | 0 .. 32 | entries .. 0 0 0 0 | room | values |
//!  entry: | name len 1 | prefix 1 | value at 2 | inode 4 | value len 4 | hash 4 | name, padded to 4 |
//! ```
//!
//! Values count from the first entry in an inode, and from the start of a block. Both are decoded whole and written whole,
//! so that no room is ever lost between values. Entries of a block are in order of prefix, length and name, as the kernel
//! searches them.

use crate::types::BLOCK_BYTES;
use nearhead_basics::little_endian::{put, u16_at, u32_at};

pub(crate) const MAGIC: u32 = 0xEA02_0000;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;
pub(crate) const CHECKSUM_AT: usize = 16;

/// One attribute; the prefix of its name is a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Xattr {
    pub(crate) prefix: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Xattr {
    /// What it takes of an area.
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.name.len().next_multiple_of(4) + self.value.len().next_multiple_of(4)
    }
}

/// Whether a block is one, as a sentence if not.
pub(crate) fn check(block: &[u8]) -> Result<(), String> {
    let (magic, blocks) = (u32_at(block, 0), u32_at(block, 8));
    if magic != MAGIC || blocks != 1 || u32_at(block, 4) == 0 {
        return Err(format!(
            "expected the magic number ea020000 and 1 block, found {magic:08x} and {blocks}"
        ));
    }
    decode(block, HEADER_BYTES, 0).map(|_| ())
}

pub(crate) fn stored_checksum(block: &[u8]) -> u32 {
    u32_at(block, CHECKSUM_AT)
}

/// How many inodes share the block.
pub(crate) fn references(block: &[u8]) -> u32 {
    u32_at(block, 4)
}

pub(crate) fn set_references(block: &mut [u8], references: u32) {
    put(block, 4, &references.to_le_bytes());
}

/// The attributes of a block that was checked.
pub(crate) fn of_block(block: &[u8]) -> Result<Vec<Xattr>, String> {
    decode(block, HEADER_BYTES, 0)
}

/// The attributes in the end of an inode.
pub(crate) fn of_inode(area: &[u8]) -> Result<Vec<Xattr>, String> {
    if u32_at(area, 0) == MAGIC { decode(area, 4, 4) } else { Ok(Vec::new()) }
}

/// Entries from `first` on; values count from `base`.
fn decode(area: &[u8], first: usize, base: usize) -> Result<Vec<Xattr>, String> {
    let mut found = Vec::new();
    let mut at = first;
    loop {
        if at + 4 > area.len() {
            return Err("entries of attributes have no end".to_owned());
        }
        if u32_at(area, at) == 0 {
            return Ok(found);
        }
        let name_end = at + ENTRY_BYTES + usize::from(area[at]);
        if name_end > area.len() {
            return Err(format!("attribute at {at}: expected a name inside the area"));
        }
        let (offset, len) = (usize::from(u16_at(area, at + 2)), u32_at(area, at + 8) as usize);
        let start = base + offset;
        let value = start.checked_add(len).and_then(|end| area.get(start..end));
        let value = if len == 0 { Some(&area[..0]) } else { value };
        let (Some(value), 0) = (value, u32_at(area, at + 4)) else {
            return Err(format!(
                "attribute at {at}: expected a value inside the area, found {len} \
                 bytes at {offset}"
            ));
        };
        found.push(Xattr {
            prefix: area[at + 1],
            name: area[at + ENTRY_BYTES..name_end].to_vec(),
            value: value.to_vec(),
        });
        at = name_end.next_multiple_of(4);
    }
}

/// How many bytes of attributes an area in an inode has room for.
pub(crate) fn inode_room(area_bytes: usize) -> usize {
    area_bytes.saturating_sub(8)
}

/// How many bytes of attributes a block has room for.
pub(crate) const BLOCK_ROOM: usize = BLOCK_BYTES - HEADER_BYTES - 4;

/// Divides attributes: those that fit into the inode, and the others, if those fit into a block.
pub(crate) fn divide(xattrs: &[Xattr], area_bytes: usize) -> Option<(Vec<Xattr>, Vec<Xattr>)> {
    let mut rest = inode_room(area_bytes);
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for xattr in xattrs {
        if xattr.bytes() <= rest {
            rest -= xattr.bytes();
            inside.push(xattr.clone());
        } else {
            outside.push(xattr.clone());
        }
    }
    let bytes: usize = outside.iter().map(Xattr::bytes).sum();
    outside
        .sort_by(|a, b| (a.prefix, a.name.len(), &a.name).cmp(&(b.prefix, b.name.len(), &b.name)));
    (bytes <= BLOCK_ROOM).then_some((inside, outside))
}

/// Writes attributes into the end of an inode; all zeros if there are none.
pub(crate) fn into_inode(area: &mut [u8], xattrs: &[Xattr]) {
    area.fill(0);
    if !xattrs.is_empty() {
        put(area, 0, &MAGIC.to_le_bytes());
        encode(area, 4, 4, xattrs);
    }
}

/// Writes attributes into a block that one inode has.
pub(crate) fn into_block(block: &mut [u8], xattrs: &[Xattr]) {
    block.fill(0);
    put(block, 0, &MAGIC.to_le_bytes());
    set_references(block, 1);
    put(block, 8, &1_u32.to_le_bytes());
    let hashes = encode(block, HEADER_BYTES, 0, xattrs);
    let has_all = hashes.iter().all(|hash| *hash != 0);
    let all = hashes.iter().fold(0_u32, |all, hash| all.rotate_left(16) ^ hash);
    put(block, 12, &(if has_all { all } else { 0 }).to_le_bytes());
}

/// Gives the hash of each entry.
fn encode(area: &mut [u8], first: usize, base: usize, xattrs: &[Xattr]) -> Vec<u32> {
    let (mut at, mut value_at) = (first, area.len());
    let mut hashes = Vec::new();
    for xattr in xattrs {
        value_at -= xattr.value.len().next_multiple_of(4);
        put(area, value_at, &xattr.value);
        let hash = hash(xattr);
        let offset = if xattr.value.is_empty() { 0 } else { value_at - base };
        area[at] = xattr.name.len() as u8;
        area[at + 1] = xattr.prefix;
        put(area, at + 2, &(offset as u16).to_le_bytes());
        put(area, at + 8, &(xattr.value.len() as u32).to_le_bytes());
        put(area, at + 12, &hash.to_le_bytes());
        put(area, at + ENTRY_BYTES, &xattr.name);
        at += ENTRY_BYTES + xattr.name.len().next_multiple_of(4);
        hashes.push(hash);
    }
    hashes
}

/// By which the kernel finds blocks that could be shared.
fn hash(xattr: &Xattr) -> u32 {
    let name = xattr.name.iter().fold(0_u32, |hash, byte| hash.rotate_left(5) ^ u32::from(*byte));
    xattr.value.chunks(4).fold(name, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xattr(name: &str, value: &[u8]) -> Xattr {
        Xattr { prefix: 1, name: name.into(), value: value.into() }
    }

    #[test]
    fn attributes_come_back_from_an_inode_and_from_a_block() {
        let small = vec![xattr("a", b"1"), xattr("name", b""), xattr("b", b"12345")];
        let mut area = [0xFF; 96];
        into_inode(&mut area, &small);
        assert_eq!(of_inode(&area), Ok(small.clone()));
        into_inode(&mut area, &[]);
        assert_eq!(area, [0; 96]);
        assert_eq!(of_inode(&area), Ok(Vec::new()));
        let large = vec![xattr("x", &[7; 3000]), xattr("yy", &[8; 900])];
        let (inside, outside) = divide(&[large.clone(), small.clone()].concat(), 96).unwrap();
        assert_eq!((inside, &outside), (small, &large));
        let mut block = [0; BLOCK_BYTES];
        into_block(&mut block, &outside);
        assert_eq!(check(&block), Ok(()));
        assert_eq!(of_block(&block), Ok(large));
        assert!(divide(&[xattr("x", &[0; 4036]), xattr("y", &[0; 80])], 96).is_none());
        assert!(divide(&[xattr("x", &[0; 4036])], 96).is_some());
    }

    #[test]
    fn an_attribute_is_stored_in_these_bytes() {
        let mut area = [0; 48];
        into_inode(&mut area, &[xattr("ab", b"xyz")]);
        let hash = ((u32::from(b'a') << 5) ^ u32::from(b'b')).rotate_left(16) ^ 0x007A_7978;
        assert_eq!(area[..8], [0, 0, 2, 0xEA, 2, 1, 40, 0]);
        assert_eq!(area[8..16], [0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(area[16..20], hash.to_le_bytes());
        assert_eq!(area[20..24], [b'a', b'b', 0, 0]);
        assert_eq!(area[44..48], [b'x', b'y', b'z', 0]);
    }
}
