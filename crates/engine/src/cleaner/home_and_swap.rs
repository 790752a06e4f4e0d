//! `home_and_swap`: blocks go home by period, in idleness, in off-hours and above a watermark (Manylogs III-F); a full log
//! near the head goes to a cold one (III-G).
//!
//! Only the time handed in and what the owner asked for decide; the off-hours are computed from the second of the day that
//! the configuration gives for time zero.

use super::{Cleaner, CleaningView, Goal, Move, Why};
use nearhead_disk::Nanos;

const DAY_SECONDS: u64 = 86_400;
/// A log this full is moved even while clients are busy, if its neighbours are full as well.
const URGENT_FILL_PCT: u32 = 95;
/// Logs on either side that count as near: a seek over four groups (400 MiB) costs about what a
/// seek over one does.
const NEIGHBOURS: u32 = 4;
/// A log that is fuller than that takes no other's content.
const COLD_FILL_PCT: u32 = 20;
/// Logs at the far end of the disk that are looked at for one that was never used.
const FAR_MAX: u32 = 1024;
/// How often it is looked whether the off-hours have begun.
const WINDOW_LOOK_EVERY: Nanos = Nanos::from_secs(60);
/// With so much of the room for fragments in use they go home; no sooner than so long after the last pass, which may have left some.
const FRAGMENTS_FULL_PCT: u32 = 75;
const FRAGMENTS_PAUSE: Nanos = Nanos::from_secs(5);

/// A pass home by watermark, idle time, period or window; the content of full logs goes to cold ones.
#[derive(Clone, Debug, Default)]
pub struct HomeAndSwap {
    /// The night in which the off-hours pass has begun.
    window_done_on: Option<u64>,
    /// The period began the running pass; it began one that was cut short.
    is_periodic: bool,
    periodic_is_left: bool,
    /// No log could take another's content when this was the newest snapshot.
    refused_at_snapshot: Option<u64>,
}

impl HomeAndSwap {
    fn is_period_over(&self, view: &CleaningView<'_>) -> bool {
        let since = view.now.since(view.last_pass_ended_at);
        self.periodic_is_left || view.asked.period.is_some_and(|period| since >= period)
    }

    /// The night whose window is open and in which no pass has begun yet: once in each window one does.
    fn open_window(&self, view: &CleaningView<'_>) -> Option<u64> {
        let (start, end) = view.asked.window?;
        let seconds = u64::from(view.second_of_day_at_zero) + view.now.0 / 1_000_000_000;
        let (day, second) = (seconds / DAY_SECONDS, (seconds % DAY_SECONDS) as u32);
        let (open, night) = if start <= end {
            ((start..end).contains(&second), day)
        } else {
            // A window over midnight belongs to the day it began on.
            (second >= start || second < end, if second < end { day.wrapping_sub(1) } else { day })
        };
        (open && self.window_done_on != Some(night)).then_some(night)
    }

    /// The log that clients filled, if it is worth moving.
    fn movable(&self, view: &CleaningView<'_>) -> Option<u32> {
        let above_pct = view.asked.swap_above_pct?;
        let hot = view.last_log;
        let worth = view.logs.fill_pct_of(hot) >= u32::from(above_pct) && view.logs.is_needed(hot);
        let refused = self.refused_at_snapshot == Some(view.snapshot_number);
        (worth && !refused && !view.logs.rests(hot) && !view.logs.has_pieces(hot)).then_some(hot)
    }
}

impl Cleaner for HomeAndSwap {
    fn home(&mut self, view: &CleaningView<'_>) -> Option<Why> {
        let watermark_pct = view.asked.watermark_pct;
        let is_full = watermark_pct.is_some_and(|pct| view.logs.fill_pct() >= u32::from(pct))
            || view.fragment_fill_pct >= FRAGMENTS_FULL_PCT && fragments_due_at(view) <= view.now;
        let is_time = self.is_period_over(view) || self.open_window(view).is_some();
        match (is_time, is_full) {
            (true, true) => Some(Why::Need),
            (true, false) => Some(Why::Time),
            (false, true) => Some(Why::Room),
            (false, false) => is_idle(view).then_some(Why::Idle),
        }
    }

    fn home_begins(&mut self, view: &CleaningView<'_>) {
        self.is_periodic = self.is_period_over(view);
        self.periodic_is_left = false;
        self.window_done_on = self.open_window(view).or(self.window_done_on);
    }

    fn home_was_cut_short(&mut self) {
        self.window_done_on = None;
        self.periodic_is_left = self.is_periodic;
    }

    fn home_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        let asked = view.asked;
        let window = asked.window.map(|_| view.now + WINDOW_LOOK_EVERY);
        if view.awaits_permit {
            // The permit will be the event; a window may close before it comes.
            return window;
        }
        let period = asked.period.map(|period| view.last_pass_ended_at + period);
        let idle = asked.idle_after.map(|after| view.last_request_at + after);
        let is_full = view.fragment_fill_pct >= FRAGMENTS_FULL_PCT;
        let fragments = is_full.then(|| fragments_due_at(view));
        [period, idle, window, fragments].into_iter().flatten().min()
    }

    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        let from = self.movable(view)?;
        let idle = view.idle_for() >= view.asked.swap_idle_after;
        let is_urgent = view.logs.fill_pct_of(from) >= URGENT_FILL_PCT;
        if !(idle || (is_urgent && neighbourhood_is_full(from, view))) {
            return None;
        }
        let to = coldest_log(from, view);
        if to.is_none() {
            self.refused_at_snapshot = Some(view.snapshot_number);
        }
        Some(Move { from, to: Goal::Log(to?) })
    }

    fn relocate_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        self.movable(view)?;
        Some(view.last_request_at + view.asked.swap_idle_after)
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.clone())
    }
}

/// When a pass may begin for want of room for fragments: what the last one left takes more than one to go.
fn fragments_due_at(view: &CleaningView<'_>) -> Nanos {
    view.last_pass_ended_at + FRAGMENTS_PAUSE
}

fn is_idle(view: &CleaningView<'_>) -> bool {
    let idle_after = view.asked.idle_after;
    view.is_quiet && idle_after.is_some_and(|after| view.idle_for() >= after)
}

/// Whether the head would have to go far for the next log with room.
fn neighbourhood_is_full(index: u32, view: &CleaningView<'_>) -> bool {
    let (first, last) = (index.saturating_sub(NEIGHBOURS), index.saturating_add(NEIGHBOURS));
    (first..=last.min(view.logs.count() - 1)).all(|near| view.logs.is_full(near))
}

/// The log with most room, of those the farthest from the head.
fn coldest_log(hot: u32, view: &CleaningView<'_>) -> Option<u32> {
    let (logs, count) = (view.logs, view.logs.count());
    // An untouched log is as cold as any; look from the far end so that the head's
    // neighbourhood keeps its own.
    let far = if hot < count / 2 { count - 1 } else { 0 };
    let untouched = (0..count.min(FAR_MAX))
        .map(|step| if far == 0 { step } else { far - step })
        .find(|index| *index != hot && !logs.is_touched(*index));
    untouched.or_else(|| {
        let cold = |index: &u32| {
            *index != hot && !logs.rests(*index) && logs.fill_pct_of(*index) < COLD_FILL_PCT
        };
        let distance = |index: &u32| index.abs_diff(hot);
        logs.touched()
            .filter(cold)
            .min_by_key(|index| (logs.fill_pct_of(*index), u32::MAX - distance(index)))
    })
}
