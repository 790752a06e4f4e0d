//! A cleaner that lets small writes wait for room in the logs instead of sending them home. All else is as the cleaner says
//! that it stands in front of.

use nearhead_disk::Nanos;
use nearhead_engine::cleaner::{Cleaner, CleaningView, Move, WhenFull, Why};

/// The cleaner.
#[derive(Clone, Debug)]
pub struct Patient(pub Box<dyn Cleaner>);

impl Cleaner for Patient {
    fn home(&mut self, view: &CleaningView<'_>) -> Option<Why> {
        self.0.home(view)
    }

    fn home_begins(&mut self, view: &CleaningView<'_>) {
        self.0.home_begins(view);
    }

    fn home_was_cut_short(&mut self) {
        self.0.home_was_cut_short();
    }

    fn home_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        self.0.home_wake(view)
    }

    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        self.0.relocate(view)
    }

    fn relocate_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        self.0.relocate_wake(view)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.clone())
    }
}
