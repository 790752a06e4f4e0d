//! Write-outs: runs of a file that go in place before the record that names them.
//!
//! Blocks are reserved as unwritten first, so that whoever reads them after a crash finds zeros and never what was there before. Only
//! after the bytes came to their end, and a flush after that, does a commit mark them as written ([`crate::commit`]).

use crate::core::{BLOCK, Core};
use crate::error::{FsError, Halt};
use crate::io::Purpose;
use crate::waiting::Waiter;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_ext4::{Caller, Ino, Place, Run};
use nearhead_service::Operation;
use std::ops::Range;

/// Parts of a run smaller than this are copied together: fewer and longer commands.
const PART_BYTES_MIN: usize = 256 << 10;

/// A run of a file on its way in place.
#[derive(Debug)]
pub(crate) struct WriteOut {
    pub(crate) ino: Ino,
    incarnation: u64,
    pub(crate) pages: Range<u64>,
    /// Writes under way; none until its blocks are known.
    missing: u32,
    is_placed: bool,
    /// Some of its blocks count as unwritten.
    pub(crate) is_unwritten: bool,
    error: Option<FsError>,
    /// When it began.
    since: Nanos,
}

impl WriteOut {
    /// Whether it has its blocks, and so waits for the volume alone.
    pub(crate) fn has_blocks(&self) -> bool {
        self.is_placed
    }
}

/// A run that was written and not flushed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) ino: Ino,
    pub(crate) incarnation: u64,
    pub(crate) pages: Range<u64>,
    pub(crate) is_unwritten: bool,
}

impl Core {
    /// Pages of a file, which are dirty, go in place.
    pub(crate) fn begin_write_out(&mut self, ino: Ino, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        self.pages_in_write_outs += (pages.end - pages.start) as usize;
        let file = self.file(ino);
        file.writing += 1;
        let incarnation = file.incarnation;
        let is_awaited = self.commit.waits_for_more() && self.commit.needs(ino, &pages);
        let slot = self.write_outs.insert(WriteOut {
            ino,
            incarnation,
            pages,
            missing: 0,
            is_placed: false,
            is_unwritten: false,
            error: None,
            since: self.now,
        });
        if is_awaited {
            self.commit.also_wait_for(slot);
        }
        self.try_write_out(slot);
    }

    /// Pages of a file that are on their way in place.
    pub(crate) fn pages_under_way(&self, ino: Ino) -> Vec<Range<u64>> {
        let works = self.write_outs.entries().filter(|(_, work)| work.ino == ino);
        works.map(|(_, work)| work.pages.clone()).collect()
    }

    pub(crate) fn try_write_out(&mut self, slot: u32) {
        let Some(work) = self.write_outs.get(slot) else { return };
        if work.is_placed {
            return;
        }
        let (ino, pages) = (work.ino, work.pages.clone());
        let incarnation = work.incarnation;
        if self.same_file(ino, incarnation).is_none() {
            return self.end_write_out(slot);
        }
        match self.place(ino, &pages) {
            Ok(runs) => self.send_out(slot, &runs),
            Err(halt) => {
                if let Err(error) = self.park(Waiter::WriteOut(slot), halt) {
                    self.fail_write_out(slot, &error);
                }
            }
        }
    }

    /// Blocks for these pages.
    fn place(&mut self, ino: Ino, pages: &Range<u64>) -> Result<Vec<Run>, Halt> {
        let caller = self.by_itself();
        let (first, count) = (pages.start, pages.end - pages.start);
        let runs = self.ext4()?.map(ino, first, count)?;
        let Some(hole) = runs.iter().find(|run| run.place == Place::Hole) else {
            return Ok(runs);
        };
        if self.is_commit_due_by_size() {
            return Err(Halt::Changes);
        }
        let (hole, left) = (hole.logical, pages.end - hole.logical);
        let reserved = self.in_parts(left, |core, len| {
            Ok(core.ext4()?.reserve(ino, hole, len, true, &caller)?)
        })?;
        self.note_changed(&[ino]);
        if reserved < left {
            return Err(Halt::Changes);
        }
        self.has_blocks(ino, pages.clone());
        Ok(self.ext4()?.map(ino, first, count)?)
    }

    /// What is done for nobody in particular.
    pub(crate) fn by_itself(&self) -> Caller {
        Caller { uid: 0, gid: 0, now: self.clock }
    }

    fn send_out(&mut self, slot: u32, runs: &[Run]) {
        let Some(work) = self.write_outs.get_mut(slot) else { return };
        let ino = work.ino;
        work.is_placed = true;
        let piece_max = u64::from(self.info.request_bytes_max / BLOCK as u32).max(1);
        let (mut writes, mut is_unwritten) = (Vec::new(), false);
        for run in runs {
            let first = match run.place {
                Place::Hole => continue,
                Place::Unwritten(first) => {
                    is_unwritten = true;
                    first
                }
                Place::Written(first) => first,
            };
            let mut at = 0;
            while at < run.len {
                let take = piece_max.min(run.len - at);
                let page = run.logical + at;
                // What was cut off meanwhile is not there any more.
                let parts = self.file(ino).pages.take(page..page + take);
                let mut offset = (first + at) * BLOCK;
                for data in together(parts) {
                    let len = data.len() as u64;
                    self.counts.in_place_bytes += len;
                    writes.push(Operation::WriteInPlace { offset, data, fua: false });
                    offset += len;
                }
                at += take;
            }
        }
        if let Some(work) = self.write_outs.get_mut(slot) {
            work.missing = writes.len() as u32;
            work.is_unwritten = is_unwritten;
        }
        if writes.is_empty() {
            return self.end_write_out(slot);
        }
        for write in writes {
            self.io.ask(Purpose::WriteOut(slot), write);
        }
    }

    pub(crate) fn on_written_out(&mut self, slot: u32, error: Option<FsError>) {
        let Some(work) = self.write_outs.get_mut(slot) else { return };
        work.missing = work.missing.saturating_sub(1);
        work.error = work.error.take().or(error);
        if work.missing == 0 {
            self.end_write_out(slot);
        }
    }

    /// It will never be: its pages are lost, and an `fsync` of the file says so.
    pub(crate) fn fail_write_out(&mut self, slot: u32, error: &FsError) {
        let Some(work) = self.write_outs.get_mut(slot) else { return };
        let (ino, pages) = (work.ino, work.pages.clone());
        work.error = Some(error.clone());
        let (is_placed, incarnation) = (work.is_placed, work.incarnation);
        if !is_placed && self.same_file(ino, incarnation).is_some() {
            self.has_blocks(ino, pages.clone());
            let _ = self.file(ino).pages.take(pages);
        }
        self.end_write_out(slot);
    }

    fn end_write_out(&mut self, slot: u32) {
        let Some(work) = self.write_outs.remove(slot) else { return };
        let (ino, pages) = (work.ino, work.pages.clone());
        let incarnation = work.incarnation;
        self.pages_in_write_outs -= (pages.end - pages.start) as usize;
        let (mut placed, mut kept) = (None, None);
        if let Some(file) = self.same_file(ino, incarnation) {
            file.writing -= 1;
            // The kernel has them; nobody changes a run of this length in part soon, but where its writes stand.
            let stands = file.steps.page();
            for page in file.pages.settle(pages.clone()) {
                if page == stands {
                    kept = Some(page);
                } else {
                    file.pages.drop_idle(page);
                }
            }
            if work.error.is_none() {
                file.unflushed += 1;
                if work.is_unwritten {
                    file.in_place.insert(pages.clone());
                }
                let (pages, is_unwritten) = (pages.clone(), work.is_unwritten);
                placed = Some(Placed { ino, incarnation, pages, is_unwritten });
            }
            file.error = file.error.take().or(work.error);
        }
        self.note_idle(ino, kept.into_iter().collect());
        if placed.is_none() {
            self.note_pages_durable(ino, incarnation, pages.clone());
        }
        if placed.is_some() {
            // To be flushed, and marked as written, no later than what was changed when it began.
            self.note_unsaved_since(work.since);
        }
        self.commit.note_end_of(slot, placed);
        self.note_saved((pages.end - pages.start) as usize);
        self.runnable.push_back(Waiter::Commit);
        let ready = self.waiting.quiet_came();
        self.wake(ready);
    }
}

/// Neighbours of a run, small ones copied together.
fn together(parts: Vec<Payload>) -> Vec<Payload> {
    let total = nearhead_disk::total_len(&parts);
    if parts.len() < 2 || total / parts.len() >= PART_BYTES_MIN {
        return parts;
    }
    let mut whole = BufferMut::zeroed(total);
    nearhead_disk::copy_parts(&parts, &mut whole);
    vec![Payload::Bytes(whole.freeze())]
}
