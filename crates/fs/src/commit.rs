//! The commit: what makes a transaction durable as one record, and with it the data that it names.
//!
//! One is under way at a time; those who come meanwhile share the next. Its steps, each of which may wait:
//!
//! 1. *placing*: what the mode puts in place of the files that are to be durable goes there ([`crate::write_out`]), until all came to their
//!    end that are under way for those of them that somebody waits for. Of the others, which only became old, it takes what is there;
//! 2. *flushing*: what was written in place since the last flush is made durable;
//! 3. *packing*: those blocks are marked as written, the other runs get blocks, lengths and times go to the metadata;
//! 4. *recording*: all changed metadata and those runs are one atomic write. What one does not take follows in the next, each with
//!    the metadata of what it brings.
//!
//! Packing is in [`crate::packing`], what a commit has to bring in [`crate::commit_scope`].
//!
//! What an operation freed is given to nobody before the record is durable and every request that was under way by then came to its end.

use crate::core::{BLOCK, Core};
use crate::error::FsError;
use crate::file::File;
use crate::io::Purpose;
use crate::mounted::Phase;
use crate::packing::Packed;
use crate::replacing::Bounds;
use crate::write_out::Placed;
use nearhead_disk::{Nanos, RangeSet};
use nearhead_ext4::{ChangesId, Ino};
use nearhead_journal::{Placement, Unit};
use nearhead_service::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What of a commit a record leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    #[default]
    Nothing,
    /// More than one record takes.
    FitsNoMore,
    /// What finds no free block before what the record frees is durable.
    NeedsRoom,
    /// All data: so much metadata was changed that blocks for more of it find no room in the record.
    MoreToPlace,
}

/// What a commit is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    #[default]
    Idle,
    Placing,
    Flushing,
    Packing,
    Recording,
    /// The rest waits until what the record freed may be used.
    Settling,
}

/// State of commits.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes and facts, not a state")]
pub(crate) struct Commit {
    pub(crate) step: Step,
    /// Number of the transaction that changes go to now.
    pub(crate) running: u64,
    pub(crate) committed: u64,
    is_wanted: bool,
    wants_all: bool,
    /// The same for whatever became old, which nobody waits for.
    wants_old: bool,
    /// The one under way brings all that is old, since then.
    pub(crate) old_since: Option<Nanos>,
    /// When the last one ended that answered clients.
    pub(crate) ended_at: Option<Nanos>,
    /// It takes times of access along.
    pub(crate) takes_access_times: bool,
    /// Files whose data the next one is to make durable, and whether with their times.
    pub(crate) next_files: BTreeSet<Ino>,
    pub(crate) next_times: BTreeSet<Ino>,
    /// The same of the one under way.
    pub(crate) files: Vec<Ino>,
    pub(crate) times: BTreeSet<Ino>,
    /// Of its files, what was dirty when it began: it brings that and no more, or it would never end beside somebody who goes on writing.
    pub(crate) dirty: BTreeMap<Ino, RangeSet>,
    /// Those of its files that somebody waits for.
    pub(crate) asked: BTreeSet<Ino>,
    /// Write-outs that it waits for.
    awaited: BTreeSet<u32>,
    /// Replaced content that has to be in it.
    pub(crate) bounds: Bounds,
    /// Its next record is made although write-outs that it waits for are under way.
    pub(crate) is_early: bool,
    /// Written in place, and not flushed.
    pub(crate) placed: Vec<Placed>,
    /// Those that the flush under way covers, or that are flushed.
    pub(crate) flushed: Vec<Placed>,
    /// Files that are still to be packed.
    pub(crate) to_pack: Vec<Ino>,
    pub(crate) packed: Vec<Packed>,
    pub(crate) changes: Option<ChangesId>,
    /// Durability-only files lose blocks in the running transaction, or lost some in the one under way; and what that one frees.
    pub(crate) drops_freed: bool,
    pub(crate) has_dropped: bool,
    pub(crate) freed: Vec<Range<u64>>,
    /// What the record that is under way leaves out, and the next one brings.
    pub(crate) rest: Rest,
    /// No room was found although what was freed is durable.
    pub(crate) was_full: bool,
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
            takes_access_times: false,
            old_since: None,
            ended_at: None,
            wants_old: false,
            next_files: BTreeSet::new(),
            next_times: BTreeSet::new(),
            files: Vec::new(),
            times: BTreeSet::new(),
            dirty: BTreeMap::new(),
            asked: BTreeSet::new(),
            awaited: BTreeSet::new(),
            bounds: Bounds::default(),
            is_early: false,
            placed: Vec::new(),
            flushed: Vec::new(),
            to_pack: Vec::new(),
            packed: Vec::new(),
            changes: None,
            drops_freed: false,
            has_dropped: false,
            freed: Vec::new(),
            rest: Rest::Nothing,
            was_full: false,
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

    /// Whether the record under way is followed by another one of the same packing.
    pub(crate) fn goes_on_packing(&self) -> bool {
        self.rest == Rest::FitsNoMore
    }

    /// Number of the first one that has not begun.
    pub(crate) fn next(&self) -> u64 {
        match self.step {
            Step::Idle => self.running,
            Step::Recording if self.rest == Rest::Nothing => self.running,
            _ => self.running + 1,
        }
    }

    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    pub(crate) fn want_all(&mut self) {
        (self.is_wanted, self.wants_all) = (true, true);
    }

    fn want_old(&mut self) {
        (self.is_wanted, self.wants_old) = (true, true);
    }

    /// What a write-out that begins now would take has to be durable before somebody is answered: it must be waited for, or not begin.
    pub(crate) fn needs(&self, ino: Ino, pages: &Range<u64>) -> bool {
        let is_before_its_record =
            matches!(self.step, Step::Placing | Step::Flushing | Step::Packing);
        let dirty = self.dirty.get(&ino).filter(|_| is_before_its_record);
        self.asked.contains(&ino) && dirty.is_some_and(|dirty| dirty.overlaps(pages.clone()))
    }

    /// Whether it can still wait for another write-out; from then on it does.
    pub(crate) fn waits_for_more(&self) -> bool {
        self.step == Step::Placing
    }

    pub(crate) fn also_wait_for(&mut self, slot: u32) {
        self.awaited.insert(slot);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.step == Step::Idle && !self.is_wanted
    }

    /// A write-out came to its end; there is something to flush unless it failed.
    pub(crate) fn note_end_of(&mut self, slot: u32, placed: Option<Placed>) {
        self.awaited.remove(&slot);
        self.bounds.note_end_of(slot);
        self.placed.extend(placed);
    }

    /// What was placed until now is covered by the flush that begins.
    fn flush_begins(&mut self) {
        self.flushed.append(&mut self.placed);
    }
}

impl Core {
    /// Begins a commit that is due, and goes on with the one under way.
    pub(crate) fn advance_commit(&mut self) {
        if !matches!(self.phase, Phase::Serving | Phase::Closing) {
            return;
        }
        if self.do_what_is_due() || self.is_pressed() {
            self.commit.want_old();
        }
        if self.is_commit_due_by_size() {
            if self.commit.step != Step::Packing {
                self.commit.want();
            }
        } else {
            self.work_off();
        }
        if self.commit.step == Step::Idle && self.commit.is_wanted {
            if self.is_half_due() {
                self.commit.want_old();
            }
            self.begin_commit();
        } else if self.commit.step == Step::Placing {
            self.go_on_with_commit();
        }
    }

    fn begin_commit(&mut self) {
        let commit = &mut self.commit;
        commit.is_wanted = false;
        let mut files = std::mem::take(&mut commit.next_files);
        commit.times = std::mem::take(&mut commit.next_times);
        let is_for_all = std::mem::take(&mut commit.wants_all);
        let is_for_old = std::mem::take(&mut commit.wants_old) || is_for_all;
        commit.takes_access_times = is_for_old;
        commit.old_since = None;
        let mut asked = files.clone();
        if is_for_old {
            // Also those without a name that are held: their pages are to leave memory.
            let changed = self
                .files
                .iter()
                .filter(|(_, file)| file.has_unsaved_data() || file.has_pending_times());
            let all: Vec<Ino> = changed.map(|(ino, _)| *ino).collect();
            files.extend(all.iter().copied());
            commit.times.extend(all);
            commit.old_since = Some(self.changed_at.take().unwrap_or(self.now));
            self.has_written_back = false;
            if is_for_all {
                asked.clone_from(&files);
            }
        }
        commit.files = files.into_iter().collect();
        commit.was_full = false;
        commit.asked = asked;
        self.note_dirty();
        self.place_files();
    }

    /// This is what it brings.
    fn note_dirty(&mut self) {
        let dirty = |ino: &Ino| {
            let mut all = RangeSet::new();
            let file = self.files.get(ino);
            for run in file.map(|file| file.pages.dirty_runs(0..u64::MAX)).unwrap_or_default() {
                all.insert(run);
            }
            (*ino, all)
        };
        self.commit.dirty = self.commit.files.iter().map(dirty).collect();
    }

    /// Long runs of the files that are to be durable go in place.
    fn place_files(&mut self) {
        self.commit.step = Step::Placing;
        for ino in self.commit.files.clone() {
            let may_begin = self.commit.asked.contains(&ino) || !self.waiting.awaits_quiet_of(ino);
            let Some(file) = self.files.get(&ino).filter(|_| may_begin) else { continue };
            for run in self.not_bound(ino, self.runs_in_place(file)) {
                self.begin_write_out(ino, run);
            }
        }
        // Not those that clients begin from now on: it would never end.
        let of_these = |ino| self.commit.asked.contains(&ino);
        let under_way = self.write_outs.entries();
        let awaited = under_way.filter(|(_, work)| of_these(work.ino)).map(|(slot, _)| slot);
        self.commit.awaited = awaited.collect();
        self.go_on_with_commit();
    }

    /// What of a file goes in place.
    pub(crate) fn runs_in_place(&self, file: &File) -> Vec<Range<u64>> {
        let all = 0..u64::MAX;
        // One without a name has no metadata on the disk that a record could bring.
        if file.is_gone {
            return file.pages.dirty_runs(all);
        }
        if file.durability_only == Some(true) {
            return Vec::new();
        }
        let len = |run: &Range<u64>| (run.end - run.start) * BLOCK;
        let is_bulk = |run: &Range<u64>| self.options.goes(len(run)) == Placement::InPlace;
        match self.options.mode.unit() {
            Unit::Run => file.pages.dirty_runs(all).into_iter().filter(is_bulk).collect(),
            Unit::UpdateSequence => file.pages.runs_in_place(all),
        }
    }

    /// Whatever the commit waited for may have come.
    pub(crate) fn go_on_with_commit(&mut self) {
        if matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        match self.commit.step {
            Step::Placing => {
                let is_early = !self.commit.awaited.is_empty();
                let is_full = self.is_commit_due_by_size() || self.waiting.awaits_changes();
                if is_early && !is_full {
                    return;
                }
                self.close_bounds();
                if self.commit.bounds.are_under_way() {
                    return;
                }
                if is_early && !self.commit.bounds.has_closed() {
                    return self.record(Rest::MoreToPlace);
                }
                self.commit.is_early = is_early;
                if self.needs_flush() {
                    self.commit.step = Step::Flushing;
                    self.commit.flush_begins();
                    self.io.ask(Purpose::Flush, Operation::Flush);
                } else {
                    self.begin_packing();
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

    pub(crate) fn on_recorded(&mut self, error: Option<FsError>) {
        if let Some(error) = error {
            return self.fail(error);
        }
        for packed in std::mem::take(&mut self.commit.packed) {
            let len = (packed.pages.end - packed.pages.start) as usize;
            let pages = packed.pages.clone();
            if let Some(file) = self.same_file(packed.ino, packed.incarnation) {
                let idle = file.pages.settle(packed.pages);
                self.note_idle(packed.ino, idle);
            }
            self.note_marked(packed.ino, packed.incarnation, pages);
            self.note_saved(len);
        }
        self.note_record_durable();
        let freed = std::mem::take(&mut self.commit.freed);
        let has_dropped = std::mem::take(&mut self.commit.has_dropped);
        self.drop_freed(freed, has_dropped);
        if let Some(id) = self.commit.changes.take() {
            self.commit.to_settle.push((id, self.io.newest()));
        }
        // Those who wait, wait for the rest as well.
        match std::mem::take(&mut self.commit.rest) {
            Rest::Nothing => {}
            Rest::FitsNoMore => {
                self.settle_commits();
                if self.may_end_here() {
                    self.leave_rest();
                    return self.record(Rest::Nothing);
                }
                return self.go_on_packing();
            }
            Rest::MoreToPlace => {
                self.commit.step = Step::Placing;
                self.settle_commits();
                return self.go_on_with_commit();
            }
            Rest::NeedsRoom => {
                self.commit.was_full = true;
                self.commit.step = Step::Settling;
                return self.settle_commits();
            }
        }
        self.commit.step = Step::Idle;
        self.commit.committed = self.commit.running - 1;
        self.settle_commits();
        let mut ready = self.waiting.committed(self.commit.committed);
        self.commit.ended_at = (!ready.is_empty()).then_some(self.now);
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
