//! Where the blocks of files are, and giving them places: mapping, allocating, reserving, punching.
//!
//! The bytes are not here. Whoever drives this writes new blocks before the changes that show them are durable. A file's
//! written blocks must not lie behind its size when changes are taken: allocate, then grow.
//!
//! Nothing here changes a time of the file or asks for its flags: most of it carries out what was asked for earlier. The caller that
//! carries out a request checks the flags, and sets the times with [`Ext4::set_times`].

use crate::Ext4;
use crate::error::{Errno, Outcome, fail};
use crate::extent_node::{Extent, LOGICAL_END, UNWRITTEN_MAX, WRITTEN_MAX};
use crate::inode::{Inode, Time};
use crate::transaction::Transaction;
use crate::truncate::check_size;
use crate::types::{BLOCK_BYTES, Caller, Ino, NewRun, Place, Run, Times, Was};

impl Ext4 {
    /// Where the blocks of a range are: runs in order that cover it.
    pub fn map(&mut self, ino: Ino, first: u64, count: u64) -> Outcome<Vec<Run>> {
        self.run(|transaction| {
            let inode = transaction.file(ino)?;
            let end = first.saturating_add(count);
            let mut runs: Vec<Run> = Vec::new();
            for (logical, len, extent) in transaction.pieces(&inode, first, end)? {
                let place = match extent {
                    None => Place::Hole,
                    Some(extent) if extent.is_unwritten => Place::Unwritten(extent.physical),
                    Some(extent) => Place::Written(extent.physical),
                };
                match runs.last_mut().filter(|last| goes_on(last.place, last.len, place)) {
                    Some(last) => last.len += len,
                    None => runs.push(Run { logical, len, place }),
                }
            }
            Ok(runs)
        })
    }

    /// Every block of the range, which the caller keeps short (each group that it touches is a metadata block of this
    /// transaction), gets a place and counts as written. Whoever asks writes the new ones before these
    /// changes are durable, and lets the file [grow](Ext4::grow) over them in the same transaction.
    pub fn allocate(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        caller: &Caller,
    ) -> Outcome<Vec<NewRun>> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            let end = check_blocks(first, count)?;
            let mut runs = Vec::new();
            for (logical, len, extent) in transaction.pieces(&inode, first, end)? {
                match extent {
                    None => {
                        for new in transaction.fill_hole(&mut inode, logical, len, false)? {
                            runs.push(new_run(&new, Was::Hole));
                        }
                    }
                    Some(extent) if extent.is_unwritten => {
                        transaction.write_over(&mut inode, &extent, &mut runs)?;
                    }
                    Some(extent) => runs.push(new_run(&extent, Was::Written)),
                }
            }
            transaction.put_inode(&inode)?;
            Ok(runs)
        })
    }

    /// The file is at least `size` bytes long from now on.
    pub fn grow(&mut self, ino: Ino, size: u64, caller: &Caller) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            check_size(size)?;
            inode.set_size(inode.size().max(size));
            transaction.put_inode(&inode)
        })
    }

    /// Sets those times of a node that `times` names, as they are: no other time changes, and no flag forbids it.
    pub fn set_times(&mut self, ino: Ino, times: &Times, caller: &Caller) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.inode(ino)?;
            times.accessed.into_iter().for_each(|at| inode.set_time(Time::Accessed, at));
            times.modified.into_iter().for_each(|at| inode.set_time(Time::Modified, at));
            times.changed.into_iter().for_each(|at| inode.set_time(Time::Changed, at));
            transaction.put_inode(&inode)
        })
    }

    /// Holes of the range become unwritten blocks; without `keep_size` the file grows over them.
    pub fn reserve(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        keep_size: bool,
        caller: &Caller,
    ) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            let end = check_blocks(first, count)?;
            for (logical, len, extent) in transaction.pieces(&inode, first, end)? {
                if extent.is_none() {
                    transaction.fill_hole(&mut inode, logical, len, true)?;
                }
            }
            if !keep_size {
                inode.set_size(inode.size().max(end * BLOCK_BYTES as u64));
            }
            transaction.put_inode(&inode)
        })
    }

    /// Whole blocks become holes.
    pub fn punch(&mut self, ino: Ino, first: u64, count: u64, caller: &Caller) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            let end = first.saturating_add(count).min(LOGICAL_END);
            for part in transaction.cut_extents(&mut inode, first, end)? {
                transaction.free_extent(&mut inode, &part)?;
            }
            transaction.put_inode(&inode)
        })
    }

    /// Every block of the range becomes unwritten: it reads as zeros and has its place.
    pub fn make_unwritten(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        caller: &Caller,
    ) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.file(ino)?;
            let end = check_blocks(first, count)?;
            for (logical, len, extent) in transaction.pieces(&inode, first, end)? {
                match extent {
                    None => {
                        transaction.fill_hole(&mut inode, logical, len, true)?;
                    }
                    Some(extent) if !extent.is_unwritten => {
                        transaction.convert(&mut inode, &extent, true)?;
                    }
                    Some(_) => {}
                }
            }
            transaction.put_inode(&inode)
        })
    }
}

/// Whether `next` is where `len` blocks after `place` are.
fn goes_on(place: Place, len: u64, next: Place) -> bool {
    match (place, next) {
        (Place::Hole, Place::Hole) => true,
        (Place::Unwritten(a), Place::Unwritten(b)) | (Place::Written(a), Place::Written(b)) => {
            a + len == b
        }
        _ => false,
    }
}

fn new_run(extent: &Extent, was: Was) -> NewRun {
    NewRun {
        logical: u64::from(extent.logical),
        len: u64::from(extent.len),
        physical: extent.physical,
        was,
    }
}

/// The end of a range of blocks that a file may have.
fn check_blocks(first: u64, count: u64) -> Outcome<u64> {
    match first.checked_add(count) {
        Some(end) if end <= LOGICAL_END => Ok(end),
        _ => Err(fail(
            Errno::FileTooBig,
            format!("a file has at most {LOGICAL_END} blocks, asked for {count} from {first}"),
        )),
    }
}

impl Transaction<'_> {
    /// `first..end` cut into parts of extents and holes: start, length, extent.
    fn pieces(
        &mut self,
        inode: &Inode,
        first: u64,
        end: u64,
    ) -> Outcome<Vec<(u64, u64, Option<Extent>)>> {
        let mut pieces = Vec::new();
        let mut at = first;
        for extent in self.extents_in(inode, first, end, usize::MAX)? {
            let Some(part) = extent.part(first, end) else { continue };
            let start = u64::from(part.logical);
            if start > at {
                pieces.push((at, start - at, None));
            }
            pieces.push((start, u64::from(part.len), Some(part)));
            at = part.end();
        }
        if at < end {
            pieces.push((at, end - at, None));
        }
        Ok(pieces)
    }

    /// New blocks for a hole, in as few runs as there is room for.
    fn fill_hole(
        &mut self,
        inode: &mut Inode,
        logical: u64,
        len: u64,
        is_unwritten: bool,
    ) -> Outcome<Vec<Extent>> {
        let len_max = if is_unwritten { UNWRITTEN_MAX } else { WRITTEN_MAX };
        let mut goal = self.goal_at(inode, logical)?;
        let mut new: Vec<Extent> = Vec::new();
        let (mut at, end) = (logical, logical + len);
        while at < end {
            let want = (end - at).min(u64::from(len_max)) as u32;
            let range = self.take_blocks(goal, want, inode.is_in_memory)?;
            let extent = Extent {
                logical: at as u32,
                len: (range.end - range.start) as u32,
                physical: range.start,
                is_unwritten,
            };
            self.add_extent(inode, extent)?;
            inode.add_blocks(i64::from(extent.len));
            at = extent.end();
            goal = range.end;
            new.push(extent);
        }
        Ok(new)
    }

    /// Right behind what is before it in the file, else where its group goes on.
    fn goal_at(&mut self, inode: &Inode, logical: u64) -> Outcome<u64> {
        let before = match logical.checked_sub(1) {
            Some(before) => self.extents_in(inode, before, logical, 1)?.first().copied(),
            None => None,
        };
        Ok(match before {
            Some(before) => before.physical + u64::from(before.len),
            None => self.goal_of(inode),
        })
    }

    /// A part of an unwritten extent becomes written: where it is, unless it became unwritten so lately that after a stop
    /// the file may show what was in it before. That must still be there then, so the part gets other blocks.
    fn write_over(
        &mut self,
        inode: &mut Inode,
        extent: &Extent,
        runs: &mut Vec<NewRun>,
    ) -> Outcome<()> {
        let mut at = u64::from(extent.logical);
        while let Some(rest) = extent.part(at, extent.end()) {
            let range = rest.physical..rest.physical + u64::from(rest.len);
            let recent = self.fs.unwritten_unsettled.first_overlap(&range);
            let recent = recent.unwrap_or(range.end..range.end);
            let to_logical = |block: u64| at + (block - rest.physical);
            let (start, end) = (to_logical(recent.start), to_logical(recent.end));
            if let Some(old) = rest.part(at, start) {
                self.convert(inode, &old, false)?;
                runs.push(new_run(&old, Was::Unwritten));
            }
            if let Some(new) = rest.part(start, end) {
                self.cut_extents(inode, start, end)?;
                self.free_extent(inode, &new)?;
                for filled in self.fill_hole(inode, start, end - start, false)? {
                    runs.push(new_run(&filled, Was::Hole));
                }
            }
            at = end;
        }
        Ok(())
    }

    /// A part of an extent becomes written or unwritten where it is.
    fn convert(&mut self, inode: &mut Inode, part: &Extent, is_unwritten: bool) -> Outcome<()> {
        self.cut_extents(inode, u64::from(part.logical), part.end())?;
        if is_unwritten {
            self.unwritten.insert(part.physical..part.physical + u64::from(part.len));
        }
        let len_max = u64::from(if is_unwritten { UNWRITTEN_MAX } else { WRITTEN_MAX });
        let mut at = u64::from(part.logical);
        while let Some(rest) = part.part(at, (at + len_max).min(part.end())) {
            self.add_extent(inode, Extent { is_unwritten, ..rest })?;
            at = rest.end();
        }
        Ok(())
    }
}
