//! `fullest_first`: the fullest log goes to the emptiest one while it is much fuller, and blocks go home only when there is
//! little room in all of them.

use nearhead_engine::cleaner::{Cleaner, CleaningView, Goal, Move, Why};

/// From this share of all log space on blocks go home.
const HOME_ABOVE_PCT: u32 = 50;
/// A log is moved if it is so much fuller than the one that takes its content.
const MOVE_ABOVE_PCT: u32 = 30;

/// The cleaner.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullestFirst;

impl Cleaner for FullestFirst {
    fn home(&mut self, view: &CleaningView<'_>) -> Option<Why> {
        (view.logs.fill_pct() >= HOME_ABOVE_PCT).then_some(Why::Room)
    }

    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        let logs = view.logs;
        let usable = || logs.touched().filter(|log| !logs.rests(*log));
        let from =
            usable().filter(|log| logs.is_needed(*log)).max_by_key(|log| logs.fill_pct_of(*log))?;
        let to = usable().min_by_key(|log| logs.fill_pct_of(*log))?;
        let is_worth_it = logs.fill_pct_of(from) >= logs.fill_pct_of(to) + MOVE_ABOVE_PCT;
        is_worth_it.then_some(Move { from, to: Goal::Log(to) })
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(*self)
    }
}
