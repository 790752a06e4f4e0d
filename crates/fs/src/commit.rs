//! The commit: what makes a transaction durable as one record, and with it the data that it names.
//!
//! One is under way at a time; those who come meanwhile share the next. Its steps, each of which may wait:
//!
//! 1. *placing*: long runs of the files that are to be durable go in place ([`crate::write_out`]), until all that are under way for these
//!    files came to their end;
//! 2. *flushing*: what was written in place since the last flush is made durable;
//! 3. *packing*: those blocks are marked as written, the short runs get blocks, lengths and times go to the metadata;
//! 4. *recording*: all changed metadata and the short runs are one atomic write.
//!
//! What an operation freed is given to nobody before the record is durable and every request that was under way by then came to its end.

use crate::core::{BLOCK, COMMIT_AFTER, Core, UNSAVED_PAGES_MAX};
use crate::error::{ENOSPC, FsError, Halt};
use crate::io::Purpose;
use crate::mounted::Phase;
use crate::waiting::Waiter;
use crate::write_out::Placed;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_ext4::{ChangesId, Ino};
use nearhead_journal::{Piece, Placement, merged};
use nearhead_service::Operation;
use std::collections::BTreeSet;
use std::ops::Range;

/// Changed blocks of metadata beyond which a commit begins by itself: one operation changes so many at most that both fit a record.
const CHANGES_MAX: usize = 96;
/// Parts of one atomic write (the engine's bound).
const PIECES_MAX: usize = 256;
/// Bytes of one.
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// Blocks that are left in a record for metadata that giving blocks to its data changes.
const SPARE_BLOCKS: usize = 48;

/// What a commit is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    Placing,
    Flushing,
    Packing,
    Recording,
    /// The rest waits until what the record freed may be used.
    Settling,
}

/// A short run that goes into the record.
#[derive(Clone, Debug)]
struct Packed {
    ino: Ino,
    incarnation: u64,
    pages: Range<u64>,
    block: u64,
}

/// State of commits.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes and facts, not a state")]
pub(crate) struct Commit {
    step: Step,
    /// Number of the transaction that changes go to now.
    running: u64,
    committed: u64,
    is_wanted: bool,
    wants_all: bool,
    /// Files whose data the next one is to make durable, and whether with their times.
    next_files: BTreeSet<Ino>,
    next_times: BTreeSet<Ino>,
    /// The same of the one under way.
    files: Vec<Ino>,
    times: BTreeSet<Ino>,
    /// Write-outs that it waits for.
    awaited: BTreeSet<u32>,
    /// Written in place, and not flushed.
    placed: Vec<Placed>,
    /// Those that the flush under way covers, or that are flushed.
    flushed: Vec<Placed>,
    /// Files that are still to be packed.
    to_pack: Vec<Ino>,
    packed: Vec<Packed>,
    changes: Option<ChangesId>,
    /// There was no room before what is freed is durable: the record goes out without the rest, which follows.
    is_partial: bool,
    was_partial: bool,
    /// Records that are durable, and the number of the last request that was made before.
    to_settle: Vec<(ChangesId, u64)>,
}

impl Default for Commit {
    fn default() -> Self {
        Self {
            step: Step::Idle,
            running: 1,
            committed: 0,
            is_wanted: false,
            wants_all: false,
            next_files: BTreeSet::new(),
            next_times: BTreeSet::new(),
            files: Vec::new(),
            times: BTreeSet::new(),
            awaited: BTreeSet::new(),
            placed: Vec::new(),
            flushed: Vec::new(),
            to_pack: Vec::new(),
            packed: Vec::new(),
            changes: None,
            is_partial: false,
            was_partial: false,
            to_settle: Vec::new(),
        }
    }
}

impl Commit {
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Number of the first one that has not begun.
    pub(crate) fn next(&self) -> u64 {
        match self.step {
            Step::Idle | Step::Recording => self.running,
            Step::Placing | Step::Flushing | Step::Packing | Step::Settling => self.running + 1,
        }
    }

    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    pub(crate) fn want_all(&mut self) {
        (self.is_wanted, self.wants_all) = (true, true);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.step == Step::Idle && !self.is_wanted
    }

    /// A write-out came to its end; there is something to flush unless it failed.
    pub(crate) fn note_end_of(&mut self, slot: u32, placed: Option<Placed>) {
        self.awaited.remove(&slot);
        self.placed.extend(placed);
    }

    /// What was placed until now is covered by the flush that begins.
    fn flush_begins(&mut self) {
        self.flushed.append(&mut self.placed);
    }
}

impl Core {
    /// The commit that makes durable what was done to a node until now; none if all of it is.
    pub(crate) fn durable_at(&mut self, ino: Ino, data_only: bool) -> Option<u64> {
        let file = self.files.get(&ino)?;
        let has_data = file.has_unsaved_data() || file.is_packed;
        let has_times = file.written_at.is_some() && !data_only;
        if (has_data || has_times) && !file.is_gone {
            self.commit.want();
            self.commit.next_files.insert(ino);
            if !data_only {
                self.commit.next_times.insert(ino);
            }
            return Some(self.commit.next());
        }
        let changed_in = file.changed_in;
        if changed_in <= self.commit.committed {
            return None;
        }
        if changed_in == self.commit.running {
            self.commit.want();
        }
        Some(changed_in)
    }

    /// Whether so much metadata is changed that nothing more may be.
    pub(crate) fn is_commit_due_by_size(&self) -> bool {
        self.ext4.as_ref().is_some_and(|ext4| ext4.changes_len() >= CHANGES_MAX)
    }

    /// When a commit begins by itself.
    pub(crate) fn commit_due_at(&self) -> Option<Nanos> {
        let waits = self.commit.step == Step::Idle && self.phase == Phase::Serving;
        self.changed_at.filter(|_| waits).map(|at| at + COMMIT_AFTER)
    }

    /// Begins a commit that is due, and goes on with the one under way.
    pub(crate) fn advance_commit(&mut self) {
        if !matches!(self.phase, Phase::Serving | Phase::Closing) {
            return;
        }
        let is_old = self.commit_due_at().is_some_and(|at| at <= self.now);
        if is_old || self.unsaved_pages >= UNSAVED_PAGES_MAX / 2 {
            self.commit.want_all();
        }
        if self.is_commit_due_by_size() {
            self.commit.want();
        }
        if self.commit.step == Step::Idle && self.commit.is_wanted {
            self.begin_commit();
        }
    }

    fn begin_commit(&mut self) {
        let commit = &mut self.commit;
        commit.is_wanted = false;
        let mut files = std::mem::take(&mut commit.next_files);
        commit.times = std::mem::take(&mut commit.next_times);
        if std::mem::take(&mut commit.wants_all) {
            // Also those without a name that are held: their pages are to leave memory.
            let changed = self
                .files
                .iter()
                .filter(|(_, file)| file.has_unsaved_data() || file.written_at.is_some());
            let all: Vec<Ino> = changed.map(|(ino, _)| *ino).collect();
            files.extend(all.iter().copied());
            commit.times.extend(all);
            self.changed_at = None;
        }
        commit.files = files.into_iter().collect();
        commit.was_partial = false;
        self.place_files();
    }

    /// Long runs of the files that are to be durable go in place.
    fn place_files(&mut self) {
        self.commit.step = Step::Placing;
        let mut room = (RECORD_BYTES_MAX / BLOCK) as usize - CHANGES_MAX - SPARE_BLOCKS;
        let mut pieces = PIECES_MAX - CHANGES_MAX - SPARE_BLOCKS;
        for ino in self.commit.files.clone() {
            let Some(file) = self.files.get(&ino) else { continue };
            let is_gone = file.is_gone;
            for run in file.pages.dirty_runs(0..u64::MAX) {
                let len = (run.end - run.start) as usize;
                let goes_in_record = !is_gone
                    && self.options.mode.data(len as u64 * BLOCK) == Placement::Record
                    && len <= room
                    && pieces > 0;
                if goes_in_record {
                    (room, pieces) = (room - len, pieces - 1);
                } else {
                    self.begin_write_out(ino, run);
                }
            }
        }
        // Not those that clients begin from now on: it would never end.
        let of_these = |ino| self.commit.files.contains(&ino);
        let under_way = self.write_outs.entries();
        let awaited = under_way.filter(|(_, work)| of_these(work.ino)).map(|(slot, _)| slot);
        self.commit.awaited = awaited.collect();
        self.go_on_with_commit();
    }

    /// Whatever the commit waited for may have come.
    pub(crate) fn go_on_with_commit(&mut self) {
        if matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        match self.commit.step {
            Step::Placing => {
                if !self.commit.awaited.is_empty() {
                    return;
                }
                if self.commit.placed.is_empty() {
                    self.begin_packing();
                } else {
                    self.commit.step = Step::Flushing;
                    self.commit.flush_begins();
                    self.io.ask(Purpose::Flush, Operation::Flush);
                }
            }
            Step::Packing => self.pack(),
            Step::Idle | Step::Flushing | Step::Recording | Step::Settling => {}
        }
    }

    pub(crate) fn on_flushed(&mut self, error: Option<FsError>) {
        match error {
            Some(error) => self.fail(error),
            None => self.begin_packing(),
        }
    }

    fn begin_packing(&mut self) {
        self.commit.step = Step::Packing;
        self.commit.to_pack.clone_from(&self.commit.files);
        for ino in self.commit.files.clone() {
            self.file(ino).is_packed = true;
        }
        self.pack();
    }

    fn pack(&mut self) {
        match self.try_pack() {
            Ok(()) => self.record(),
            Err(Halt::Commit) if !self.commit.was_partial => {
                self.commit.is_partial = true;
                self.record();
            }
            Err(Halt::Commit) => {
                let detail = "no free block is left for what was written";
                let error = FsError::new(ENOSPC, detail);
                for ino in std::mem::take(&mut self.commit.to_pack) {
                    self.lose_pages(ino, &error);
                }
                self.record();
            }
            Err(halt) => {
                if let Err(error) = self.park(Waiter::Commit, halt) {
                    self.fail(error);
                }
            }
        }
    }

    /// The pages of a file that find no room are given up, and its next `fsync` says so.
    fn lose_pages(&mut self, ino: Ino, error: &FsError) {
        self.forget_pages(ino, 0, u64::MAX);
        let file = self.file(ino);
        (file.size, file.error) = (None, Some(error.clone()));
    }

    fn try_pack(&mut self) -> Result<(), Halt> {
        while let Some(placed) = self.commit.flushed.last().cloned() {
            self.mark_written(&placed)?;
            self.commit.flushed.pop();
            if let Some(file) = self.same_file(placed.ino, placed.incarnation) {
                file.unflushed -= 1;
            }
            self.tidy(placed.ino);
            let ready = self.waiting.quiet_came();
            self.wake(ready);
        }
        while let Some(ino) = self.commit.to_pack.last().copied() {
            self.pack_file(ino)?;
            self.commit.to_pack.pop();
        }
        Ok(())
    }

    /// The blocks of a run that is in place count as written from now on, and the file reaches over them.
    fn mark_written(&mut self, placed: &Placed) -> Result<(), Halt> {
        let ino = placed.ino;
        // Of one without a name the metadata is not on the disk any more.
        let file = self.same_file(ino, placed.incarnation).filter(|file| !file.is_gone);
        let Some(file) = file else { return Ok(()) };
        let (end, size) = (placed.pages.end * BLOCK, file.size);
        let caller = self.by_itself();
        if placed.is_unwritten {
            let (first, count) = (placed.pages.start, placed.pages.end - placed.pages.start);
            self.ext4()?.allocate(ino, first, count, &caller)?;
            self.file(ino).in_place.remove(placed.pages.clone());
        }
        if let Some(size) = size {
            let reached = size.min(end);
            self.ext4()?.grow(ino, reached, &caller)?;
            if reached == size {
                self.file(ino).size = None;
            }
        }
        if placed.is_unwritten || size.is_some() {
            self.note_changed(&[ino]);
        }
        Ok(())
    }

    /// Blocks for the short runs of a file; its length and times.
    fn pack_file(&mut self, ino: Ino) -> Result<(), Halt> {
        let Some(file) = self.files.get(&ino).filter(|file| !file.is_gone) else { return Ok(()) };
        let runs = file.pages.dirty_runs(0..u64::MAX);
        let incarnation = file.incarnation;
        let (size, written_at) = (file.size, file.written_at);
        let mut caller = self.by_itself();
        caller.now = written_at.unwrap_or(caller.now);
        let mut room = self.room_in_record();
        for run in runs {
            let len = (run.end - run.start) as usize;
            // What was written meanwhile may be more than fits: it waits for the next one.
            if len > room {
                continue;
            }
            room -= len;
            let blocks = self.ext4()?.allocate(ino, run.start, run.end - run.start, &caller)?;
            self.has_blocks(ino, run.clone());
            // Also where no metadata changes: an `fsync` waits for the record.
            self.note_changed(&[ino]);
            for run in blocks {
                let pages = run.logical..run.logical + run.len;
                let block = run.physical;
                self.commit.packed.push(Packed { ino, incarnation, pages, block });
            }
        }
        if let Some(size) = size {
            self.ext4()?.grow(ino, size, &caller)?;
            self.file(ino).size = None;
            self.note_changed(&[ino]);
        }
        if written_at.is_some() && (size.is_some() || self.commit.times.contains(&ino)) {
            self.ext4()?.touch_written(ino, false, &caller)?;
            self.file(ino).written_at = None;
            self.note_changed(&[ino]);
        }
        Ok(())
    }

    /// Blocks that the record still takes.
    fn room_in_record(&self) -> usize {
        let packed: u64 =
            self.commit.packed.iter().map(|packed| packed.pages.end - packed.pages.start).sum();
        let changed = self.ext4.as_ref().map_or(0, |ext4| ext4.changes_len());
        let all = (RECORD_BYTES_MAX / BLOCK) as usize;
        all.saturating_sub(SPARE_BLOCKS / 2 + changed + packed as usize)
    }

    /// All that is changed becomes one record.
    fn record(&mut self) {
        self.commit.step = Step::Recording;
        for ino in self.commit.files.clone() {
            self.file(ino).is_packed = false;
        }
        let mut pieces = self.data_pieces();
        let changes = self.ext4.as_deref_mut().filter(|ext4| ext4.is_changed());
        if let Some(changes) = changes.map(nearhead_ext4::Ext4::take_changes) {
            self.commit.changes = Some(changes.id);
            pieces.extend(changes.blocks.iter().map(|(block, bytes)| {
                let data = Payload::Bytes(BufferMut::copy_of(&bytes[..]).freeze());
                Piece { offset: block * BLOCK, data }
            }));
        }
        self.commit.running += 1;
        if pieces.is_empty() {
            return self.on_recorded(None);
        }
        let extents: Vec<(u64, Payload)> =
            merged(pieces).into_iter().map(|piece| (piece.offset, piece.data)).collect();
        self.io.ask(Purpose::Record, Operation::WriteAtomic { extents });
    }

    /// The bytes of the short runs, as they are now.
    fn data_pieces(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
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
            let mut offset = (packed.block + (here.start - packed.pages.start)) * BLOCK;
            for data in file.pages.take(here.clone()) {
                let len = data.len() as u64;
                pieces.push(Piece { offset, data });
                offset += len;
            }
            packed.pages = here;
        }
        pieces
    }

    pub(crate) fn on_recorded(&mut self, error: Option<FsError>) {
        if let Some(error) = error {
            return self.fail(error);
        }
        for packed in std::mem::take(&mut self.commit.packed) {
            let len = (packed.pages.end - packed.pages.start) as usize;
            if let Some(file) = self.same_file(packed.ino, packed.incarnation) {
                let idle = file.pages.settle(packed.pages);
                self.note_idle(packed.ino, idle);
            }
            self.note_saved(len);
        }
        if let Some(id) = self.commit.changes.take() {
            self.commit.to_settle.push((id, self.io.newest()));
        }
        if std::mem::take(&mut self.commit.is_partial) {
            // Those who wait have waited for the rest as well.
            self.commit.was_partial = true;
            self.commit.step = Step::Settling;
            return self.settle_commits();
        }
        self.commit.step = Step::Idle;
        self.commit.committed = self.commit.running - 1;
        self.settle_commits();
        let mut ready = self.waiting.committed(self.commit.committed);
        ready.extend(self.waiting.quiet_came());
        self.wake(ready);
        for ino in std::mem::take(&mut self.commit.files) {
            self.tidy(ino);
        }
        if self.waiting.wants_commit(self.commit.running) {
            self.commit.want();
        }
    }

    /// What records freed that are durable may be used again, once nothing is under way that was asked before.
    pub(crate) fn settle_commits(&mut self) {
        while let Some((id, newest)) = self.commit.to_settle.first().copied() {
            if !self.io.are_answered_up_to(newest) {
                return;
            }
            self.commit.to_settle.remove(0);
            if let Some(ext4) = &mut self.ext4 {
                ext4.settle(id);
            }
        }
        match self.commit.step {
            Step::Idle => {
                let ready = self.waiting.settled();
                self.wake(ready);
            }
            Step::Settling => self.place_files(),
            _ => {}
        }
    }
}
