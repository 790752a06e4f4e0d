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
use super::scatter::Scatter;
use nearhead_disk::Nanos;
use std::num::NonZeroU32;
use std::ops::Range;

/// Number of slices in which live sectors are counted: as many as a word has bits.
pub(crate) const SLICES: u32 = u64::BITS;

/// No record was written to this log yet.
pub(crate) const NO_PREVIOUS: u32 = u32::MAX;

/// A record that is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its length in log blocks.
    pub blocks: u32,
    /// Blocks that must be free in the log behind it.
    pub reserve: u32,
}

/// The state of one log.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a log, not a state")]
pub(crate) struct Ring {
    capacity_blocks: NonZeroU32,
    live_sectors: Box<[u32; SLICES as usize]>,
    /// Bit `n` is set while slice `n` has live sectors.
    live_slices: u64,
    live_sectors_total: u32,
    /// Where the next record goes, if it fits before the end.
    pub(super) position: u32,
    /// Position of the newest record, or [`NO_PREVIOUS`].
    pub(super) previous_position: u32,
    /// First record since the last committed snapshot.
    protected_from: Option<u32>,
    /// First record since the snapshot now being written began.
    next_protected_from: Option<u32>,
    /// Something is being written to it that no record names yet: it keeps all that it has, and takes no record.
    pub(super) is_held: bool,
    /// Not all that is needed of it could be copied elsewhere, the last time.
    pub(super) is_stuck: bool,
    /// Whether recovery is certain to scan this log (a durable claim exists).
    pub(super) claimed: bool,
    /// A recovery from the newest snapshot scans it from where it was claimed then, or since; and one from the snapshot under way.
    was_claimed: [bool; 2],
    /// Set when a record could not be written here; the log rests for a while.
    pub(super) quarantined: bool,
    /// Records in a row that could not be written here.
    pub(super) failures: u32,
    /// Where.
    bad: BadPlaces,
    /// The longest gap before a record, in blocks, behind which a recovery finds it.
    gap_blocks_max: u32,
    /// What of it is taken, where a record may begin anywhere; then nothing goes round.
    scatter: Option<Box<Scatter>>,
}

impl Ring {
    /// Where the next record goes, if it fits before the end: at the start of a log that takes copies.
    pub(crate) fn position(&self) -> u32 {
        if self.is_held { 0 } else { self.position }
    }

    /// Position of the newest record, or [`NO_PREVIOUS`].
    pub(crate) fn previous_position(&self) -> u32 {
        self.previous_position
    }

    /// Records in a row that could not be written here.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it rests, because a record could not be written here.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.quarantined
    }

    /// An empty log of `capacity_blocks`.
    pub(crate) fn new(capacity_blocks: NonZeroU32) -> Self {
        Self {
            capacity_blocks,
            live_sectors: Box::new([0; SLICES as usize]),
            live_slices: 0,
            live_sectors_total: 0,
            position: 0,
            previous_position: NO_PREVIOUS,
            protected_from: None,
            next_protected_from: None,
            claimed: false,
            was_claimed: [false; 2],
            is_held: false,
            is_stuck: false,
            quarantined: false,
            failures: 0,
            bad: BadPlaces::default(),
            gap_blocks_max: 0,
            scatter: None,
        }
    }

    /// It may leave out so many blocks in a row.
    pub(super) fn with_gaps(self, gap_blocks_max: u32) -> Self {
        Self { gap_blocks_max, ..self }
    }

    /// A record may begin anywhere.
    pub(super) fn scattered(self) -> Self {
        let scatter = Some(Box::new(Scatter::new(self.capacity())));
        Self { scatter, ..self }
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
        self.drop_in_slice(self.slice_of(position), sectors)
    }

    /// The same of sectors of which only the slice is known.
    pub(super) fn drop_in_slice(&mut self, slice: u32, sectors: u32) -> bool {
        let before = self.live_slices;
        let count = &mut self.live_sectors[slice as usize];
        debug_assert!(*count >= sectors, "more sectors dropped than were live");
        *count = count.saturating_sub(sectors);
        if *count == 0 {
            self.live_slices &= !(1 << slice);
        }
        self.live_sectors_total = self.live_sectors_total.saturating_sub(sectors);
        self.live_slices != before
    }

    /// The same of a chunk that lies in these blocks.
    pub(super) fn add_live_chunk(&mut self, chunk: Range<u32>, sectors: u32) -> bool {
        let may_change = self.add_live(chunk.start, sectors);
        let Some(scatter) = &mut self.scatter else { return may_change };
        scatter.add_live(chunk, sectors);
        true
    }

    /// The same of a chunk that lies in these blocks.
    pub(super) fn drop_live_chunk(&mut self, chunk: Range<u32>, sectors: u32) -> bool {
        let may_change = self.drop_live(chunk.start, sectors);
        let Some(scatter) = &mut self.scatter else { return may_change };
        scatter.drop_live(chunk, sectors);
        true
    }

    /// What of it is taken, where a record may begin anywhere.
    pub(super) fn scatter(&self) -> Option<&Scatter> {
        self.scatter.as_deref()
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
        if self.scatter.is_some() {
            return self.position;
        }
        (self.position + self.free_run_blocks()) % self.capacity()
    }

    /// Free blocks from the write position on, going round.
    fn free_run_blocks(&self) -> u32 {
        if self.is_held {
            return 0;
        }
        let capacity = self.capacity();
        let distance = |to: u32| {
            let forward = (to + capacity - self.position) % capacity;
            if forward == 0 { capacity } else { forward }
        };
        let mut free = capacity;
        let protections = [self.protected_from, self.next_protected_from].into_iter().flatten();
        for protected in protections {
            // Protected from the write position itself means: the whole ring is.
            free = free.min(if protected == self.position { 0 } else { distance(protected) });
        }
        if self.live_sectors_total == 0 {
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

    /// Whether the next record can go round to this block: no further on than where the newest one stands. Behind that,
    /// the place which it names would be one of the blocks that it leaves out, and a recovery would miss a record there.
    fn may_go_round_to(&self, block: u32) -> bool {
        self.previous_position == NO_PREVIOUS || block <= self.previous_position
    }

    /// Whether a record can go to this block: at most as far behind the last one, or behind the start of the log, as a
    /// recovery looks, over nothing that is needed, and not to a place that did not take one.
    pub(crate) fn accepts(&self, block: u32, need: Need) -> bool {
        if let Some(scatter) = &self.scatter {
            return scatter.accepts(block, need, &self.bad);
        }
        let capacity = self.capacity();
        if need.blocks > capacity || block > capacity - need.blocks {
            return false;
        }
        let is_near =
            |from: u32| (from..=from.saturating_add(self.gap_blocks_max)).contains(&block);
        let left_out = if is_near(self.position) {
            block - self.position
        } else if is_near(0) && self.may_go_round_to(block) {
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
        if let Some(scatter) = &self.scatter {
            let ahead = scatter.place_from(self.position, need, &self.bad);
            return ahead.or_else(|| scatter.place_from(0, need, &self.bad));
        }
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
                None => return (passed == 0 || self.may_go_round_to(at)).then_some(at),
                Some(end) => at = end,
            }
        }
    }

    /// The first block from `block` on where a record can go, where one may begin anywhere.
    pub(super) fn place_from(&self, block: u32, need: Need) -> Option<u32> {
        self.scatter.as_ref()?.place_from(block, need, &self.bad)
    }

    /// A record of `blocks` could not be written at `position`: the next one goes behind that place. Not into what was left
    /// out before it either: it may be the same record, which may stand at `position` whole, and a recovery takes the last.
    pub(super) fn note_bad(&mut self, position: u32, blocks: u32, now: Nanos) {
        let capacity = self.capacity();
        if let Some(scatter) = &mut self.scatter {
            scatter.note_twin(position..position + blocks);
            return self.bad.note(position, blocks, capacity, now);
        }
        let next = self.place(Need { blocks, reserve: 0 }).unwrap_or(position);
        let start = if next > position { 0 } else { next };
        if next > position {
            self.bad.note(next, capacity - next, capacity, now);
        }
        self.bad.note(start, position + blocks - start, capacity, now);
    }

    /// A record of `blocks` may stand at `position`, which did not take it.
    pub(super) fn note_twin(&mut self, position: u32, blocks: u32) {
        if let Some(scatter) = &mut self.scatter {
            scatter.note_twin(position..position + blocks);
        }
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
        let from = self.position;
        if let Some(scatter) = &mut self.scatter {
            scatter.advance(position..position + blocks);
        } else {
            self.protected_from.get_or_insert(from);
            self.next_protected_from.get_or_insert(from);
        }
        self.bad.is_well(position, blocks);
        self.previous_position = position;
        self.position = (position + blocks) % self.capacity();
    }

    /// A claim of it is durable.
    pub(super) fn note_claimed(&mut self) {
        (self.claimed, self.was_claimed) = (true, [true; 2]);
    }

    /// Whether it may be begun anew at its start: nothing in it is needed, and no recovery begins to scan it elsewhere.
    pub(super) fn is_new(&self) -> bool {
        self.is_unused() && (self.position == 0 || !self.was_claimed[0])
    }

    /// Nothing that stands in it says where the next record goes, if ever one comes: it begins at the start, and names none before it.
    pub(super) fn begin_anew(&mut self) {
        self.position = 0;
        self.previous_position = NO_PREVIOUS;
    }

    /// Whether it takes no record now.
    pub(super) fn is_shut(&self) -> bool {
        self.quarantined || self.is_held
    }

    /// A snapshot begins: records from now on are what recovery from it will scan.
    pub(crate) fn snapshot_begins(&mut self) {
        if let Some(scatter) = &mut self.scatter {
            scatter.snapshot_begins();
        }
        self.was_claimed[1] = self.claimed;
        self.next_protected_from = None;
    }

    /// The same, while the record at `from` is in flight: it is newer than the snapshot.
    pub(crate) fn snapshot_begins_at(&mut self, from: Option<u32>) {
        self.next_protected_from = from;
    }

    /// That snapshot is committed: records from before it began need not be scanned any more.
    pub(crate) fn snapshot_committed(&mut self) {
        if let Some(scatter) = &mut self.scatter {
            scatter.snapshot_committed();
        }
        self.is_stuck = false;
        self.was_claimed[0] = self.was_claimed[1];
        self.protected_from = self.next_protected_from;
    }

    /// That snapshot failed: nothing may be given up.
    pub(crate) fn snapshot_failed(&mut self) {
        if let Some(scatter) = &mut self.scatter {
            scatter.snapshot_failed();
        }
        self.was_claimed[1] |= self.was_claimed[0];
        self.next_protected_from = self.protected_from;
    }

    /// `blocks` blocks from `from` on, going round: two runs of start and end.
    fn run(&self, from: u32, blocks: u32) -> [(u32, u32); 2] {
        let (end, capacity) = (from.saturating_add(blocks), self.capacity());
        [(from, end.min(capacity)), (0, end.saturating_sub(capacity))]
    }

    /// The first record since the last committed snapshot will stand there, if none is known yet.
    pub(crate) fn begin_at(&mut self, position: u32) {
        if !self.protects_any() {
            self.position = position;
        }
    }

    /// The next record goes behind block `position`, where one could go. Returns whether it can go nowhere else: records may
    /// not begin anywhere.
    pub(super) fn leave_behind(&mut self, position: u32) -> bool {
        let capacity = self.capacity();
        if self.scatter.is_some() {
            self.position = position.saturating_add(1) % capacity;
            return false;
        }
        let ahead = (position + capacity - self.position) % capacity;
        if position < capacity && ahead < self.free_run_blocks() {
            self.position = (position + 1) % capacity;
        }
        true
    }

    /// Where the records since the last committed snapshot stand, as runs of start and end.
    pub(crate) fn protected(&self) -> Vec<(u32, u32)> {
        if let Some(scatter) = &self.scatter {
            return scatter.protected();
        }
        let Some(from) = self.protected_from else { return Vec::new() };
        let behind = (self.position + self.capacity() - from) % self.capacity();
        self.run(from, if behind == 0 { self.capacity() } else { behind }).into()
    }

    fn protects_any(&self) -> bool {
        let scattered = self.scatter.as_ref().is_some_and(|scatter| scatter.protects_any());
        scattered || self.protected_from.is_some()
    }

    /// What the next records may overwrite, as runs of start and end.
    pub(crate) fn free(&self) -> Vec<(u32, u32)> {
        match &self.scatter {
            Some(scatter) => scatter.free(),
            None => self.run(self.position, self.free_run_blocks()).into(),
        }
    }

    /// Whether nothing in the log is needed by the map or by a recovery.
    pub(crate) fn is_unused(&self) -> bool {
        // What is known of it would be forgotten with it.
        self.holds_nothing() && !self.quarantined && self.bad.is_empty()
    }

    /// Whether nothing in it is needed, and it, or a place in it, rests because it took no record.
    pub(super) fn rests_empty(&self) -> bool {
        self.holds_nothing() && (self.quarantined || !self.bad.is_empty())
    }

    fn holds_nothing(&self) -> bool {
        self.live_sectors_total == 0 && !self.protects_any() && !self.is_held
    }

    /// Blocks that cannot be written now.
    pub(crate) fn used_blocks(&self) -> u32 {
        match &self.scatter {
            Some(scatter) => scatter.used_blocks(),
            None => self.capacity() - self.free_run_blocks(),
        }
    }

    /// Share of the ring that cannot be written now, 0 to 100.
    pub(crate) fn fill_pct(&self) -> u32 {
        (u64::from(self.used_blocks()) * 100 / u64::from(self.capacity())) as u32
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
