//! The blank map at work: which regions hold nothing but zeros at home, asked before every write that goes home.
//!
//! A write in place, a checkpoint or a spill into a region that the disk promises to be blank waits until a write of
//! the map that takes the promise back is durable. Regions that were zeroed as a whole are promised again, once a
//! device flush has made the zeros durable. Neither the map of logged blocks nor any record is touched: what a
//! promise says is about the home alone.
//!
//! A map that cannot be written must not stop clients: its header is overwritten then, and it promises nothing any
//! more. Only if that fails too do those who wait get the error; the next write tries again.

mod bits;
mod regions;
mod streams;
#[cfg(test)]
mod tests;

use crate::config::Setup;
use crate::disk::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use nearhead_disk::{BufferMut, Class, Command, DiskError, DiskErrorKind, Nanos, Payload};
use nearhead_format::blank_map::BLANK_MAP_OFFSET;
use nearhead_service::{ErrorKind, RequestError};
use regions::Regions;
use std::ops::Range;

/// Promises that nobody waits for are made after so long without a request, and once in so long beside any load.
const REST: Nanos = Nanos::from_secs(1);
const HEADER_BYTES: usize = 4096;

/// State of the blank map; without one there is nothing to ask and nothing known.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
pub(crate) struct Blanks {
    regions: Option<Regions>,
    /// Writes in place that wait for promises to be taken back.
    waiting: Vec<u32>,
    /// A spill waits for them.
    spill_waits: bool,
    /// The header was not sound: nothing is written but zeros over it, once somebody waits for that.
    is_doubtful: bool,
    /// The header is being overwritten.
    is_giving_up: bool,
    /// The map promises nothing any more, and is written no more.
    is_void: bool,
    promised_at: Nanos,
}

impl Blanks {
    pub(crate) fn of(setup: &Setup) -> Self {
        let regions = setup.blanks.as_ref().map(|found| {
            let client_bytes = setup.layout.client_bytes();
            let (words, promised) = (found.words.clone(), found.promised.clone());
            Regions::new(setup.volume_id, found.region_bytes, client_bytes, words, promised)
        });
        let is_doubtful = setup.blanks.as_ref().is_some_and(|found| found.is_header_doubtful);
        Self { regions, is_doubtful, ..Self::default() }
    }

    /// Whether the home of `sector` certainly reads as zeros, and where that ends, at most at `end`.
    pub(crate) fn run_at(&self, sector: u64, end: u64) -> (bool, u64) {
        self.regions.as_ref().map_or((false, end), |regions| regions.run_at(sector, end))
    }

    /// Whether a write to these homes would take a promise back.
    pub(crate) fn touch_blank(&self, sectors: &Range<u64>) -> bool {
        self.regions.as_ref().is_some_and(|regions| regions.touch_blank(sectors))
    }

    fn prepare(&mut self, sectors: Range<u64>) -> bool {
        self.regions.as_mut().is_none_or(|regions| regions.prepare(sectors))
    }

    /// A record may find room after all: then no spill waits.
    pub(crate) fn forget_spill(&mut self) {
        self.spill_waits = false;
    }

    pub(crate) fn take_waiting(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.waiting)
    }
}

impl Engine {
    /// Bytes of regions that certainly hold nothing but zeros at home, logged or not.
    pub(crate) fn blank_bytes(&self) -> u64 {
        let regions = self.blanks.regions.as_ref();
        let bytes = regions.map_or(0, |regions| regions.zero_count() * regions.region_bytes());
        bytes.min(self.size_bytes())
    }

    /// Whether the write in place in `slot` may go to these sectors now. If not it is looked at again.
    pub(crate) fn may_write_in_place(&mut self, slot: u32, sectors: Range<u64>) -> bool {
        let may = self.blanks.prepare(sectors);
        if !may {
            self.blanks.waiting.push(slot);
        }
        may
    }

    /// Whether all of these sectors may be written home now; every one is asked for, so that one write of the map
    /// serves them all.
    pub(crate) fn may_write_homes(&mut self, sectors: impl Iterator<Item = Range<u64>>) -> bool {
        let blanks = &mut self.blanks;
        let mut all = true;
        for range in sectors {
            all &= blanks.prepare(range);
        }
        all
    }

    /// The same for the batch of a spill, which is told if that fails.
    pub(crate) fn may_spill(&mut self, sectors: impl Iterator<Item = Range<u64>>) -> bool {
        let may = self.may_write_homes(sectors);
        self.blanks.spill_waits = !may;
        may
    }

    /// The home of these sectors was zeroed.
    pub(crate) fn note_zeroed(&mut self, sectors: Range<u64>) {
        if let Some(regions) = self.blanks.regions.as_mut() {
            regions.note_zeroed(sectors);
        }
    }

    /// Writes what is due of the map.
    pub(crate) fn advance_blanks(&mut self) {
        if self.setup.config.read_only || self.failure.is_some() || self.blanks.is_giving_up {
            return;
        }
        let is_idle = self.requests.is_empty() && self.schedule.idle_for(self.now) >= REST;
        let rested = self.now.since(self.blanks.promised_at) >= REST;
        let Some(regions) = self.blanks.regions.as_mut() else { return };
        let flusher = &self.lanes.main.flusher;
        regions.settle(flusher.ticket(), |ticket| flusher.is_done(ticket));
        if is_idle {
            regions.end_streams();
        }
        self.write_blanks(is_idle || rested);
    }

    fn write_blanks(&mut self, promises: bool) {
        let is_void = self.blanks.is_void;
        let is_doubtful = self.blanks.is_doubtful && !is_void;
        let Some(regions) = self.blanks.regions.as_mut() else { return };
        if is_doubtful {
            if regions.is_busy() {
                self.give_up_blanks();
            }
            return;
        }
        let Some((offset, bytes)) = regions.next_write(promises && !is_void) else { return };
        self.blanks.promised_at = self.now;
        self.write_blank_block(offset, Payload::Bytes(BufferMut::copy_of(&bytes).freeze()));
    }

    /// Makes the map on the disk promise nothing, for good.
    fn give_up_blanks(&mut self) {
        self.blanks.is_giving_up = true;
        self.write_blank_block(BLANK_MAP_OFFSET, Payload::Zeros(HEADER_BYTES));
    }

    fn write_blank_block(&mut self, offset: u64, part: Payload) {
        let durable = self.lanes.main.flusher.is_needed();
        let command = Command::Write { offset, parts: vec![part], durable };
        self.issue(Class::Foreground, Purpose::Blanks, command);
    }

    pub(crate) fn on_blanks(&mut self, result: Result<Payload, DiskError>) {
        let Some(regions) = self.blanks.regions.as_mut() else { return };
        if self.failure.is_some() {
            // Nobody waits any more.
            return regions.failed();
        }
        match (result, self.blanks.is_giving_up) {
            (Ok(_), false) => regions.written(),
            (Ok(_), true) => {
                regions.made_void();
                self.blanks.is_giving_up = false;
                self.blanks.is_void = true;
            }
            (Err(error), false) => {
                regions.failed();
                self.recovered.note(format!(
                    "blank map: could not be written: {error}; it is given up, and what is blank counts as data \
                     after the next start"
                ));
                return self.give_up_blanks();
            }
            (Err(error), true) => {
                regions.give_up();
                self.blanks.is_giving_up = false;
                return self.blanks_failed(&error);
            }
        }
        for slot in self.blanks.take_waiting() {
            self.continue_in_place(slot);
        }
    }

    /// Promises could not be taken back: whoever waited for that may not write home.
    fn blanks_failed(&mut self, error: &DiskError) {
        let kind = match error.kind {
            DiskErrorKind::OutOfSpace => ErrorKind::NoSpace,
            DiskErrorKind::ReadOnly => ErrorKind::ReadOnly,
            DiskErrorKind::Io | DiskErrorKind::Gone | DiskErrorKind::Invalid => ErrorKind::Io,
        };
        let problem = format!("blank map: could not be written nor given up: {error}");
        for slot in self.blanks.take_waiting() {
            self.finish_slot(slot, Err(RequestError::new(kind, problem.clone())));
        }
        self.checkpoint_may_not_write(&problem);
        if std::mem::take(&mut self.blanks.spill_waits) {
            self.fail(format!("no log has room and writing in place failed: {problem}"));
        }
    }

    /// When promises can be made that nobody waits for.
    pub(crate) fn blanks_wake(&self) -> Option<Nanos> {
        if self.setup.config.read_only || self.blanks.is_void || self.blanks.is_doubtful {
            return None;
        }
        let regions = self.blanks.regions.as_ref().filter(|regions| !regions.is_busy())?;
        let idle = regions.has_streams().then(|| self.schedule.idle_from() + REST);
        let idle = idle.filter(|_| self.requests.is_empty());
        let promises = regions.may_promise().then(|| self.blanks.promised_at + REST);
        [idle, promises].into_iter().flatten().min()
    }

    /// For shutdown: true once the map on the disk says all that is known.
    pub(crate) fn advance_final_blanks(&mut self) -> bool {
        debug_assert!(matches!(self.phase, Phase::Draining));
        if self.setup.config.read_only || self.blanks.is_void || self.blanks.is_doubtful {
            return true;
        }
        let Some(regions) = self.blanks.regions.as_mut() else { return true };
        if self.blanks.is_giving_up || regions.is_busy() {
            return false;
        }
        regions.end_streams();
        let flusher = &self.lanes.main.flusher;
        regions.settle(flusher.ticket(), |ticket| flusher.is_done(ticket));
        if regions.is_unsettled() {
            self.lanes.main.flusher.want();
            return false;
        }
        self.write_blanks(true);
        self.blanks.regions.as_ref().is_none_or(|regions| !regions.is_busy())
    }
}
