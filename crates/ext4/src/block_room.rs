//! Blocks: finding free ones near a goal, taking them, freeing them.
//!
//! A block is taken only if its bitmap has it free and no transaction that is not settled freed it, and nobody holds it.
//! Counts of the group and of the file system change together with the bitmap. A bitmap that was never written is computed,
//! and written once a bit of it changes.

use crate::bitmap;
use crate::cache::Kind;
use crate::error::{Errno, Outcome, Stop, corrupt, fail};
use crate::geometry::{INODES_PER_BLOCK, at};
use crate::group::BLOCK_UNINIT;
use crate::transaction::Transaction;
use crate::types::{BLOCK_BYTES, BlockBytes};
use nearhead_basics::little_endian::u32_at;
use std::ops::Range;
use std::sync::Arc;

/// Groups with room that are looked at for a run that is long enough before the longest so far is taken.
const GROUPS_TRIED: u32 = 8;
/// Groups whose free blocks are counted before one with fewer than wanted will do.
const GROUPS_COMPARED: u32 = 4096;
/// A run at the goal itself is taken although it is too short, if it has this many blocks.
const AT_GOAL_MIN: u64 = 8;

impl Transaction<'_> {
    /// The block bitmap of a group.
    pub(crate) fn block_bitmap(&mut self, group: u32) -> Outcome<BlockBytes> {
        let descriptor = self.descriptor(group)?;
        if descriptor.flags & BLOCK_UNINIT == 0 {
            return self.read(descriptor.block_bitmap, Kind::BlockBitmap(group));
        }
        let geometry = &self.fs.geometry;
        let (first, len) = (geometry.first_of(group), geometry.blocks_in(group));
        let tables = geometry.inodes_per_group / INODES_PER_BLOCK;
        let mut bytes = [0; BLOCK_BYTES];
        bitmap::fill(&mut bytes, 0, geometry.base_blocks(group).min(len), true);
        bitmap::fill(&mut bytes, len, 8 * BLOCK_BYTES as u32, true);
        for (start, count) in [
            (descriptor.block_bitmap, 1),
            (descriptor.inode_bitmap, 1),
            (descriptor.inode_table, u64::from(tables)),
        ] {
            let from = start.max(first);
            let to = (start + count).min(first + u64::from(len));
            if from < to {
                bitmap::fill(&mut bytes, (from - first) as u32, (to - first) as u32, true);
            }
        }
        let free = bitmap::count_zeros(&bytes, len);
        if free != descriptor.free_blocks {
            return Err(corrupt(format!(
                "group {group}: its bitmap was never written: expected {free} free blocks, found {}",
                descriptor.free_blocks
            )));
        }
        Ok(Arc::new(bytes))
    }

    /// The same to be changed.
    pub(crate) fn change_block_bitmap(&mut self, group: u32) -> Outcome<&mut [u8; BLOCK_BYTES]> {
        let mut descriptor = self.descriptor(group)?;
        let block = descriptor.block_bitmap;
        if descriptor.flags & BLOCK_UNINIT != 0 {
            let bytes = self.block_bitmap(group)?;
            descriptor.flags &= !BLOCK_UNINIT;
            self.put_descriptor(group, &descriptor)?;
            let fresh = self.fresh(block, Kind::BlockBitmap(group))?;
            fresh.copy_from_slice(&*bytes);
        }
        self.change(block, Kind::BlockBitmap(group))
    }

    /// Takes up to `want` consecutive blocks, near `goal`; in memory alone for an inode that has no name.
    pub(crate) fn take_blocks(
        &mut self,
        goal: u64,
        want: u32,
        is_in_memory: bool,
    ) -> Outcome<Range<u64>> {
        let want = u64::from(want).min(self.free_for_caller(u64::from(want))?);
        let goal = if goal < self.fs.geometry.blocks { goal } else { 0 };
        let range = self.find_blocks(goal, want)?;
        if is_in_memory {
            self.reserved_more.insert(range.clone());
            return Ok(range);
        }
        self.mark_blocks(&range, true)?;
        self.cursors.push((self.fs.geometry.group_of(range.start), range.end));
        Ok(range)
    }

    /// Where to look for blocks of an inode that has none yet.
    pub(crate) fn goal_of(&self, inode: &crate::inode::Inode) -> u64 {
        let geometry = &self.fs.geometry;
        let group = (inode.ino.0 - 1) / geometry.inodes_per_group;
        let own = self.cursors.iter().rev().find(|(other, _)| *other == group);
        let known = own.map(|(_, goal)| *goal).or_else(|| self.fs.cursors.get(&group).copied());
        known.unwrap_or_else(|| geometry.first_of(group))
    }

    /// How many blocks the caller may have at most now.
    fn free_for_caller(&mut self, want: u64) -> Outcome<u64> {
        let is_64bit = self.fs.geometry.on.is_64bit;
        let bytes = self.read(0, Kind::Superblock)?;
        let wide = |low, high| {
            let high = if is_64bit { u64::from(u32_at(&*bytes, high)) } else { 0 };
            u64::from(u32_at(&*bytes, low)) | high << 32
        };
        let for_root =
            if self.is_privileged { 0 } else { wide(at::RESERVED_LOW, at::RESERVED_HIGH) };
        let free = wide(at::FREE_BLOCKS_LOW, at::FREE_BLOCKS_HIGH);
        let kept = self.fs.reserved.blocks() + self.reserved_more.blocks() + for_root;
        match free.saturating_sub(kept) {
            0 => Err(self.no_space(free > for_root)),
            left => Ok(left.min(want)),
        }
    }

    fn no_space(&self, has_some: bool) -> Stop {
        // What is merely reserved does not come back by waiting.
        let coming = self.busy_blocks() - self.fs.reserved.blocks() - self.reserved_more.blocks();
        if has_some && coming > 0 {
            fail(
                Errno::NoSpaceYet,
                format!("no free blocks; {coming} come back once what freed them is durable"),
            )
        } else {
            fail(Errno::NoSpace, "no free blocks")
        }
    }

    fn find_blocks(&mut self, goal: u64, want: u64) -> Outcome<Range<u64>> {
        let groups = self.fs.geometry.groups;
        let home = self.fs.geometry.group_of(goal);
        let mut best: Option<Range<u64>> = None;
        let mut tried = 0;
        // First the goal's own group and those that may have a run that is long enough, then all.
        let first = (0..groups.min(GROUPS_COMPARED)).map(|nth| (nth, nth > 0));
        for (nth, needs_all) in first.chain((0..groups).map(|nth| (nth, false))) {
            let group = (home + nth) % groups;
            let free = u64::from(self.descriptor(group)?.free_blocks);
            if free == 0 || (needs_all && free < want) {
                continue;
            }
            let bits = self.block_bitmap(group)?;
            let found = self.find_in_group(&*bits, group, (nth == 0).then_some(goal), want);
            let len = |range: &Range<u64>| range.end - range.start;
            let Some(found) = found else { continue };
            if len(&found) >= want || (found.start == goal && len(&found) >= AT_GOAL_MIN) {
                return Ok(found);
            }
            if best.as_ref().is_none_or(|best| len(best) < len(&found)) {
                best = Some(found);
            }
            tried += 1;
            if tried >= GROUPS_TRIED {
                break;
            }
        }
        best.ok_or_else(|| self.no_space(true))
    }

    /// The run at the goal if it is long enough, else the first that is, else the longest.
    fn find_in_group(
        &self,
        bits: &[u8],
        group: u32,
        goal: Option<u64>,
        want: u64,
    ) -> Option<Range<u64>> {
        let first = self.fs.geometry.first_of(group);
        let end = first + u64::from(self.fs.geometry.blocks_in(group));
        let goal = goal.unwrap_or(first);
        let mut best: Option<Range<u64>> = None;
        for part in [goal..end, first..goal] {
            let mut from = part.start;
            while let Some(run) = self.next_run(bits, first, from..part.end) {
                from = run.end;
                let run = run.start..run.end.min(run.start + want);
                let len = run.end - run.start;
                let is_at_goal = run.start == goal && len >= AT_GOAL_MIN;
                if len == want || is_at_goal {
                    return Some(run);
                }
                if best.as_ref().is_none_or(|best| best.end - best.start < len) {
                    best = Some(run);
                }
            }
        }
        best
    }

    /// The first blocks of a range that are free and not busy.
    pub(crate) fn next_run(
        &self,
        bits: &[u8],
        first: u64,
        range: Range<u64>,
    ) -> Option<Range<u64>> {
        let mut from = range.start;
        while from < range.end {
            let (bit, last) = ((from - first) as u32, (range.end - first) as u32);
            let start = bitmap::next(bits, bit, last, false)?;
            let end = bitmap::next(bits, start, last, true).unwrap_or(last);
            let run = first + u64::from(start)..first + u64::from(end);
            match self.busy_in(&run) {
                None => return Some(run),
                Some(busy) if busy.start > run.start => return Some(run.start..busy.start),
                Some(busy) => from = busy.end,
            }
        }
        None
    }

    /// Sets or clears the bits of a range and counts.
    fn mark_blocks(&mut self, range: &Range<u64>, is_taken: bool) -> Outcome<()> {
        let mut from = range.start;
        while from < range.end {
            let group = self.fs.geometry.group_of(from);
            let first = self.fs.geometry.first_of(group);
            let end = range.end.min(first + u64::from(self.fs.geometry.blocks_in(group)));
            if end <= from {
                return Err(corrupt(format!("blocks {range:?} are outside the file system")));
            }
            let (low, high) = ((from - first) as u32, (end - first) as u32);
            let bits = self.change_block_bitmap(group)?;
            if !bitmap::is_all(bits, low, high, !is_taken) {
                let (expected, found) = if is_taken { ("free", "used") } else { ("used", "free") };
                return Err(corrupt(format!(
                    "block bitmap of group {group}: blocks {from} to {end}: expected {expected}, \
                     found some {found}"
                )));
            }
            bitmap::fill(bits, low, high, is_taken);
            let mut descriptor = self.descriptor(group)?;
            let count = high - low;
            descriptor.free_blocks = if is_taken {
                descriptor.free_blocks.saturating_sub(count)
            } else {
                descriptor.free_blocks + count
            };
            self.put_descriptor(group, &descriptor)?;
            from = end;
        }
        let count = (range.end - range.start) as i64;
        self.add_free(if is_taken { -count } else { count }, 0)
    }

    /// Frees blocks: they may be taken again once this transaction is settled.
    pub(crate) fn free_blocks(&mut self, range: Range<u64>, is_in_memory: bool) -> Outcome<()> {
        if is_in_memory {
            self.reserved_more.remove(&range);
            self.reserved_less.insert(range.clone());
            self.freed.insert(range);
            return Ok(());
        }
        self.check_no_system(&range)?;
        self.mark_blocks(&range, false)?;
        self.freed.insert(range);
        Ok(())
    }

    /// Frees blocks on disk that somebody still holds.
    pub(crate) fn free_but_reserve(&mut self, range: Range<u64>) -> Outcome<()> {
        self.check_no_system(&range)?;
        self.mark_blocks(&range, false)?;
        self.reserved_more.insert(range);
        Ok(())
    }

    /// No file may have a block of the file system's own.
    pub(crate) fn check_no_system(&self, range: &Range<u64>) -> Outcome<()> {
        match self.fs.system.first_overlap(range) {
            None => Ok(()),
            Some(part) => Err(corrupt(format!(
                "expected blocks of files, found {range:?} of one that has {part:?} of the file \
                 system's own tables"
            ))),
        }
    }
}
