//! Commits: staged blocks, invalidations, claims and relocations become records.
//!
//! One record is in flight at a time and takes everything that waits. That makes the sequence of
//! records their order of durability, so that a recovery can demand a chain without gaps: whatever
//! is missing below the newest record is damage, not a crash.

mod build;
mod complete;
mod content;
mod invalidation;
mod journal;
mod packer;
mod parts;
mod place;
mod record;
mod rests;
mod retry;
mod send;
mod stale;
mod torn;
mod unused;
mod waiters;

pub(crate) use build::Attempt;
pub(crate) use complete::{Ended, RecordContext};
pub(crate) use content::{Content, Sources, memory_has_room};
pub(crate) use invalidation::{InvalidationCount, Invalidations, Stale};
pub(crate) use packer::{Packer, padding};
pub(crate) use parts::{Copied, Copies, Moves, Part, Releases, Target};
pub(crate) use record::Record;
pub(crate) use retry::pause;
pub(crate) use send::encoded;
pub(crate) use waiters::{DurableWaiter, Waiters};

use crate::packing::Packing;
use crate::placement::Placement;
use crate::stage::{Stage, StagePosition};
use nearhead_disk::{Nanos, RangeSet};
use nearhead_format::record::{RecordHeader, SectorRange, WriteItem};
use place::Placer;
use std::ops::Range;
use torn::TornRecords;

/// State of committing.
#[derive(Debug)]
pub(crate) struct Commit {
    placer: Placer,
    packing: Box<dyn Packing>,
    in_flight: Option<Record>,
    invalidations: Invalidations,
    /// Whether the newest record moved blocks, if any was written.
    moved_last: Option<bool>,
    /// Stage position before which everything is durable.
    committed: StagePosition,
    /// Stage position somebody wants committed.
    wanted: StagePosition,
    /// Since when somebody wants what no record has yet.
    wanted_since: Option<Nanos>,
    /// Small writes waiting for a stage position, in order.
    waiters: Waiters,
    /// When the oldest staged block came, if any is staged and nobody wants it committed.
    staged_since: Option<Nanos>,
    /// Journal block of the record in flight, if there is one and a journal.
    journal_from: Option<u32>,
    /// What of the record in flight waits to be sent again.
    again: Option<retry::Again>,
    /// The newest record that a place did not take: it may stand there whole all the same, beside where it was written
    /// then, and a recovery takes it from there until a newer one is durable.
    failed_sequence: Option<u64>,
    /// Records let go since anything was written that waited for a log.
    let_go_in_row: u32,
    /// It waits for space.
    is_short_of_space: bool,
    /// A sequence that no record has, and that both snapshots must include before the next record.
    unused: Option<unused::Unused>,
    /// What must be gone before the next record.
    torn: TornRecords,
    /// Sectors whose logged copies were taken back by snapshots alone. The next records say so too, so that the logs
    /// by themselves never bring such a copy back, should both snapshots be lost. The map has nothing there.
    untold: RangeSet,
    /// A record should be written for them, if a log has room.
    tell_wanted: bool,
    /// The next record waits until nothing is on the disk, and since when.
    is_held: bool,
    held_since: Option<Nanos>,
    rests: rests::Rests,
}

impl Commit {
    /// Nothing waits; `placement` says where records go, `packing` how much goes into one.
    pub(crate) fn new(placement: Box<dyn Placement>, packing: Box<dyn Packing>) -> Self {
        Self {
            placer: Placer::new(placement),
            packing,
            in_flight: None,
            invalidations: Invalidations::default(),
            moved_last: None,
            committed: StagePosition::START,
            wanted: StagePosition::START,
            wanted_since: None,
            waiters: Waiters::default(),
            staged_since: None,
            journal_from: None,
            again: None,
            failed_sequence: None,
            let_go_in_row: 0,
            is_short_of_space: false,
            unused: None,
            torn: TornRecords::default(),
            untold: RangeSet::new(),
            tell_wanted: false,
            is_held: false,
            held_since: None,
            rests: rests::Rests::default(),
        }
    }

    /// Whether so many sectors are logged as runs of new bytes, where the volume takes both.
    pub(crate) fn takes_fragments(&self, sectors: usize, runs: usize, bytes: usize) -> bool {
        self.packing.takes_fragments(sectors, runs, bytes)
    }

    /// A record with this header is durable: what it takes back is told, and so is what it writes anew.
    fn note_told(&mut self, header: &RecordHeader) {
        self.note_written();
        if self.untold.is_empty() {
            return;
        }
        let writes = header.writes.iter().map(WriteItem::range);
        for range in header.invalidations.iter().copied().chain(writes) {
            self.untold.remove(range.start_sector..range.end_sector());
        }
        self.tell_wanted &= !self.untold.is_empty();
    }

    /// Something that waited for a log was written, there or at home.
    pub(crate) fn note_written(&mut self) {
        self.let_go_in_row = 0;
    }

    /// Somebody waits from `now` on until the stage is committed up to `position`.
    pub(crate) fn want(&mut self, position: StagePosition, now: Nanos) {
        if position > self.wanted {
            self.wanted = position;
            self.wanted_since.get_or_insert(now);
        }
    }

    /// The record on its way, if there is one.
    pub(crate) fn in_flight(&self) -> Option<&Record> {
        self.in_flight.as_ref()
    }

    /// The newest record that a place did not take.
    pub(crate) fn failed_sequence(&self) -> Option<u64> {
        self.failed_sequence
    }

    /// Stage position before which everything is durable.
    pub(crate) fn committed(&self) -> StagePosition {
        self.committed
    }

    /// Everything before this stage position is durable, or was put off.
    pub(crate) fn note_committed(&mut self, position: StagePosition) {
        self.committed = self.committed.max(position);
    }

    /// Small writes that wait for a stage position.
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    pub(crate) fn waiters_mut(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// Those who waited for what is durable by now.
    pub(crate) fn take_durable(&mut self) -> Vec<DurableWaiter> {
        self.waiters.take_durable(self.committed)
    }

    /// What stood behind `front` does not become durable there: who waits for any of it waits for `position`.
    pub(crate) fn postpone(&mut self, front: StagePosition, position: StagePosition) {
        self.waiters.postpone(front, position);
    }

    /// What snapshots alone took back: the next records say so too, one of them soon.
    pub(crate) fn note_untold(&mut self, taken_back: impl IntoIterator<Item = Range<u64>>) {
        for range in taken_back {
            self.untold.insert(range);
        }
        self.tell_wanted = true;
    }

    /// Whether a record should be written for that.
    pub(crate) fn wants_to_tell(&self) -> bool {
        self.tell_wanted
    }

    /// The home sectors that the record of a sequence that stays unused may write, wherever it stands.
    pub(crate) fn let_go(&self) -> &[SectorRange] {
        self.unused.as_ref().map_or(&[], |unused| &unused.writes)
    }

    /// Remains of records that recovery found; cleared before the next record.
    pub(crate) fn note_torn(&mut self, offsets: impl IntoIterator<Item = u64>, sequence: u64) {
        self.torn.note(offsets, sequence);
    }

    pub(crate) fn is_clearing_torn(&self) -> bool {
        self.torn.is_being_cleared()
    }

    /// A block was staged.
    pub(crate) fn note_staged(&mut self, now: Nanos) {
        self.staged_since.get_or_insert(now);
    }

    pub(crate) fn staged_since(&self) -> Option<Nanos> {
        self.staged_since
    }

    /// Blocks left the stage from the front: how long others wait is counted anew. Says since when somebody waits for any of those
    /// that left.
    pub(crate) fn note_stage_taken(&mut self, stage: &Stage, now: Nanos) -> Option<Nanos> {
        self.staged_since = (!stage.is_empty()).then_some(now);
        let since = self.wanted_since;
        self.wanted_since = since.filter(|_| self.wanted > stage.front());
        since
    }

    /// Nothing tells what only snapshots said: nobody needs it, and no log has room.
    pub(crate) fn forget_to_tell(&mut self) {
        self.tell_wanted = false;
    }

    fn wants_stage(&self, taken_up_to: StagePosition) -> bool {
        self.wanted > taken_up_to
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.is_some() || self.torn.is_being_cleared() || !self.waiters.is_empty()
    }
}
