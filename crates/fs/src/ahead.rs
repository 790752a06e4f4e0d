//! Reading ahead of writes: who writes less than a block at a time over a file that is there would wait for a read of each block.
//!
//! Where the writes of a file went on from one block to the next twice, the blocks behind them are read before they are asked for. Such pages
//! stay in memory until the writes reach them or go elsewhere. All files together have no more than `PAGES_MAX` of them, in memory or on
//! their way, each its share. Nothing is read ahead of writes that do not follow each other, of whole blocks, or of bulk; and nothing that
//! comes replaces what was written since, which is for [`crate::pages`] to keep.

use crate::core::{BLOCK, Core, SMALL_WRITE_PAGES_MAX, whole};
use crate::error::FsError;
use crate::io::Purpose;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_ext4::{BLOCK_BYTES, Ino, Place};
use nearhead_service::Operation;
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages ahead of all writers together: 16 MiB.
const PAGES_MAX: u64 = (16 << 20) / BLOCK;
/// Pages ahead of one writer, at most: a read of 256 KiB takes less than a revolution, and a seek for each is a small part of it.
const WINDOW_PAGES_MAX: u64 = 64;
/// Less than this is not worth a way of the arm.
const WINDOW_PAGES_MIN: u64 = 8;
/// How many times writes have to go on to the next page before anything is read ahead of them.
const STEPS_MIN: u32 = 2;
/// A file that was not written for so long gives its pages to others that want room.
const LEFT_AFTER: Nanos = Nanos::from_secs(10);

/// How the last writes of a file follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Page in which the last one ended.
    page: u64,
    /// How many of them in a row went on to a later page.
    count: u32,
}

impl Steps {
    /// Page in which the last write ended.
    pub(crate) fn page(self) -> u64 {
        self.page
    }

    /// One more; says whether it goes on where the one before ended, in the same page or in the next.
    fn go_on(&mut self, written: &Range<u64>) -> bool {
        let (first, last) = (written.start / BLOCK, (written.end - 1) / BLOCK);
        let goes_on = first == self.page || first == self.page + 1;
        let count = self.count.saturating_add(u32::from(last > self.page));
        self.count = if goes_on { count } else { 0 };
        self.page = last;
        goes_on
    }
}

/// Pages ahead of one file's writes.
#[derive(Debug)]
struct Window {
    pages: Range<u64>,
    used_at: Nanos,
}

/// Those of all files.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    windows: BTreeMap<Ino, Window>,
    pages: u64,
}

impl Ahead {
    /// How many pages there are, in memory or on their way.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    fn has(&self, ino: Ino, page: u64) -> bool {
        self.windows.get(&ino).is_some_and(|window| window.pages.contains(&page))
    }

    fn window(&self, ino: Ino) -> Range<u64> {
        self.windows.get(&ino).map_or(0..0, |window| window.pages.clone())
    }

    /// The file's window is this now.
    fn set(&mut self, ino: Ino, pages: Range<u64>, now: Nanos) {
        let len = |pages: &Range<u64>| pages.end.saturating_sub(pages.start);
        self.pages = self.pages + len(&pages) - len(&self.window(ino));
        if pages.is_empty() {
            self.windows.remove(&ino);
        } else {
            self.windows.insert(ino, Window { pages, used_at: now });
        }
    }

    /// What one file may have ahead, if all have as much.
    fn share(&self, ino: Ino) -> u64 {
        let others = self.windows.len() - usize::from(self.windows.contains_key(&ino));
        (PAGES_MAX / (others as u64 + 1)).clamp(WINDOW_PAGES_MIN, WINDOW_PAGES_MAX)
    }

    /// The file that was not written for longest, if that is long enough.
    fn left(&self, now: Nanos) -> Option<Ino> {
        let oldest = self.windows.iter().min_by_key(|(_, window)| window.used_at)?;
        (now.since(oldest.1.used_at) >= LEFT_AFTER).then_some(*oldest.0)
    }
}

impl Core {
    /// These bytes of a file that had this length were written: what comes next is read before it is asked for.
    pub(crate) fn read_ahead(&mut self, ino: Ino, written: &Range<u64>, size: u64) {
        let steps = &mut self.file(ino).steps;
        let (goes_on, steps) = (steps.go_on(written), steps.count);
        if !goes_on {
            return self.give_up_ahead(ino);
        }
        let reached = written.end.div_ceil(BLOCK);
        let window = self.ahead.window(ino);
        let ahead = reached.max(window.start)..reached.max(window.end);
        if !window.is_empty() {
            self.ahead.set(ino, ahead.clone(), self.now);
        }
        let is_whole = written.start.is_multiple_of(BLOCK) && written.end.is_multiple_of(BLOCK);
        let is_small = reached - written.start / BLOCK <= SMALL_WRITE_PAGES_MAX;
        let share = self.ahead.share(ino);
        // Half of it is still to come: so each read is of half a window.
        let is_enough = (ahead.end - ahead.start) * 2 > share;
        if steps < STEPS_MIN || is_whole || !is_small || is_enough {
            return;
        }
        let wanted = ahead.end..(ahead.end + share).min(reached + share).min(size.div_ceil(BLOCK));
        self.ask_ahead(ino, ahead.start, wanted);
    }

    /// Reads what of these pages is not in memory, as far as there is room for it.
    fn ask_ahead(&mut self, ino: Ino, reached: u64, mut pages: Range<u64>) {
        while self.ahead.pages() + pages.end.saturating_sub(pages.start) > PAGES_MAX {
            match self.ahead.left(self.now) {
                Some(left) if left != ino => self.give_up_ahead(left),
                _ => break,
            }
        }
        pages.end = pages.end.min(pages.start + (PAGES_MAX - self.ahead.pages()));
        if pages.is_empty() {
            return;
        }
        // Where the map of the file is not in memory, the next write asks again.
        let Ok(runs) = self.runs(ino, pages.clone()) else { return };
        self.ahead.set(ino, reached..pages.end, self.now);
        let piece_max = u64::from(self.info.request_bytes_max / BLOCK as u32).max(1);
        for run in runs {
            let Place::Written(block) = run.place else { continue };
            let file = self.file(ino);
            for part in file.pages.absent(run.logical..run.logical + run.len) {
                let mut from = part.start;
                while from < part.end {
                    let to = part.end.min(from + piece_max);
                    self.ask_pages(ino, from..to, block + (from - run.logical));
                    from = to;
                }
            }
        }
    }

    fn ask_pages(&mut self, ino: Ino, pages: Range<u64>, block: u64) {
        let len = (pages.end - pages.start) as u32;
        let read = Operation::Read { offset: block * BLOCK, len: len * BLOCK as u32 };
        let purpose = Purpose::Ahead { ino, first: pages.start, len };
        let request = self.io.ask(purpose, read);
        self.counts.read_ahead_bytes += u64::from(len) * BLOCK;
        self.file(ino).pages.await_from(request, pages);
    }

    /// What was read ahead is there. Who waits for a page of one that failed asks for that one alone, and is told what is wrong with it.
    pub(crate) fn on_ahead(
        &mut self,
        request: u64,
        ino: Ino,
        pages: Range<u64>,
        result: &Result<Vec<Payload>, FsError>,
    ) {
        for page in pages.clone() {
            let ready = self.waiting.page_came(ino, page);
            let was_awaited = self.stop_awaiting(request, ino, page);
            if let (true, Ok(parts)) = (was_awaited, result) {
                let at = (page - pages.start) as usize * BLOCK_BYTES;
                // Copied: one page must not keep the memory of all.
                let bytes = whole(&nearhead_disk::range_of(parts.clone(), &(at..at + BLOCK_BYTES)));
                let bytes = BufferMut::copy_of(&bytes[..]).freeze();
                if self.ahead.has(ino, page) {
                    self.file(ino).pages.keep(page, bytes, false);
                } else {
                    self.keep_idle(ino, page, bytes);
                }
            }
            self.wake(ready);
        }
    }

    /// Nobody is about to write what was read ahead in this file: it is like any other page that may be dropped.
    pub(crate) fn give_up_ahead(&mut self, ino: Ino) {
        let pages = self.ahead.window(ino);
        if pages.is_empty() {
            return;
        }
        self.ahead.set(ino, 0..0, self.now);
        if let Some(file) = self.files.get_mut(&ino) {
            let unneeded = file.pages.unneeded(pages);
            self.note_idle(ino, unneeded);
        }
    }

    /// The same if any of it is at or behind this page.
    pub(crate) fn give_up_ahead_from(&mut self, ino: Ino, page: u64) {
        if self.ahead.window(ino).end > page {
            self.give_up_ahead(ino);
        }
    }
}
