//! Where the next record goes: the placement policy is asked, told what happens, and held to the laws.
//!
//! Whatever it answers, a record goes only into a log that a recovery is certain to read, over nothing that is needed, and
//! no further on than a recovery looks. An answer that is none of that is passed over: the record goes on in the log that
//! it named, or in the nearest that may take it.

use super::record::Record;
use crate::disk::dispatch::{InFlight, Purpose};
use crate::engine::Engine;
use crate::placement::{Completed, Need, Placement, Seen, Spot, View};

/// Most claims added to one record beyond the one that is needed.
pub(super) const CLAIMS_AHEAD_MAX: u32 = 3;

impl Engine {
    /// The policy, and what it may look at.
    fn placement(&mut self) -> (&mut dyn Placement, View<'_>) {
        let view = View {
            logs: &self.core.logs,
            head_offset: self.lanes.main.queue.head_offset(),
            now: self.now,
            is_idle: self.lanes.main.queue.is_idle(),
        };
        (self.placement.as_mut(), view)
    }

    /// Where the policy puts a record, if anywhere.
    pub(super) fn choose_spot(&mut self, need: Need) -> Option<Spot> {
        let (placement, view) = self.placement();
        let spot = placement.choose(need, &view)?;
        if view.is_legal(spot, need) {
            return Some(spot);
        }
        let named = Some(spot.log_index).filter(|log| view.logs.is_claimed(*log));
        let named = named.filter(|log| view.logs.has_room(*log, need));
        let log_index = named.or_else(|| view.logs.nearest_claimed(view.head_offset, need))?;
        let block = view.logs.next_place(log_index, need)?;
        Some(Spot { log_index, block, ..spot })
    }

    /// How many logs a record claims for the next ones.
    pub(super) fn claims_ahead(&self) -> u32 {
        self.placement.claims_ahead().min(CLAIMS_AHEAD_MAX)
    }

    /// Whether records go to other logs than the first, so that logs must be claimed.
    pub(crate) fn claims_logs(&self) -> bool {
        self.claims_ahead() > 0
    }

    /// A record leaves for this spot.
    pub(super) fn note_record_leaves(&mut self, spot: Spot) {
        let (placement, view) = self.placement();
        placement.seen(&Seen::RecordLeaves { spot }, &view);
    }

    /// A command completed: what that says of the disk.
    pub(crate) fn note_completed(&mut self, done: &InFlight, is_ok: bool) {
        let (took, has_moved) = self.lanes.main.queue.took(done);
        let record = self.commit.in_flight.as_ref().filter(|_| done.purpose == Purpose::Record);
        let (offset, bytes) = done.transferred();
        let completed = Completed {
            record_end: record.map(Record::end),
            offset,
            bytes,
            took,
            has_moved,
            is_ok,
        };
        let (placement, view) = self.placement();
        placement.seen(&Seen::Completed(completed), &view);
    }
}
