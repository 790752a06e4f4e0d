//! Who waits for durability, and what for.
//!
//! A barrier is met once three things are durable: the staged blocks of its time, the invalidations of its
//! time, and the in-place transfers that a device flush covers. Barriers are answered in the order
//! they came, so a flush never overtakes an earlier one. A failed flush fails the volume: nothing is
//! ever acknowledged on the strength of a second try (law 7).

use crate::commit::InvalidationCount;
use crate::disk::flusher::FlushTicket;
use crate::engine::Engine;
use crate::stage::StagePosition;
use nearhead_service::RequestId;

/// Somebody who waits for durability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub(super) id: RequestId,
    pub(super) flush_ticket: FlushTicket,
    pub(super) stage_target: StagePosition,
    pub(super) invalid_target: InvalidationCount,
    /// Client bytes that the waiter wrote in place.
    pub(super) written: u64,
}

impl Engine {
    pub(super) fn start_flush(&mut self, id: RequestId) {
        let barrier = Barrier {
            id,
            stage_target: self.stage.end(),
            invalid_target: self.commit.invalidations_mut().want_all(),
            flush_ticket: self.core.want_client_writes(),
            written: 0,
        };
        self.core.flusher_mut().demand(self.commit.invalidations().flush_ticket());
        self.commit.want(barrier.stage_target, self.core.now());
        self.wait_for(barrier);
    }

    pub(super) fn wait_for(&mut self, barrier: Barrier) {
        if self.requests.barriers.is_empty() && self.is_met(&barrier) {
            self.count_in_place(barrier.written);
            self.reply(barrier.id, Ok(Vec::new()));
        } else if self.core.has_failed() {
            let error = self.core.failure_error();
            self.reply(barrier.id, Err(error));
        } else {
            self.requests.barriers.push_back(barrier);
        }
    }

    fn is_met(&self, barrier: &Barrier) -> bool {
        self.core.flusher().is_done(barrier.flush_ticket)
            && self.commit.committed() >= barrier.stage_target
            && self.commit.invalidations().committed() >= barrier.invalid_target
    }

    /// Small writes that stood before `position`, and went home by themselves, are durable.
    pub(crate) fn answer_who_went_home(&mut self, position: StagePosition) {
        for waiter in self.commit.waiters_mut().take_durable(position) {
            self.count_in_place(waiter.written_bytes());
            self.reply(waiter.id(), Ok(Vec::new()));
        }
    }

    pub(crate) fn release_waiters(&mut self) {
        for waiter in self.commit.take_durable() {
            self.count_logged(waiter.written_bytes());
            self.reply(waiter.id(), Ok(Vec::new()));
        }
        while let Some(barrier) = self.requests.barriers.front().copied() {
            if !self.is_met(&barrier) {
                break;
            }
            self.requests.barriers.pop_front();
            self.count_in_place(barrier.written);
            self.reply(barrier.id, Ok(Vec::new()));
        }
    }
}
