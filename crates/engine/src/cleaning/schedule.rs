//! When passes home begin: what the policy asks for, what is commanded, what is needed.
//!
//! With coordination a pass that could as well be made later begins only while whoever
//! drives the engine says that it holds a permit, and stops politely when the permit is taken away. A pass that is
//! needed (watermark, full log, nearly full map, command) must never wait for one: the permit is somebody else's
//! to give, and who gives it may be away.

use super::Checkpoint;
use super::policy::{Cleaner, CleaningView, Why};
use super::room::Room;
use crate::admission::Pace;
use crate::config::Setup;
use crate::engine::{Engine, Phase};
use crate::requests::Requests;
use crate::snapshot::Snapshotter;
use crate::state::Core;
use nearhead_disk::Nanos;

/// After a pass that could copy nothing the next one that nobody asked for waits so long: what cannot be
/// read or written now cannot be a moment later either.
const REST_AFTER_NOTHING: Nanos = Nanos::from_secs(1);
/// Share of all log space in use from which cleaning is urgent.
const URGENT_FILL_PCT: u32 = 85;
/// Without a request for so long nobody is there: a client that comes then waits for what is on the
/// disk, once.
const ALONE_AFTER: Nanos = Nanos::from_millis(100);

/// What is due and could not go on is looked at again after this time.
const AGAIN: Nanos = Nanos::from_millis(1);
/// The same while the disk has a command, whose answer would be an event: as long as the shortest rest.
const AGAIN_BESIDE_DISK: Nanos = Nanos::from_secs(1);

/// What the schedule remembers.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pass, not a state")]
pub(crate) struct Schedule {
    last_request_at: Nanos,
    pub(crate) room: Room,
    demanded: bool,
    drain: bool,
    /// Somebody asked for the pass that is demanded, or depends on it.
    asked: bool,
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
    pub(crate) fn note_request(&mut self, now: Nanos) {
        self.last_request_at = now;
    }

    /// A checkpoint is needed as soon as possible; it `tries_all` homes if somebody is refused otherwise.
    pub(super) fn demand_checkpoint(&mut self, tries_all: bool) {
        self.demanded = true;
        self.asked |= tries_all;
    }

    /// Since when nobody has asked anything.
    pub(crate) fn idle_from(&self) -> Nanos {
        self.last_request_at
    }

    pub(crate) fn idle_for(&self, now: Nanos) -> Nanos {
        now.since(self.last_request_at)
    }
}

impl Engine {
    /// Copies everything home, durability-only ranges too if `everything`. A volume that accepts no
    /// change does nothing.
    pub fn start_checkpoint(&mut self, everything: bool, now: Nanos) {
        self.now = now;
        if self.failure.is_some() || self.setup.config.read_only {
            return;
        }
        self.schedule.demanded = true;
        self.schedule.drain |= everything;
        self.schedule.asked = true;
        self.commit.want(self.stage.end());
    }

    /// With [`crate::Cleaning::coordinated`]: whether passes that can wait may run from now on. A pass under way
    /// that loses its permit stops at the end of the batch it is copying. Drive the engine after a change.
    pub fn set_checkpoint_permit(&mut self, is_held: bool, now: Nanos) {
        self.now = now;
        self.schedule.permit = is_held;
    }

    /// Whether a pass that can wait is due, or runs on a permit: only until then is one needed.
    pub fn wants_checkpoint_permit(&self) -> bool {
        self.schedule.wants_permit && self.failure.is_none()
    }

    /// Writes a snapshot of the map as soon as possible, also when nothing changed: what lies in
    /// its slot is replaced.
    pub fn start_snapshot(&mut self, now: Nanos) {
        self.now = now;
        self.snapshotter.demand();
    }

    /// Everything that runs by itself.
    pub(crate) fn advance_background(&mut self) {
        self.commit_aged_stage();
        // A swap whose last block went home meanwhile must still come to its end.
        let is_cleaning = self.checkpoint.is_busy() || self.swap.is_busy();
        if self.core.map.is_empty() && !is_cleaning && !self.schedule.demanded {
            self.schedule.wants_permit = false;
            return self.advance_snapshot();
        }
        self.schedule_checkpoint();
        self.lanes.set_pace(self.admission.as_ref(), self.pace());
        self.advance_checkpoint();
        self.advance_swap();
        self.advance_snapshot();
    }

    fn pace(&self) -> Pace {
        if self.spill.is_some() || self.core.logs.fill_pct() >= URGENT_FILL_PCT {
            Pace::Urgent
        } else if self.requests.is_empty() && self.schedule.idle_for(self.now) >= ALONE_AFTER {
            Pace::Alone
        } else if self.schedule.why.is_polite() && !self.swap.is_busy() && !self.schedule.demanded {
            Pace::Polite
        } else {
            Pace::Steady
        }
    }

    fn commit_aged_stage(&mut self) {
        if let Some(since) = self.commit.staged_since()
            && self.now.since(since) >= self.setup.config.stage_age_max
        {
            self.commit.want(self.stage.end());
        }
    }

    /// The policy, and what it may look at.
    pub(super) fn cleaner(&mut self) -> (&mut dyn Cleaner, CleaningView<'_>) {
        let Self { setup, core, schedule, requests, checkpoint, snapshotter, now, .. } = self;
        let view = view_of(setup, core, schedule, requests, checkpoint, snapshotter, *now);
        (self.cleaner.as_mut(), view)
    }

    /// What it may look at.
    pub(super) fn cleaning_view(&self) -> CleaningView<'_> {
        let Self { setup, core, schedule, requests, checkpoint, snapshotter, now, .. } = self;
        view_of(setup, core, schedule, requests, checkpoint, snapshotter, *now)
    }

    /// Whether the running pass runs on a permit.
    fn runs_on_permit(&self) -> bool {
        let schedule = &self.schedule;
        let coordinated = self.setup.config.cleaning.coordinated;
        coordinated && schedule.why.can_wait() && !schedule.is_cut_short
    }

    fn schedule_checkpoint(&mut self) {
        let busy = self.checkpoint.is_busy();
        if busy && self.schedule.why == Why::Idle && self.is_anybody_there() {
            self.checkpoint.stop();
        }
        if busy && self.runs_on_permit() && !self.schedule.permit {
            self.checkpoint.stop();
            self.schedule.is_cut_short = true;
            self.cleaner.home_was_cut_short();
        }
        self.schedule.wants_permit = busy && self.runs_on_permit();
        if busy || self.setup.config.read_only || self.failure.is_some() {
            return;
        }
        self.schedule.is_cut_short = false;
        if self.schedule.demanded {
            return self.begin_demanded();
        }
        if matches!(self.phase, Phase::Draining)
            || self.checkpoint_found_nothing_since()
            || self.now < self.checkpoint_rests_until()
        {
            return;
        }
        self.begin_what_is_due();
    }

    fn begin_demanded(&mut self) {
        let schedule = &mut self.schedule;
        let everything = std::mem::take(&mut schedule.drain) || self.checkpoint.found_nothing();
        schedule.demanded = false;
        schedule.why = Why::Need;
        let asked = std::mem::take(&mut schedule.asked);
        if asked {
            schedule.room.note_tries_all(self.now);
        }
        self.checkpoint.begin(everything, asked);
    }

    fn begin_what_is_due(&mut self) {
        let map_is_nearly_full = self.core.map.len() > self.map_entries_max() / 4 * 3;
        let (cleaner, view) = self.cleaner();
        let asked = cleaner.home(&view);
        let Some(why) = (if map_is_nearly_full { Some(Why::Need) } else { asked }) else {
            self.schedule.wants_permit = false;
            return;
        };
        if self.setup.config.cleaning.coordinated && why.can_wait() {
            self.schedule.wants_permit = true;
            if !self.schedule.permit {
                return;
            }
        }
        let (cleaner, view) = self.cleaner();
        cleaner.home_begins(&view);
        self.schedule.why = why;
        self.schedule.quiet_since = self.schedule.last_request_at;
        self.checkpoint.begin(false, false);
    }

    /// Nothing was logged since a pass that found nothing: another would find nothing either.
    fn checkpoint_found_nothing_since(&self) -> bool {
        self.checkpoint.found_nothing()
            && self.core.bytes_since_snapshot() == 0
            && self.failed_homes.is_empty()
    }

    /// When another pass may begin by itself.
    fn checkpoint_rests_until(&self) -> Nanos {
        if self.checkpoint.found_nothing() {
            let rested = self.checkpoint.finished_at() + REST_AFTER_NOTHING;
            // Where only what failed before is left, nothing is to be done before that may be tried again.
            let due = self.failed_homes.due_at().filter(|_| self.core.bytes_since_snapshot() == 0);
            due.map_or(rested, |due| due.max(rested))
        } else {
            Nanos::ZERO
        }
    }

    /// Whether a request came since the pass began.
    fn is_anybody_there(&self) -> bool {
        self.schedule.last_request_at != self.schedule.quiet_since || !self.requests.is_empty()
    }

    /// When something in the background becomes due by time alone.
    pub(crate) fn next_background_wake(&self) -> Option<Nanos> {
        if self.failure.is_some() {
            // Nothing goes on by itself any more.
            return None;
        }
        let config = &self.setup.config;
        let aged = self.commit.staged_since().map(|since| since + config.stage_age_max);
        let demanded = self.schedule.demanded || self.snapshotter.is_demanded();
        let scanning = (self.swap.needs_turn() || demanded).then_some(self.now);
        let (swap, blanks) = (self.swap_wake(), self.blanks_wake());
        let wakes = [
            aged,
            self.snapshot_wake(),
            self.home_wake(),
            swap,
            blanks,
            self.retry_wake(),
            self.core.logs.rest_ends_at(),
        ];
        // What is due and could not go on just now mostly waits for what the disk does, and that is an event; but a command
        // may hang, and something else end its rest meanwhile.
        let again = self.now + if self.lanes.len() > 0 { AGAIN_BESIDE_DISK } else { AGAIN };
        let wake = |at: Nanos| if at <= self.now { again } else { at };
        let due = wakes.into_iter().flatten().map(wake);
        let earliest = due.chain(scanning).min()?;
        Some(earliest.max(self.now + AGAIN))
    }

    /// When a pass home may be due by time alone.
    fn home_wake(&self) -> Option<Nanos> {
        if self.core.map.is_empty()
            || self.checkpoint.is_busy()
            || self.checkpoint_found_nothing_since()
        {
            return None;
        }
        let left = self.schedule.is_cut_short.then_some(self.now);
        let due = self.cleaner.home_wake(&self.cleaning_view());
        let earliest = [left, due].into_iter().flatten().min()?;
        Some(earliest.max(self.checkpoint_rests_until()))
    }
}

/// What a policy may look at.
fn view_of<'a>(
    setup: &'a Setup,
    core: &'a Core,
    schedule: &Schedule,
    requests: &Requests,
    checkpoint: &Checkpoint,
    snapshotter: &Snapshotter,
    now: Nanos,
) -> CleaningView<'a> {
    CleaningView {
        asked: &setup.config.cleaning,
        logs: &core.logs,
        last_log: core.last_log(),
        now,
        second_of_day_at_zero: setup.config.second_of_day_at_zero,
        last_request_at: schedule.last_request_at,
        is_quiet: requests.is_empty(),
        last_pass_ended_at: checkpoint.finished_at(),
        snapshot_number: snapshotter.number(),
        awaits_permit: schedule.wants_permit && !schedule.permit,
    }
}
