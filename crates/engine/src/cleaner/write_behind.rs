//! `write_behind`: what is logged goes home soon, from memory, at the pace of the devices that have the data (Trail, section 4.2).
//!
//! Passes follow each other after a short pause, in which what is written again is written once only. They disturb no record: homes are on
//! other devices. While no log has room small writes wait at the pace of these passes, and never go home before they are logged.

use super::{Cleaner, CleaningView, WhenFull, Why};
use nearhead_disk::Nanos;

/// From the end of a pass to the next one.
const PAUSE: Nanos = Nanos::from_millis(250);
/// With so much of the logs in use, if the owner does not say how much, there is no pause.
const URGENT_FILL_PCT: u32 = 50;

/// Homes soon after records.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteBehind;

impl WriteBehind {
    fn due_at(view: &CleaningView<'_>) -> Nanos {
        view.last_pass_ended_at + PAUSE
    }
}

impl Cleaner for WriteBehind {
    fn home(&mut self, view: &CleaningView<'_>) -> Option<Why> {
        let pct = view.asked.watermark_pct.map_or(URGENT_FILL_PCT, u32::from);
        if view.logs.fill_pct() >= pct {
            return Some(Why::Need);
        }
        (view.now >= Self::due_at(view)).then_some(Why::Room)
    }

    fn home_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        Some(Self::due_at(view))
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleaner::Cleaning;
    use crate::state::logs::Logs;
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};

    #[test]
    fn passes_follow_each_other_behind_a_pause_and_without_one_where_logs_are_half_full() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        let (asked, mut logs) = (Cleaning::as_if_nothing_was_asked(), Logs::new(&layout, true));
        let home = |logs: &Logs, now| {
            let view = CleaningView {
                asked: &asked,
                logs,
                last_log: 0,
                now,
                second_of_day_at_zero: 0,
                last_request_at: now,
                is_quiet: false,
                last_pass_ended_at: Nanos::from_secs(9),
                snapshot_number: 0,
                awaits_permit: false,
                fragment_fill_pct: 0,
            };
            (WriteBehind.home(&view), WriteBehind.home_wake(&view))
        };
        let due_at = Nanos::from_secs(9) + PAUSE;
        assert_eq!(home(&logs, due_at - Nanos(1)), (None, Some(due_at)));
        assert_eq!(home(&logs, due_at).0, Some(Why::Room), "beside a client that never pauses");
        let half = logs.count().div_ceil(2);
        (0..half).for_each(|log| logs.advance(log, 0, logs.blocks()));
        assert_eq!(home(&logs, Nanos::from_secs(9)).0, Some(Why::Need));
        assert_eq!(WriteBehind.when_full(), WhenFull::Wait);
    }
}
