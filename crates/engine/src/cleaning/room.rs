//! Room in full logs: when another pass of the checkpoint is worth its reads, and when what cannot go home (an atomic
//! write, or all small ones if the policy lets them wait) is told that there will be none.
//!
//! What no pass takes home keeps its log space: copies that are damaged, blocks whose homes fail. A pass over
//! everything that leaves nothing but those would find nothing else a moment later, so passes rest then, longer after
//! each of them, although staged blocks find no room. But a disk may work again: nobody is refused for want of
//! room unless a pass that began after he came has tried everything, also the homes that rest.

use super::policy::WhenFull;
use crate::engine::{Engine, Phase};
use nearhead_disk::Nanos;
use nearhead_service::{ErrorKind, RequestError};

/// The first rest after a pass that could free nothing; each one in a row doubles it.
const REST_FIRST: Nanos = Nanos::from_secs(1);
/// The longest rest.
const REST_MAX: Nanos = Nanos::from_secs(64);

/// Who would be refused, and what passes were good for.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Since when something at the front of the stage has waited for which somebody would be refused.
    missed_since: Option<Nanos>,
    /// When the newest pass began that tries everything.
    tried_at: Nanos,
    /// Passes in a row that could free nothing, and until when the next one rests.
    fruitless: u32,
    rests_until: Nanos,
}

impl Room {
    pub(super) fn note_tries_all(&mut self, now: Nanos) {
        self.tried_at = now;
    }

    /// A pass over everything could free nothing, and nothing came meanwhile that another could.
    pub(super) fn note_fruitless(&mut self, now: Nanos) {
        let rest = Nanos(REST_FIRST.0 << self.fruitless.min(16)).min(REST_MAX);
        self.fruitless += 1;
        self.rests_until = now + rest;
    }

    /// There is room, or there may be.
    pub(crate) fn note_found(&mut self) {
        (self.fruitless, self.rests_until) = (0, Nanos::ZERO);
    }

    /// Whether everything was tried since whoever would be refused came.
    fn is_tried(&self) -> bool {
        self.missed_since.is_none_or(|since| self.tried_at >= since)
    }

    /// Whether another pass is worth its reads, after one that left nothing.
    fn wants_pass(&self, now: Nanos) -> bool {
        !self.is_tried() || (self.missed_since.is_none() && self.rests_until <= now)
    }
}

impl Engine {
    /// No log takes a record, which would hold staged blocks if it `has_stage`: a checkpoint is to make room, unless
    /// it just could not.
    pub(crate) fn demand_checkpoint_for_room(&mut self, has_stage: bool) {
        let would_refuse = has_stage && self.waits_at_front() > 0 && self.refuses_with_front();
        let (room, now) = (&mut self.schedule.room, self.now);
        if has_stage {
            room.missed_since = would_refuse.then(|| room.missed_since.unwrap_or(now));
        }
        if !self.checkpoint.left_nothing() || room.wants_pass(now) {
            self.schedule.demand_checkpoint(would_refuse);
        }
    }

    /// How many blocks at the front of the stage can do nothing but wait for room: an atomic write's, or all up to the
    /// next atomic write if the policy lets none go home.
    pub(crate) fn waits_at_front(&self) -> usize {
        if self.stage.front_is_group() {
            self.stage.group_at_front()
        } else if self.cleaner.when_full() == WhenFull::Wait {
            self.stage.singles_at_front()
        } else {
            0
        }
    }

    /// Whether putting off what waits at the front is an error for anybody.
    fn refuses_with_front(&self) -> bool {
        let blocks: Vec<u64> = self.stage.blocks().take(self.waits_at_front()).collect();
        matches!(self.phase, Phase::Draining)
            || self.somebody_waits_for(&blocks, self.stage.front())
            || (self.requests.anybody_waits_for_room() && self.nobody_passes())
    }

    /// Whether nothing leaves the stage without room in a log.
    pub(crate) fn nobody_passes(&self) -> bool {
        self.cleaner.when_full() == WhenFull::Wait
            || self.stage.singles().all(|block| self.failed_homes.rests(block, self.now))
    }

    /// Whether snapshots free what records since the last one protect, or settle what in-place writes made stale.
    pub(crate) fn snapshots_free_space(&self) -> bool {
        self.snapshotter.is_busy()
            || self.core.bytes_since_snapshot() > 0
            || !self.invalidations.is_empty()
    }

    /// What can do nothing else waits for the checkpoint to make room, or for the snapshots that free what records since
    /// the last one protect and settle what in-place writes made stale; if there is nothing of all that, room
    /// does not come, and those who wait for it are told.
    pub(crate) fn find_room_for_front(&mut self) {
        if self.checkpoint.is_copying() {
            return;
        }
        if self.schedule.room.missed_since.is_none() && self.refuses_with_front() {
            // It came to the front only now, and nothing was tried for it.
            return self.demand_checkpoint_for_room(true);
        }
        // Where snapshots fail, only a checkpoint of everything that leaves nothing ends the wait.
        let is_no_use = if self.snapshotter.lasting_problem().is_some() {
            self.checkpoint.nothing_left()
        } else {
            self.checkpoint.found_nothing()
        };
        if is_no_use && self.snapshots_free_space() {
            return self.demand_snapshot_for_room();
        }
        if let Some(since) = &mut self.schedule.room.missed_since
            && !self.requests.transferring().is_empty()
            && self.checkpoint.met_transfers()
        {
            // What no pass took home because it is being written over: that ends, and makes room.
            *since = self.now;
            return;
        }
        if !self.checkpoint.nothing_left() || !self.schedule.room.is_tried() {
            return;
        }
        let error = RequestError::new(
            ErrorKind::NoSpace,
            if self.stage.front_is_group() {
                "no log has room for an atomic write and nothing can be checkpointed now; see `nearhead check`"
            } else {
                "no log has room for the write and nothing can be checkpointed now; see `nearhead check`"
            },
        );
        let nobody_passes = self.nobody_passes();
        self.schedule.room.missed_since = None;
        self.put_off_front(self.waits_at_front(), &error);
        if nobody_passes {
            self.refuse_who_waits_for_room(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_free_nothing_rest_ever_longer_until_one_frees_something() {
        let (mut room, mut now, mut rests) = (Room::default(), Nanos::ZERO, Vec::new());
        for _ in 0..20 {
            assert!(room.wants_pass(now));
            room.note_fruitless(now);
            rests.push(room.rests_until.since(now).0 / 1_000_000_000);
            assert!(!room.wants_pass(now));
            now = room.rests_until;
        }
        assert_eq!(rests[..8], [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(rests[19], 64);
        room.note_found();
        assert!(room.wants_pass(now));
    }

    #[test]
    fn who_comes_while_passes_rest_is_served_by_one_and_not_by_more() {
        let mut room = Room::default();
        let at = Nanos::from_secs;
        room.note_fruitless(at(10));
        room.missed_since = Some(Nanos(at(10).0 + 1));
        assert!(room.wants_pass(Nanos(at(10).0 + 1)) && !room.is_tried());
        room.note_tries_all(Nanos(at(10).0 + 2));
        assert!(room.is_tried());
        room.note_fruitless(Nanos(at(10).0 + 2));
        assert!(!room.wants_pass(Nanos(at(10).0 + 3)) && room.is_tried());
    }
}
