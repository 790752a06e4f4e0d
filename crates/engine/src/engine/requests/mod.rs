//! What clients ask for, from the gate to the reply.
//!
//! Every request passes the gate, takes the locks of its range, and ends in one of three ways: staged for a record, written
//! in place, or read. Who waits for durability waits here, and is told here when it does not come.
//!
//! What is kept of requests is seen in this folder alone; the others ask whether anybody is there, and what is being
//! written over.

pub(crate) mod allocation;
mod barrier;
pub(crate) mod gate;
mod in_place;
pub mod range_lock;
mod read;
mod refusals;
mod small_write;
mod streams;
mod threshold;

use crate::activity::{Activities, Activity};
use crate::engine::Engine;
use crate::stage::StagePosition;
use barrier::Barrier;
use in_place::{InPlaceState, SmallWrite};
use nearhead_basics::Slab;
use nearhead_disk::{Payload, RangeSet};
use nearhead_service::{Operation, Reply, Request, RequestError, RequestId};
use range_lock::RangeLocks;
use read::ReadState;
use small_write::Zeroes;
use std::collections::VecDeque;
use streams::Streams;

/// A request that is not answered yet.
struct Active {
    id: RequestId,
    body: Body,
}

enum Body {
    Read(ReadState),
    InPlace(InPlaceState),
    /// A small write that waits for a lock or for a commit before it can be staged.
    Small(SmallWrite),
}

/// All that is not answered, and what waits to be handed out.
pub(crate) struct Requests {
    /// Those that came during recovery.
    held: VecDeque<Request>,
    active: Slab<Active>,
    replies: VecDeque<Reply>,
    locks: RangeLocks,
    /// Home sectors that in-place writes are being transferred to now.
    transferring: RangeSet,
    /// In-place writes that wait for a commit or a checkpoint batch; looked at again after each.
    blocked: Vec<u32>,
    /// Small writes that wait for room in the stage, oldest first.
    waiting_for_room: VecDeque<u32>,
    barriers: VecDeque<Barrier>,
    streams: Streams,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            held: VecDeque::new(),
            active: Slab::new(),
            replies: VecDeque::new(),
            locks: RangeLocks::new(),
            transferring: RangeSet::new(),
            blocked: Vec::new(),
            waiting_for_room: VecDeque::new(),
            barriers: VecDeque::new(),
            streams: Streams::default(),
        }
    }

    /// Keeps a request for when the volume is open.
    pub(crate) fn hold(&mut self, request: Request) {
        self.held.push_back(request);
    }

    /// Those that were kept, in the order in which they came.
    pub(crate) fn take_held(&mut self) -> VecDeque<Request> {
        std::mem::take(&mut self.held)
    }

    /// Whether none is under way; barriers and small writes that are staged do not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether a flush, or a write in place, waits to be durable.
    pub(crate) fn has_barriers(&self) -> bool {
        !self.barriers.is_empty()
    }

    /// What stood behind `front` of the stage is durable only once everything before `position` is.
    pub(crate) fn postpone_barriers(&mut self, front: StagePosition, position: StagePosition) {
        for barrier in self.barriers.iter_mut().filter(|barrier| barrier.stage_target > front) {
            barrier.stage_target = position;
        }
    }

    /// Whether small writes wait for room in the stage.
    pub(crate) fn anybody_waits_for_room(&self) -> bool {
        !self.waiting_for_room.is_empty()
    }

    /// Home sectors that clients are writing to now.
    pub(crate) fn transferring(&self) -> &RangeSet {
        &self.transferring
    }

    pub(crate) fn push_reply(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    pub(crate) fn pop_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// What of it is under way.
    pub(crate) fn note_activities(&self, now: &mut Activities) {
        now.note(Activity::InPlaceWrite, !self.transferring.is_empty());
        now.note(Activity::BlockedInPlace, !self.blocked.is_empty());
        now.note(Activity::StageFull, self.anybody_waits_for_room());
        now.note(Activity::Barrier, self.has_barriers());
    }
}

impl Engine {
    /// Begins a request that is new, or was held.
    pub(crate) fn start(&mut self, request: Request) {
        let id = request.id;
        let operation = match self.admit(request.operation) {
            Ok(operation) => operation,
            Err(error) => return self.reply(id, Err(error)),
        };
        match operation {
            Operation::Read { offset, len } => self.start_read(id, offset, len),
            Operation::Write { offset, data, fua } => self.start_write(id, offset, data, fua),
            Operation::WriteInPlace { offset, data, fua } => {
                self.start_write_in_place(id, offset, data, fua);
            }
            Operation::WriteAtomic { extents, changed } => {
                self.start_write_atomic(id, extents, changed);
            }
            Operation::Flush => self.start_flush(id),
            Operation::Trim { offset, len, fua } => self.start_trim(id, offset, len, fua),
            Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap } => {
                let zeroes = Zeroes { fua, fast_only, may_unmap };
                self.start_write_zeroes(id, offset, len, zeroes);
            }
            Operation::Hint { offset, len, hint } => self.start_hint(id, offset, len, hint),
        }
    }

    /// Answers the request in `slot` and lets go of what it holds.
    pub(crate) fn finish_slot(&mut self, slot: u32, result: Result<Vec<Payload>, RequestError>) {
        let Some(active) = self.requests.active.remove(slot) else { return };
        if !matches!(active.body, Body::Read(_)) {
            self.unlock(slot);
        }
        self.reply(active.id, result);
    }
}
