//! Commits: staged blocks, invalidations, claims and relocations become records.
//!
//! One record is in flight at a time and takes everything that waits. That makes the sequence of
//! records their order of durability, so that a recovery can demand a chain without gaps: whatever
//! is missing below the newest record is damage, not a crash.

mod build;
mod complete;
mod packing;
mod place;
mod retry;
mod torn;
mod unused;

pub(crate) use packing::Packer;
pub(crate) use retry::pause;

use nearhead_disk::{Nanos, Payload, RangeSet};
use nearhead_format::Entry;
use nearhead_format::record::{RecordHeader, WriteItem};
use nearhead_service::RequestId;
use std::collections::VecDeque;
use std::ops::Range;
use torn::TornRecords;

/// A record on its way to the disk.
#[derive(Debug)]
pub(crate) struct RecordInFlight {
    pub(crate) header: RecordHeader,
    pub(crate) blocks: u32,
    /// Header and payload, kept for writing it elsewhere if this place fails.
    pub(crate) parts: Vec<Payload>,
    /// How many queued invalidations it carries.
    pub(crate) invalidations: usize,
    /// Map entries a checkpoint has copied home and now lets go.
    pub(crate) releases: Vec<Entry>,
    /// What the chunks of a relocation were before, in the order of the chunks.
    pub(crate) relocated: Vec<Entry>,
    /// Stage position committed with it, if it carries staged blocks.
    pub(crate) stage_end: Option<u64>,
    /// Transfers not done yet: the record itself, and its header's copy on a map device.
    pub(crate) pending: u8,
    /// Logs that failed to take it.
    pub(crate) failed_logs: Vec<u32>,
    /// Failures in a row at the place where it is.
    pub(crate) attempts: u32,
    /// How often every place that there is had failed to take it.
    pub(crate) rounds: u32,
    /// The newest snapshot when they had for the first time.
    pub(crate) snapshot_then: u64,
    /// Block of the map's journal where the copy of its header goes, if there is a journal.
    pub(crate) journal_at: Option<u32>,
}

/// A small write that is answered once it is durable.
#[derive(Clone, Debug)]
pub(crate) struct DurableWaiter {
    /// Stage position before which everything of it stands.
    pub(crate) target: u64,
    pub(crate) id: RequestId,
    /// Home sectors that it changes: the first range, and the others of an atomic write or a trim.
    pub(crate) sectors: Range<u64>,
    pub(crate) more: Vec<Range<u64>>,
    /// Client bytes that it writes.
    pub(crate) written: u64,
}

impl DurableWaiter {
    pub(crate) fn new(id: RequestId, sectors: Range<u64>, written: u64) -> Self {
        Self { target: 0, id, sectors, more: Vec::new(), written }
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        std::iter::once(&self.sectors).chain(&self.more)
    }
}

/// State of committing.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) in_flight: Option<RecordInFlight>,
    /// Stage position before which everything is durable.
    pub(crate) committed: u64,
    /// Stage position somebody wants committed.
    wanted: u64,
    /// Small writes waiting for a stage position, in order.
    pub(crate) durable_waiters: VecDeque<DurableWaiter>,
    /// When the oldest staged block came, if any is staged and nobody wants it committed.
    staged_since: Option<Nanos>,
    /// Journal block of the record in flight, if there is one and a journal.
    pub(crate) journal_from: Option<u32>,
    /// What of the record in flight waits to be sent again.
    again: Option<retry::Again>,
    /// It waits for space.
    pub(crate) is_short_of_space: bool,
    /// A sequence that no record has, and that both snapshots must include before the next record.
    pub(crate) unused: Option<unused::Unused>,
    /// What must be gone before the next record.
    pub(crate) torn: TornRecords,
    /// Sectors whose logged copies were taken back by snapshots alone. The next records say so too, so that the logs
    /// by themselves never bring such a copy back, should both snapshots be lost. The map has nothing there.
    pub(crate) untold: RangeSet,
    /// A record should be written for them, if a log has room.
    pub(crate) tell_wanted: bool,
}

impl Commit {
    pub(crate) fn new() -> Self {
        Self {
            in_flight: None,
            committed: 0,
            wanted: 0,
            durable_waiters: VecDeque::new(),
            staged_since: None,
            journal_from: None,
            again: None,
            is_short_of_space: false,
            unused: None,
            torn: TornRecords::default(),
            untold: RangeSet::new(),
            tell_wanted: false,
        }
    }

    /// A record with this header is durable: what it takes back is told, and so is what it writes anew.
    pub(crate) fn note_told(&mut self, header: &RecordHeader) {
        if self.untold.is_empty() {
            return;
        }
        let writes = header.writes.iter().map(WriteItem::range);
        for range in header.invalidations.iter().copied().chain(writes) {
            self.untold.remove(range.start_sector..range.end_sector());
        }
        self.tell_wanted &= !self.untold.is_empty();
    }

    /// Somebody waits until the stage is committed up to `position`.
    pub(crate) fn want(&mut self, position: u64) {
        self.wanted = self.wanted.max(position);
    }

    /// What stood behind `front` does not become durable there: who waits for any of it waits for `position`.
    pub(crate) fn postpone(&mut self, front: u64, position: u64) {
        for waiter in self.durable_waiters.iter_mut().filter(|waiter| waiter.target > front) {
            waiter.target = position;
        }
    }

    /// Those who waited for what stands before `position`.
    pub(crate) fn take_durable(&mut self, position: u64) -> Vec<DurableWaiter> {
        let waiters = &mut self.durable_waiters;
        let done = waiters.iter().take_while(|waiter| waiter.target <= position).count();
        waiters.drain(..done).collect()
    }

    /// A block was staged.
    pub(crate) fn note_staged(&mut self, now: Nanos) {
        self.staged_since.get_or_insert(now);
    }

    pub(crate) fn staged_since(&self) -> Option<Nanos> {
        self.staged_since
    }

    pub(crate) fn note_taken(&mut self) {
        self.staged_since = None;
    }

    pub(crate) fn wants_stage(&self, taken_up_to: u64) -> bool {
        self.wanted > taken_up_to
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.is_some() || self.torn.is_being_cleared() || !self.durable_waiters.is_empty()
    }
}
