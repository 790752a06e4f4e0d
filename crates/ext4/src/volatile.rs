//! State that is in memory alone, noted so that another process can go on with it: changed blocks, and inodes without a name.
//!
//! A driver that turns noting on gets each changed block, and each inode that lives in memory, once per poll. The images lack
//! checksums: they belong to an [`Ext4`] that seals them ([`Ext4::put_back`], then [`Ext4::take_changes`]). Noting must never change what
//! an operation does.

use crate::Ext4;
use crate::cache::Kind;
use crate::error::{Outcome, corrupt};
use crate::extent_node::Extent;
use crate::geometry::INODE_BYTES;
use crate::inode::Inode;
use crate::orphan::Orphan;
use crate::types::{BlockBytes, Ino};
use crate::xattr_block::Xattr;
use std::collections::BTreeMap;

/// Longest encoded inode: more extents than a file that is freed at once has.
const ORPHAN_BYTES_MAX: usize = 16 << 20;

/// Contents of a metadata block, as [`NotedBlock`] carries it: a code, and what the block's checksum depends on.
pub type KindCode = [u32; 3];

/// A block that the running transaction changed.
#[derive(Clone, Debug)]
pub struct NotedBlock {
    /// Number of the block.
    pub block: u64,
    /// Contents, for its checksum.
    pub kind: KindCode,
    /// Bytes, without a valid checksum.
    pub bytes: BlockBytes,
}

/// Changes since the last poll.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Blocks of the running transaction.
    pub blocks: Vec<NotedBlock>,
    /// Inodes that live in memory, encoded; none for one that was released.
    pub orphans: Vec<(Ino, Option<Vec<u8>>)>,
}

fn code_of(kind: Kind) -> KindCode {
    match kind {
        Kind::Superblock => [0, 0, 0],
        Kind::Descriptors(nth) => [1, nth, 0],
        Kind::BlockBitmap(group) => [2, group, 0],
        Kind::InodeBitmap(group) => [3, group, 0],
        Kind::InodeTable => [4, 0, 0],
        Kind::Directory(ino, generation) => [5, ino, generation],
        Kind::Extents(ino, generation) => [6, ino, generation],
        Kind::Xattrs => [7, 0, 0],
        Kind::Link => [8, 0, 0],
    }
}

fn kind_of(code: KindCode) -> Option<Kind> {
    Some(match code {
        [0, ..] => Kind::Superblock,
        [1, nth, _] => Kind::Descriptors(nth),
        [2, group, _] => Kind::BlockBitmap(group),
        [3, group, _] => Kind::InodeBitmap(group),
        [4, ..] => Kind::InodeTable,
        [5, ino, generation] => Kind::Directory(ino, generation),
        [6, ino, generation] => Kind::Extents(ino, generation),
        [7, ..] => Kind::Xattrs,
        [8, ..] => Kind::Link,
        _ => return None,
    })
}

impl Ext4 {
    /// Notes changes from now on, for [`Ext4::poll_noted`].
    pub fn note_changes(&mut self) {
        self.cache.noted.get_or_insert_default();
        self.noted_orphans.get_or_insert_default();
    }

    /// Everything that operations changed since the last call. A block that is part of a record by now is left out: the record has it.
    pub fn poll_noted(&mut self) -> Noted {
        let mut numbers = self.cache.noted.as_mut().map(std::mem::take).unwrap_or_default();
        numbers.sort_unstable();
        numbers.dedup();
        let blocks = numbers.into_iter().filter_map(|block| {
            let slot = self.cache.peek(block).filter(|slot| slot.is_changed)?;
            Some(NotedBlock { block, kind: code_of(slot.kind?), bytes: slot.bytes.clone() })
        });
        let blocks = blocks.collect();
        let orphans = self.noted_orphans.as_mut().map(std::mem::take).unwrap_or_default();
        let encoded = |ino: Ino| (ino, self.orphans.get(&ino).map(encode));
        Noted { blocks, orphans: orphans.into_iter().map(encoded).collect() }
    }

    /// An inode that lives in memory, encoded.
    pub fn noted_orphan(&self, ino: Ino) -> Option<Vec<u8>> {
        self.orphans.get(&ino).map(encode)
    }

    /// Whether a block is changed and not part of a record yet.
    pub fn is_block_changed(&self, block: u64) -> bool {
        self.cache.peek(block).is_some_and(|slot| slot.is_changed)
    }

    /// Makes a noted block a part of the running transaction, as it is.
    pub fn put_back(&mut self, noted: NotedBlock) -> Outcome<()> {
        let NotedBlock { block, kind, bytes } = noted;
        let found = kind_of(kind).filter(|_| block < self.geometry.blocks);
        let Some(kind) = found else {
            return Err(corrupt(format!(
                "noted block {block}: expected a known kind, found {kind:?}"
            )));
        };
        self.cache.change(block, kind, bytes, true);
        Ok(())
    }

    /// Lets a noted inode live on in memory. The caller holds it already, and no block was allocated since the mount.
    pub fn put_back_orphan(&mut self, ino: Ino, encoded: &[u8]) -> Outcome<()> {
        let damaged = || corrupt(format!("noted inode {}: its encoding is damaged", ino.0));
        let orphan = decode(ino, encoded).ok_or_else(damaged)?;
        for extent in orphan.extents.values() {
            let range = extent.physical..extent.physical + u64::from(extent.len);
            if range.end > self.geometry.blocks || self.reserved.first_overlap(&range).is_some() {
                return Err(damaged());
            }
            self.reserved.insert(range.clone());
            self.busy.insert(range);
        }
        self.orphans.insert(ino, orphan);
        if let Some(noted) = &mut self.noted_orphans {
            noted.insert(ino);
        }
        Ok(())
    }

    /// Lets a file that never had a name get one again.
    pub fn put_back_nameless(&mut self, ino: Ino) {
        if self.parked.contains_key(&ino) {
            self.nameless.insert(ino);
        }
    }
}

fn encode(orphan: &Orphan) -> Vec<u8> {
    let mut bytes = orphan.inode.raw.to_vec();
    bytes.extend((orphan.extents.len() as u32).to_le_bytes());
    for extent in orphan.extents.values() {
        bytes.extend(extent.logical.to_le_bytes());
        bytes.extend(extent.len.to_le_bytes());
        bytes.extend(extent.physical.to_le_bytes());
        bytes.push(u8::from(extent.is_unwritten));
    }
    bytes.extend((orphan.xattrs.len() as u32).to_le_bytes());
    for xattr in &orphan.xattrs {
        bytes.push(xattr.prefix);
        push_bytes(&mut bytes, &xattr.name);
        push_bytes(&mut bytes, &xattr.value);
    }
    bytes.push(u8::from(orphan.target.is_some()));
    push_bytes(&mut bytes, orphan.target.as_deref().unwrap_or_default());
    bytes
}

fn push_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

/// Reader of an encoded inode; each read is checked.
struct Encoded<'a>(&'a [u8]);

impl<'a> Encoded<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = self.u32()?;
        self.take(len as usize).map(<[u8]>::to_vec)
    }
}

fn decode(ino: Ino, encoded: &[u8]) -> Option<Orphan> {
    let mut from = Encoded(encoded.get(..encoded.len().min(ORPHAN_BYTES_MAX))?);
    let inode = Inode { ino, raw: from.array::<INODE_BYTES>()?, is_in_memory: true };
    let mut extents = BTreeMap::new();
    for _ in 0..from.u32()? {
        let (logical, len) = (from.u32()?, from.u32()?);
        let physical = u64::from_le_bytes(from.array()?);
        let is_unwritten = from.array() == Some([1]);
        physical.checked_add(u64::from(len))?;
        extents.insert(logical, Extent { logical, len, physical, is_unwritten });
    }
    let mut xattrs = Vec::new();
    for _ in 0..from.u32()? {
        let [prefix] = from.array()?;
        xattrs.push(Xattr { prefix, name: from.bytes()?, value: from.bytes()? });
    }
    let has_target = from.array() == Some([1]);
    let target = from.bytes()?;
    Some(Orphan { inode, extents, xattrs, target: has_target.then_some(target) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan() -> Orphan {
        let extent = Extent { logical: 3, len: 5, physical: 1 << 33, is_unwritten: true };
        let xattr = Xattr { prefix: 1, name: b"name".to_vec(), value: vec![7; 300] };
        Orphan {
            inode: Inode { ino: Ino(12), raw: [9; INODE_BYTES], is_in_memory: true },
            extents: BTreeMap::from([(3, extent)]),
            xattrs: vec![xattr],
            target: Some(b"target".to_vec()),
        }
    }

    #[test]
    fn an_encoded_inode_is_decoded_as_it_was() {
        for target in [None, Some(b"target".to_vec())] {
            let orphan = Orphan { target, ..orphan() };
            let found = decode(Ino(12), &encode(&orphan)).unwrap();
            assert_eq!(format!("{found:?}"), format!("{orphan:?}"));
        }
    }

    #[test]
    fn a_cut_encoding_is_refused() {
        let encoded = encode(&orphan());
        for len in 0..encoded.len() {
            assert!(decode(Ino(12), &encoded[..len]).is_none(), "{len} bytes");
        }
    }

    #[test]
    fn every_kind_survives_its_code() {
        for code in 0..9 {
            let code = [code, 8, 9];
            let kind = kind_of(code).unwrap();
            assert_eq!(kind_of(code_of(kind)), Some(kind));
        }
        assert_eq!(kind_of([9, 0, 0]), None);
    }
}
