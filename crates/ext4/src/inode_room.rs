//! Inodes: choosing a group, taking the lowest free number of it, giving numbers back.
//!
//! Files go to their directory's group. Directories below the root are spread over groups with room, all others stay near
//! their parent (the idea of Orlov's allocator). The lowest free number is taken, so that the tables fill from the start
//! and what was never used stays at their end. A number of an inode that lives in memory is not taken.

use crate::bitmap;
use crate::cache::Kind;
use crate::error::{Errno, Outcome, corrupt, fail};
use crate::geometry::{INODE_BYTES, INODES_PER_BLOCK};
use crate::group::{BLOCK_UNINIT, Descriptor, INODE_UNINIT};
use crate::inode::{Inode, TOPDIR_FLAG};
use crate::transaction::Transaction;
use crate::types::{BLOCK_BYTES, BlockBytes, Ino, ROOT, Timestamp};
use nearhead_basics::SplitMix;
use nearhead_basics::little_endian::put;
use std::sync::Arc;

/// Groups that are looked at for a directory below the root.
const GROUPS_COMPARED: u32 = 64;

impl Transaction<'_> {
    /// A number for a new inode in `parent`; the inode is all zeros, apart from its generation.
    pub(crate) fn take_inode(&mut self, parent: &Inode, is_directory: bool) -> Outcome<Inode> {
        let groups = self.fs.geometry.groups;
        let home = (parent.ino.0 - 1) / self.fs.geometry.inodes_per_group;
        let is_spread = is_directory && (parent.ino == ROOT || parent.has_flag(TOPDIR_FLAG));
        let start = if is_spread { self.emptiest_group()? } else { home };
        // The first time only groups with blocks for what is to come.
        for needs_blocks in [true, false] {
            for nth in 0..groups {
                let group = (start + nth) % groups;
                let descriptor = self.descriptor(group)?;
                if descriptor.free_inodes == 0 || (descriptor.free_blocks > 0) != needs_blocks {
                    continue;
                }
                if let Some(index) = self.free_index(group, &descriptor)? {
                    return self.take_index(group, index, is_directory);
                }
            }
        }
        Err(fail(Errno::NoSpace, "no free inodes"))
    }

    /// Of some groups, which the seed chooses, the one with the most room.
    fn emptiest_group(&mut self) -> Outcome<u32> {
        let groups = self.fs.geometry.groups;
        let chance = SplitMix::new(self.fs.options.seed).nth_u64(self.fs.inodes_made);
        let start = (chance % u64::from(groups)) as u32;
        let mut best = (start, 0);
        for nth in 0..groups.min(GROUPS_COMPARED) {
            let group = (start + nth) % groups;
            let descriptor = self.descriptor(group)?;
            if descriptor.free_inodes == 0 {
                continue;
            }
            let room =
                u64::from(descriptor.free_blocks) * 1024 / u64::from(descriptor.directories + 1);
            if room > best.1 {
                best = (group, room);
            }
        }
        Ok(best.0)
    }

    fn inode_bitmap(&mut self, group: u32, descriptor: &Descriptor) -> Outcome<BlockBytes> {
        if descriptor.flags & INODE_UNINIT == 0 {
            return self.read(descriptor.inode_bitmap, Kind::InodeBitmap(group));
        }
        let mut bytes = [0; BLOCK_BYTES];
        let used = self.fs.geometry.inodes_per_group;
        bitmap::fill(&mut bytes, used, 8 * BLOCK_BYTES as u32, true);
        Ok(Arc::new(bytes))
    }

    fn free_index(&mut self, group: u32, descriptor: &Descriptor) -> Outcome<Option<u32>> {
        let bits = self.inode_bitmap(group, descriptor)?;
        let per_group = self.fs.geometry.inodes_per_group;
        let mut from = 0;
        while let Some(index) = bitmap::next(&*bits, from, per_group, false) {
            let ino = Ino(group * per_group + index + 1);
            if ino.0 < self.fs.geometry.first_ino {
                return Err(corrupt(format!("inode bitmap: reserved inode {} is free", ino.0)));
            }
            if self.orphan(ino).is_none() {
                return Ok(Some(index));
            }
            from = index + 1;
        }
        Ok(None)
    }

    fn take_index(&mut self, group: u32, index: u32, is_directory: bool) -> Outcome<Inode> {
        let per_group = self.fs.geometry.inodes_per_group;
        let mut descriptor = self.descriptor(group)?;
        let bits = self.inode_bitmap(group, &descriptor)?;
        if descriptor.flags & BLOCK_UNINIT != 0 {
            // The kernel does so as well: a group in use has both bitmaps.
            self.change_block_bitmap(group)?;
            descriptor = self.descriptor(group)?;
        }
        // Blocks of the table in which nothing is in use may never have been written.
        let first = index / INODES_PER_BLOCK * INODES_PER_BLOCK;
        let table = descriptor.inode_table + u64::from(index / INODES_PER_BLOCK);
        if bitmap::is_all(&*bits, first, first + INODES_PER_BLOCK, false) {
            self.fresh(table, Kind::InodeTable)?;
        } else {
            self.read(table, Kind::InodeTable)?;
        }
        if descriptor.flags & INODE_UNINIT != 0 {
            let fresh = self.fresh(descriptor.inode_bitmap, Kind::InodeBitmap(group))?;
            fresh.copy_from_slice(&*bits);
        }
        let bits = self.change(descriptor.inode_bitmap, Kind::InodeBitmap(group))?;
        bitmap::fill(bits, index, index + 1, true);
        descriptor.flags &= !INODE_UNINIT;
        descriptor.free_inodes = descriptor.free_inodes.saturating_sub(1);
        descriptor.directories += u32::from(is_directory);
        descriptor.unused_inodes = descriptor.unused_inodes.min(per_group - index - 1);
        self.put_descriptor(group, &descriptor)?;
        self.add_free(0, -1)?;
        let made = self.fs.inodes_made + self.inodes_made;
        self.inodes_made += 1;
        let generation = SplitMix::new(!self.fs.options.seed).nth_u64(made) as u32;
        let extra_isize = self.fs.geometry.extra_isize;
        Ok(Inode::new(Ino(group * per_group + index + 1), generation, extra_isize))
    }

    /// Gives the number back. Of the inode nothing stays but when it went.
    pub(crate) fn free_inode(&mut self, inode: &Inode, now: Timestamp) -> Outcome<()> {
        let place = self.place_of_inode(inode.ino)?;
        let mut descriptor = self.descriptor(place.group)?;
        let bits = self.change(descriptor.inode_bitmap, Kind::InodeBitmap(place.group))?;
        if !bitmap::is_set(bits, place.index) {
            return Err(corrupt(format!(
                "inode bitmap of group {}: expected inode {} to be in use, found it free",
                place.group, inode.ino.0
            )));
        }
        bitmap::fill(bits, place.index, place.index + 1, false);
        descriptor.free_inodes += 1;
        let is_directory = u32::from(inode.is_directory());
        descriptor.directories = descriptor.directories.saturating_sub(is_directory);
        self.put_descriptor(place.group, &descriptor)?;
        self.add_free(0, 1)?;
        let extra_isize = self.fs.geometry.extra_isize;
        let mut gone = Inode::new(inode.ino, inode.generation(), extra_isize);
        // A number below that of the inodes would be a link of the list of orphans to e2fsck.
        let inodes = i64::from(self.fs.geometry.inodes);
        gone.set_deleted(now.max(self.fs.last_change).seconds.max(inodes) as u32);
        gone.seal(&self.fs.geometry);
        let block = self.change(place.block, Kind::InodeTable)?;
        put(&mut block[place.at..place.at + INODE_BYTES], 0, &gone.raw);
        Ok(())
    }
}
