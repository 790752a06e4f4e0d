//! Where inodes are, and whether what is there is one.
//!
//! An inode is looked at whenever it is read: it must be in use, bear the checksum of its own number, be of a kind and have
//! no flag that nothing here understands. It gets its checksum when it is put back.

use crate::cache::Kind;
use crate::checksum::Sums;
use crate::error::{Errno, Outcome, Stop, corrupt, fail};
use crate::extent_node;
use crate::geometry::{INODE_BYTES, INODES_PER_BLOCK};
use crate::group::INODE_UNINIT;
use crate::inode::{EXTENTS_FLAG, INDEX_FLAG, Inode};
use crate::transaction::Transaction;
use crate::types::{FileKind, Ino, ROOT};

/// Blocks of an inode table that are wanted at once.
const TABLE_BLOCKS_AT_ONCE: u32 = 8;

/// Where an inode is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InodePlace {
    pub(crate) group: u32,
    /// In the group, from 0.
    pub(crate) index: u32,
    pub(crate) block: u64,
    pub(crate) at: usize,
}

fn no_inode(ino: Ino) -> Stop {
    fail(Errno::NoEntry, format!("inode {} is not in use", ino.0))
}

impl Transaction<'_> {
    pub(crate) fn place_of_inode(&mut self, ino: Ino) -> Outcome<InodePlace> {
        if !self.fs.geometry.has_ino(ino.0) {
            return Err(no_inode(ino));
        }
        let per_group = self.fs.geometry.inodes_per_group;
        let (group, index) = ((ino.0 - 1) / per_group, (ino.0 - 1) % per_group);
        let table = self.descriptor(group)?.inode_table;
        Ok(InodePlace {
            group,
            index,
            block: table + u64::from(index / INODES_PER_BLOCK),
            at: (index % INODES_PER_BLOCK) as usize * INODE_BYTES,
        })
    }

    /// An inode that is in use.
    pub(crate) fn inode(&mut self, ino: Ino) -> Outcome<Inode> {
        if let Some(orphan) = self.orphan(ino) {
            return Ok(orphan.inode.clone());
        }
        if ino.0 < self.fs.geometry.first_ino && ino != ROOT {
            return Err(no_inode(ino));
        }
        let place = self.place_of_inode(ino)?;
        let descriptor = self.descriptor(place.group)?;
        let used = self.fs.geometry.inodes_per_group - descriptor.unused_inodes;
        let is_uninit = descriptor.flags & INODE_UNINIT != 0;
        if is_uninit || place.index >= used {
            return Err(no_inode(ino));
        }
        if !self.has(place.block) {
            return Err(self.table_blocks_around(&place, used));
        }
        let bytes = self.read(place.block, Kind::InodeTable)?;
        let mut raw = [0; INODE_BYTES];
        raw.copy_from_slice(&bytes[place.at..place.at + INODE_BYTES]);
        let inode = Inode { ino, raw, is_in_memory: false };
        if inode.mode() == 0 || inode.links() == 0 {
            return Err(no_inode(ino));
        }
        self.check_inode(&inode, place.block)?;
        Ok(inode)
    }

    /// Who looks at one inode looks at its neighbours next, as a listing does; a disk reads them all in one turn.
    fn table_blocks_around(&self, place: &InodePlace, used: u32) -> Stop {
        let nth = place.index / INODES_PER_BLOCK;
        let first = nth - nth % TABLE_BLOCKS_AT_ONCE;
        let end = used.div_ceil(INODES_PER_BLOCK).min(first + TABLE_BLOCKS_AT_ONCE);
        let blocks =
            (first..end.max(nth + 1)).map(|other| place.block - u64::from(nth) + u64::from(other));
        Stop::Wants(blocks.filter(|block| !self.has(*block)).collect())
    }

    fn check_inode(&self, inode: &Inode, block: u64) -> Outcome<()> {
        let geometry = &self.fs.geometry;
        let wrong = |text: String| corrupt(format!("block {block}: inode {}: {text}", inode.ino.0));
        if geometry.sums == Sums::All {
            let (stored, mask) = inode.stored_checksum();
            let expected = inode.checksum(geometry) & mask;
            if expected != stored {
                return Err(wrong(format!("expected checksum {expected:08x}, found {stored:08x}")));
            }
        }
        let Some(kind) = inode.kind() else {
            return Err(wrong(format!("expected a kind, found mode {:o}", inode.mode())));
        };
        let unknown = inode.unknown_flags();
        if kind == FileKind::Directory && inode.has_flag(INDEX_FLAG) {
            let text = format!(
                "directory {} has an index, which is not supported; take the feature away with \
                 `tune2fs -O ^dir_index`, then run `e2fsck -fD`",
                inode.ino.0
            );
            return Err(fail(Errno::NotSupported, text));
        }
        if unknown != 0 {
            return Err(fail(
                Errno::NotSupported,
                format!(
                    "inode {} has flags that are not supported: {unknown:#x}; copy it with a \
                     program that knows them",
                    inode.ino.0
                ),
            ));
        }
        let has_blocks = match kind {
            FileKind::Regular | FileKind::Directory => true,
            FileKind::Symlink => !inode.is_short_link(),
            _ => false,
        };
        if has_blocks && !inode.has_flag(EXTENTS_FLAG) {
            return Err(fail(
                Errno::NotSupported,
                format!(
                    "inode {} has no extents; `e2fsck -E bmap2extent` gives it some",
                    inode.ino.0
                ),
            ));
        }
        if has_blocks {
            extent_node::check(inode.content(), true, geometry).map_err(wrong)?;
        }
        Ok(())
    }

    /// The inode that an entry leads to: it must be in use.
    pub(crate) fn inode_of_entry(&mut self, directory: Ino, ino: Ino) -> Outcome<Inode> {
        self.inode(ino).map_err(|stop| match stop {
            Stop::Fails(error) if error.errno == Errno::NoEntry => corrupt(format!(
                "directory {}: expected entries that lead to inodes in use, found inode {}",
                directory.0, ino.0
            )),
            stop => stop,
        })
    }

    /// A directory that has a name.
    pub(crate) fn directory_inode(&mut self, ino: Ino) -> Outcome<Inode> {
        let inode = self.inode(ino)?;
        if inode.kind() != Some(FileKind::Directory) {
            return Err(fail(Errno::NotDirectory, format!("inode {} is no directory", ino.0)));
        }
        Ok(inode)
    }

    /// The same, to put names into it.
    pub(crate) fn living_directory(&mut self, ino: Ino) -> Outcome<Inode> {
        let inode = self.directory_inode(ino)?;
        if inode.is_in_memory {
            return Err(fail(Errno::NoEntry, format!("directory {} was removed", ino.0)));
        }
        Ok(inode)
    }

    pub(crate) fn put_inode(&mut self, inode: &Inode) -> Outcome<()> {
        if inode.is_in_memory {
            if let Some(orphan) = self.orphan_mut(inode.ino) {
                orphan.inode = inode.clone();
            }
            return Ok(());
        }
        let place = self.place_of_inode(inode.ino)?;
        let mut sealed = inode.clone();
        sealed.seal(&self.fs.geometry);
        let present = self.read(place.block, Kind::InodeTable)?;
        // Nothing changes: a record need not bring it, nor the superblock for its sake.
        if present[place.at..place.at + INODE_BYTES] == sealed.raw[..] {
            return Ok(());
        }
        let block = self.change(place.block, Kind::InodeTable)?;
        block[place.at..place.at + INODE_BYTES].copy_from_slice(&sealed.raw);
        Ok(())
    }
}
