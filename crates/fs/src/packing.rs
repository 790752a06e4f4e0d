//! Packing: what goes into the record of a commit, and the metadata that follows from it.
//!
//! A file's runs get their blocks here, in the same transaction that brings their bytes, and its length grows only over what is durable
//! or in the record. So each record leaves a file system that is whole, however many a commit takes.

use crate::changed_bytes::ChangedBytes;
use crate::commit::{Rest, Step};
use crate::core::{BLOCK, Core};
use crate::error::{ENOSPC, FsError, Halt};
use crate::fragments::{RecordBlock, extents_of};
use crate::io::Purpose;
use crate::write_out::Placed;
use nearhead_disk::{BufferMut, Payload, RangeSet};
use nearhead_ext4::{BLOCK_BYTES, Changes, Ino, Times, Was};
use nearhead_service::Operation;
use std::collections::BTreeMap;
use std::ops::Range;

/// With less left than this a run is not cut: it waits for the next record.
const CUT_BLOCKS_MIN: u64 = 16;

/// A run that goes into the record.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) ino: Ino,
    pub(crate) incarnation: u64,
    pub(crate) pages: Range<u64>,
    block: u64,
    /// Its blocks were the file's already, with bytes that may be read.
    was_written: bool,
}

/// How packing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Done,
    /// The record is full.
    Full,
}

impl Core {
    pub(crate) fn begin_packing(&mut self) {
        // The last is packed first: this record has all that is bound to it, then what clients wait for.
        let bound = self.commit.bounds.closed();
        let of_bound = |ino: &Ino| bound.contains(ino);
        let files = self.commit.files.iter().filter(|ino| !of_bound(ino) && !self.commit.is_early);
        let (asked, old): (Vec<Ino>, Vec<Ino>) =
            files.copied().partition(|ino| self.is_asked_for(*ino));
        let to_pack: Vec<Ino> = old.into_iter().chain(asked).chain(bound.iter().copied()).collect();
        for ino in &to_pack {
            self.file(*ino).is_packed = true;
        }
        self.commit.flushed.sort_by_key(|placed| of_bound(&placed.ino));
        self.commit.to_pack = to_pack;
        self.go_on_packing();
    }

    pub(crate) fn go_on_packing(&mut self) {
        self.commit.step = Step::Packing;
        self.pack();
    }

    pub(crate) fn pack(&mut self) {
        match self.try_pack() {
            Ok(_) if self.commit.is_early => self.record(Rest::MoreToPlace),
            Ok(Packing::Done) => self.record(Rest::Nothing),
            Ok(Packing::Full) if self.may_end_here() => {
                self.leave_rest();
                self.record(Rest::Nothing);
            }
            Ok(Packing::Full) => self.record(Rest::FitsNoMore),
            Err(Halt::Commit) if !self.commit.was_full => self.record(Rest::NeedsRoom),
            Err(Halt::Commit) => {
                let detail = "no free block is left for what was written";
                let error = FsError::new(ENOSPC, detail);
                for ino in std::mem::take(&mut self.commit.to_pack) {
                    self.lose_pages(ino, &error);
                }
                let is_early = self.commit.is_early;
                self.record(if is_early { Rest::MoreToPlace } else { Rest::Nothing });
            }
            Err(Halt::Changes) if !self.is_record_empty() => {
                let is_early = self.commit.is_early;
                self.record(if is_early { Rest::MoreToPlace } else { Rest::FitsNoMore });
            }
            Err(Halt::Fails(error)) => {
                self.leave_out(&error);
                self.pack();
            }
            Err(Halt::Changes) => {
                self.leave_out(&self.outgrown());
                self.pack();
            }
            Err(halt) => {
                if let Err(error) = self.park(crate::waiting::Waiter::Commit, halt) {
                    self.fail(error);
                }
            }
        }
    }

    /// What could not be packed is left out, and its file's next `fsync` says why: the others are to be durable all the same.
    fn leave_out(&mut self, error: &FsError) {
        if let Some(placed) = self.commit.flushed.pop() {
            if let Some(file) = self.same_file(placed.ino, placed.incarnation) {
                file.unflushed -= 1;
                file.error = Some(error.clone());
            }
        } else if let Some(ino) = self.commit.to_pack.pop() {
            self.lose_pages(ino, error);
            self.file(ino).times = Times::default();
        }
    }

    /// The pages of a file that find no room are given up, and its next `fsync` says so.
    fn lose_pages(&mut self, ino: Ino, error: &FsError) {
        self.forget_pages(ino, 0, u64::MAX);
        let file = self.file(ino);
        (file.size, file.error) = (None, Some(error.clone()));
    }

    fn try_pack(&mut self) -> Result<Packing, Halt> {
        while let Some(placed) = self.commit.flushed.last().cloned() {
            if self.room_in_record() == 0 {
                return Ok(Packing::Full);
            }
            self.mark_written(&placed)?;
            self.commit.flushed.pop();
            self.note_marked(placed.ino, placed.incarnation, placed.pages.clone());
            if let Some(file) = self.same_file(placed.ino, placed.incarnation) {
                file.unflushed -= 1;
            }
            self.tidy(placed.ino);
            let ready = self.waiting.quiet_came();
            self.wake(ready);
        }
        while let Some(ino) = self.commit.to_pack.last().copied() {
            // Also what brings no data changes an inode.
            if self.room_in_record() == 0 || self.pack_file(ino)? == Packing::Full {
                return Ok(Packing::Full);
            }
            self.commit.to_pack.pop();
        }
        if self.commit.takes_access_times {
            self.pack_access_times();
        }
        Ok(Packing::Done)
    }

    /// The blocks of a run that is in place count as written from now on, and the file reaches over them.
    fn mark_written(&mut self, placed: &Placed) -> Result<(), Halt> {
        let ino = placed.ino;
        let caller = self.by_itself();
        let Some(file) = self.same_file(ino, placed.incarnation) else { return Ok(()) };
        let (end, size) = (placed.pages.end * BLOCK, file.size);
        if file.is_gone {
            // The inode is in memory, or parked: its length and times are of no use on the disk.
            if placed.is_unwritten {
                let (first, count) = (placed.pages.start, placed.pages.end - placed.pages.start);
                self.ext4()?.allocate(ino, first, count, &caller)?;
                self.file(ino).in_place.remove(placed.pages.clone());
            }
            return Ok(());
        }
        if size.is_some() {
            self.pack_last_page(ino, placed.pages.start)?;
        }
        if placed.is_unwritten {
            let (first, count) = (placed.pages.start, placed.pages.end - placed.pages.start);
            self.ext4()?.allocate(ino, first, count, &caller)?;
            self.file(ino).in_place.remove(placed.pages.clone());
        }
        if let Some(size) = size {
            self.grow_to(ino, size.min(end))?;
        }
        if placed.is_unwritten || size.is_some() {
            self.note_packed(ino);
        }
        Ok(())
    }

    /// The page that the file ended in until now comes with the record that makes it longer: what is behind the old end on the disk is
    /// no zeros everywhere.
    fn pack_last_page(&mut self, ino: Ino, before: u64) -> Result<(), Halt> {
        let on_disk = self.ext4()?.attributes(ino)?.size;
        let page = on_disk / BLOCK;
        let is_dirty = self.file(ino).pages.is_dirty_at(page);
        if on_disk.is_multiple_of(BLOCK) || page >= before || !is_dirty {
            return Ok(());
        }
        self.file(ino).is_packed = true;
        if !self.commit.files.contains(&ino) {
            self.commit.files.push(ino);
        }
        self.pack_run(ino, page..page + 1)
    }

    /// The metadata says that the file is so long at least.
    fn grow_to(&mut self, ino: Ino, reached: u64) -> Result<(), Halt> {
        let caller = self.by_itself();
        self.ext4()?.grow(ino, reached, &caller)?;
        // The inode is in the record anyway, and a length without the time of the write that made it would be older than its content.
        self.pack_times(ino)?;
        let file = self.file(ino);
        if file.size == Some(reached) {
            file.size = None;
        }
        Ok(())
    }

    /// Blocks for the short runs of a file; its length and times.
    fn pack_file(&mut self, ino: Ino) -> Result<Packing, Halt> {
        let Some(file) = self.files.get(&ino).filter(|file| !file.is_gone) else {
            return Ok(Packing::Done);
        };
        let grows = file.size.is_some();
        let (mut left, mut all) = (RangeSet::new(), RangeSet::new());
        let nothing = RangeSet::new();
        let brought = self.commit.dirty.get(&ino).unwrap_or(&nothing);
        for run in file.pages.dirty_runs(0..u64::MAX) {
            for part in brought.within(run.clone()) {
                left.insert(part);
            }
            all.insert(run);
        }
        // Its length does not grow over what was written since it began, nor over what is still under way.
        let is_whole = all.total() == left.total() && file.writing == 0;
        // What was packed already is dirty until the record takes it.
        for packed in self.commit.packed.iter().filter(|packed| packed.ino == ino) {
            left.remove(packed.pages.clone());
        }
        // Older bytes must not come after what the record brings. Nobody waits for these.
        for pages in self.pages_under_way(ino) {
            left.remove(pages);
        }
        while let Some(run) = left.pop_first() {
            let mut from = run.start;
            while from < run.end {
                let room = self.room_in_record();
                let len = (run.end - from).min(room);
                if len == 0 || (len < run.end - from && len < CUT_BLOCKS_MIN) {
                    return Ok(Packing::Full);
                }
                from += self.in_parts(len, |core, len| core.pack_run(ino, from..from + len))?;
            }
        }
        self.pack_length_and_times(ino, grows, is_whole)?;
        Ok(Packing::Done)
    }

    fn pack_run(&mut self, ino: Ino, pages: Range<u64>) -> Result<(), Halt> {
        let (incarnation, size) = {
            let file = self.file(ino);
            (file.incarnation, file.size)
        };
        let (caller, len) = (self.by_itself(), pages.end - pages.start);
        self.limit_changes(len as usize);
        let blocks = self.ext4()?.allocate(ino, pages.start, len, &caller)?;
        if let Some(size) = size {
            self.grow_to(ino, size.min(pages.end * BLOCK))?;
        }
        self.has_blocks(ino, pages);
        self.tell_durability_only(ino, &blocks);
        // Also where no metadata changes: an `fsync` waits for the record.
        self.note_packed(ino);
        for run in blocks {
            let (pages, block) = (run.logical..run.logical + run.len, run.physical);
            let was_written = run.was == Was::Written;
            self.note_packed_data(ino, pages.clone(), block);
            self.commit.packed.push(Packed { ino, incarnation, pages, block, was_written });
        }
        self.limit_changes(0);
        Ok(())
    }

    fn pack_length_and_times(&mut self, ino: Ino, grows: bool, is_whole: bool) -> Result<(), Halt> {
        let Some(file) = self.files.get(&ino) else { return Ok(()) };
        let size = file.size;
        // Of what is bound all up to its length at that time is durable or in the record.
        let bound = self.commit.bounds.closed_size(ino);
        let reached = if is_whole { size } else { size.min(bound) };
        if let Some(size) = reached {
            self.grow_to(ino, size)?;
            self.note_packed(ino);
        }
        // Where only data is asked for its times may wait, unless the inode changes anyway.
        let file = self.files.get(&ino).filter(|file| file.has_pending_times());
        if file.is_some() && (grows || self.commit.times.contains(&ino)) {
            self.pack_times(ino)?;
            self.pack_access_time(ino);
            self.note_packed(ino);
        }
        Ok(())
    }

    /// The times of a file that its metadata lacks.
    fn pack_times(&mut self, ino: Ino) -> Result<(), Halt> {
        let times = self.file(ino).times;
        if times != Times::default() {
            let caller = self.by_itself();
            self.ext4()?.set_times(ino, &times, &caller)?;
            self.file(ino).times = Times::default();
        }
        Ok(())
    }

    /// All that is changed becomes one record.
    pub(crate) fn record(&mut self, rest: Rest) {
        self.commit.step = Step::Recording;
        self.commit.rest = rest;
        self.limit_changes(0);
        if rest == Rest::Nothing {
            for ino in self.commit.files.clone() {
                self.file(ino).is_packed = false;
            }
        }
        let packs = self.options.mode.packs_fragments();
        let mut blocks = self.data_blocks(packs);
        self.note_record_made();
        let changes = self.ext4.as_deref_mut().filter(|ext4| ext4.is_changed());
        if let Some(changes) = changes.map(nearhead_ext4::Ext4::take_changes) {
            self.commit.changes = Some(changes.id);
            blocks.extend(metadata_blocks(&changes, packs));
            self.commit.has_dropped = std::mem::take(&mut self.commit.drops_freed);
            self.commit.freed = changes.freed;
        }
        self.commit.is_early = false;
        self.commit.bounds.note_recorded();
        let ready = self.waiting.changes_taken();
        self.wake(ready);
        let ready = self.waiting.record_made();
        self.wake(ready);
        // The parts of a commit count as one: whoever comes between two of them waits for the next commit.
        if rest == Rest::Nothing {
            self.commit.running += 1;
        }
        let sector_bytes = if packs { self.info.block_bytes_min as usize } else { BLOCK_BYTES };
        let (extents, new) = extents_of(blocks, sector_bytes);
        if extents.is_empty() {
            return self.on_recorded(None);
        }
        self.counts.records += 1;
        self.counts.record_bytes += extents.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
        self.counts.commits += u64::from(rest == Rest::Nothing);
        self.io.ask(Purpose::Record, Operation::WriteAtomic { extents, changed: new });
    }

    /// The blocks of the runs, with the bytes that they have now. `packs`: what of them is new is asked for.
    fn data_blocks(&mut self, packs: bool) -> Vec<RecordBlock> {
        let not_flushed = if packs { self.pages_not_flushed() } else { BTreeMap::new() };
        let mut blocks = Vec::new();
        for packed in &mut self.commit.packed {
            let file = self.files.get_mut(&packed.ino);
            let file = file.filter(|file| file.incarnation == packed.incarnation);
            let Some(file) = file else {
                packed.pages.end = packed.pages.start;
                continue;
            };
            // What was cut off since is not there any more, nor counted.
            let here = file.pages.dirty_runs(packed.pages.clone());
            let here = here.first().map_or(packed.pages.start..packed.pages.start, |run| {
                run.start..run.end.min(packed.pages.end)
            });
            let volatile = not_flushed.get(&packed.ino);
            for taken in file.pages.take_for_record(here.clone()) {
                let is_known = packs
                    && packed.was_written
                    && volatile.is_none_or(|pages| !pages.contains(taken.page));
                blocks.push(RecordBlock {
                    offset: (packed.block + (taken.page - packed.pages.start)) * BLOCK,
                    data: Payload::Bytes(taken.bytes),
                    changed: if is_known { taken.changed } else { ChangedBytes::all() },
                });
            }
            packed.pages = here;
        }
        blocks
    }

    /// Pages that went in place, or are on their way there, and that no flush has made durable.
    fn pages_not_flushed(&self) -> BTreeMap<Ino, RangeSet> {
        let mut pages: BTreeMap<Ino, RangeSet> = BTreeMap::new();
        let under_way = self.write_outs.entries().map(|(_, work)| (work.ino, &work.pages));
        let placed = self.commit.placed.iter().map(|placed| (placed.ino, &placed.pages));
        for (ino, range) in under_way.chain(placed) {
            pages.entry(ino).or_default().insert(range.clone());
        }
        pages
    }
}

/// All blocks that changed, and what of them did.
fn metadata_blocks(changes: &Changes, packs: bool) -> impl Iterator<Item = RecordBlock> {
    changes.blocks.iter().map(move |(block, bytes)| {
        let before = changes.before.get(block).filter(|_| packs);
        RecordBlock {
            offset: block * BLOCK,
            data: Payload::Bytes(BufferMut::copy_of(&bytes[..]).freeze()),
            changed: before
                .map_or_else(ChangedBytes::all, |before| ChangedBytes::between(before, bytes)),
        }
    })
}
