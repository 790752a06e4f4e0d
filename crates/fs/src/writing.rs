//! Writes to files: into pages, with room kept for those that have no block yet. Blocks are given at the commit or at a write-out, when
//! it is known how long a run became.

use crate::core::{BLOCK, Core, KEPT_FOR_SMALL_PAGES, SMALL_WRITE_PAGES_MAX, UNSAVED_PAGES_MAX};
use crate::error::{EFBIG, ENOSPC, FsError, Halt};
use crate::flags::check_changeable;
use crate::pages::{Update, changed};
use crate::request::Answer;
use nearhead_disk::Buffer;
use nearhead_ext4::{BLOCK_BYTES, Caller, Ino, Place, SYNC_FLAG};
use nearhead_journal::{Placement, Unit};
use std::ops::Range;

/// A file that is written in order is written out in pieces of this size.
pub(crate) const STREAM_BYTES: u64 = 1 << 20;
/// Longest file of the format with blocks of 4 KiB: block numbers in a file have 32 bits.
const FILE_BYTES_MAX: u64 = (u32::MAX as u64) * BLOCK;
/// Blocks that stay free for the trees of extents that new blocks may need.
const SPARE_BLOCKS: u64 = 64;

/// An error past the longest file.
pub(crate) fn check_length(end: u64) -> Result<(), FsError> {
    if end > FILE_BYTES_MAX {
        let detail = format!("expected a file of at most {FILE_BYTES_MAX} bytes, found {end}");
        return Err(FsError::new(EFBIG, detail));
    }
    Ok(())
}

impl Core {
    /// Writes; says also whether the file's flags want it durable at once.
    pub(crate) fn try_write(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &Buffer,
        caller: &Caller,
    ) -> Result<(Answer, bool), Halt> {
        if self.options.ext4.read_only {
            return Err(FsError::new(crate::error::EROFS, "mounted read-only").into());
        }
        let attributes = self.regular(ino)?;
        let size = attributes.size;
        check_changeable(&attributes, offset >= size)?;
        let is_synchronous = attributes.flags & SYNC_FLAG != 0;
        let len = data.len() as u64;
        if len == 0 {
            return Ok((Answer::Written(0), false));
        }
        let end = offset.saturating_add(len);
        check_length(end)?;
        let pages = offset / BLOCK..end.div_ceil(BLOCK);
        let is_small = pages.end - pages.start <= SMALL_WRITE_PAGES_MAX;
        let kept = if is_small { 0 } else { KEPT_FOR_SMALL_PAGES };
        if self.unsaved_pages >= UNSAVED_PAGES_MAX - kept || self.survival_is_full() {
            return Err(Halt::Room);
        }
        let is_durability_only = self.is_durability_only(ino)?;
        let without_block = self.pages_without_block(ino, pages.clone())?;
        self.fetch_ends(ino, offset, end, size)?;
        let last = size / BLOCK * BLOCK;
        if end > size && (offset > last || end < last + BLOCK) {
            self.zero_tail(ino, size)?;
        }
        self.keep_room(without_block.iter().map(|run| run.end - run.start).sum(), caller)?;
        // Nothing stops it from here on.
        self.put(ino, offset, data, &without_block);
        let file = self.file(ino);
        file.note_written(caller.now);
        if end > size {
            file.size = Some(end);
        }
        self.note_unsaved();
        self.read_ahead(ino, &(offset..end), size);
        let is_bulk_in_place = self.options.goes(STREAM_BYTES) == Placement::InPlace;
        if !is_durability_only && is_bulk_in_place {
            self.go_on_with_stream(ino, offset, end);
        }
        Ok((Answer::Written(len as u32), is_synchronous))
    }

    /// Those of the pages that get their first block by this write.
    pub(crate) fn pages_without_block(
        &mut self,
        ino: Ino,
        pages: Range<u64>,
    ) -> Result<Vec<Range<u64>>, Halt> {
        if self.files.get(&ino).is_some_and(|file| file.pages.has_all_of(&pages)) {
            return Ok(Vec::new());
        }
        let runs = self.ext4()?.map(ino, pages.start, pages.end - pages.start)?;
        let file = self.files.get(&ino);
        let mut without: Vec<Range<u64>> = Vec::new();
        for run in runs.iter().filter(|run| run.place == Place::Hole) {
            for page in run.logical..run.logical + run.len {
                if file.is_some_and(|file| file.pages.is_dirty_at(page)) {
                    continue;
                }
                match without.last_mut() {
                    Some(last) if last.end == page => last.end += 1,
                    _ => without.push(page..page + 1),
                }
            }
        }
        Ok(without)
    }

    /// Pages that are changed in part have to be known: those at the two ends.
    fn fetch_ends(&mut self, ino: Ino, offset: u64, end: u64, size: u64) -> Result<(), Halt> {
        let ends = [(offset, offset / BLOCK), (end, end / BLOCK)];
        for (at, page) in ends {
            if at % BLOCK != 0 && page * BLOCK < size {
                self.fetch(ino, page)?;
            }
        }
        Ok(())
    }

    /// The page is in memory, or nothing of it is stored.
    pub(crate) fn fetch(&mut self, ino: Ino, page: u64) -> Result<(), Halt> {
        if self.files.get(&ino).is_some_and(|file| file.pages.get(page).is_some()) {
            return Ok(());
        }
        let runs = self.runs(ino, page..page + 1)?;
        match runs.first().map(|run| run.place) {
            Some(Place::Written(block)) => Err(Halt::Page { ino, page, block }),
            _ => Ok(()),
        }
    }

    /// Keeps room for so many blocks more.
    fn keep_room(&mut self, blocks: u64, caller: &Caller) -> Result<(), Halt> {
        self.check_room(blocks, SPARE_BLOCKS, caller)?;
        self.kept_blocks += blocks;
        Ok(())
    }

    /// The same for blocks that are taken at once: those that stay free are needed only where others are promised.
    pub(crate) fn check_room_now(&mut self, blocks: u64, caller: &Caller) -> Result<(), Halt> {
        let spare = if self.kept_blocks == 0 { 0 } else { SPARE_BLOCKS };
        self.check_room(blocks, spare, caller)
    }

    /// An error if there is no room for so many blocks more, besides what was promised. The reserve of the file system is root's alone.
    fn check_room(&mut self, blocks: u64, spare: u64, caller: &Caller) -> Result<(), Halt> {
        if blocks == 0 {
            return Ok(());
        }
        let statistics = self.ext4()?.statistics();
        let free = if caller.uid == 0 { statistics.free } else { statistics.available };
        if free >= self.kept_blocks + blocks + spare {
            return Ok(());
        }
        let kept = self.kept_blocks;
        let detail =
            format!("expected {blocks} free blocks, found {free} of which {kept} are promised");
        Err(FsError::new(ENOSPC, detail).into())
    }

    pub(crate) fn put(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &Buffer,
        without_block: &[Range<u64>],
    ) {
        let (mode, small_bytes_max) = (self.options.mode, self.options.small_run_bytes_max);
        let file = self.file(ino);
        let (mut at, mut new_dirty) = (0, 0);
        while at < data.len() {
            let position = offset + at as u64;
            let (page, inside) = (position / BLOCK, (position % BLOCK) as usize);
            let take = (BLOCK_BYTES - inside).min(data.len() - at);
            let bytes = if take == BLOCK_BYTES {
                data.slice(at..at + take)
            } else {
                changed(file.pages.get(page), inside, &data[at..at + take])
            };
            let update = Update {
                bytes: inside..inside + take,
                has_block: !without_block.iter().any(|run| run.contains(&page)),
                goes: mode.data(take as u64, small_bytes_max),
            };
            new_dirty += usize::from(file.pages.write(page, bytes, &update));
            at += take;
        }
        self.unsaved_pages += new_dirty;
        let end = offset + data.len() as u64;
        self.note_pages_written(ino, offset / BLOCK..end.div_ceil(BLOCK));
    }

    /// A file that is written in order is written out as it comes, so that a commit finds little left.
    fn go_on_with_stream(&mut self, ino: Ino, offset: u64, end: u64) {
        let is_held_back = self.waiting.awaits_quiet_of(ino);
        let file = self.file(ino);
        let is_next = file.stream.1 == offset;
        file.stream = if is_next { (file.stream.0, end) } else { (offset, end) };
        let pages = file.stream.0.div_ceil(BLOCK)..end / BLOCK;
        // What is being packed may count as written already, so its bytes come with the record.
        if pages.end.saturating_sub(pages.start) * BLOCK < STREAM_BYTES
            || file.is_packed
            || is_held_back
        {
            return;
        }
        if self.commit.needs(ino, &pages) && !self.commit.waits_for_more() {
            // A commit is about to bring some of it, and cannot wait for more: the next write goes on.
            return;
        }
        self.file(ino).stream.0 = pages.end * BLOCK;
        let runs = match self.options.mode.unit() {
            Unit::Run if self.options.goes(STREAM_BYTES) == Placement::Record => return,
            Unit::Run => self.file(ino).pages.dirty_runs(pages),
            Unit::UpdateSequence => self.file(ino).pages.runs_in_place(pages),
        };
        let runs = self.not_bound(ino, runs);
        for run in runs {
            self.begin_write_out(ino, run);
        }
    }
}
