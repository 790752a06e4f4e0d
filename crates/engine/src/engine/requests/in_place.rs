//! Writes that go home: large ones, and everything when nothing is logged.
//!
//! Order of one in-place write, each step waiting for the one before:
//!
//! 1. the lock on its sectors: overlapping in-place writes go one after the other;
//! 2. no fragments over its sectors: those bytes would come over what is newer at home, should the power go before a record takes them
//!    back, also where they lie over a copy in a log, which a snapshot that is being written may leave out; so those sectors are logged as
//!    well, whole, before they go home;
//!    no copy in memory: staged blocks it covers are committed first, so that "which is newer" is
//!    always the order of records and transfers, never a race;
//! 3. no checkpoint batch over its sectors: an older copy must not land on top of it;
//!    and no region of it that the disk promises to be blank, unless it writes zeros;
//! 4. the transfers, in pieces;
//! 5. map entries it displaced become invalidations (law 2), the lock is released;
//! 6. the reply: at once, or when transfers and invalidations are durable.

use super::{Active, Body};
use crate::core::told;
use crate::disk::dispatch::Purpose;
use crate::disk::flusher::FlushTicket;
use crate::engine::Engine;
use crate::engine::requests::barrier::Barrier;
use crate::stage::StagePosition;
use crate::state::sectors::SECTOR;
use nearhead_disk::{Class, Command, DiskError, Payload, RangeSet};
use nearhead_service::{Changed, RequestError, RequestId};
use std::ops::Range;

/// What an in-place write does.
#[derive(Debug)]
pub(super) enum Action {
    Write(Payload),
    Zeroes,
    Trim,
}

impl InPlaceState {
    /// The home sectors that it changes.
    pub(crate) fn sectors(&self) -> Range<u64> {
        self.offset / SECTOR as u64..(self.offset + self.len) / SECTOR as u64
    }
}

/// Progress of one in-place write.
#[derive(Debug)]
pub(super) struct InPlaceState {
    offset: u64,
    len: u64,
    action: Action,
    /// Reply only when durable.
    durable: bool,
    /// Device bytes up to which transfers were issued.
    issued: u64,
    remaining: u32,
    error: Option<RequestError>,
    /// Whether any transfer is only in the device's cache.
    volatile: bool,
    /// It may wait for others.
    is_bulk: bool,
}

/// A small write that could not be staged at once.
#[derive(Debug)]
pub(super) struct SmallWrite {
    pub(super) extents: Vec<(u64, Payload)>,
    pub(super) fua: bool,
    pub(super) atomic: bool,
    /// It is what a trim leaves: nothing that a client wrote.
    pub(super) trims: bool,
    /// Which bytes of it are new.
    pub(super) changed: Changed,
}

impl SmallWrite {
    /// A plain one.
    pub(super) fn of(extents: Vec<(u64, Payload)>, fua: bool) -> Self {
        Self { extents, fua, atomic: false, trims: false, changed: Changed::All }
    }

    pub(super) fn sector_ranges(&self) -> Vec<Range<u64>> {
        let sector = SECTOR as u64;
        self.extents
            .iter()
            .map(|(offset, data)| offset / sector..(offset + data.len() as u64) / sector)
            .collect()
    }
}

/// Largest single zeroing, in bytes, on a disk that must write the zeros out.
const SLOW_ZEROES_BYTES_MAX: u64 = 1 << 20;
/// Most transfers of one request on their way at once; the rest follows as they complete.
const TRANSFERS_MAX: u32 = 64;
/// Most bytes of an in-place write staged at once because of fragments under them.
const OVER_FRAGMENTS_BYTES_MAX: usize = 1 << 20;

impl Engine {
    pub(super) fn start_in_place(
        &mut self,
        id: RequestId,
        offset: u64,
        len: u64,
        action: Action,
        fua: bool,
    ) {
        let durable = fua || self.acknowledges_durable();
        let state = InPlaceState {
            offset,
            len,
            action,
            durable,
            issued: 0,
            remaining: 0,
            error: None,
            volatile: false,
            is_bulk: self.requests.streams.is_bulk(offset, len),
        };
        let range = offset / SECTOR as u64..(offset + len) / SECTOR as u64;
        let slot = self.requests.active.insert(Active { id, body: Body::InPlace(state) });
        if self.requests.locks.acquire(u64::from(slot), std::slice::from_ref(&range)) {
            self.continue_in_place(slot);
        }
    }

    /// Lets go of the lock of `slot`; whoever waited for it goes on.
    pub(super) fn unlock(&mut self, slot: u32) {
        let mut granted = Vec::new();
        self.requests.locks.release(u64::from(slot), &mut granted);
        for owner in granted {
            let next = owner as u32;
            match self.requests.active.get(next).map(|active| &active.body) {
                Some(Body::InPlace(_)) => self.continue_in_place(next),
                Some(Body::Small(_)) => self.continue_small(next),
                _ => {}
            }
        }
    }

    /// The lock is held: go on as soon as nothing older is under way over the same sectors.
    pub(crate) fn continue_in_place(&mut self, slot: u32) {
        let Some(Active { body: Body::InPlace(state), .. }) = self.requests.active.get(slot) else {
            return;
        };
        let (start, end) =
            (state.offset / SECTOR as u64, (state.offset + state.len) / SECTOR as u64);
        let writes = matches!(state.action, Action::Write(_));
        if self.core.has_failed() {
            let error = self.core.failure_error();
            return self.finish_slot(slot, Err(error));
        }
        if self.core.recorded().fragments().touches(start..end) {
            self.log_over_fragments(slot);
        }
        if self.is_in_memory(start, end) {
            self.commit.want(self.stage.end(), self.core.now());
            self.requests.blocked.push(slot);
        } else if self.checkpoint.homes().overlaps(start..end) {
            self.checkpoint.hurry();
            self.requests.blocked.push(slot);
        } else if !writes || self.blanks.may_write_in_place(slot, start..end) {
            if self.core.logs().count() > 0 {
                self.requests.transferring.insert(start..end);
            }
            self.transfer_in_place(slot);
        }
    }

    /// Stages those sectors of an in-place write that have fragments over them, as many as there is room for.
    fn log_over_fragments(&mut self, slot: u32) {
        let Some(Active { body: Body::InPlace(state), .. }) = self.requests.active.get(slot) else {
            return;
        };
        let (offset, sectors) = (state.offset, state.sectors());
        let data = match &state.action {
            Action::Write(data) => data.clone(),
            Action::Zeroes | Action::Trim => Payload::Zeros(state.len as usize),
        };
        // In what the disk writes as one; each as often as it has pieces, of which once is enough.
        let unit = self.block_bytes() / SECTOR as u64;
        let touched = self.core.recorded().fragments().touched(sectors);
        let touched: RangeSet =
            touched.map(|run| run.start / unit * unit..run.end.next_multiple_of(unit)).collect();
        let mut staged = 0;
        for run in touched.iter() {
            if staged >= OVER_FRAGMENTS_BYTES_MAX || self.is_in_memory(run.start, run.end) {
                // The rest once those are in a record.
                break;
            }
            let from = (run.start * SECTOR as u64 - offset) as usize;
            let to = (run.end * SECTOR as u64 - offset) as usize;
            staged += to - from;
            // Not as fragments: they could lie over what is at home again, and this never come to its end.
            self.stage_whole(run.start * SECTOR as u64, &data.slice(from..to));
        }
    }

    /// A commit or a checkpoint batch ended: look at those who waited for it.
    pub(crate) fn retry_blocked(&mut self) {
        for slot in std::mem::take(&mut self.requests.blocked) {
            self.continue_in_place(slot);
        }
    }

    fn transfer_in_place(&mut self, slot: u32) {
        let setup = self.core.setup();
        if !setup.has_homes() {
            // Nothing is to be transferred: what no log has is zeros.
            return self.finish_in_place(slot);
        }
        let (volatile_cache, fast_zero) = (setup.homes_are_volatile(), setup.homes_zero_fast());
        let piece_max = u64::from(self.core.piece_bytes());
        loop {
            let Some(Active { body: Body::InPlace(state), .. }) =
                self.requests.active.get_mut(slot)
            else {
                return;
            };
            if state.issued == state.len || state.remaining >= TRANSFERS_MAX {
                return;
            }
            let offset = state.offset + state.issued;
            let Some(home) = self.core.setup().layout.home(offset) else { return };
            let left = state.len - state.issued;
            let limit = match state.action {
                Action::Write(_) => piece_max,
                Action::Zeroes if !fast_zero => SLOW_ZEROES_BYTES_MAX,
                Action::Zeroes | Action::Trim => u64::MAX,
            };
            let len = left.min(home.len).min(limit);
            // One durable transfer, or many and one flush at the end.
            let durable = volatile_cache && state.durable && len == state.len;
            state.volatile |= volatile_cache && !durable;
            let command = match &state.action {
                Action::Write(data) => {
                    let from = state.issued as usize;
                    let parts = vec![data.slice(from..from + len as usize)];
                    Command::Write { offset: home.device_offset, parts, durable }
                }
                Action::Zeroes => Command::WriteZeroes { offset: home.device_offset, len, durable },
                Action::Trim => {
                    state.volatile = volatile_cache;
                    Command::Trim { offset: home.device_offset, len }
                }
            };
            state.issued += len;
            state.remaining += 1;
            let class = if state.is_bulk { Class::Bulk } else { Class::Foreground };
            self.core.issue(class, Purpose::InPlace { slot }, command);
        }
    }

    pub(crate) fn on_in_place(&mut self, slot: u32, result: Result<Payload, DiskError>) {
        let Some(Active { body: Body::InPlace(state), .. }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        state.remaining -= 1;
        if let Err(error) = result {
            state.error.get_or_insert(told(&error));
        }
        if state.error.is_none() && state.issued < state.len {
            return self.transfer_in_place(slot);
        }
        if state.remaining == 0 {
            self.finish_in_place(slot);
        }
    }

    fn finish_in_place(&mut self, slot: u32) {
        let Some(Active { id, body: Body::InPlace(state) }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        let id = *id;
        let range = state.offset / SECTOR as u64..(state.offset + state.len) / SECTOR as u64;
        self.requests.transferring.remove(range.clone());
        if state.volatile {
            self.core.note_client_write();
        }
        let given_up = self.core.given_up_under(state.offset, state.len);
        let Some(Active { body: Body::InPlace(state), .. }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        if let Some(error) = state.error.take().or(given_up) {
            // The map still points to the older copies: each sector reads as old or new, and may
            // do so, since the write is not acknowledged.
            return self.finish_slot(slot, Err(error));
        }
        let (durable, volatile) = (state.durable, state.volatile);
        let written = if matches!(state.action, Action::Trim) { 0 } else { state.len };
        if !matches!(state.action, Action::Write(_)) {
            self.blanks.note_zeroed(range.clone());
        }
        self.commit.displace(&mut self.core, range.start, range.end - range.start, volatile);
        if !durable {
            self.count_in_place(written);
            return self.finish_slot(slot, Ok(Vec::new()));
        }
        let barrier = Barrier {
            id,
            stage_target: StagePosition::START,
            flush_ticket: if volatile { self.core.flusher_mut().want() } else { FlushTicket::NONE },
            invalid_target: self.commit.want_invalidations(&mut self.core),
            written,
        };
        self.requests.active.remove(slot);
        self.unlock(slot);
        self.wait_for(barrier);
    }

    /// A write of so many client bytes in place is answered with success.
    pub(super) fn count_in_place(&mut self, bytes: u64) {
        self.core.stats_mut().written_bytes += bytes;
        self.core.stats_mut().in_place_bytes += bytes;
    }
}
