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
use crate::core::{Core, told};
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use nearhead_disk::{BufferMut, Class, Command, DiskError, Nanos, Payload};
use nearhead_format::blank_map::BLANK_MAP_OFFSET;
use nearhead_service::RequestError;
use regions::Regions;
use std::ops::Range;

/// Promises that nobody waits for are made after so long without a request, and once in so long beside any load.
const REST: Nanos = Nanos::from_secs(1);
const HEADER_BYTES: usize = 4096;

/// What follows from the end of a write of the map.
#[derive(Debug)]
pub(crate) enum Written {
    Nothing,
    /// These writes in place are looked at again.
    GoOn(Vec<u32>),
    /// Promises could not be taken back: whoever waited for that may not write home.
    Refused(Refused),
}

/// Who waited in vain, and why.
#[derive(Debug)]
pub(crate) struct Refused {
    error: RequestError,
    slots: Vec<u32>,
    is_spill: bool,
}

impl Refused {
    pub(crate) fn error(&self) -> &RequestError {
        &self.error
    }

    /// Writes in place.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Whether a spill waited, too.
    pub(crate) fn is_spill(&self) -> bool {
        self.is_spill
    }
}

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

    /// Bytes of regions that certainly hold nothing but zeros at home, logged or not.
    pub(crate) fn bytes(&self, client_bytes: u64) -> u64 {
        let regions = self.regions.as_ref();
        let bytes = regions.map_or(0, |regions| regions.zero_count() * regions.region_bytes());
        bytes.min(client_bytes)
    }

    /// Whether the write in place in `slot` may go to these sectors now. If not it is looked at again.
    pub(crate) fn may_write_in_place(&mut self, slot: u32, sectors: Range<u64>) -> bool {
        let may = self.prepare(sectors);
        if !may {
            self.waiting.push(slot);
        }
        may
    }

    /// Whether all of these sectors may be written home now; every one is asked for, so that one write of the map
    /// serves them all.
    pub(crate) fn may_write_homes(&mut self, sectors: impl Iterator<Item = Range<u64>>) -> bool {
        let mut all = true;
        for range in sectors {
            all &= self.prepare(range);
        }
        all
    }

    /// The same for the batch of a spill, which is told if that fails.
    pub(crate) fn may_spill(&mut self, sectors: impl Iterator<Item = Range<u64>>) -> bool {
        let may = self.may_write_homes(sectors);
        self.spill_waits = !may;
        may
    }

    /// The home of these sectors was zeroed.
    pub(crate) fn note_zeroed(&mut self, sectors: Range<u64>) {
        if let Some(regions) = self.regions.as_mut() {
            regions.note_zeroed(sectors);
        }
    }
}

/// Writing the map.
impl Blanks {
    /// Writes what is due of it. Nobody has asked anything for `idle_for`, if that is known.
    pub(crate) fn advance(&mut self, core: &mut Core, idle_for: Option<Nanos>) {
        if core.is_read_only() || core.has_failed() || self.is_giving_up {
            return;
        }
        let is_idle = idle_for.is_some_and(|idle| idle >= REST);
        let rested = core.now().since(self.promised_at) >= REST;
        let Some(regions) = self.regions.as_mut() else { return };
        let flusher = core.flusher();
        regions.settle(flusher.ticket(), |ticket| flusher.is_done(ticket));
        if is_idle {
            regions.end_streams();
        }
        self.write(core, is_idle || rested);
    }

    fn write(&mut self, core: &mut Core, promises: bool) {
        let is_void = self.is_void;
        let is_doubtful = self.is_doubtful && !is_void;
        let Some(regions) = self.regions.as_mut() else { return };
        if is_doubtful {
            if regions.is_busy() {
                self.give_up(core);
            }
            return;
        }
        let Some((offset, bytes)) = regions.next_write(promises && !is_void) else { return };
        self.promised_at = core.now();
        write_block(core, offset, Payload::Bytes(BufferMut::copy_of(&bytes).freeze()));
    }

    /// Makes the map on the disk promise nothing, for good.
    fn give_up(&mut self, core: &mut Core) {
        self.is_giving_up = true;
        write_block(core, BLANK_MAP_OFFSET, Payload::Zeros(HEADER_BYTES));
    }

    /// A write of it ended.
    pub(crate) fn on_written(
        &mut self,
        core: &mut Core,
        result: Result<Payload, DiskError>,
    ) -> Written {
        let Some(regions) = self.regions.as_mut() else { return Written::Nothing };
        if core.has_failed() {
            // Nobody waits any more.
            regions.failed();
            return Written::Nothing;
        }
        match (result, self.is_giving_up) {
            (Ok(_), false) => regions.written(),
            (Ok(_), true) => {
                regions.made_void();
                self.is_giving_up = false;
                self.is_void = true;
            }
            (Err(error), false) => {
                regions.failed();
                core.note(DamageKind::BlankMap.told(format!(
                    "blank map: could not be written: {error}; it is given up, and what is blank counts as data \
                     after the next start"
                )));
                self.give_up(core);
                return Written::Nothing;
            }
            (Err(error), true) => {
                regions.give_up();
                self.is_giving_up = false;
                return Written::Refused(self.refused(&error));
            }
        }
        Written::GoOn(self.take_waiting())
    }

    fn refused(&mut self, error: &DiskError) -> Refused {
        let problem = format!("blank map: could not be written nor given up: {error}");
        Refused {
            error: RequestError::new(told(error).kind, problem),
            slots: self.take_waiting(),
            is_spill: std::mem::take(&mut self.spill_waits),
        }
    }

    /// When promises can be made that nobody waits for; nobody has asked anything since `idle_from`, if nobody asks now.
    pub(crate) fn wake(&self, core: &Core, idle_from: Option<Nanos>) -> Option<Nanos> {
        if core.is_read_only() || self.is_void || self.is_doubtful {
            return None;
        }
        let regions = self.regions.as_ref().filter(|regions| !regions.is_busy())?;
        let idle = idle_from.filter(|_| regions.has_streams()).map(|from| from + REST);
        let promises = regions.may_promise().then(|| self.promised_at + REST);
        [idle, promises].into_iter().flatten().min()
    }

    /// For shutdown: true once the map on the disk says all that is known.
    pub(crate) fn advance_final(&mut self, core: &mut Core) -> bool {
        if core.is_read_only() || self.is_void || self.is_doubtful {
            return true;
        }
        let Some(regions) = self.regions.as_mut() else { return true };
        if self.is_giving_up || regions.is_busy() {
            return false;
        }
        regions.end_streams();
        let flusher = core.flusher();
        regions.settle(flusher.ticket(), |ticket| flusher.is_done(ticket));
        if regions.is_unsettled() {
            core.flusher_mut().want();
            return false;
        }
        self.write(core, true);
        self.regions.as_ref().is_none_or(|regions| !regions.is_busy())
    }
}

fn write_block(core: &mut Core, offset: u64, part: Payload) {
    let durable = core.flusher().is_needed();
    let command = Command::Write { offset, parts: vec![part], durable };
    core.issue(Class::Foreground, Purpose::Blanks, command);
}
