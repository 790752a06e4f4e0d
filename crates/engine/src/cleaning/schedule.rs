//! When logs are emptied: by period, idleness, off-hours window, watermark or command.
//!
//! Only the time handed in and the configuration decide; the off-hours window is computed from the
//! second of the day the configuration gives for time zero.
//!
//! With coordination a pass that could as well be made later (period, idleness, window) begins only while whoever
//! drives the engine says that it holds a permit, and stops politely when the permit is taken away. A pass that is
//! needed (watermark, full log, nearly full map, command) must never wait for one: the permit is somebody else's
//! to give, and who gives it may be away.

use super::room::Room;
use crate::admission::Pace;
use crate::engine::{Engine, Phase};
use nearhead_disk::Nanos;

const DAY_SECONDS: u64 = 86_400;
/// After a pass that could copy nothing the next one that nobody asked for waits so long: what cannot be
/// read or written now cannot be a moment later either.
const REST_AFTER_NOTHING: Nanos = Nanos::from_secs(1);
/// Share of all log space in use from which cleaning is urgent.
const URGENT_FILL_PCT: u32 = 85;
/// Without a request for so long nobody is there: a client that comes then waits for what is on the
/// disk, once.
const ALONE_AFTER: Nanos = Nanos::from_millis(100);

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
    /// The running pass was begun for idleness alone and stops when a request comes.
    idle_pass: bool,
    /// It was begun by the engine's own judgement: nobody waits for its end.
    polite_pass: bool,
    window_done_on: Option<u64>,
    /// Passes that can wait may run now; only looked at with coordination.
    permit: bool,
    /// One is due or runs.
    wants_permit: bool,
    /// The running pass stops if the permit is taken away.
    permit_pass: bool,
    /// Such a pass was stopped before its end: what is due is to be looked at as soon as it has ended.
    is_cut_short: bool,
    /// The period began the running pass; it began one that was cut short.
    periodic_pass: bool,
    periodic_is_left: bool,
}

impl Schedule {
    pub(crate) fn note_request(&mut self, now: Nanos) {
        self.last_request_at = now;
    }

    /// A checkpoint is needed as soon as possible; it `tries_all` homes if somebody is refused otherwise.
    pub(crate) fn demand_checkpoint(&mut self, tries_all: bool) {
        self.demanded = true;
        self.asked |= tries_all;
    }

    /// The pass that runs on a permit has lost it; what began it is due again.
    fn cut_short(&mut self) {
        self.permit_pass = false;
        self.is_cut_short = true;
        self.window_done_on = None;
        self.periodic_is_left = self.periodic_pass;
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
        self.dispatcher.set_pace(self.admission.as_ref(), self.pace());
        self.advance_checkpoint();
        self.advance_swap();
        self.advance_snapshot();
    }

    fn pace(&self) -> Pace {
        if self.spill.is_some() || self.core.logs.fill_pct() >= URGENT_FILL_PCT {
            Pace::Urgent
        } else if self.requests.is_empty() && self.schedule.idle_for(self.now) >= ALONE_AFTER {
            Pace::Alone
        } else if self.schedule.polite_pass && !self.swap.is_busy() && !self.schedule.demanded {
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

    fn schedule_checkpoint(&mut self) {
        let busy = self.checkpoint.is_busy();
        if busy && self.schedule.idle_pass && !self.is_idle() {
            self.checkpoint.stop();
            self.schedule.idle_pass = false;
        }
        if busy && self.schedule.permit_pass && !self.schedule.permit {
            self.checkpoint.stop();
            self.schedule.cut_short();
        }
        self.schedule.wants_permit = busy && self.schedule.permit_pass;
        if busy || self.setup.config.read_only || self.failure.is_some() {
            return;
        }
        self.schedule.is_cut_short = false;
        if self.schedule.demanded {
            let everything =
                std::mem::take(&mut self.schedule.drain) || self.checkpoint.found_nothing();
            self.schedule.demanded = false;
            self.schedule.idle_pass = false;
            self.schedule.polite_pass = false;
            self.schedule.permit_pass = false;
            let asked = std::mem::take(&mut self.schedule.asked);
            if asked {
                self.schedule.room.note_tries_all(self.now);
            }
            return self.checkpoint.begin(everything, asked);
        }
        if matches!(self.phase, Phase::Draining)
            || self.checkpoint_found_nothing_since()
            || self.now < self.checkpoint_rests_until()
        {
            return;
        }
        self.begin_what_is_due();
    }

    fn begin_what_is_due(&mut self) {
        let cleaning = &self.setup.config.cleaning;
        let finished_at = self.checkpoint.finished_at;
        let by_period = cleaning.period.is_some_and(|period| self.now.since(finished_at) >= period)
            || self.schedule.periodic_is_left;
        let by_watermark =
            cleaning.watermark_pct.is_some_and(|pct| self.core.logs.fill_pct() >= u32::from(pct));
        let by_map = self.core.map.len() > self.map_entries_max() / 4 * 3;
        let window = self.open_window();
        let can_wait = by_period || window.is_some() || self.is_idle();
        let on_permit = cleaning.coordinated && !by_watermark && !by_map;
        if on_permit {
            self.schedule.wants_permit = can_wait;
        }
        if (on_permit && !self.schedule.permit) || !(can_wait || by_watermark || by_map) {
            return;
        }
        let due = by_period || by_map || window.is_some();
        let schedule = &mut self.schedule;
        schedule.idle_pass = !due && !by_watermark;
        schedule.polite_pass = !due;
        schedule.permit_pass = on_permit;
        schedule.periodic_pass = by_period;
        schedule.periodic_is_left = false;
        schedule.window_done_on = window.or(schedule.window_done_on);
        self.checkpoint.begin(false, false);
    }

    /// Nothing was logged since a pass that found nothing: another would find nothing either.
    fn checkpoint_found_nothing_since(&self) -> bool {
        self.checkpoint.found_nothing()
            && self.core.bytes_since_snapshot == 0
            && self.failed_homes.is_empty()
    }

    /// When another pass may begin by itself.
    fn checkpoint_rests_until(&self) -> Nanos {
        if self.checkpoint.found_nothing() {
            let rested = self.checkpoint.finished_at + REST_AFTER_NOTHING;
            // Where only what failed before is left, nothing is to be done before that may be tried again.
            let due = self.failed_homes.due_at().filter(|_| self.core.bytes_since_snapshot == 0);
            due.map_or(rested, |due| due.max(rested))
        } else {
            Nanos::ZERO
        }
    }

    fn is_idle(&self) -> bool {
        let idle_after = self.setup.config.cleaning.idle_after;
        idle_after.is_some_and(|after| self.schedule.idle_for(self.now) >= after)
            && self.requests.is_empty()
    }

    /// The night whose window is open and in which no pass has begun yet: once in each window one does.
    fn open_window(&self) -> Option<u64> {
        let (start, end) = self.setup.config.cleaning.window?;
        let seconds =
            u64::from(self.setup.config.second_of_day_at_zero) + self.now.0 / 1_000_000_000;
        let (day, second) = (seconds / DAY_SECONDS, (seconds % DAY_SECONDS) as u32);
        let (open, night) = if start <= end {
            ((start..end).contains(&second), day)
        } else {
            // A window over midnight belongs to the day it began on.
            (second >= start || second < end, if second < end { day.wrapping_sub(1) } else { day })
        };
        (open && self.schedule.window_done_on != Some(night)).then_some(night)
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
        let mut wakes = [
            aged,
            self.snapshot_wake(),
            None,
            None,
            None,
            scanning,
            swap,
            blanks,
            self.retry_wake(),
            self.core.logs.rest_ends_at(),
        ];
        if !self.core.map.is_empty()
            && !self.checkpoint.is_busy()
            && !self.checkpoint_found_nothing_since()
        {
            let cleaning = &config.cleaning;
            wakes[2] = cleaning.period.map(|period| self.checkpoint.finished_at + period);
            wakes[3] = cleaning.idle_after.map(|after| self.schedule.last_request_at + after);
            wakes[4] = cleaning.window.map(|_| self.now + Nanos::from_secs(60));
            if self.schedule.is_cut_short {
                wakes[2] = Some(self.now);
            } else if self.schedule.wants_permit && !self.schedule.permit {
                // The permit will be the event; a window may close before it comes.
                (wakes[2], wakes[3]) = (None, None);
            }
            let rested = self.checkpoint_rests_until();
            wakes[2..5].iter_mut().for_each(|wake| *wake = wake.map(|wake| wake.max(rested)));
        }
        let earliest = wakes.into_iter().flatten().min()?;
        // What is due and cannot go on yet is looked at again with the next event.
        Some(earliest.max(self.now + Nanos::from_millis(1)))
    }
}
