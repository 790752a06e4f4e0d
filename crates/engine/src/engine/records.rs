//! What a record is made of and whom its end concerns: the commit asks those who have something for it, and they hear
//! what became of it.

use super::Engine;
use crate::commit::{
    Attempt, Content, Copies, Ended, Moves, Part, Record, RecordContext, Releases, Sources,
};
use crate::stage::StagePosition;
use crate::state::chunks::LoggedCopy;
use nearhead_disk::{DiskError, Payload};

impl Engine {
    /// Writes the next record if there is reason to and none is in flight.
    pub(super) fn try_commit(&mut self) {
        self.commit.release();
        if self.commit.in_flight().is_some() || self.core.has_failed() {
            return;
        }
        if self.continue_spill() || !self.journal_has_room() {
            return;
        }
        let is_ahead = self.is_ahead_of_merge() || self.is_ahead_of_cleaning();
        let takes_stage = !self.home.is_spilling() && !is_ahead;
        let releases = (&self.checkpoint as &dyn Releases, self.core.now());
        let moves: (&dyn Moves, &dyn Copies) = (&self.swap, &self.compaction);
        let wants = self.commit.wants(&self.stage, takes_stage, releases, moves);
        if !wants.any() || (wants.stage_alone() && self.leaves_bulk_its_share()) {
            return;
        }
        if self.passes_over_unused()
            || self.commit.clears_torn_records(&mut self.core)
            || self.snapshotter.restores_header(&mut self.core)
        {
            return;
        }
        if self.commit.holds_for_head(&self.core) {
            return;
        }
        self.blanks.forget_spill();
        if wants.stage_alone() && self.sends_home_alone() {
            return;
        }
        let Self { commit, core, stage, checkpoint, swap, compaction, .. } = self;
        match commit.send_next(wants, Sources::new(core, stage, checkpoint, (swap, compaction))) {
            Attempt::Sent => {}
            // Releases that were all overwritten need no record: the checkpoint goes on.
            Attempt::NothingToSay => self.advance_checkpoint(),
            Attempt::NoRoom(content) => self.found_no_room(content),
        }
    }

    /// Whether the next record waits because bulk has a share of the disk: not for room in memory, and not to stop.
    fn leaves_bulk_its_share(&self) -> bool {
        let is_full = self.stage.bytes() * 2 > self.core.setup().config.stage_bytes_max;
        !is_full && !self.core.is_draining() && self.commit.rests_until(&self.core).is_some()
    }

    /// Whether what clients wrote waits until the merge of a paged map has come further. So all wait a little, and nobody for its end.
    fn is_ahead_of_merge(&self) -> bool {
        !self.core.is_draining() && self.snapshotter.is_behind(&self.core)
    }

    /// Whether it waits until cleaning has come further, for the same reason.
    fn is_ahead_of_cleaning(&self) -> bool {
        !self.core.is_draining() && self.schedule.held_until(&self.core).is_some()
    }

    fn found_no_room(&mut self, content: Content) {
        // A swap waits for its claim, and a snapshot frees room for the record that makes it.
        let a_claim_may_find_room =
            self.swap.claim_wanted().is_some() && self.snapshots_free_space();
        if !content.is_empty() || a_claim_may_find_room {
            return self.no_room(content);
        }
        // Nobody needs it. What a swap wanted to move stays where it is.
        self.commit.forget_to_tell();
        self.swap.give_up();
        self.advance_swap();
    }

    fn sends_home_alone(&mut self) -> bool {
        let Self { home, core, stage, commit, blanks, checkpoint, .. } = self;
        home.sends_alone(core, stage, commit, blanks, checkpoint.homes())
    }

    fn record_context(&self, result: &Result<Payload, DiskError>) -> RecordContext {
        let snapshotter = &self.snapshotter;
        // Asked of every block, and only of a record that failed does anybody want to know.
        let is_atomic = result.is_err() && self.stage.taken().has_atomic();
        let snapshots_fail = snapshotter.lasting_problem().is_some();
        RecordContext::new(snapshotter.number())
            .with_snapshots(snapshotter.is_short_of_space(), snapshots_fail)
            .with_atomic(is_atomic)
    }

    pub(super) fn on_record(&mut self, result: Result<Payload, DiskError>) {
        let context = self.record_context(&result);
        let ended = self.commit.on_record(&mut self.core, context, result);
        self.record_ended(ended);
    }

    pub(super) fn on_journal(
        &mut self,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) {
        let context = self.record_context(&result);
        let ended = self.commit.on_journal(&mut self.core, context, extent, result);
        self.record_ended(ended);
    }

    fn record_ended(&mut self, ended: Ended) {
        match ended {
            Ended::NotYet => {}
            Ended::NeedsSnapshot => self.snapshotter.demand(),
            Ended::Durable(record) => self.record_is_durable(&record),
            Ended::LetGo(record) => self.record_is_let_go(record),
        }
    }

    fn record_is_durable(&mut self, record: &Record) {
        self.cache_record(record);
        // A recovery that finds the record would look where nothing can be read.
        if record.header().claims.iter().any(|claim| self.core.logs().is_lost(claim.log_index)) {
            self.snapshotter.demand();
        }
        for part in record.parts() {
            match part {
                Part::TakenBack { .. } => {}
                Part::Moved { .. } => {
                    self.core.stats_mut().swapped_bytes += record.payload_bytes();
                }
                Part::Named { .. } => {
                    if self.compaction.note_named(&mut self.core) {
                        self.snapshotter.wish();
                    }
                }
                Part::Released { .. } => {
                    self.checkpoint.note_released();
                    self.tell_checkpoint_news();
                }
                Part::Staged { .. } => {
                    self.checkpoint.note_logged();
                    self.schedule.room_mut().note_found();
                    if !self.core.setup().has_homes() {
                        self.schedule.room_mut().forget_missed();
                    }
                    self.stage.end_taken();
                }
            }
        }
        self.retry_blocked();
        self.retry_waiting_for_room();
    }

    /// What clients wrote is kept for those who read it soon; what was moved is cold, and only takes the place of what was kept of
    /// where it stands now.
    fn cache_record(&mut self, record: &Record) {
        let Self { core, read_cache, .. } = self;
        if !read_cache.is_on() {
            return;
        }
        let (header, moved) = (record.header(), record.moved_len());
        for entry in &header.moves {
            if let Some(copy) = LoggedCopy::of(entry) {
                read_cache.forget(copy.device_offset);
            }
        }
        let chunks = core.recorded().chunks_of(header, record.payload());
        for (number, (copy, data)) in chunks.into_iter().enumerate() {
            if number < moved {
                read_cache.forget(copy.device_offset);
            } else {
                read_cache.keep(core, copy, &data);
            }
        }
    }

    fn record_is_let_go(&mut self, mut record: Record) {
        let moved = record.only_moves();
        for part in record.take_parts() {
            match part {
                // They are still queued.
                Part::TakenBack { .. } => {}
                Part::Moved { before } if before.is_empty() => {}
                Part::Moved { .. } => self.swap.give_up(),
                Part::Named { .. } => self.compaction.note_let_go(),
                Part::Released { entries } => self.checkpoint.return_releases(entries),
                Part::Staged { end } => self.stage_again(end),
            }
        }
        let until = self.snapshotter.next_to_begin() + 1;
        self.commit.note_let_go(&mut self.core, (record, moved), until);
        self.snapshotter.demand();
    }

    /// What left the stage for the record, up to this position, stands behind all others now, and so do those who wait
    /// for it.
    fn stage_again(&mut self, end: StagePosition) {
        let blocks = self.stage.end_taken();
        let front = end.minus(blocks.len());
        for staged in blocks {
            self.stage.put_back(staged);
        }
        self.commit.note_staged(self.core.now());
        self.wait_for_all_staged(front);
        self.retry_blocked();
    }

    /// What stood behind `front` was staged again: who waits for any of it waits for all that is staged now.
    pub(super) fn wait_for_all_staged(&mut self, front: StagePosition) {
        let end = self.stage.end();
        self.commit.postpone(front, end);
        self.requests.postpone_barriers(front, end);
        self.commit.want(end, self.core.now());
    }

    pub(super) fn on_torn_cleared(&mut self, result: &Result<Payload, DiskError>) {
        let Some(sequence) = self.commit.on_torn_cleared(&mut self.core, result) else { return };
        let until = self.snapshotter.next_to_begin() + 1;
        self.commit.never_use(&mut self.core, sequence, Vec::new(), until);
        self.snapshotter.demand();
    }

    /// Whether records and what goes home must wait, until both slots include a sequence that nobody uses.
    fn passes_over_unused(&mut self) -> bool {
        let Some(until_snapshot) = self.commit.unused_until() else { return false };
        if self.snapshotter.number() >= until_snapshot {
            self.commit.forget_unused();
            return false;
        }
        if self.snapshotter.is_short_of_space() {
            self.wait_for_snapshots_space();
        } else if self.snapshotter.is_busy() {
            self.snapshotter.hurry();
        } else {
            self.demand_snapshot_or_fail("a record could not be written to any log");
        }
        true
    }

    /// Whether the map's journal takes another entry; asks for a snapshot in time, and at the latest. Without room
    /// for one there is no record either, and nobody who waits is told by anything else.
    fn journal_has_room(&mut self) -> bool {
        let Some(journal) = self.core.journal() else { return true };
        let (has_room, wishes) = (journal.has_room(), journal.wishes_snapshot());
        if !has_room && !self.snapshotter.is_busy() {
            self.demand_snapshot_or_fail("the map's journal has no room");
        } else if wishes {
            self.snapshotter.wish();
        }
        has_room
    }
}
