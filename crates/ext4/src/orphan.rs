//! Inodes that lost their last name while somebody holds them: gone on disk, alive in memory.
//!
//! Their blocks are free on disk and reserved here; so is their number. Nothing of them is ever written but their data.

use crate::extent_node::Extent;
use crate::inode::Inode;
use crate::transaction::Transaction;
use crate::types::Ino;
use crate::xattr_block::Xattr;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(crate) struct Orphan {
    pub(crate) inode: Inode,
    /// By their first block of the file.
    pub(crate) extents: BTreeMap<u32, Extent>,
    pub(crate) xattrs: Vec<Xattr>,
    /// Of a symbolic link.
    pub(crate) target: Option<Vec<u8>>,
}

impl Transaction<'_> {
    pub(crate) fn orphan(&self, ino: Ino) -> Option<&Orphan> {
        self.orphans.get(&ino).or_else(|| self.fs.orphans.get(&ino))
    }

    /// To be changed: a copy of it, until the operation counts.
    pub(crate) fn orphan_mut(&mut self, ino: Ino) -> Option<&mut Orphan> {
        if !self.orphans.contains_key(&ino) {
            let orphan = self.fs.orphans.get(&ino)?.clone();
            self.orphans.insert(ino, orphan);
        }
        self.orphans.get_mut(&ino)
    }
}
