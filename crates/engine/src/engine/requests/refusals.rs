//! Who is told when what they wait for cannot be done, while the volume goes on.
//!
//! One bad sector, or no space for a while, is the trouble of those who wait for it and of nobody else. What they
//! wrote stays in memory, where reads find it, and is tried again: a write that failed may have happened, as law 3
//! says, but what was acknowledged before it is never given up for it. Only a stop, which must come to an end,
//! lets go of it, and says so where somebody relied on it.

use super::{Active, Body};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::stage::StagePosition;
use crate::stage::StagedBlock;
use crate::state::sectors::BLOCK_SECTORS;
use nearhead_service::RequestError;
use std::collections::VecDeque;
use std::ops::Range;

/// Whether these sectors are in one of the blocks.
fn touches(blocks: &[u64], start: u64, end: u64) -> bool {
    let (first, last) = (start / BLOCK_SECTORS, end.div_ceil(BLOCK_SECTORS));
    blocks.iter().any(|block| (first..last).contains(block))
}

/// Whether what waits to begin gets an error when these blocks are put off.
fn is_refused_with(body: &Body, blocks: &[u64]) -> bool {
    let touches = |range: &Range<u64>| touches(blocks, range.start, range.end);
    match body {
        Body::InPlace(state) => touches(&state.sectors()),
        Body::Small(write) => write.atomic && write.sector_ranges().iter().any(touches),
        Body::Read(_) => false,
    }
}

impl Engine {
    /// Everybody who waits for a record, a flush or for room gets `error`; who comes later waits anew.
    pub(crate) fn refuse_all(&mut self, error: &RequestError) {
        for waiter in self.commit.waiters_mut().take_all() {
            self.reply(waiter.id(), Err(error.clone()));
        }
        for barrier in std::mem::take(&mut self.requests.barriers) {
            self.reply(barrier.id, Err(error.clone()));
        }
        let mut slots = std::mem::take(&mut self.requests.blocked);
        slots.extend(std::mem::take(&mut self.requests.waiting_for_room));
        slots.extend(self.blanks.take_waiting());
        for slot in slots {
            self.finish_slot(slot, Err(error.clone()));
        }
    }

    /// Everybody who waits for a record gets `error`. Flushes of the device, and writes in place that need no more,
    /// go on.
    pub(crate) fn refuse_who_waits_for_a_record(&mut self, error: &RequestError) {
        for waiter in self.commit.waiters_mut().take_all() {
            self.reply(waiter.id(), Err(error.clone()));
        }
        let (committed, settled) =
            (self.commit.committed(), self.commit.invalidations().committed());
        let (refused, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.requests.barriers).into_iter().partition(|barrier| {
                barrier.stage_target > committed || barrier.invalid_target > settled
            });
        self.requests.barriers = kept;
        for barrier in refused {
            self.reply(barrier.id, Err(error.clone()));
        }
        let blocked = std::mem::take(&mut self.requests.blocked);
        let (mut slots, kept): (Vec<u32>, Vec<u32>) =
            blocked.into_iter().partition(|slot| match self.requests.active.get(*slot) {
                Some(Active { body: Body::InPlace(state), .. }) => {
                    self.is_in_memory(state.sectors().start, state.sectors().end)
                }
                _ => true,
            });
        self.requests.blocked = kept;
        slots.extend(std::mem::take(&mut self.requests.waiting_for_room));
        for slot in slots {
            self.finish_slot(slot, Err(error.clone()));
        }
    }

    /// Nothing leaves the stage: who waits for room in it would wait for good.
    pub(crate) fn refuse_who_waits_for_room(&mut self, error: &RequestError) {
        for slot in std::mem::take(&mut self.requests.waiting_for_room) {
            self.finish_slot(slot, Err(error.clone()));
        }
    }

    /// Blocks that were at the front of the stage, the first at position `front`, cannot be made durable now. The blocks
    /// go to the end of the stage, and those who wait for one of them get `error`.
    pub(crate) fn put_off(
        &mut self,
        blocks: Vec<(StagePosition, StagedBlock)>,
        error: &RequestError,
    ) {
        let Some(first) = blocks.iter().map(|(position, _)| *position).min() else { return };
        let numbers: Vec<u64> = blocks.iter().map(|(_, staged)| staged.block()).collect();
        let (relied_on, stops) = (!self.acknowledges_durable(), self.core.is_draining());
        if !stops {
            // Before anybody is refused: a write in place that goes on for that must find them, or they would come
            // home over it later.
            for (_, staged) in blocks {
                self.stage.put_back(staged);
            }
            self.commit.note_staged(self.core.now());
        }
        self.refuse_writes_of(&numbers, error);
        if !relied_on {
            return;
        }
        // What they cover was acknowledged before, and is not durable.
        self.refuse_barriers_past(first, error);
        if stops {
            self.fail(Failure::BlocksLost { error: error.detail.clone() });
        }
    }

    /// Writes of any of these blocks that wait to become durable, or to begin.
    fn refuse_writes_of(&mut self, numbers: &[u64], error: &RequestError) {
        let touches = |range: &Range<u64>| touches(numbers, range.start, range.end);
        for waiter in self.commit.waiters_mut().take_those_at(touches) {
            self.reply(waiter.id(), Err(error.clone()));
        }
        let slots: Vec<u32> =
            self.requests.blocked.iter().chain(&self.requests.waiting_for_room).copied().collect();
        for slot in slots {
            let active = self.requests.active.get(slot);
            if active.is_some_and(|active| is_refused_with(&active.body, numbers)) {
                self.requests.blocked.retain(|blocked| *blocked != slot);
                self.requests.waiting_for_room.retain(|waiting| *waiting != slot);
                self.finish_slot(slot, Err(error.clone()));
            }
        }
    }

    /// Whether anybody gets an error when these blocks at the front of the stage, the first at position `first`, are
    /// put off.
    pub(crate) fn somebody_waits_for(&self, numbers: &[u64], first: StagePosition) -> bool {
        let touches = |range: &Range<u64>| touches(numbers, range.start, range.end);
        let is_covered = self.requests.barriers.iter().any(|barrier| barrier.stage_target > first);
        (is_covered && !self.acknowledges_durable())
            || self.commit.waiters().any_at(touches)
            || self.requests.blocked.iter().chain(&self.requests.waiting_for_room).any(|slot| {
                self.requests
                    .active
                    .get(*slot)
                    .is_some_and(|active| is_refused_with(&active.body, numbers))
            })
    }

    /// Flushes that cover what stood at this position of the stage.
    fn refuse_barriers_past(&mut self, position: StagePosition, error: &RequestError) {
        let barriers = std::mem::take(&mut self.requests.barriers);
        let (refused, kept): (VecDeque<_>, VecDeque<_>) =
            barriers.into_iter().partition(|barrier| barrier.stage_target > position);
        self.requests.barriers = kept;
        for barrier in refused {
            self.reply(barrier.id, Err(error.clone()));
        }
    }
}
