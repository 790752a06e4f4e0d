//! Small writes: into the stage, and answered once their record is durable (or at once, in `flush`
//! mode).
//!
//! A small write may have to wait before it is staged: behind an in-place write over the same
//! sectors, or for room in the stage. While it waits it sits in a request slot; the usual write
//! never gets one.

use super::{Active, Body};
use crate::commit::DurableWaiter;
use crate::engine::Engine;
use crate::engine::requests::in_place::{Action, SmallWrite};
use crate::stage::{ChangedRuns, Group, Piece};
use crate::state::sectors::{BLOCK_SECTORS, SECTOR, blocks_of};
use nearhead_disk::Payload;
use nearhead_service::{Changed, ErrorKind, Hint, RequestId};
use std::ops::Range;

/// A write-zeroes up to this many bytes is logged (it costs one item of a record, no payload).
const LOGGED_ZEROES_BYTES_MAX: u64 = 256 << 10;
/// Last bytes of a block that say whether it is worth looking whether nearly all of it is zeros.
const ZEROS_LOOKED_AT: usize = 64;

/// Flags of a write of zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zeroes {
    pub(super) fua: bool,
    /// Refused rather than as slow as a write.
    pub(super) fast_only: bool,
    /// The homes may be deallocated.
    pub(super) may_unmap: bool,
}

/// The parts of the blocks that `data` covers from byte `offset` on.
fn pieces_of(offset: u64, data: &Payload) -> impl Iterator<Item = (u64, Piece)> + '_ {
    let sectors = (data.len() / SECTOR) as u64;
    let mut from = 0;
    blocks_of(offset / SECTOR as u64, sectors).map(move |(block, first, len)| {
        let to = from + usize::from(len) * SECTOR;
        (block, Piece::new(first, len, data.slice(std::mem::replace(&mut from, to)..to)))
    })
}

impl Engine {
    /// Largest atomic write, in bytes.
    pub fn atomic_bytes_max(&self) -> u64 {
        if self.logs_writes() { u64::from(self.core.record_bytes_max()) / 2 } else { 0 }
    }

    pub(super) fn start_write(&mut self, id: RequestId, offset: u64, data: Payload, fua: bool) {
        let len = data.len() as u64;
        if !self.is_logged(offset, len) {
            return self.start_in_place(id, offset, len, Action::Write(data), fua);
        }
        if self.requests.locks.is_empty()
            && self.requests.waiting_for_room.is_empty()
            && self.has_room_for(len)
        {
            self.stage_extent(offset, &data, &mut Group::None, &Changed::All);
            let sectors = offset / SECTOR as u64..(offset + len) / SECTOR as u64;
            let waiter = DurableWaiter::new(id, sectors, len);
            return self.acknowledge_small(fua, waiter);
        }
        let extents = vec![(offset, data)];
        self.wait_small(id, SmallWrite::of(extents, fua));
    }

    /// A write that is to go home, where there are homes that it may go to.
    pub(super) fn start_write_in_place(
        &mut self,
        id: RequestId,
        offset: u64,
        data: Payload,
        fua: bool,
    ) {
        if self.may_go_home() {
            self.start_in_place(id, offset, data.len() as u64, Action::Write(data), fua);
        } else {
            self.start_write(id, offset, data, fua);
        }
    }

    pub(super) fn start_write_atomic(
        &mut self,
        id: RequestId,
        extents: Vec<(u64, Payload)>,
        changed: Changed,
    ) {
        let write = SmallWrite { atomic: true, changed, ..SmallWrite::of(extents, true) };
        self.wait_small(id, write);
    }

    pub(super) fn start_write_zeroes(
        &mut self,
        id: RequestId,
        offset: u64,
        len: u64,
        Zeroes { fua, fast_only, may_unmap }: Zeroes,
    ) {
        // A logged zero is written back as a block of zeros, which takes space. A durable one is logged all the same: its client
        // waits for it.
        if may_unmap && !fua && self.core.setup().trimmed_homes_are_zeros() {
            return self.start_in_place(id, offset, len, Action::Trim, fua);
        }
        if self.logs_writes() && len <= self.logged_zeroes_bytes_max() {
            let extents = vec![(offset, Payload::Zeros(len as usize))];
            return self.wait_small(id, SmallWrite::of(extents, fua));
        }
        if fast_only && !self.core.setup().homes_zero_fast() {
            return self.fail_request(
                id,
                ErrorKind::NotSupported,
                "write-zeroes of this size is as slow as a write on this disk",
            );
        }
        let unmaps = may_unmap && self.core.setup().trimmed_homes_are_zeros();
        let action = if unmaps { Action::Trim } else { Action::Zeroes };
        self.start_in_place(id, offset, len, action, fua);
    }

    pub(super) fn start_hint(&mut self, id: RequestId, offset: u64, len: u64, hint: Hint) {
        let sectors = offset / SECTOR as u64..(offset + len) / SECTOR as u64;
        match hint {
            Hint::DurabilityOnly => {
                if self.core.recorded().hints().len() >= crate::HINTS_MAX {
                    let detail = format!(
                        "the volume holds {} hinted ranges, the most it can; clear some first",
                        crate::HINTS_MAX
                    );
                    return self.fail_request(id, ErrorKind::NoSpace, &detail);
                }
                self.core.recorded_mut().hints_mut().insert(sectors);
            }
            Hint::Normal => {
                self.core.recorded_mut().hints_mut().remove(sectors);
            }
        }
        self.snapshotter.note_hints_changed();
        self.reply(id, Ok(Vec::new()));
    }

    /// Zeros up to this size are logged; all that fit the stage where all writes are.
    fn logged_zeroes_bytes_max(&self) -> u64 {
        let config = &self.core.setup().config;
        let logged = u64::from(config.logged_write_bytes_max);
        logged.min(config.stage_bytes_max as u64 / 2).max(LOGGED_ZEROES_BYTES_MAX)
    }

    fn has_room_for(&self, len: u64) -> bool {
        self.stage.bytes() as u64 + len <= self.core.setup().config.stage_bytes_max as u64
            || self.stage.is_empty()
    }

    /// Takes a slot and the lock; goes on when both the lock and room are there.
    fn wait_small(&mut self, id: RequestId, write: SmallWrite) {
        let ranges = write.sector_ranges();
        let slot = self.requests.active.insert(Active { id, body: Body::Small(write) });
        if self.requests.locks.acquire(u64::from(slot), &ranges) {
            self.continue_small(slot);
        }
    }

    /// The lock is held: stage if there is room.
    pub(super) fn continue_small(&mut self, slot: u32) {
        if self.core.has_failed() {
            let error = self.core.failure_error();
            return self.finish_slot(slot, Err(error));
        }
        if self.requests.waiting_for_room.is_empty() && self.try_stage(slot) {
            return;
        }
        self.core.stats_mut().stage_waits += 1;
        self.commit.want(self.stage.end(), self.core.now());
        self.requests.waiting_for_room.push_back(slot);
    }

    /// Room may have come: those who wait, in order.
    pub(crate) fn retry_waiting_for_room(&mut self) {
        while let Some(slot) = self.requests.waiting_for_room.front().copied() {
            if !self.try_stage(slot) {
                break;
            }
            self.requests.waiting_for_room.pop_front();
        }
    }

    fn try_stage(&mut self, slot: u32) -> bool {
        let Some(Active { body: Body::Small(write), .. }) = self.requests.active.get(slot) else {
            return true;
        };
        let bytes: u64 = write.extents.iter().map(|(_, data)| data.len() as u64).sum();
        // An atomic write must be one group of its own: wait until nothing it covers is staged.
        let covered = write.atomic
            && write.sector_ranges().iter().any(|range| self.is_in_memory(range.start, range.end));
        if covered || !self.has_room_for(bytes) {
            return false;
        }
        let Some(Active { id, body: Body::Small(write) }) = self.requests.active.remove(slot)
        else {
            return true;
        };
        let mut group = if write.atomic { Group::First } else { Group::None };
        for (offset, data) in &write.extents {
            self.stage_extent(*offset, data, &mut group, &write.changed);
        }
        let written = if write.trims { 0 } else { bytes };
        let mut ranges = write.sector_ranges().into_iter();
        let waiter = DurableWaiter::new(id, ranges.next().unwrap_or_default(), written);
        self.acknowledge_small(write.fua, waiter.and(ranges.collect()));
        self.unlock(slot);
        true
    }

    /// Whether a block of these sectors is staged or in the record in flight.
    pub(super) fn is_in_memory(&self, start: u64, end: u64) -> bool {
        let (first, last) = crate::state::sectors::block_span(start, end - start);
        self.stage.has_any(first, last)
    }

    pub(super) fn stage_extent(
        &mut self,
        offset: u64,
        data: &Payload,
        group: &mut Group,
        changed: &Changed,
    ) {
        self.commit.note_staged(self.core.now());
        for (block, piece) in pieces_of(offset, data) {
            match changed {
                Changed::All => self.put(block, self.over_zeros(piece), group),
                Changed::Only(changed) => {
                    for piece in self.changed_pieces(block, &piece, changed) {
                        self.put(block, piece, group);
                    }
                }
            }
        }
    }

    /// The same, but each sector as a whole, be it zeros but for a few bytes.
    pub(super) fn stage_whole(&mut self, offset: u64, data: &Payload) {
        self.commit.note_staged(self.core.now());
        for (block, piece) in pieces_of(offset, data) {
            self.put(block, piece, &mut Group::None);
        }
    }

    fn put(&mut self, block: u64, piece: Piece, group: &mut Group) {
        self.stage.put(block, piece, *group);
        if *group == Group::First {
            *group = Group::Next;
        }
    }

    /// The piece, which is new as a whole, by its bytes alone if nearly all of it is zeros, as in a block that something was appended to first.
    fn over_zeros(&self, piece: Piece) -> Piece {
        if !self.core.setup().layout.fragments {
            return piece;
        }
        let Payload::Bytes(bytes) = piece.data() else { return piece };
        // Nearly all are found out by their last bytes.
        let is_zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        if !is_zeros(&bytes[bytes.len() - ZEROS_LOOKED_AT..]) {
            return piece;
        }
        let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else { return piece };
        // The zeros are an item, too.
        if !self.commit.takes_fragments(usize::from(piece.len()), 2, last + 1) {
            return piece;
        }
        let first = u16::from(piece.first()) * SECTOR as u16;
        piece.over_zeros(std::iter::once(first..first + (last + 1) as u16).collect())
    }

    /// What of a piece has to be logged if only these bytes of the volume are new: the sectors that hold any, and where it pays those bytes.
    fn changed_pieces(&self, block: u64, piece: &Piece, changed: &[Range<u64>]) -> Vec<Piece> {
        let sectors_of_unit = (self.block_bytes() / SECTOR as u64) as u16;
        let runs = ChangedRuns::of(block, piece, changed, sectors_of_unit);
        let pieces = runs.into_iter().filter_map(|run| {
            let (sectors, bytes) = run.into_parts();
            let piece = piece.cut(sectors.start, sectors.end)?;
            let count: usize = bytes.iter().map(|run| usize::from(run.end - run.start)).sum();
            let pays = self.commit.takes_fragments(usize::from(piece.len()), bytes.len(), count);
            if pays {
                return Some(piece.changed_in(bytes.into()));
            }
            let is_new = count == usize::from(piece.len()) * SECTOR;
            Some(if is_new { self.over_zeros(piece) } else { piece })
        });
        pieces.collect()
    }

    /// Everything of the request is staged.
    fn acknowledge_small(&mut self, fua: bool, waiter: DurableWaiter) {
        let end = self.stage.end();
        if fua || self.acknowledges_durable() {
            self.commit.want(end, self.core.now());
            self.commit.waiters_mut().push(waiter, end);
            return;
        }
        self.count_logged(waiter.written_bytes());
        if self.stage.bytes() * 2 > self.core.setup().config.stage_bytes_max {
            self.commit.want(end, self.core.now());
        }
        self.reply(waiter.id(), Ok(Vec::new()));
    }

    /// A write of so many client bytes through the logs is answered with success.
    pub(super) fn count_logged(&mut self, bytes: u64) {
        self.core.stats_mut().written_bytes += bytes;
        self.core.stats_mut().logged_bytes += bytes;
    }

    /// Trim: logged copies become zeros, the rest is given back to a device that can take it.
    pub(super) fn start_trim(&mut self, id: RequestId, offset: u64, len: u64, fua: bool) {
        if self.core.setup().trimmed_homes_are_zeros() {
            return self.start_in_place(id, offset, len, Action::Trim, fua);
        }
        let ranges = self.trimmed_ranges(offset, len);
        if ranges.is_empty() {
            return self.acknowledge_small(fua, DurableWaiter::new(id, 0..0, 0));
        }
        let extents = ranges
            .iter()
            .map(|range| {
                let len = (range.end - range.start) as usize * SECTOR;
                (range.start * SECTOR as u64, Payload::Zeros(len))
            })
            .collect();
        self.wait_small(id, SmallWrite { trims: true, ..SmallWrite::of(extents, fua) });
    }

    /// What of the range has a copy outside its home, as sector runs; at most half a stage full (the
    /// content after a trim is the client's to not care about; what is left keeps its newest copy).
    fn trimmed_ranges(&self, offset: u64, len: u64) -> Vec<Range<u64>> {
        let (start, sectors) = (offset / SECTOR as u64, len / SECTOR as u64);
        let end = start + sectors;
        let sectors_max = (self.core.setup().config.stage_bytes_max / 2 / SECTOR) as u64;
        let mut set = nearhead_disk::RangeSet::new();
        for entry in self.core.map().iter_from(start) {
            if entry.home_sector >= end || set.total() >= sectors_max {
                break;
            }
            set.insert(entry.home_sector.max(start)..entry.end_sector().min(end));
        }
        for block in self.stage.all_blocks() {
            let first = block * BLOCK_SECTORS;
            if first < end && first + BLOCK_SECTORS > start && set.total() < sectors_max {
                set.insert(first.max(start)..(first + BLOCK_SECTORS).min(end));
            }
        }
        set.iter().collect()
    }
}
