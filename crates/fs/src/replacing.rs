//! Replaced content without `fsync`: a file renamed over a name, or cut to nothing, written and closed (ext4's `auto_da_alloc`).
//!
//! After a crash the name has the old content or the whole new one. The new content is *bound* to the running transaction: its bulk goes
//! in place at once. The record with the metadata of this transaction is made only after that bulk is flushed, and has the rest itself. Bulk gets its blocks before the rename is carried out, so that no bound write-out waits for room in a record.
//!
//! A commit *closes* the bound files when it is about to make a record. From then until that record is made nothing more is bound: such
//! requests wait, as what they change would go into a record without its data.

use crate::commit::Step;
use crate::core::Core;
use crate::error::Halt;
use crate::file::File;
use nearhead_disk::{Nanos, RangeSet};
use nearhead_ext4::{Ino, Rename};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages of one file that may wait for the record; with more all of them go in place. A commit is due with 96 blocks of all files.
const WAITING_PAGES_MAX: u64 = 32;

/// Data of one file that has to be durable no later than the metadata of the running transaction.
#[derive(Debug)]
pub(crate) struct Bound {
    incarnation: u64,
    /// Pages that the record has.
    pub(crate) dirty: RangeSet,
    /// Write-outs under way.
    slots: BTreeSet<u32>,
    /// Length of the file at that time, if its metadata has another one.
    pub(crate) size: Option<u64>,
}

/// Files that were cut to nothing and not closed since, with the time of the cut.
#[derive(Debug, Default)]
struct Cuts {
    at: BTreeMap<Ino, Nanos>,
    by_time: BTreeSet<(Nanos, Ino)>,
}

impl Cuts {
    fn insert(&mut self, ino: Ino, at: Nanos) {
        self.remove(ino);
        self.at.insert(ino, at);
        self.by_time.insert((at, ino));
    }

    fn remove(&mut self, ino: Ino) {
        if let Some(at) = self.at.remove(&ino) {
            self.by_time.remove(&(at, ino));
        }
    }
}

/// Data bound to transactions.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// To the running transaction.
    open: BTreeMap<Ino, Bound>,
    /// Sum of the pages in `open`: it is compared with the room of a record for each request.
    open_pages: u64,
    /// To the record that is about to be made.
    closed: BTreeMap<Ino, Bound>,
    cuts: Cuts,
}

impl Bounds {
    /// Pages that wait for the record of the running transaction.
    pub(crate) fn pages(&self) -> usize {
        self.open_pages as usize
    }

    /// Whether a record has to wait for something, or to bring it.
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Whether write-outs of what the next record needs are under way.
    pub(crate) fn are_under_way(&self) -> bool {
        self.closed.values().any(|bound| !bound.slots.is_empty())
    }

    pub(crate) fn is_closed(&self, ino: Ino) -> bool {
        self.closed.contains_key(&ino)
    }

    pub(crate) fn closed(&self) -> Vec<Ino> {
        self.closed.keys().copied().collect()
    }

    /// Length up to which the next record lets a file grow.
    pub(crate) fn closed_size(&self, ino: Ino) -> Option<u64> {
        self.closed.get(&ino).and_then(|bound| bound.size)
    }

    /// The record is made.
    pub(crate) fn note_recorded(&mut self) {
        self.closed.clear();
    }

    pub(crate) fn note_end_of(&mut self, slot: u32) {
        for bound in self.open.values_mut().chain(self.closed.values_mut()) {
            bound.slots.remove(&slot);
        }
    }

    /// Whether a file was cut to nothing since `from` and is not closed yet: its new content is about to come.
    pub(crate) fn has_cut_since(&self, from: Nanos) -> bool {
        self.cuts.by_time.last().is_some_and(|(at, _)| *at >= from)
    }

    /// No client holds a file any more.
    pub(crate) fn note_released(&mut self, ino: Ino) {
        self.cuts.remove(ino);
    }

    /// Nothing of a file is bound any more: it is gone.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.unbind(ino);
        self.closed.remove(&ino);
        self.cuts.remove(ino);
    }

    fn bind(&mut self, ino: Ino, bound: Bound) {
        self.unbind(ino);
        self.open_pages += bound.dirty.total();
        self.open.insert(ino, bound);
    }

    fn unbind(&mut self, ino: Ino) {
        if let Some(bound) = self.open.remove(&ino) {
            self.open_pages -= bound.dirty.total();
        }
    }
}

impl Core {
    /// Before a rename: if it replaces a name, the bulk of what is moved goes out.
    pub(crate) fn bind_moved(
        &mut self,
        moved: Ino,
        to: Ino,
        new_name: &[u8],
        how: Rename,
    ) -> Result<(), Halt> {
        if how == Rename::Exchange || !self.files.get(&moved).is_some_and(File::has_unsaved_data) {
            return Ok(());
        }
        let found = self.ext4()?.lookup(to, new_name).map_err(Halt::from);
        match found {
            Ok(other) if other.ino != moved => self.begin_bulk_of(moved),
            Ok(_) | Err(Halt::Fails(_)) => Ok(()),
            Err(halt) => Err(halt),
        }
    }

    /// A file was cut to nothing.
    pub(crate) fn note_cut(&mut self, ino: Ino) {
        self.commit.bounds.cuts.insert(ino, self.now);
    }

    /// A descriptor of the file was closed. If its content replaces what was cut away, it goes out now.
    pub(crate) fn try_closed(&mut self, ino: Ino) -> Result<(), Halt> {
        if self.commit.bounds.cuts.at.contains_key(&ino) {
            self.begin_bulk_of(ino)?;
            self.commit.bounds.cuts.remove(ino);
            self.bind(ino);
        }
        Ok(())
    }

    /// Bulk of a file goes in place, and has its blocks when this returns.
    fn begin_bulk_of(&mut self, ino: Ino) -> Result<(), Halt> {
        let Some(file) = self.files.get(&ino).filter(|file| file.has_unsaved_data()) else {
            return Ok(());
        };
        if !self.may_bind() {
            return Err(Halt::Record);
        }
        let all = file.pages.dirty_runs(0..u64::MAX);
        let pages: u64 = all.iter().map(|run| run.end - run.start).sum();
        let bulk = if pages > WAITING_PAGES_MAX { all } else { self.runs_in_place(file) };
        let (is_packed, writing) = (file.is_packed, file.writing);
        if is_packed && !bulk.is_empty() {
            return Err(Halt::Quiet(ino));
        }
        for run in bulk {
            self.begin_write_out(ino, run);
        }
        let waits = |core: &Self| {
            let mut works = core.write_outs.entries();
            works.any(|(_, work)| work.ino == ino && !work.has_blocks())
        };
        if (writing > 0 || self.file(ino).writing > 0) && waits(self) {
            return Err(Halt::Quiet(ino));
        }
        Ok(())
    }

    /// Binds all data of a file that is not durable yet to the running transaction.
    pub(crate) fn bind(&mut self, ino: Ino) {
        let works = self.write_outs.entries().filter(|(_, work)| work.ino == ino);
        let slots = works.map(|(slot, _)| slot).collect();
        let Some(file) = self.files.get(&ino) else { return };
        if !file.has_unsaved_data() || file.is_gone {
            return;
        }
        let mut dirty = RangeSet::new();
        for run in file.pages.dirty_runs(0..u64::MAX) {
            dirty.insert(run);
        }
        let bound = Bound { incarnation: file.incarnation, dirty, slots, size: file.size };
        self.commit.bounds.bind(ino, bound);
    }

    /// Whether what is bound now is in no record before its data.
    fn may_bind(&self) -> bool {
        match self.commit.step {
            Step::Idle | Step::Settling => true,
            Step::Placing => !self.commit.bounds.has_closed(),
            Step::Flushing | Step::Packing => false,
            Step::Recording => !self.commit.goes_on_packing(),
        }
    }

    /// A record is about to be made: it has what is bound until now.
    pub(crate) fn close_bounds(&mut self) {
        self.commit.bounds.open_pages = 0;
        for (ino, bound) in std::mem::take(&mut self.commit.bounds.open) {
            let is_there = |file: &mut File| !file.is_gone;
            if !self.same_file(ino, bound.incarnation).is_some_and(is_there) {
                continue;
            }
            if !self.commit.files.contains(&ino) {
                self.commit.files.push(ino);
            }
            self.commit.times.insert(ino);
            let dirty = self.commit.dirty.entry(ino).or_default();
            for run in bound.dirty.iter() {
                dirty.insert(run);
            }
            self.commit.bounds.closed.insert(ino, bound);
        }
    }

    /// Runs without the pages that a record is to have: these must not go in place, where they could wait for room in that very record.
    pub(crate) fn not_bound(&self, ino: Ino, runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let bounds = &self.commit.bounds;
        let (open, closed) = (bounds.open.get(&ino), bounds.closed.get(&ino));
        if open.is_none() && closed.is_none() {
            return runs;
        }
        let mut left = RangeSet::new();
        for run in runs {
            left.insert(run);
        }
        for bound in open.into_iter().chain(closed) {
            for run in bound.dirty.iter() {
                left.remove(run);
            }
        }
        left.iter().collect()
    }
}
