//! Names that go, and inodes that go with their last one.
//!
//! On disk an inode without a name never exists: with its last name it is freed, with all its blocks, in the same
//! transaction. If somebody holds it, it lives on in memory. If freeing it would touch too much at once, it gets a name of
//! ours instead (see [`crate::parked`]).

use crate::Ext4;
use crate::attributes::check_removable;
use crate::cache::Kind;
use crate::directory::check_own_name;
use crate::error::{Errno, Outcome, fail};
use crate::extent_node::{Extent, LOGICAL_END};
use crate::index::IndexChange;
use crate::inode::{Inode, Time};
use crate::orphan::Orphan;
use crate::transaction::Transaction;
use crate::types::{Caller, FileKind, Ino, Removed, Timestamp};
use std::collections::BTreeSet;

/// Metadata blocks that the removal of one inode may touch.
const BLOCKS_TOUCHED_MAX: usize = 128;
/// Blocks of an extent tree among them.
const NODES_MAX: usize = 64;

impl Ext4 {
    /// Takes a name from an inode that is no directory.
    pub fn unlink(&mut self, parent: Ino, name: &[u8], caller: &Caller) -> Outcome<Removed> {
        self.run_change(caller, |transaction| {
            check_own_name(name, Errno::Invalid)?;
            let mut directory = transaction.living_directory(parent)?;
            let found = transaction.must_find(&directory, name)?;
            let inode = transaction.inode_of_entry(parent, found.ino)?;
            check_removable(&directory)?;
            check_removable(&inode)?;
            if inode.is_directory() {
                let name = String::from_utf8_lossy(name);
                return Err(fail(Errno::IsDirectory, format!("{name:?} is a directory")));
            }
            transaction.remove_name(&mut directory, name, &found, caller.now)?;
            transaction.put_inode(&directory)?;
            transaction.lose_name(inode, caller.now)
        })
    }

    /// Removes an empty directory.
    pub fn remove_directory(
        &mut self,
        parent: Ino,
        name: &[u8],
        caller: &Caller,
    ) -> Outcome<Removed> {
        self.run_change(caller, |transaction| {
            let own = if name == b".." { Errno::NotEmpty } else { Errno::Invalid };
            check_own_name(name, own)?;
            let mut directory = transaction.living_directory(parent)?;
            let found = transaction.must_find(&directory, name)?;
            let inode = transaction.inode_of_entry(parent, found.ino)?;
            check_removable(&directory)?;
            check_removable(&inode)?;
            transaction.check_empty_directory(&inode, name)?;
            transaction.remove_name(&mut directory, name, &found, caller.now)?;
            transaction.lose_directory(&mut directory);
            transaction.put_inode(&directory)?;
            transaction.lose_name(inode, caller.now)
        })
    }
}

impl Transaction<'_> {
    /// What may be removed as a directory.
    pub(crate) fn check_empty_directory(&mut self, inode: &Inode, name: &[u8]) -> Outcome<()> {
        let name = String::from_utf8_lossy(name);
        if !inode.is_directory() {
            return Err(fail(Errno::NotDirectory, format!("{name:?} is no directory")));
        }
        if !self.is_empty_directory(inode)? {
            return Err(fail(Errno::NotEmpty, format!("directory {name:?} is not empty")));
        }
        Ok(())
    }

    /// One name less; with the last one the inode goes. A directory goes at once.
    pub(crate) fn lose_name(&mut self, mut inode: Inode, now: Timestamp) -> Outcome<Removed> {
        let ino = inode.ino;
        inode.set_time(Time::Changed, now);
        if !inode.is_directory() && inode.links() > 1 {
            inode.set_links(inode.links() - 1);
            self.put_inode(&inode)?;
            return Ok(Removed { ino, is_gone: false });
        }
        self.remove_inode(inode, now)?;
        Ok(Removed { ino, is_gone: true })
    }

    /// Frees an inode and all that it has, or keeps it where it can be freed later.
    pub(crate) fn remove_inode(&mut self, inode: Inode, now: Timestamp) -> Outcome<()> {
        let kind = inode.kind();
        if kind == Some(FileKind::Directory) {
            self.move_parked_names(inode.ino, now)?;
        }
        let has_extents = match kind {
            Some(FileKind::Regular | FileKind::Directory) => true,
            Some(FileKind::Symlink) => !inode.is_short_link(),
            _ => false,
        };
        let is_file = kind == Some(FileKind::Regular);
        let (mut nodes, mut extents) = (Vec::new(), Vec::new());
        if has_extents {
            let nodes_max = if is_file { NODES_MAX } else { usize::MAX };
            match self.tree_blocks(&inode, nodes_max)? {
                Some(blocks) => nodes = blocks,
                None => return self.park(inode, now),
            }
            extents = self.extents_in(&inode, 0, LOGICAL_END, usize::MAX)?;
            if is_file && self.blocks_touched(&nodes, &extents) > BLOCKS_TOUCHED_MAX {
                return self.park(inode, now);
            }
        }
        if self.fs.is_held(inode.ino) {
            self.keep_in_memory(&inode, &extents)?;
        }
        let is_kept = is_file && self.fs.is_held(inode.ino);
        for extent in &extents {
            let range = extent.physical..extent.physical + u64::from(extent.len);
            if is_kept {
                self.free_but_reserve(range)?;
                continue;
            }
            if !is_file {
                range.clone().for_each(|block| self.forget(block));
            }
            self.free_blocks(range, false)?;
        }
        for block in nodes {
            self.free_blocks(block..block + 1, false)?;
            self.forget(block);
        }
        let mut inode = inode;
        self.drop_xattr_block(&mut inode)?;
        if inode.is_directory() {
            self.index_changes.push(IndexChange::Drop { directory: inode.ino.0 });
        }
        self.free_inode(&inode, now)
    }

    /// Bitmaps and descriptors of the groups that blocks are in, and an inode, its bitmap and its group.
    fn blocks_touched(&self, nodes: &[u64], extents: &[Extent]) -> usize {
        let mut groups = BTreeSet::new();
        groups.extend(nodes.iter().map(|block| self.fs.geometry.group_of(*block)));
        for extent in extents {
            let last = extent.physical + u64::from(extent.len) - 1;
            let (first, last) = (extent.physical, last);
            groups.extend(self.fs.geometry.group_of(first)..=self.fs.geometry.group_of(last));
        }
        let descriptors: BTreeSet<u32> = groups.iter().map(|group| group / 64).collect();
        groups.len() + descriptors.len() + 4
    }

    /// The inode as it lives on while it is held.
    fn keep_in_memory(&mut self, inode: &Inode, extents: &[Extent]) -> Outcome<()> {
        let is_file = inode.kind() == Some(FileKind::Regular);
        let xattrs = self.xattrs_of(inode)?;
        let target = match inode.kind() {
            Some(FileKind::Symlink) => Some(self.target_of(inode)?),
            _ => None,
        };
        let mut kept = inode.clone();
        kept.is_in_memory = true;
        kept.set_links(0);
        kept.set_xattr_block(0);
        let mut by_place = std::collections::BTreeMap::new();
        if is_file {
            by_place.extend(extents.iter().map(|extent| (extent.logical, *extent)));
        }
        let blocks: u64 = by_place.values().map(|extent: &Extent| u64::from(extent.len)).sum();
        kept.add_blocks(blocks as i64 - (kept.blocks_512() / 8) as i64);
        let orphan = Orphan { inode: kept, extents: by_place, xattrs, target };
        self.orphans.insert(inode.ino, orphan);
        Ok(())
    }

    /// The inode no longer has its block of attributes.
    pub(crate) fn drop_xattr_block(&mut self, inode: &mut Inode) -> Outcome<()> {
        let block = inode.xattr_block();
        if block == 0 {
            return Ok(());
        }
        let bytes = self.read(block, Kind::Xattrs)?;
        let references = crate::xattr_block::references(&*bytes);
        if references > 1 {
            let bytes = self.change(block, Kind::Xattrs)?;
            crate::xattr_block::set_references(bytes.as_mut_slice(), references - 1);
        } else {
            self.free_blocks(block..block + 1, false)?;
            self.forget(block);
        }
        inode.set_xattr_block(0);
        inode.add_blocks(-1);
        Ok(())
    }
}
