//! Making files longer and shorter. Shorter in steps, from the end, so that one step touches a bounded number of blocks.

use crate::Ext4;
use crate::attributes::check_removable;
use crate::error::{Errno, Outcome, fail};
use crate::extent_node::{self as node, Extent, LOGICAL_END};
use crate::inode::Inode;
use crate::transaction::Transaction;
use crate::types::{BLOCK_BYTES, Caller, FileKind, Ino, Truncated};
use std::collections::BTreeSet;

/// Groups and leaves that one step touches.
const TOUCHED_MAX: usize = 64;
/// Largest file.
pub(crate) const FILE_BYTES_MAX: u64 = LOGICAL_END * BLOCK_BYTES as u64;

impl Ext4 {
    /// Sets the size, up or down. Going down it frees a bounded number of blocks at a time. The rest of a last block
    /// that is cut in the middle is data: whoever drives this writes zeros there.
    pub fn truncate(&mut self, ino: Ino, size: u64, caller: &Caller) -> Outcome<Truncated> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            check_removable(&inode)?;
            check_size(size)?;
            let mut is_complete = true;
            if size <= inode.size() {
                let keep = size.div_ceil(BLOCK_BYTES as u64);
                is_complete = transaction.truncate_step(&mut inode, keep)?;
            }
            if is_complete {
                inode.set_size(size);
            }
            inode.touch(caller.now);
            transaction.put_inode(&inode)?;
            Ok(Truncated { is_complete })
        })
    }

    /// Frees the blocks that a file has behind `size`, where its metadata has no longer length: blocks that were reserved. Neither length
    /// nor times change.
    pub fn free_behind(&mut self, ino: Ino, size: u64, caller: &Caller) -> Outcome<Truncated> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            let keep = size.div_ceil(BLOCK_BYTES as u64);
            let is_complete = transaction.truncate_step(&mut inode, keep)?;
            transaction.put_inode(&inode)?;
            Ok(Truncated { is_complete })
        })
    }
}

pub(crate) fn check_size(size: u64) -> Outcome<()> {
    if size > FILE_BYTES_MAX {
        let text = format!("a file has at most {FILE_BYTES_MAX} bytes, asked for {size}");
        return Err(fail(Errno::FileTooBig, text));
    }
    Ok(())
}

impl Transaction<'_> {
    /// A regular file.
    pub(crate) fn file(&mut self, ino: Ino) -> Outcome<Inode> {
        let inode = self.inode(ino)?;
        match inode.kind() {
            Some(FileKind::Regular) => Ok(inode),
            Some(FileKind::Directory) => {
                Err(fail(Errno::IsDirectory, format!("inode {} is a directory", ino.0)))
            }
            _ => Err(fail(Errno::Invalid, format!("inode {} is no file", ino.0))),
        }
    }

    /// Frees blocks from the end, down to `keep` blocks or until enough is touched; whether it got there. The size
    /// follows. The caller puts the inode back.
    pub(crate) fn truncate_step(&mut self, inode: &mut Inode, keep: u64) -> Outcome<bool> {
        let mut groups = BTreeSet::new();
        let mut leaves = 0;
        loop {
            let leaf = self.last_extents(inode)?;
            let mut from = LOGICAL_END;
            for extent in leaf.iter().rev() {
                let Some(part) = extent.part(keep, LOGICAL_END) else { break };
                let first = self.fs.geometry.group_of(part.physical);
                let last = part.physical + u64::from(part.len) - 1;
                groups.extend(first..=self.fs.geometry.group_of(last));
                if groups.len() + leaves > TOUCHED_MAX && from < LOGICAL_END {
                    break;
                }
                from = u64::from(part.logical);
            }
            if from == LOGICAL_END {
                return Ok(true);
            }
            for part in self.cut_extents(inode, from, LOGICAL_END)? {
                self.free_extent(inode, &part)?;
            }
            let cut_bytes = from * BLOCK_BYTES as u64;
            inode.set_size(inode.size().min(cut_bytes));
            leaves += 1;
            if groups.len() + leaves > TOUCHED_MAX {
                let rest = self.last_extents(inode)?;
                return Ok(rest.last().is_none_or(|extent| extent.end() <= keep));
            }
        }
    }

    /// Frees the blocks of a part of a file that was cut out.
    pub(crate) fn free_extent(&mut self, inode: &mut Inode, part: &Extent) -> Outcome<()> {
        let range = part.physical..part.physical + u64::from(part.len);
        self.free_blocks(range, inode.is_in_memory)?;
        inode.add_blocks(-i64::from(part.len));
        Ok(())
    }

    /// The extents of the last leaf.
    fn last_extents(&mut self, inode: &Inode) -> Outcome<Vec<Extent>> {
        if inode.is_in_memory {
            let orphan = self.orphan(inode.ino);
            let all = orphan.map(|orphan| orphan.extents.values().copied().collect());
            return Ok(all.unwrap_or_default());
        }
        let (mut bytes, mut end) = (inode.content().to_vec(), LOGICAL_END);
        while node::depth(&bytes) > 0 {
            let Some(last) = node::entries(&bytes).checked_sub(1) else { break };
            let (below, below_end) = self.child_node(inode, &bytes, last, end)?;
            (bytes, end) = (below.to_vec(), below_end);
        }
        Ok((0..node::entries(&bytes)).map(|nth| node::extent(&bytes, nth)).collect())
    }
}
