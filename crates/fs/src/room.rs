//! Room of files: cutting and extending them, reserving blocks, punching holes.
//!
//! Blocks are taken away only while nothing of the file is on its way to them.

use crate::core::{BLOCK, Core};
use crate::error::{EFBIG, EINVAL, EROFS, FsError, Halt};
use crate::flags::check_changeable;
use crate::pages::{Update, changed};
use crate::request::{Answer, RoomChange};
use crate::writing::check_length;
use nearhead_ext4::{BLOCK_BYTES, Caller, Ext4, Ino, Outcome, Place, Times, Truncated};
use std::ops::Range;

/// Pages of one step of reserving and punching: 64 of the usual groups of 128 MiB, each of which is a changed block of metadata.
const STEP_PAGES: u64 = 64 << 15;

/// What pages of a file become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// They have blocks; what they hold stays.
    Stored,
    Hole,
    /// They have blocks, and read as zeros.
    Zeros,
}

impl Core {
    /// Nothing of the file is on its way to its blocks.
    fn wait_until_quiet(&mut self, ino: Ino) -> Result<(), Halt> {
        if self.file(ino).is_busy() { Err(Halt::Quiet(ino)) } else { Ok(()) }
    }

    /// The file has this length.
    pub(crate) fn try_cut(&mut self, ino: Ino, size: u64, caller: &Caller) -> Result<(), Halt> {
        let attributes = self.regular(ino)?;
        check_changeable(&attributes, false)?;
        let before = attributes.size;
        if size == before {
            // As on ext4: reserved blocks go, and the times change.
            self.free_on_disk(ino, |ext4| ext4.free_behind(ino, size, caller))?;
            self.file(ino).note_written(caller.now);
            self.note_unsaved();
            return Ok(());
        }
        if size > before {
            self.zero_tail(ino, before)?;
            // A record may bring the new length before what was written, so with it: it shows what is behind the old end on the disk.
            if self.file(ino).has_unsaved_data() {
                check_length(size)?;
                let file = self.file(ino);
                file.size = Some(size);
                file.note_written(caller.now);
                self.note_changed(&[ino]);
                return Ok(());
            }
        } else {
            self.wait_until_quiet(ino)?;
            self.zero_tail(ino, size)?;
            self.note_durability_only_cut(ino)?;
        }
        let on_disk = self.ext4()?.attributes(ino)?.size;
        // A length that was never told to the metadata is forgotten here alone.
        let is_told = size > before || on_disk > size;
        if is_told {
            self.free_on_disk(ino, |ext4| ext4.truncate(ino, size, caller))?;
        } else {
            self.free_on_disk(ino, |ext4| ext4.free_behind(ino, size, caller))?;
        }
        self.forget_pages(ino, size.div_ceil(BLOCK), u64::MAX);
        let file = self.file(ino);
        let is_ahead = !is_told && on_disk != size;
        file.size = is_ahead.then_some(size);
        if is_told {
            // The metadata has them.
            file.times = Times::default();
        } else {
            file.note_written(caller.now);
        }
        if size == 0 {
            self.note_cut(ino);
        }
        self.note_changed(&[ino]);
        Ok(())
    }

    /// Repeats `step`, which frees blocks of a file, until it is complete.
    fn free_on_disk(
        &mut self,
        ino: Ino,
        step: impl Fn(&mut Ext4) -> Outcome<Truncated>,
    ) -> Result<(), Halt> {
        loop {
            let done = step(self.ext4()?)?;
            self.note_changed(&[ino]);
            if done.is_complete {
                return Ok(());
            }
            // So much was changed that a record of it is nearly full: the rest in the next one.
            if self.is_commit_due_by_size() {
                return Err(Halt::Commit);
            }
        }
    }

    /// What is behind the end in its last page must not come back when the file grows. It is no zeros where a crash left more of a write,
    /// or less of a cut, than the length says.
    pub(crate) fn zero_tail(&mut self, ino: Ino, size: u64) -> Result<(), Halt> {
        let inside = (size % BLOCK) as usize;
        if inside == 0 {
            return Ok(());
        }
        let page = size / BLOCK;
        self.fetch(ino, page)?;
        self.write_zeros(ino, page, inside..BLOCK_BYTES);
        Ok(())
    }

    /// A part of a page that is in memory becomes zeros; of one that is not stored it is already.
    fn write_zeros(&mut self, ino: Ino, page: u64, part: Range<usize>) {
        let goes = self.options.goes(part.len() as u64);
        let file = self.file(ino);
        let Some(bytes) = file.pages.get(page) else { return };
        if bytes[part.clone()].iter().all(|byte| *byte == 0) {
            return;
        }
        let new = changed(Some(bytes), part.start, &vec![0; part.len()]);
        // It has a block, or room is kept for one already.
        let update = Update { bytes: part, has_block: true, goes };
        let is_new = file.pages.write(page, new, &update);
        self.unsaved_pages += usize::from(is_new);
        self.note_pages_written(ino, page..page + 1);
    }

    pub(crate) fn try_change_room(
        &mut self,
        ino: Ino,
        range: Range<u64>,
        change: RoomChange,
        caller: &Caller,
    ) -> Result<Answer, Halt> {
        if self.options.ext4.read_only {
            return Err(FsError::new(EROFS, "mounted read-only").into());
        }
        let attributes = self.regular(ino)?;
        let only_grows = matches!(change, RoomChange::Reserve | RoomChange::ReserveBeyond);
        check_changeable(&attributes, only_grows)?;
        let size = attributes.size;
        if range.is_empty() {
            return Err(FsError::new(EINVAL, "fallocate: expected a length above 0").into());
        }
        if range.end > i64::MAX as u64 || range.end / BLOCK >= u64::from(u32::MAX) {
            return Err(FsError::new(EFBIG, "fallocate: past the longest file").into());
        }
        self.wait_until_quiet(ino)?;
        if matches!(change, RoomChange::Reserve | RoomChange::Zero) && range.end > size {
            self.zero_tail(ino, size)?;
        }
        let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        let touched = range.start / BLOCK..range.end.div_ceil(BLOCK);
        match change {
            RoomChange::Reserve | RoomChange::ReserveBeyond => {
                self.make_all(ino, touched, Becomes::Stored, caller)?;
            }
            RoomChange::Punch => {
                self.zero_ends(ino, &range)?;
                self.make_all(ino, whole, Becomes::Hole, caller)?;
            }
            RoomChange::Zero | RoomChange::ZeroBeyond => {
                self.zero_ends(ino, &range)?;
                self.make_all(ino, whole, Becomes::Zeros, caller)?;
                self.make_all(ino, touched, Becomes::Stored, caller)?;
            }
        }
        let file = self.file(ino);
        file.note_written(caller.now);
        if matches!(change, RoomChange::Reserve | RoomChange::Zero) && range.end > size {
            file.size = Some(range.end);
        }
        self.note_changed(&[ino]);
        Ok(Answer::Nothing)
    }

    /// All these pages become so, step by step: what was done once is found done when it is tried again.
    fn make_all(
        &mut self,
        ino: Ino,
        pages: Range<u64>,
        becomes: Becomes,
        caller: &Caller,
    ) -> Result<(), Halt> {
        while let Some(from) = self.first_other(ino, &pages, becomes)? {
            if self.is_commit_due_by_size() {
                return Err(Halt::Changes);
            }
            let len = (pages.end - from).min(STEP_PAGES);
            self.in_parts(len, |core, len| core.make(ino, from..from + len, becomes, caller))?;
        }
        Ok(())
    }

    /// The first page of the range that is not so yet.
    fn first_other(
        &mut self,
        ino: Ino,
        pages: &Range<u64>,
        becomes: Becomes,
    ) -> Result<Option<u64>, Halt> {
        if pages.is_empty() {
            return Ok(None);
        }
        let is_so = |place: Place| match becomes {
            Becomes::Stored => place != Place::Hole,
            Becomes::Hole => place == Place::Hole,
            Becomes::Zeros => matches!(place, Place::Unwritten(_)),
        };
        let runs = self.ext4()?.map(ino, pages.start, pages.end - pages.start)?;
        let other = runs.iter().find(|run| !is_so(run.place)).map(|run| run.logical);
        let file = self.file(ino);
        // What is in memory alone is there as well.
        let dirty = match becomes {
            Becomes::Stored => None,
            Becomes::Hole | Becomes::Zeros => {
                file.pages.dirty_runs(pages.clone()).first().map(|run| run.start)
            }
        };
        Ok(other.into_iter().chain(dirty).min())
    }

    fn make(
        &mut self,
        ino: Ino,
        pages: Range<u64>,
        becomes: Becomes,
        caller: &Caller,
    ) -> Result<(), Halt> {
        let (first, count) = (pages.start, pages.end - pages.start);
        // New blocks, not the same ones as unwritten: what is written next may go in place before a record says that they are.
        if becomes != Becomes::Stored {
            self.ext4()?.punch(ino, first, count, caller)?;
            self.note_changed(&[ino]);
            self.forget_pages(ino, first, pages.end);
        }
        if becomes != Becomes::Hole {
            let holes = self.ext4()?.map(ino, first, count)?;
            let holes = holes.iter().filter(|run| run.place == Place::Hole);
            // Room is kept for the pages of it that are in memory.
            let kept = self.file(ino).pages.without_block_within(&pages);
            let needed = holes.map(|run| run.len).sum::<u64>();
            self.check_room_now(needed.saturating_sub(kept), caller)?;
            self.ext4()?.reserve(ino, first, count, true, caller)?;
            self.note_changed(&[ino]);
            self.has_blocks(ino, pages);
        }
        Ok(())
    }

    /// The parts of pages at both ends become zeros.
    fn zero_ends(&mut self, ino: Ino, range: &Range<u64>) -> Result<(), Halt> {
        let (first, last) = (range.start / BLOCK, range.end / BLOCK);
        let (head, tail) = ((range.start % BLOCK) as usize, (range.end % BLOCK) as usize);
        if head > 0 {
            self.fetch(ino, first)?;
        }
        if tail > 0 {
            self.fetch(ino, last)?;
        }
        if head > 0 {
            let end = if first == last { tail } else { BLOCK_BYTES };
            self.write_zeros(ino, first, head..end);
        }
        if tail > 0 && (first != last || head == 0) {
            self.write_zeros(ino, last, 0..tail);
        }
        Ok(())
    }

    /// These pages have a block now: no room is kept for them.
    pub(crate) fn has_blocks(&mut self, ino: Ino, pages: Range<u64>) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let before = file.pages.without_block_len();
        file.pages.has_block(pages);
        self.kept_blocks -= (before - file.pages.without_block_len()) as u64;
    }
}
