//! Room of files: cutting and extending them, reserving blocks, punching holes.
//!
//! Blocks are taken away only while nothing of the file is on its way to them.

use crate::core::{BLOCK, Core};
use crate::error::{EFBIG, EINVAL, FsError, Halt};
use crate::flags::check_changeable;
use crate::pages::{Update, changed};
use crate::request::{Answer, RoomChange};
use crate::writing::check_length;
use nearhead_ext4::{BLOCK_BYTES, Caller, Ino};
use std::ops::Range;

impl Core {
    /// The file has this length.
    pub(crate) fn try_cut(&mut self, ino: Ino, size: u64, caller: &Caller) -> Result<(), Halt> {
        let attributes = self.regular(ino)?;
        check_changeable(&attributes, false)?;
        let before = attributes.size;
        if size == before {
            // POSIX: the times change all the same.
            self.file(ino).written_at = Some(caller.now);
            self.note_unsaved();
            return Ok(());
        }
        if size > before {
            self.zero_tail(ino, before)?;
            // A record may bring the new length before what was written, so with it: it shows what is behind the old end on the disk.
            if self.file(ino).has_unsaved_data() {
                check_length(size)?;
                let file = self.file(ino);
                (file.size, file.written_at) = (Some(size), Some(caller.now));
                self.note_changed(&[ino]);
                return Ok(());
            }
        } else {
            if self.file(ino).is_busy() {
                return Err(Halt::Quiet);
            }
            self.zero_tail(ino, size)?;
            self.note_durability_only_cut(ino)?;
        }
        let on_disk = self.ext4()?.attributes(ino)?.size;
        // A length that was never told to the metadata is forgotten here alone.
        let is_told = size > before || on_disk > size;
        if is_told {
            self.cut_on_disk(ino, size, caller)?;
        }
        self.forget_pages(ino, size.div_ceil(BLOCK), u64::MAX);
        let file = self.file(ino);
        let is_ahead = !is_told && on_disk != size;
        file.size = is_ahead.then_some(size);
        file.written_at = (!is_told).then_some(caller.now);
        self.note_changed(&[ino]);
        Ok(())
    }

    fn cut_on_disk(&mut self, ino: Ino, size: u64, caller: &Caller) -> Result<(), Halt> {
        loop {
            let done = self.ext4()?.truncate(ino, size, caller)?;
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
    }

    pub(crate) fn try_change_room(
        &mut self,
        ino: Ino,
        range: Range<u64>,
        change: RoomChange,
        caller: &Caller,
    ) -> Result<Answer, Halt> {
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
        if self.file(ino).is_busy() {
            return Err(Halt::Quiet);
        }
        if matches!(change, RoomChange::Reserve | RoomChange::Zero) && range.end > size {
            self.zero_tail(ino, size)?;
        }
        let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        let touched = range.start / BLOCK..range.end.div_ceil(BLOCK);
        match change {
            RoomChange::Reserve | RoomChange::ReserveBeyond => {
                let count = touched.end - touched.start;
                self.ext4()?.reserve(ino, touched.start, count, true, caller)?;
                self.has_blocks(ino, touched);
            }
            RoomChange::Punch => {
                self.zero_ends(ino, &range)?;
                if whole.start < whole.end {
                    let count = whole.end - whole.start;
                    self.ext4()?.punch(ino, whole.start, count, caller)?;
                    self.forget_pages(ino, whole.start, whole.end);
                }
            }
            RoomChange::Zero | RoomChange::ZeroBeyond => {
                self.zero_ends(ino, &range)?;
                // New blocks, not the same ones as unwritten: what is written next may go in place before a record says that they are.
                if whole.start < whole.end {
                    let count = whole.end - whole.start;
                    self.ext4()?.punch(ino, whole.start, count, caller)?;
                    self.forget_pages(ino, whole.start, whole.end);
                }
                let count = touched.end - touched.start;
                self.ext4()?.reserve(ino, touched.start, count, true, caller)?;
                self.has_blocks(ino, touched);
            }
        }
        let file = self.file(ino);
        file.written_at = Some(caller.now);
        if matches!(change, RoomChange::Reserve | RoomChange::Zero) && range.end > size {
            file.size = Some(range.end);
        }
        self.note_changed(&[ino]);
        Ok(Answer::Nothing)
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
