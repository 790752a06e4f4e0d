//! When passes home begin: what the policy asks for, what is commanded, what is needed.
//!
//! With coordination a pass that could as well be made later begins only while whoever
//! drives the engine says that it holds a permit, and stops politely when the permit is taken away. A pass that is
//! needed (watermark, full log, nearly full map, command) must never wait for one: the permit is somebody else's
//! to give, and who gives it may be away.

use super::Checkpoint;
use super::cycle::{Cycles, Seen};
use super::passes::{Passes, reason_of};
use super::room::Room;
use crate::admission::Pace;
use crate::cleaner::{Cleaner, CleaningView, Move, Reading, WhenFull, Why};
use crate::core::Core;
use crate::home::FailedHomes;
use crate::pass::{Pass, PassReason};
use nearhead_disk::Nanos;

/// After a pass that could copy nothing the next one that nobody asked for waits so long: what cannot be
/// read or written now cannot be a moment later either.
const REST_AFTER_NOTHING: Nanos = Nanos::from_secs(1);
/// Share of all log space in use from which cleaning is urgent.
const URGENT_FILL_PCT: u32 = 85;
/// Without a request for so long nobody is there: a client that comes then waits for what is on the
/// disk, once.
const ALONE_AFTER: Nanos = Nanos::from_millis(100);

/// What others know that matters to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CleaningContext {
    /// No request is under way.
    is_quiet: bool,
    /// When the last pass home ended.
    last_pass_ended_at: Nanos,
    /// Number of the newest snapshot.
    snapshot_number: u64,
}

impl CleaningContext {
    pub(crate) fn new(is_quiet: bool, checkpoint: &Checkpoint, snapshot_number: u64) -> Self {
        Self { is_quiet, last_pass_ended_at: checkpoint.finished_at(), snapshot_number }
    }
}

/// What the schedule remembers, and the policy that it asks.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pass, not a state")]
pub(crate) struct Schedule {
    policy: Box<dyn Cleaner>,
    last_request_at: Nanos,
    room: Room,
    demanded: bool,
    /// Not only because the owner commanded it.
    needed: bool,
    drain: bool,
    /// Somebody asked for the pass that is demanded, or depends on it.
    asked: bool,
    /// It was the owner.
    commanded: bool,
    passes: Passes,
    cycles: Cycles,
    /// Why the last pass began, and when the last request before it had come.
    why: Why,
    quiet_since: Nanos,
    /// Passes that can wait may run now; only looked at with coordination.
    permit: bool,
    /// One is due or runs.
    wants_permit: bool,
    /// Such a pass was stopped before its end: what is due is to be looked at as soon as it has ended.
    is_cut_short: bool,
}

impl Schedule {
    /// Nothing was asked for yet; `policy` says what is cleaned of the engine's own accord.
    pub(crate) fn new(policy: Box<dyn Cleaner>) -> Self {
        Self {
            policy,
            last_request_at: Nanos::ZERO,
            room: Room::default(),
            demanded: false,
            needed: false,
            drain: false,
            asked: false,
            commanded: false,
            passes: Passes::default(),
            cycles: Cycles::default(),
            why: Why::default(),
            quiet_since: Nanos::ZERO,
            permit: false,
            wants_permit: false,
            is_cut_short: false,
        }
    }

    pub(crate) fn note_request(&mut self, now: Nanos) {
        self.last_request_at = now;
    }

    /// A checkpoint is needed as soon as possible; it `tries_all` homes if somebody is refused otherwise.
    pub(crate) fn demand_checkpoint(&mut self, tries_all: bool) {
        self.demanded = true;
        self.needed = true;
        self.asked |= tries_all;
    }

    /// The owner wants everything home, durability-only ranges too if `everything`.
    pub(crate) fn command_checkpoint(&mut self, everything: bool) {
        self.demanded = true;
        self.asked = true;
        self.commanded = true;
        self.drain |= everything;
    }

    /// The owner does not want it any more: it begins no more, and one under way stops at the end of the batch that it copies.
    pub(crate) fn cancel_command(&mut self, core: &Core, checkpoint: &mut Checkpoint) {
        if std::mem::take(&mut self.commanded) {
            self.drain = false;
            self.demanded = self.needed;
            self.asked = self.needed;
        }
        let (running, _) = self.passes(core);
        if checkpoint.is_busy() && running.is_some_and(|pass| pass.reason == PassReason::Command) {
            checkpoint.stop();
        }
    }

    /// The pass under way ended.
    pub(crate) fn note_pass_ended(&mut self, core: &Core) {
        self.passes.end(core.now(), core.stats().checkpointed_bytes);
    }

    /// The pass under way, and the last one that ended.
    pub(crate) fn passes(&self, core: &Core) -> (Option<Pass>, Option<Pass>) {
        (self.passes.running(core.stats().checkpointed_bytes), self.passes.last())
    }

    pub(crate) fn is_demanded(&self) -> bool {
        self.demanded
    }

    /// Whether passes that can wait may run from now on.
    pub(crate) fn set_permit(&mut self, is_held: bool) {
        self.permit = is_held;
    }

    /// Whether a pass that can wait is due, or runs on a permit.
    pub(crate) fn wants_permit(&self) -> bool {
        self.wants_permit
    }

    /// There is nothing to clean.
    pub(crate) fn note_nothing_to_clean(&mut self) {
        self.wants_permit = false;
        self.cycles.observe(None);
    }

    /// Since when nobody has asked anything.
    pub(crate) fn idle_from(&self) -> Nanos {
        self.last_request_at
    }

    pub(crate) fn idle_for(&self, now: Nanos) -> Nanos {
        now.since(self.last_request_at)
    }

    /// Room in full logs: who waits for it, and what passes were good for.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn room_mut(&mut self) -> &mut Room {
        &mut self.room
    }

    /// What becomes of small writes while no log has room for them.
    pub(crate) fn when_full(&self) -> WhenFull {
        self.policy.when_full()
    }

    /// How much background work matters, where staged blocks go home for want of room or not, and a swap is under way or not.
    pub(crate) fn pace(&self, core: &Core, is_quiet: bool, spills: bool, swaps: bool) -> Pace {
        // A chain is always full: what is urgent there is that nobody has room.
        let is_full = if core.setup().has_homes() {
            core.logs().fill_pct() >= URGENT_FILL_PCT
        } else {
            self.room.is_missed()
        };
        if spills || is_full {
            Pace::Urgent
        } else if is_quiet && self.idle_for(core.now()) >= ALONE_AFTER {
            Pace::Alone
        } else if self.why.is_polite() && !swaps && !self.demanded {
            Pace::Polite
        } else {
            Pace::Steady
        }
    }

    fn view<'a>(&self, core: &'a Core, context: CleaningContext) -> CleaningView<'a> {
        CleaningView {
            asked: &core.setup().config.cleaning,
            logs: core.logs(),
            last_log: core.recorded().last_log(),
            now: core.now(),
            second_of_day_at_zero: core.setup().config.second_of_day_at_zero,
            last_request_at: self.last_request_at,
            is_quiet: context.is_quiet,
            last_pass_ended_at: context.last_pass_ended_at,
            snapshot_number: context.snapshot_number,
            awaits_permit: self.wants_permit && !self.permit,
            fragment_fill_pct: core.fragment_fill_pct(),
        }
    }

    /// A log whose content is to go to another now.
    pub(crate) fn relocate(&mut self, core: &Core, context: CleaningContext) -> Option<Move> {
        let view = self.view(core, context);
        self.policy.relocate(&view)
    }

    /// Whether more room is wanted soon.
    pub(crate) fn is_pressed(&self, core: &Core, context: CleaningContext) -> bool {
        self.policy.is_pressed(&self.view(core, context))
    }

    /// Takes note of how far cleaning has come, which sets the pace of clients: whether something is copied or a snapshot is written, if more
    /// room is wanted at all.
    pub(crate) fn note_cycle(&mut self, core: &Core, snapshot_number: u64, at_work: Option<bool>) {
        self.cycles.observe(at_work.map(|is_at_work| Seen::of(core, snapshot_number, is_at_work)));
    }

    /// Until when what clients wrote waits so that it does not use up what cleaning frees long before there is more.
    pub(crate) fn held_until(&self, core: &Core) -> Option<Nanos> {
        self.cycles.held_until(core.now(), core.stats().record_bytes)
    }

    /// How it is read.
    pub(crate) fn reading(&self) -> Reading {
        self.policy.reading()
    }

    /// When that should be asked if nothing happens before.
    pub(crate) fn relocate_wake(&self, core: &Core, context: CleaningContext) -> Option<Nanos> {
        self.policy.relocate_wake(&self.view(core, context))
    }

    /// Whether the running pass runs on a permit.
    fn runs_on_permit(&self, core: &Core) -> bool {
        let coordinated = core.setup().config.cleaning.coordinated;
        coordinated && self.why.can_wait() && !self.is_cut_short
    }

    /// Ends the pass that runs if it must not go on, and begins the one that is due.
    pub(crate) fn advance(
        &mut self,
        core: &Core,
        context: CleaningContext,
        checkpoint: &mut Checkpoint,
        failed: &FailedHomes,
    ) {
        let busy = checkpoint.is_busy();
        if busy && self.why == Why::Idle && self.is_anybody_there(context) {
            checkpoint.stop();
        }
        if busy && self.runs_on_permit(core) && !self.permit {
            checkpoint.stop();
            self.is_cut_short = true;
            self.policy.home_was_cut_short();
        }
        self.wants_permit = busy && self.runs_on_permit(core);
        if busy || core.is_read_only() || core.has_failed() || !core.setup().has_homes() {
            return;
        }
        self.is_cut_short = false;
        if self.demanded {
            return self.begin_demanded(core, checkpoint);
        }
        if core.is_draining()
            || found_nothing_since(core, checkpoint, failed)
            || core.now() < rests_until(core, checkpoint, failed)
        {
            return;
        }
        self.begin_what_is_due(core, context, checkpoint);
    }

    fn begin_demanded(&mut self, core: &Core, checkpoint: &mut Checkpoint) {
        let (now, copied_bytes) = (core.now(), core.stats().checkpointed_bytes);
        let is_commanded = std::mem::take(&mut self.commanded);
        let reason = if is_commanded { PassReason::Command } else { PassReason::NoRoom };
        self.passes.begin(reason, now, copied_bytes);
        let everything = std::mem::take(&mut self.drain) || checkpoint.found_nothing();
        (self.demanded, self.needed) = (false, false);
        self.why = Why::Need;
        let asked = std::mem::take(&mut self.asked);
        if asked {
            self.room.note_tries_all(now);
        }
        checkpoint.begin(everything, asked);
        checkpoint.hurry();
    }

    fn begin_what_is_due(
        &mut self,
        core: &Core,
        context: CleaningContext,
        checkpoint: &mut Checkpoint,
    ) {
        let map_is_nearly_full = core.map().len() > core.map_entries_max() / 4 * 3;
        let view = self.view(core, context);
        let asked = self.policy.home(&view);
        let Some(why) = (if map_is_nearly_full { Some(Why::Need) } else { asked }) else {
            self.wants_permit = false;
            return;
        };
        if core.setup().config.cleaning.coordinated && why.can_wait() {
            self.wants_permit = true;
            if !self.permit {
                return;
            }
        }
        let view = self.view(core, context);
        self.policy.home_begins(&view);
        self.why = why;
        let reason = if map_is_nearly_full { PassReason::MapFull } else { reason_of(why) };
        self.passes.begin(reason, core.now(), core.stats().checkpointed_bytes);
        self.quiet_since = self.last_request_at;
        checkpoint.begin(false, false);
    }

    /// Whether a request came since the pass began.
    fn is_anybody_there(&self, context: CleaningContext) -> bool {
        self.last_request_at != self.quiet_since || !context.is_quiet
    }

    /// When a pass home may be due by time alone.
    pub(crate) fn home_wake(
        &self,
        core: &Core,
        context: CleaningContext,
        checkpoint: &Checkpoint,
        failed: &FailedHomes,
    ) -> Option<Nanos> {
        if core.map().is_empty()
            || !core.setup().has_homes()
            || checkpoint.is_busy()
            || found_nothing_since(core, checkpoint, failed)
        {
            return None;
        }
        let left = self.is_cut_short.then_some(core.now());
        let due = self.policy.home_wake(&self.view(core, context));
        let earliest = [left, due].into_iter().flatten().min()?;
        Some(earliest.max(rests_until(core, checkpoint, failed)))
    }
}

/// Nothing was logged since a pass that found nothing: another would find nothing either.
fn found_nothing_since(core: &Core, checkpoint: &Checkpoint, failed: &FailedHomes) -> bool {
    checkpoint.found_nothing() && core.recorded().bytes_since_snapshot() == 0 && failed.is_empty()
}

/// When another pass may begin by itself.
fn rests_until(core: &Core, checkpoint: &Checkpoint, failed: &FailedHomes) -> Nanos {
    if !checkpoint.found_nothing() {
        return Nanos::ZERO;
    }
    let rested = checkpoint.finished_at() + REST_AFTER_NOTHING;
    // Where only what failed before is left, nothing is to be done before that may be tried again.
    let due = failed.due_at().filter(|_| core.recorded().bytes_since_snapshot() == 0);
    due.map_or(rested, |due| due.max(rested))
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
