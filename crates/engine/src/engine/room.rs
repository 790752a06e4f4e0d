//! While no log has room: a checkpoint and snapshots are to make some, what can goes home meanwhile, and those for whom
//! there is nothing left to try are told.

use super::Engine;
use crate::cleaner::WhenFull;
use crate::commit::{Content, Moves, Releases};
use crate::failure::Failure;
use crate::home::SpillEnd;
use crate::stage::StagePosition;
use crate::stage::StagedBlock;
use crate::state::sectors::BLOCK_SECTORS;
use nearhead_disk::{DiskError, Payload};
use nearhead_service::{ErrorKind, RequestError};

/// Room in the logs.
impl Engine {
    /// No log takes the record. Space that only waits for a snapshot is freed by one; what is
    /// truly full is checkpointed in the background while staged blocks go in place (law 6).
    pub(super) fn no_room(&mut self, mut content: Content) {
        if !self.core.setup().has_homes() {
            return self.no_room_in_chain(&content);
        }
        let releases = content.take_releases();
        self.demand_checkpoint_for_room(content.has_stage());
        if self.snapshotter.is_busy() {
            self.snapshotter.hurry();
            self.checkpoint.return_releases(releases);
            if self.snapshotter.is_short_of_space() {
                return self.wait_for_snapshots_space();
            }
            // One that fails time and again frees nothing, and it may be under way whenever a checkpoint that
            // copies nothing has just ended: then there is no other moment to go home or to give up.
            if content.has_stage() && self.snapshotter.lasting_problem().is_some() {
                self.go_without_log();
            }
            return;
        }
        let half_a_log = self.core.setup().layout.log_bytes / 2;
        let frees_room = self.core.recorded().bytes_since_snapshot() >= half_a_log;
        if frees_room && !content.map_is_full() {
            self.checkpoint.return_releases(releases);
            return self.demand_snapshot_for_room();
        }
        // Not even the reserve of a log is left for what has no data of its own. Snapshots of a map
        // that lacks it say the same as the record would.
        self.checkpoint.release_by_snapshot(&mut self.core, &mut self.commit, &releases);
        if self.commit.invalidations().is_wanted() || !content.has_stage() {
            self.demand_snapshot_for_room();
        }
        if content.has_stage() {
            self.go_without_log();
        }
    }

    /// The same where nothing can go home: what cleaning frees, and snapshots, is all the room there will be. It was asked already
    /// whether anything is to be cleaned.
    fn no_room_in_chain(&mut self, content: &Content) {
        if content.has_stage() {
            self.schedule.room_mut().note_missed(true, self.core.now());
        }
        let copies = self.compaction.is_busy() && !self.compaction.has_unnamed();
        let goes_on = copies || self.swap.is_busy() && !self.swap.has_chunks();
        if self.snapshotter.is_busy() {
            self.snapshotter.hurry();
            if self.snapshotter.is_short_of_space() {
                self.wait_for_snapshots_space();
            } else if !goes_on && self.snapshotter.lasting_problem().is_some() {
                self.demand_snapshot_for_room();
            }
            return;
        }
        if !goes_on && !self.is_moving() {
            // A log that could not be cleaned is no reason not to try another.
            self.advance_swap();
            if self.is_moving() {
                return;
            }
        }
        if goes_on {
            return;
        }
        let tail = self.core.recorded().last_log();
        let logs = self.core.logs();
        let frees_logs = logs.needs_claim(tail) || logs.snapshot_frees_any();
        if self.snapshots_free_space() || frees_logs || self.snapshot_offers_more() {
            return self.demand_snapshot_for_room();
        }
        // A log that failed a while ago is better than none.
        if self.core.logs_mut().try_one_that_rests() {
            return self.demand_snapshot_for_room();
        }
        if self.compaction.has_unnamed() {
            return self.compaction.forget(&mut self.core);
        }
        if self.swap.is_busy() {
            // Not even what would make room has any.
            self.swap.give_up();
        } else if content.has_stage() {
            self.refuse_front();
        }
    }

    fn demand_snapshot_for_room(&mut self) {
        let has_memory = crate::commit::memory_has_room(&self.core);
        self.demand_snapshot_or_fail(if has_memory {
            "no log has room"
        } else {
            "the memory for changes of the map is used up"
        });
    }

    /// The snapshot that would help finds no space. Whoever came since it was tried last waits until it is tried again.
    pub(super) fn wait_for_snapshots_space(&mut self) {
        if let Some(error) = self.snapshotter.lack_of_space(self.schedule.idle_from()) {
            self.core.wait_for_space(&error);
            self.tell_failures();
        }
    }

    /// Nobody waits forever for a snapshot that a bad slot never takes; `why` there must be one.
    pub(super) fn demand_snapshot_or_fail(&mut self, why: &'static str) {
        let Some(problem) = self.snapshotter.lasting_problem() else {
            return self.snapshotter.demand();
        };
        let problem = problem.to_owned();
        self.fail(Failure::NeedsSnapshot { why, problem });
    }

    /// No log takes a record, which would hold staged blocks if it `has_stage`: a checkpoint is to make room, unless
    /// it just could not.
    fn demand_checkpoint_for_room(&mut self, has_stage: bool) {
        let would_refuse = has_stage && self.waits_at_front() > 0 && self.refuses_with_front();
        let now = self.core.now();
        if has_stage {
            self.schedule.room_mut().note_missed(would_refuse, now);
        }
        if !self.checkpoint.left_nothing() || self.schedule.room().wants_pass(now) {
            self.schedule.demand_checkpoint(would_refuse);
        }
    }

    /// How many blocks at the front of the stage can do nothing but wait for room: an atomic write's, all up to the
    /// next atomic write if the policy lets none go home, or those that lie under bytes which records hold.
    fn waits_at_front(&self) -> usize {
        if self.stage.front_is_group() {
            self.stage.group_at_front()
        } else if self.schedule.when_full() == WhenFull::Wait {
            self.stage.singles_at_front()
        } else {
            self.over_fragments_at_front()
        }
    }

    /// How many blocks at the front may not go home, as bytes that records hold would come over them.
    fn over_fragments_at_front(&self) -> usize {
        let singles = self.stage.blocks().take(self.stage.singles_at_front());
        singles.take_while(|block| self.lies_under_bytes(*block)).count()
    }

    /// Whether records hold bytes that lie over the block.
    fn lies_under_bytes(&self, block: u64) -> bool {
        let start = block * BLOCK_SECTORS;
        self.core.recorded().fragments().touches(start..start + BLOCK_SECTORS)
    }

    /// Whether putting off what waits at the front is an error for anybody.
    fn refuses_with_front(&self) -> bool {
        self.is_needed(self.waits_at_front())
    }

    /// Whether somebody is refused if so many blocks at the front are not written.
    fn is_needed(&self, count: usize) -> bool {
        let blocks: Vec<u64> = self.stage.blocks().take(count).collect();
        self.core.is_draining()
            || self.somebody_waits_for(&blocks, self.stage.front())
            || (self.requests.anybody_waits_for_room() && self.nobody_passes())
    }

    /// Whether nothing leaves the stage without room in a log.
    fn nobody_passes(&self) -> bool {
        let (failed, now) = (self.home.failed(), self.core.now());
        self.schedule.when_full() == WhenFull::Wait
            || self
                .stage
                .singles()
                .all(|block| failed.rests(block, now) || self.lies_under_bytes(block))
    }

    /// Whether snapshots free what records since the last one protect, or settle what in-place writes made stale.
    pub(super) fn snapshots_free_space(&self) -> bool {
        self.snapshotter.is_busy()
            || self.core.recorded().bytes_since_snapshot() > 0
            || !self.commit.invalidations().is_empty()
    }

    /// What can do nothing else waits for the checkpoint to make room, or for the snapshots that free what records since
    /// the last one protect and settle what in-place writes made stale; if there is nothing of all that, room
    /// does not come, and those who wait for it are told.
    fn find_room_for_front(&mut self) {
        if self.checkpoint.is_copying() {
            return;
        }
        if !self.schedule.room().is_missed() && self.refuses_with_front() {
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
        if self.schedule.room().is_missed()
            && !self.requests.transferring().is_empty()
            && self.checkpoint.met_transfers()
        {
            // What no pass took home because it is being written over: that ends, and makes room.
            return self.schedule.room_mut().miss_anew(self.core.now());
        }
        if self.checkpoint.nothing_left() && self.schedule.room().is_tried() {
            self.refuse_front();
        }
    }

    fn refuse_front(&mut self) {
        let error = RequestError::new(
            ErrorKind::NoSpace,
            if self.stage.front_is_group() {
                "no log has room for an atomic write and nothing can be checkpointed now; see `nearhead check`"
            } else if self.core.setup().has_homes() {
                "no log has room for the write and nothing can be checkpointed now; see `nearhead check`"
            } else {
                "no log has room for the write and nothing can be cleaned now; trim what is not needed, or see `nearhead check`"
            },
        );
        let nobody_passes = self.nobody_passes();
        self.schedule.room_mut().forget_missed();
        let blocks = self.take_off_front(self.waits_at_front());
        self.put_off(blocks, &error);
        if nobody_passes {
            self.refuse_who_waits_for_room(&error);
        }
    }
}

/// Going home without a log.
impl Engine {
    /// No log takes what is at the front of the stage: it goes home, or waits for room if it must or the policy says so.
    fn go_without_log(&mut self) {
        if self.home.is_spilling() || self.stage.is_empty() || self.core.has_failed() {
            return;
        }
        let Some(needed) = self.pass_over_what_rests() else { return };
        if self.waits_at_front() > 0 {
            return self.find_room_for_front();
        }
        let Self { home, core, stage, commit, blanks, checkpoint, .. } = self;
        home.spill(core, stage, commit, blanks, checkpoint.homes(), needed);
    }

    /// Blocks at the front whose homes failed a moment ago let the others pass, unless somebody needs them. Says how many
    /// at the front are to be tried although they rest, or nothing if all that is staged rests.
    fn pass_over_what_rests(&mut self) -> Option<usize> {
        if self.schedule.when_full() == WhenFull::Wait {
            return Some(0);
        }
        let resting = self.resting_at_front();
        if resting == 0 || self.is_needed(resting) {
            return Some(resting);
        }
        for (_, staged) in self.take_off_front(resting) {
            self.stage.put_back(staged);
        }
        self.commit.note_staged(self.core.now());
        (self.resting_at_front() == 0).then_some(0)
    }

    /// How many blocks at the front rest, none of which belongs to an atomic write.
    fn resting_at_front(&self) -> usize {
        let singles = self.stage.blocks().take(self.stage.singles_at_front());
        self.home.resting(singles, self.core.now())
    }

    /// So many blocks, which go neither into a record nor home, with their positions.
    fn take_off_front(&mut self, count: usize) -> Vec<(StagePosition, StagedBlock)> {
        let front = self.stage.front();
        let blocks = front.onward().zip(self.stage.take_front(count)).collect();
        // Nothing of the stage is on its way: what stands before the front now is durable, or put off.
        self.commit.note_committed(self.stage.front());
        self.commit.note_stage_taken(&self.stage, self.core.now());
        blocks
    }

    pub(super) fn on_spill(
        &mut self,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) {
        let Self { home, core, stage, commit, .. } = self;
        match home.on_spill(core, stage, commit, extent, result) {
            SpillEnd::NotYet => return,
            SpillEnd::Logged { front, committed } => {
                self.wait_for_all_staged(front);
                self.commit.note_committed(committed);
            }
            SpillEnd::Done(missed) => {
                if let Some(missed) = missed {
                    let (blocks, error) = missed.into_parts();
                    self.put_off(blocks, &error);
                    if self.stage.taken().is_empty() && self.nobody_passes() {
                        self.refuse_who_waits_for_room(&error);
                    }
                }
                self.home.spilled(&mut self.core, &mut self.stage, &mut self.commit);
            }
        }
        self.retry_blocked();
    }

    /// Ends the spill if it is done. True while records that carry staged blocks must wait.
    pub(super) fn continue_spill(&mut self) -> bool {
        match self.home.is_written() {
            None => return false,
            Some(false) => return true,
            Some(true) => {}
        }
        let ended = self.home.end_spill(&self.core, &self.commit);
        let Some((stage_end, is_alone)) = ended else { return false };
        self.commit.note_committed(stage_end);
        if is_alone {
            self.answer_who_went_home(stage_end);
        }
        self.retry_waiting_for_room();
        // It waits for a spill to end, and there may be no other event.
        self.advance_checkpoint();
        false
    }
}
