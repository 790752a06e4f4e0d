//! What runs by itself: cleaning, snapshots, the blank map; when each is due, and who hears what came of it.

use super::Engine;
use crate::blanks::Written;
use crate::cleaning::{CheckpointContext, CleaningContext, News};
use crate::failure::Failure;
use crate::snapshot::SnapshotContext;
use crate::state::paged::Paged;
use crate::state::sectors::BLOCK_SECTORS;
use crate::tuning::Tuning;
use nearhead_disk::{DiskError, Nanos, Payload};

/// What is due and could not go on is looked at again after this time.
const AGAIN: Nanos = Nanos::from_millis(1);
/// The same while the disk has a command, whose answer would be an event: as long as the shortest rest.
const AGAIN_BESIDE_DISK: Nanos = Nanos::from_secs(1);

/// What the owner asks for.
impl Engine {
    /// Copies everything home, durability-only ranges too if `everything`. A volume that accepts no
    /// change does nothing.
    pub fn start_checkpoint(&mut self, everything: bool, now: Nanos) {
        self.core.set_now(now);
        if self.core.has_failed() || self.core.is_read_only() {
            return;
        }
        if !self.core.setup().has_homes() {
            return self.commit.want(self.stage.end(), self.core.now());
        }
        self.schedule.command_checkpoint(everything);
        self.commit.want(self.stage.end(), self.core.now());
    }

    /// Ends what [`Engine::start_checkpoint`] began; blocks that were copied stay at their home locations. Passes that are needed, or due by
    /// themselves, go on.
    pub fn cancel_checkpoint(&mut self, now: Nanos) {
        self.core.set_now(now);
        self.schedule.cancel_command(&self.core, &mut self.checkpoint);
    }

    /// With [`crate::Cleaning::coordinated`]: whether passes that can wait may run from now on. A pass under way
    /// that loses its permit stops at the end of the batch it is copying. Drive the engine after a change.
    pub fn set_checkpoint_permit(&mut self, is_held: bool, now: Nanos) {
        self.core.set_now(now);
        self.schedule.set_permit(is_held);
    }

    /// Whether a pass that can wait is due, or runs on a permit: only until then is one needed.
    pub fn wants_checkpoint_permit(&self) -> bool {
        self.schedule.wants_permit() && !self.core.has_failed()
    }

    /// Whether blocks go home: as in [`crate::Status::checkpointing`], without the rest of it.
    pub fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_busy() && !self.core.has_failed()
    }

    /// What may change while it is open is as `tuning` says from now on. Drive the engine after it.
    pub fn tune(&mut self, tuning: Tuning, now: Nanos) {
        self.core.set_now(now);
        self.core.tune(tuning);
    }

    /// Writes a snapshot of the map as soon as possible, also when nothing changed: what lies in
    /// its slot is replaced.
    pub fn start_snapshot(&mut self, now: Nanos) {
        self.core.set_now(now);
        self.snapshotter.demand();
    }
}

/// Moving it on.
impl Engine {
    /// Everything that runs by itself.
    pub(super) fn advance_background(&mut self) {
        self.commit_aged_stage();
        // A swap whose last block went home meanwhile must still come to its end.
        let is_cleaning =
            self.checkpoint.is_busy() || self.is_moving() || self.compaction.holds_any();
        if self.core.layers().is_empty() && !is_cleaning && !self.schedule.is_demanded() {
            self.schedule.note_nothing_to_clean();
            return self.advance_snapshot();
        }
        let context = self.cleaning_context();
        self.schedule.advance(&self.core, context, &mut self.checkpoint, self.home.failed());
        let (spills, swaps) = (self.home.is_spilling(), self.is_moving());
        let pace = self.schedule.pace(&self.core, self.requests.is_empty(), spills, swaps);
        self.core.set_pace(pace);
        self.advance_checkpoint();
        self.advance_swap();
        self.advance_snapshot();
    }

    fn commit_aged_stage(&mut self) {
        if let Some(since) = self.commit.staged_since()
            && self.core.now().since(since) >= self.core.setup().config.stage_age_max
        {
            self.commit.want(self.stage.end(), self.core.now());
        }
    }

    fn cleaning_context(&self) -> CleaningContext {
        CleaningContext::new(!self.anybody_waits(), &self.checkpoint, self.snapshotter.number())
    }

    /// Moves the checkpoint on until it waits for the disk, for a record or for a spill: no other
    /// event may come to move it.
    pub(super) fn advance_checkpoint(&mut self) {
        loop {
            let Self { checkpoint, core, commit, blanks, home, requests, .. } = self;
            let is_spilling = home.is_spilling();
            let transferring = requests.transferring();
            let homes = home.failed_mut();
            let mut context =
                CheckpointContext::new(core, commit, blanks, homes, transferring, is_spilling);
            let goes_on = checkpoint.step(&mut context);
            self.tell_checkpoint_news();
            if !goes_on {
                return;
            }
        }
    }

    pub(super) fn tell_checkpoint_news(&mut self) {
        match self.checkpoint.take_news() {
            None => {}
            Some(News::Freed) => self.retry_blocked(),
            Some(News::PassEnded) => self.pass_ended(),
        }
    }

    fn pass_ended(&mut self) {
        let now = self.core.now();
        self.schedule.note_pass_ended(&self.core);
        if self.checkpoint.nothing_left() {
            self.schedule.room_mut().note_fruitless(now);
        }
        if self.checkpoint.has_copied() {
            self.schedule.room_mut().note_found();
            // Only a snapshot gives the emptied logs back for use.
            self.snapshotter.wish();
        }
        let (map, stage) = (self.core.map(), &self.stage);
        self.home.failed_mut().review(|block| {
            map.overlaps(block * BLOCK_SECTORS, BLOCK_SECTORS) || stage.has_any(block, block + 1)
        });
    }

    pub(super) fn on_checkpoint_write(
        &mut self,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) {
        self.checkpoint.on_write(&mut self.core, self.home.failed_mut(), extent, result);
        self.tell_checkpoint_news();
    }

    pub(super) fn advance_swap(&mut self) {
        let number = self.snapshotter.number();
        if self.may_move() {
            let asked = self.schedule.relocate(&self.core, self.cleaning_context());
            let claims_logs = self.commit.claims_logs();
            if let Some(asked) = asked {
                let reading = self.schedule.reading();
                self.swap.begin(&self.core, (asked, reading), claims_logs);
                self.compaction.begin(&self.core, (asked, reading));
            }
        }
        if self.core.is_draining() && self.stage.is_empty() {
            self.compaction.stop();
        }
        if self.compaction.advance(&mut self.core) {
            self.snapshotter.wish();
        }
        // What costs least to ask first: the last question looks at every log in use.
        let (logs, is_moving) = (self.core.logs(), self.is_moving());
        // Nothing more of what a paged map offers is worth being cleaned: the next snapshot frees what was, and offers more.
        let was_moved = || self.core.layers().paged().is_some_and(Paged::was_any_taken);
        let frees_any = || logs.snapshot_frees_any() || !is_moving && was_moved();
        let is_chain = !self.core.setup().has_homes();
        let is_pressed = is_chain && self.schedule.is_pressed(&self.core, self.cleaning_context());
        let is_wanted = || logs.is_short_of_logs() || !is_moving && is_pressed;
        if !self.snapshotter.is_busy() && is_wanted() && frees_any() {
            self.snapshotter.demand();
        }
        let is_record_under_way = self.commit.in_flight().is_some();
        if self.swap.advance(&mut self.core, is_record_under_way, number) {
            self.snapshotter.wish();
        }
        if is_chain {
            let is_at_work = self.is_moving() || self.snapshotter.is_busy();
            self.schedule.note_cycle(&self.core, number, is_pressed.then_some(is_at_work));
        }
    }

    /// Whether a log could be moved now.
    fn may_move(&self) -> bool {
        if !self.core.setup().has_homes() {
            // Also while a stop waits for room that only this makes.
            // Copies must not stand where remains of a record are yet to be overwritten.
            let may_begin =
                !self.swap.is_busy() && self.compaction.may_begin() && !self.commit.has_remains();
            let is_wanted = !self.core.is_draining() || !self.stage.is_empty();
            return may_begin && is_wanted && !self.core.has_failed() && !self.core.is_read_only();
        }
        let busy = self.checkpoint.is_busy() || self.snapshotter.is_busy();
        self.swap.may_begin(self.snapshotter.number()) && !self.core.is_draining() && !busy
    }

    /// Whether a snapshot would find more to be cleaned, or let go of more, where the map is paged: for who has no room without.
    pub(super) fn snapshot_offers_more(&self) -> bool {
        let changed = self.core.recorded().bytes_since_snapshot() > 0;
        self.core.layers().paged().is_some_and(|paged| changed || paged.may_offer_more())
    }

    /// Whether the content of a log is on its way elsewhere.
    pub(super) fn is_moving(&self) -> bool {
        self.swap.is_busy() || self.compaction.is_busy()
    }

    /// Whether somebody waits for an answer, or what somebody wrote for a record: who waits for room is there.
    fn anybody_waits(&self) -> bool {
        !self.requests.is_empty() || !self.stage.is_empty()
    }

    /// Since when nobody has asked anything, if nobody waits.
    pub(super) fn idle_from(&self) -> Option<Nanos> {
        (!self.anybody_waits()).then(|| self.schedule.idle_from())
    }

    fn snapshot_context(&self) -> SnapshotContext {
        let now = self.core.now();
        let idle_for = self.idle_from().map_or(Nanos::ZERO, |from| now.since(from));
        SnapshotContext::new(self.swap.cold_log(), idle_for)
    }

    pub(super) fn advance_snapshot(&mut self) {
        let context = self.snapshot_context();
        if self.commit.has_remains()
            && self.snapshotter.would_begin(&self.core, context)
            && self.commit.clears_torn_records(&mut self.core)
        {
            return;
        }
        self.snapshotter.advance(&mut self.core, &self.commit, context);
    }

    /// For shutdown: true once a snapshot of exactly the present state is on disk.
    pub(super) fn advance_final_snapshot(&mut self) -> bool {
        let context = self.snapshot_context();
        let may_write = !self.core.is_read_only() && !self.core.has_failed();
        if may_write && self.commit.clears_torn_records(&mut self.core) {
            return false;
        }
        self.snapshotter.advance_final(&mut self.core, &self.commit, context)
    }

    pub(super) fn on_blanks(&mut self, result: Result<Payload, DiskError>) {
        match self.blanks.on_written(&mut self.core, result) {
            Written::Nothing => {}
            Written::GoOn(slots) => {
                for slot in slots {
                    self.continue_in_place(slot);
                }
            }
            Written::Refused(refused) => {
                for slot in refused.slots() {
                    self.finish_slot(*slot, Err(refused.error().clone()));
                }
                let problem = &refused.error().detail;
                self.checkpoint.may_not_write(&mut self.core, problem);
                self.tell_checkpoint_news();
                if refused.is_spill() {
                    self.fail(Failure::Homes { problem: problem.clone() });
                }
            }
        }
    }
}

/// The arm of the disk with the logs.
impl Engine {
    fn may_reposition(&self) -> bool {
        !self.core.is_draining() && !self.core.is_read_only() && !self.core.has_failed()
    }

    /// Takes it where the next record will go, if nothing else is to be done.
    pub(super) fn reposition(&mut self) {
        if self.may_reposition() {
            self.commit.reposition(&mut self.core);
        }
    }
}

/// When it is due.
impl Engine {
    /// When something in the background becomes due by time alone.
    pub(super) fn next_background_wake(&self) -> Option<Nanos> {
        let (core, schedule) = (&self.core, &self.schedule);
        if core.has_failed() {
            // Nothing goes on by itself any more.
            return None;
        }
        let (now, context, failed) = (core.now(), self.cleaning_context(), self.home.failed());
        let is_demanded = schedule.is_demanded() || self.snapshotter.is_demanded();
        let needs_turn = self.swap.needs_turn() || self.compaction.needs_turn();
        let scanning = (needs_turn || is_demanded).then_some(now);
        let stage_age_max = core.setup().config.stage_age_max;
        let idle_from = self.idle_from();
        let wakes = [
            self.commit.staged_since().map(|since| since + stage_age_max),
            self.snapshotter.wake(core, idle_from),
            schedule.home_wake(core, context, &self.checkpoint, failed),
            self.checkpoint.releases_due_at(),
            schedule.relocate_wake(core, context).filter(|_| self.may_move()),
            self.blanks.wake(core, idle_from),
            self.compaction.wake(),
            schedule.held_until(core).filter(|_| !self.stage.is_empty() && !core.is_draining()),
            self.commit.retry_wake(),
            self.commit.held_until(),
            self.commit.rests_until(core),
            self.commit.reposition_wake(core).filter(|_| self.may_reposition()),
            core.logs().rest_ends_at(),
        ];
        // What is due and could not go on just now mostly waits for what the disk does, and that is an event; but a command
        // may hang, and something else end its rest meanwhile.
        let again = now + if self.is_quiet() { AGAIN } else { AGAIN_BESIDE_DISK };
        let wake = |at: Nanos| if at <= now { again } else { at };
        let due = wakes.into_iter().flatten().map(wake);
        let earliest = due.chain(scanning).min()?;
        Some(earliest.max(now + AGAIN))
    }
}
