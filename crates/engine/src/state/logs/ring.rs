//! One log: a ring of records with a write position, and what of it may be used again.
//!
//! Space behind the write position is free once two things hold: no map entry points into it (live
//! sectors are counted per slice, a 64th of the log), and no recovery would have to scan it (records
//! since the last committed snapshot are protected, dead or alive, because they may carry
//! invalidations and claims). A record never wraps around the end.
//!
//! A record goes behind a place that did not take one ([`super::bad_places`]). The gap before it is legal: it names the
//! record before the gap, and recovery looks so far behind that one, or behind the start of the log where it went.
//! It never is longer than that, and protected as the record is.
//!
//! Positions are counted in log blocks from the start of the log.

use super::bad_places::BadPlaces;
use crate::placement::Need;
use nearhead_disk::Nanos;
use nearhead_planted::{Mistake, is_made};
use std::num::NonZeroU32;

/// Number of slices in which live sectors are counted: as many as a word has bits.
pub(super) const SLICES: u32 = u64::BITS;

/// No record was written to this log yet.
pub(crate) const NO_PREVIOUS: u32 = u32::MAX;

/// The state of one log.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    capacity_blocks: NonZeroU32,
    live_sectors: Box<[u32; SLICES as usize]>,
    /// Bit `n` is set while slice `n` has live sectors.
    live_slices: u64,
    live_sectors_total: u32,
    /// Where the next record goes, if it fits before the end.
    pub(crate) position: u32,
    /// Position of the newest record, or [`NO_PREVIOUS`].
    pub(crate) previous_position: u32,
    /// Raised when everything in the log is given up at once.
    pub(crate) generation: u32,
    /// First record since the last committed snapshot.
    protected_from: Option<u32>,
    /// First record since the snapshot now being written began.
    next_protected_from: Option<u32>,
    /// Whether recovery is certain to scan this log (a durable claim exists).
    pub(crate) claimed: bool,
    /// Set when a record could not be written here; the log rests for a while.
    pub(crate) quarantined: bool,
    /// Records in a row that could not be written here.
    pub(crate) failures: u32,
    /// Where.
    bad: BadPlaces,
    /// The longest gap before a record, in blocks, behind which a recovery finds it.
    gap_blocks_max: u32,
}

impl Ring {
    /// An empty log of `capacity_blocks`.
    pub(crate) fn new(capacity_blocks: NonZeroU32) -> Self {
        Self {
            capacity_blocks,
            live_sectors: Box::new([0; SLICES as usize]),
            live_slices: 0,
            live_sectors_total: 0,
            position: 0,
            previous_position: NO_PREVIOUS,
            generation: 0,
            protected_from: None,
            next_protected_from: None,
            claimed: false,
            quarantined: false,
            failures: 0,
            bad: BadPlaces::default(),
            gap_blocks_max: 0,
        }
    }

    /// It may leave out so many blocks in a row.
    pub(super) fn with_gaps(self, gap_blocks_max: u32) -> Self {
        Self { gap_blocks_max, ..self }
    }

    fn capacity(&self) -> u32 {
        self.capacity_blocks.get()
    }

    pub(super) fn slice_of(&self, position: u32) -> u32 {
        (u64::from(position) * u64::from(SLICES) / u64::from(self.capacity())) as u32
    }

    fn slice_start(&self, slice: u32) -> u32 {
        (u64::from(slice) * u64::from(self.capacity())).div_ceil(u64::from(SLICES)) as u32
    }

    /// Counts `sectors` sectors of a chunk that starts at `position` as needed. Says whether that may have changed
    /// what can be written.
    pub(crate) fn add_live(&mut self, position: u32, sectors: u32) -> bool {
        let (slice, before) = (self.slice_of(position), self.live_slices);
        self.live_sectors[slice as usize] += sectors;
        self.live_slices |= u64::from(sectors > 0) << slice;
        self.live_sectors_total += sectors;
        self.live_slices != before
    }

    /// Counts them as no longer needed. Says whether that may have changed what can be written.
    pub(crate) fn drop_live(&mut self, position: u32, sectors: u32) -> bool {
        let before = self.live_slices;
        let slice = self.slice_of(position);
        let count = &mut self.live_sectors[slice as usize];
        debug_assert!(*count >= sectors, "more sectors dropped than were live");
        *count = count.saturating_sub(sectors);
        if *count == 0 {
            self.live_slices &= !(1 << slice);
        }
        self.live_sectors_total = self.live_sectors_total.saturating_sub(sectors);
        self.live_slices != before
    }

    /// Sectors some map entry still points to.
    pub(crate) fn live_sectors(&self) -> u32 {
        self.live_sectors_total
    }

    pub(super) fn live_by_slice(&self) -> &[u32; SLICES as usize] {
        &self.live_sectors
    }

    /// The slices that have any, as bits.
    pub(super) fn live_slices(&self) -> u64 {
        self.live_slices
    }

    /// Position of the oldest slice that is still needed (Trail's `log_head`).
    pub(crate) fn oldest_live_position(&self) -> u32 {
        (self.position + self.free_run_blocks()) % self.capacity()
    }

    /// Free blocks from the write position on, going round.
    pub(crate) fn free_run_blocks(&self) -> u32 {
        let capacity = self.capacity();
        let distance = |to: u32| {
            let forward = (to + capacity - self.position) % capacity;
            if forward == 0 { capacity } else { forward }
        };
        let mut free = capacity;
        let protections = [self.protected_from, self.next_protected_from].into_iter().flatten();
        for protected in protections.filter(|_| !is_made(Mistake::SlotReusedEarly)) {
            // Protected from the write position itself means: the whole ring is.
            free = free.min(if protected == self.position { 0 } else { distance(protected) });
        }
        if self.live_sectors_total == 0 || is_made(Mistake::LiveSpaceReused) {
            return free;
        }
        let own = self.slice_of(self.position.min(capacity - 1));
        // Nothing of its slice is behind a position at the slice's start: what is live is ahead.
        if self.live_sectors[own as usize] > 0 && self.slice_start(own) == self.position {
            return 0;
        }
        // The nearest live slice after the position's own, which itself comes last.
        let steps = self.live_slices.rotate_right(own + 1).trailing_zeros() + 1;
        let start = self.slice_start((own + steps) % SLICES);
        free.min(if start == self.position { 0 } else { distance(start) })
    }

    /// Whether a record can go to this block: at most as far behind the last one, or behind the start of the log, as a
    /// recovery looks, over nothing that is needed, and not to a place that did not take one.
    pub(crate) fn accepts(&self, block: u32, need: Need) -> bool {
        let capacity = self.capacity();
        if need.blocks > capacity || block > capacity - need.blocks {
            return false;
        }
        let is_near =
            |from: u32| (from..=from.saturating_add(self.gap_blocks_max)).contains(&block);
        let left_out = if is_near(self.position) {
            block - self.position
        } else if is_near(0) {
            capacity - self.position + block
        } else {
            return false;
        };
        let needed = [left_out, need.blocks, need.reserve].map(u64::from).iter().sum::<u64>();
        needed <= u64::from(self.free_run_blocks())
            && self.bad.end_of_one_in(block, need.blocks).is_none()
    }

    /// Where a record can go now, if anywhere: here, behind a bad place, or at the start of the log.
    pub(crate) fn place(&self, need: Need) -> Option<u32> {
        let Need { blocks, reserve } = need;
        let (capacity, free) = (self.capacity(), self.free_run_blocks());
        // Where a recovery looks for it, and the blocks that are left out up to there.
        let (mut from, mut passed) = (self.position, 0);
        let mut at = from;
        loop {
            let is_too_far = at - from > self.gap_blocks_max;
            if is_too_far || blocks > capacity - at {
                if passed > 0 {
                    return None;
                }
                (from, at, passed) = (0, 0, capacity - self.position);
                continue;
            }
            let needed = [passed, at - from, blocks, reserve].map(u64::from).iter().sum::<u64>();
            if u64::from(free) < needed {
                return None;
            }
            match self.bad.end_of_one_in(at, blocks) {
                None => return Some(at),
                Some(end) => at = end,
            }
        }
    }

    /// A record of `blocks` could not be written at `position`: the next one goes behind that place. Not into what was left
    /// out before it either: it may be the same record, which may stand at `position` whole, and a recovery takes the last.
    pub(super) fn note_bad(&mut self, position: u32, blocks: u32, now: Nanos) {
        let capacity = self.capacity();
        let next = self.place(Need { blocks, reserve: 0 }).unwrap_or(position);
        let start = if next > position { 0 } else { next };
        if next > position {
            self.bad.note(next, capacity - next, capacity, now);
        }
        self.bad.note(start, position + blocks - start, capacity, now);
    }

    /// Bad places that rested long enough may be tried again; says whether there are any.
    pub(super) fn end_rests_of_places(&mut self, now: Nanos) -> bool {
        self.bad.end_rests(now);
        !self.bad.is_empty()
    }

    /// What did not take a record is tried again.
    pub(super) fn forget_bad_places(&mut self) {
        self.bad = BadPlaces::default();
    }

    /// Notes that a record of `blocks` now stands at `position` (as [`Ring::place`] said).
    pub(crate) fn advance(&mut self, position: u32, blocks: u32) {
        // From where a recovery begins to scan, also if the record did not fit there and went to the start, or
        // behind a bad place: a later record at that place would be taken for the first.
        let from = if is_made(Mistake::WrapTailReused) { position } else { self.position };
        self.protected_from.get_or_insert(from);
        self.next_protected_from.get_or_insert(from);
        self.bad.is_well(position, blocks);
        self.previous_position = position;
        let blocks = blocks - u32::from(is_made(Mistake::RingOffByOne) && blocks > 1);
        self.position = (position + blocks) % self.capacity();
    }

    /// A snapshot begins: records from now on are what recovery from it will scan.
    pub(crate) fn snapshot_begins(&mut self) {
        if is_made(Mistake::SpaceOpenedAtBegin) {
            self.protected_from = None;
        }
        self.next_protected_from = None;
    }

    /// The same, while the record at `from` is in flight: it is newer than the snapshot.
    pub(crate) fn snapshot_begins_at(&mut self, from: Option<u32>) {
        self.next_protected_from = from;
    }

    /// That snapshot is committed: records from before it began need not be scanned any more.
    pub(crate) fn snapshot_committed(&mut self) {
        self.protected_from = self.next_protected_from;
    }

    /// That snapshot failed: nothing may be given up.
    pub(crate) fn snapshot_failed(&mut self) {
        if is_made(Mistake::SpaceOpenedByFailure) {
            return self.snapshot_committed();
        }
        self.next_protected_from = self.protected_from;
    }

    /// `blocks` blocks from `from` on, going round: two runs of start and end.
    pub(crate) fn run(&self, from: u32, blocks: u32) -> [(u32, u32); 2] {
        let (end, capacity) = (from.saturating_add(blocks), self.capacity());
        [(from, end.min(capacity)), (0, end.saturating_sub(capacity))]
    }

    /// The first record since the last committed snapshot will stand there, if none is known yet.
    pub(crate) fn begin_at(&mut self, position: u32) {
        if self.protected_from.is_none() {
            self.position = position;
        }
    }

    /// Where the records since the last committed snapshot stand.
    pub(crate) fn protected(&self) -> [(u32, u32); 2] {
        let Some(from) = self.protected_from else { return [(0, 0); 2] };
        let behind = (self.position + self.capacity() - from) % self.capacity();
        self.run(from, if behind == 0 { self.capacity() } else { behind })
    }

    /// Whether nothing in the log is needed by the map or by a recovery.
    pub(crate) fn is_unused(&self) -> bool {
        let holds_something = self.live_sectors_total > 0 || self.protected_from.is_some();
        // What is known of it would be forgotten with it.
        !holds_something && !self.quarantined && self.bad.is_empty()
    }

    /// Blocks that cannot be written now.
    pub(crate) fn used_blocks(&self) -> u32 {
        self.capacity() - self.free_run_blocks()
    }

    /// Share of the ring that cannot be written now, 0 to 100.
    pub(crate) fn fill_pct(&self) -> u32 {
        (u64::from(self.used_blocks()) * 100 / u64::from(self.capacity())) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ring: &Ring, blocks: u32, reserve: u32) -> Option<u32> {
        let need = Need { blocks, reserve };
        let found = ring.place(need);
        assert!(found.is_none_or(|block| ring.accepts(block, need)), "block {found:?}");
        found
    }

    fn ring(blocks: u32) -> Ring {
        Ring::new(NonZeroU32::new(blocks).unwrap())
    }

    /// One that may leave out 100 blocks, with its position there and all of it free.
    fn written_and_free(position: u32) -> Ring {
        let mut ring = ring(640).with_gaps(100);
        ring.advance(0, position);
        ring.snapshot_begins();
        ring.snapshot_committed();
        ring
    }

    #[test]
    fn an_empty_ring_takes_records_up_to_its_end_and_not_beyond() {
        let ring = ring(640);
        assert_eq!(place(&ring, 640, 0), Some(0));
        assert_eq!(place(&ring, 641, 0), None);
        assert_eq!(place(&ring, 600, 41), None);
    }

    #[test]
    fn space_written_since_the_snapshot_is_not_used_again_before_the_next_one() {
        let mut ring = ring(640);
        ring.advance(0, 600);
        assert_eq!(place(&ring, 41, 0), None, "wrapping would overwrite unsnapshotted records");
        ring.snapshot_begins();
        assert_eq!(place(&ring, 41, 0), None, "the snapshot is not committed yet");
        ring.snapshot_committed();
        assert_eq!(place(&ring, 41, 0), Some(0));
    }

    #[test]
    fn the_place_that_a_record_did_not_fit_into_is_not_used_before_the_next_snapshot() {
        let mut ring = ring(640);
        ring.advance(0, 600);
        ring.snapshot_begins();
        ring.snapshot_committed();
        assert_eq!(place(&ring, 100, 0), Some(0), "40 blocks are left before the end");
        ring.advance(0, 100);
        assert_eq!(ring.free_run_blocks(), 500, "a recovery begins at block 600");
        ring.advance(100, 500);
        assert_eq!(place(&ring, 1, 0), None);
    }

    #[test]
    fn records_written_while_a_snapshot_is_taken_stay_protected_after_it() {
        let mut ring = ring(640);
        ring.advance(0, 100);
        ring.snapshot_begins();
        ring.advance(100, 100);
        ring.snapshot_committed();
        assert_eq!(ring.free_run_blocks(), 540);
        ring.snapshot_begins();
        ring.snapshot_committed();
        assert_eq!(ring.free_run_blocks(), 640);
    }

    #[test]
    fn live_sectors_block_the_ring_until_they_are_dropped() {
        let mut ring = ring(640);
        ring.advance(0, 320);
        ring.add_live(100, 8);
        ring.snapshot_begins();
        ring.snapshot_committed();
        let free = ring.free_run_blocks();
        assert!((320..=320 + 100).contains(&free), "found {free}");
        ring.drop_live(100, 8);
        assert_eq!(ring.free_run_blocks(), 640);
    }

    #[test]
    fn live_sectors_in_the_slice_at_whose_start_the_position_stands_are_not_overwritten() {
        let mut ring = ring(640);
        ring.advance(0, 640);
        ring.add_live(320, 8);
        ring.add_live(500, 8);
        ring.snapshot_begins();
        ring.snapshot_committed();
        assert_eq!(place(&ring, 320, 0), Some(0));
        ring.advance(0, 320);
        assert_eq!(ring.free_run_blocks(), 0, "block 320 is needed");
    }

    #[test]
    fn a_full_ring_has_no_place_even_for_one_block() {
        let mut ring = ring(64);
        ring.advance(0, 64);
        assert_eq!((ring.position, place(&ring, 1, 0)), (0, None));
    }

    #[test]
    fn a_record_goes_behind_a_bad_place_and_what_is_left_out_stays_protected_with_it() {
        let mut ring = written_and_free(10);
        ring.note_bad(10, 5, Nanos::ZERO);
        assert_eq!((place(&ring, 5, 0), place(&ring, 5, 630)), (Some(15), Some(15)));
        assert_eq!(place(&ring, 5, 631), None, "five blocks more are gone then");
        ring.advance(15, 5);
        assert_eq!((ring.free_run_blocks(), place(&ring, 1, 0)), (630, Some(20)));
    }

    #[test]
    fn a_gap_is_no_longer_than_a_recovery_looks() {
        let mut ring = written_and_free(10);
        ring.bad.note(20, 85, 640, Nanos::ZERO);
        assert_eq!(place(&ring, 11, 0), Some(105), "10 blocks before it and 85 of its own");
        ring.bad.note(105, 6, 640, Nanos::ZERO);
        assert_eq!(place(&ring, 11, 0), None, "it would go to the start, where there is no room");
        assert_eq!(place(&ring, 10, 0), Some(10));
        assert_eq!(place(&ring, 1, 0), Some(10));
    }

    #[test]
    fn a_bad_end_of_the_log_and_a_bad_start_are_left_out_together() {
        let mut ring = written_and_free(630);
        ring.note_bad(630, 10, Nanos::ZERO);
        ring.note_bad(0, 3, Nanos::ZERO);
        assert_eq!(place(&ring, 4, 0), Some(3));
        assert_eq!((place(&ring, 4, 623), place(&ring, 4, 624)), (Some(3), None));
        ring.forget_bad_places();
        assert_eq!(place(&ring, 4, 0), Some(630), "it is tried again");
    }

    #[test]
    fn blocks_may_be_left_out_as_far_as_a_recovery_looks_and_count_as_used() {
        let mut ring = written_and_free(10);
        let need = |blocks, reserve| Need { blocks, reserve };
        assert!(ring.accepts(10, need(5, 0)) && ring.accepts(110, need(5, 0)));
        assert!(!ring.accepts(9, need(5, 0)), "that is a lap further on, and would be used twice");
        assert!(!ring.accepts(111, need(5, 0)));
        // At the start, a lap further on.
        assert!(ring.accepts(0, need(5, 5)) && !ring.accepts(0, need(5, 6)));
        ring.advance(60, 5);
        assert_eq!(ring.free_run_blocks(), 640 - 55, "50 were left out");
        ring.advance(165, 475);
        assert!(
            ring.accepts(0, need(10, 0)) && !ring.accepts(1, need(10, 0)),
            "what was left out is protected"
        );
    }

    #[test]
    fn where_a_record_failed_behind_blocks_left_out_it_does_not_go_back_to_those() {
        let mut ring = written_and_free(10);
        ring.note_bad(40, 5, Nanos::ZERO);
        assert_eq!(place(&ring, 5, 0), Some(45));
        assert!(!ring.accepts(20, Need { blocks: 5, reserve: 0 }));
        // At the start of the log, with room before its end.
        let mut ring = written_and_free(600);
        ring.note_bad(3, 5, Nanos::ZERO);
        assert_eq!(place(&ring, 5, 0), Some(8));
    }

    #[test]
    fn what_is_needed_is_not_left_out_either() {
        let mut ring = ring(640).with_gaps(100);
        ring.add_live(20, 8);
        assert!(ring.accepts(0, Need { blocks: 20, reserve: 0 }));
        assert!(!ring.accepts(30, Need { blocks: 1, reserve: 0 }), "block 20 is before it");
    }
}
