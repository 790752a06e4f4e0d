//! When logs are emptied: by period, idleness, off-hours window, watermark or command.
//!
//! Only the time handed in and the configuration decide; the off-hours window is computed from the
//! second of the day the configuration gives for time zero.

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
    demanded: bool,
    drain: bool,
    /// The running pass was begun for idleness alone and stops when a request comes.
    idle_pass: bool,
    /// It was begun by the engine's own judgement: nobody waits for its end.
    polite_pass: bool,
    window_done_on: Option<u64>,
}

impl Schedule {
    pub(crate) fn note_request(&mut self, now: Nanos) {
        self.last_request_at = now;
    }

    /// A checkpoint is needed as soon as possible.
    pub(crate) fn demand_checkpoint(&mut self) {
        self.demanded = true;
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
        self.commit.want(self.stage.end());
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
        if self.map.is_empty() && !self.checkpoint.is_busy() && !self.schedule.demanded {
            return self.advance_snapshot();
        }
        self.schedule_checkpoint();
        self.dispatcher.set_pace(self.admission.as_ref(), self.pace());
        self.advance_checkpoint();
        self.advance_swap();
        self.advance_snapshot();
    }

    fn pace(&self) -> Pace {
        if self.spill.is_some() || self.logs.fill_pct() >= URGENT_FILL_PCT {
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
        if busy || self.setup.config.read_only || self.failure.is_some() {
            return;
        }
        if self.schedule.demanded {
            let everything =
                std::mem::take(&mut self.schedule.drain) || self.checkpoint.found_nothing();
            self.schedule.demanded = false;
            self.schedule.idle_pass = false;
            self.schedule.polite_pass = false;
            return self.checkpoint.begin(everything);
        }
        if matches!(self.phase, Phase::Draining)
            || self.checkpoint_found_nothing_since()
            || self.now < self.checkpoint_rests_until()
        {
            return;
        }
        let cleaning = &self.setup.config.cleaning;
        let finished_at = self.checkpoint.finished_at;
        let by_period = cleaning.period.is_some_and(|period| self.now.since(finished_at) >= period);
        let by_watermark =
            cleaning.watermark_pct.is_some_and(|pct| self.logs.fill_pct() >= u32::from(pct));
        let by_map = self.map.len() > self.map_entries_max() / 4 * 3;
        let by_window = self.window_is_open();
        let by_idleness = self.is_idle();
        let due = by_period || by_map || by_window;
        let needed = due || by_watermark;
        if needed || by_idleness {
            self.schedule.idle_pass = !needed;
            self.schedule.polite_pass = !due;
            self.checkpoint.begin(false);
        }
    }

    /// Nothing was logged since a pass that found nothing: another would find nothing either.
    fn checkpoint_found_nothing_since(&self) -> bool {
        self.checkpoint.found_nothing() && self.commit.bytes_since_snapshot == 0
    }

    /// When another pass may begin by itself.
    fn checkpoint_rests_until(&self) -> Nanos {
        if self.checkpoint.found_nothing() {
            self.checkpoint.finished_at + REST_AFTER_NOTHING
        } else {
            Nanos::ZERO
        }
    }

    fn is_idle(&self) -> bool {
        let idle_after = self.setup.config.cleaning.idle_after;
        idle_after.is_some_and(|after| self.schedule.idle_for(self.now) >= after)
            && self.requests.is_empty()
    }

    /// Once in each window a pass begins.
    fn window_is_open(&mut self) -> bool {
        let Some((start, end)) = self.setup.config.cleaning.window else { return false };
        let seconds =
            u64::from(self.setup.config.second_of_day_at_zero) + self.now.0 / 1_000_000_000;
        let (day, second) = (seconds / DAY_SECONDS, (seconds % DAY_SECONDS) as u32);
        let (open, night) = if start <= end {
            ((start..end).contains(&second), day)
        } else {
            // A window over midnight belongs to the day it began on.
            (second >= start || second < end, if second < end { day.wrapping_sub(1) } else { day })
        };
        let fresh = open && self.schedule.window_done_on != Some(night);
        if fresh {
            self.schedule.window_done_on = Some(night);
        }
        fresh
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
        let mut wakes = [aged, self.snapshot_wake(), None, None, None, scanning, self.swap_wake()];
        if !self.map.is_empty()
            && !self.checkpoint.is_busy()
            && !self.checkpoint_found_nothing_since()
        {
            let cleaning = &config.cleaning;
            wakes[2] = cleaning.period.map(|period| self.checkpoint.finished_at + period);
            wakes[3] = cleaning.idle_after.map(|after| self.schedule.last_request_at + after);
            wakes[4] = cleaning.window.map(|_| self.now + Nanos::from_secs(60));
            let rested = self.checkpoint_rests_until();
            wakes[2..5].iter_mut().for_each(|wake| *wake = wake.map(|wake| wake.max(rested)));
        }
        let earliest = wakes.into_iter().flatten().min()?;
        // What is due and cannot go on yet is looked at again with the next event.
        Some(earliest.max(self.now + Nanos::from_millis(1)))
    }
}
