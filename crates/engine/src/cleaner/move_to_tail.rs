//! `move_to_tail`: what is needed of a log is read from the body of the chain and written at its tail, between the records of clients (Gecko,
//! section 4).
//!
//! Which log goes when is the same for both ways to clean a chain (`victim.rs`). Nothing goes home, as there are no homes, and clients wait while no
//! log has room.

use super::victim::Cleaned;
use super::{Cleaner, CleaningView, Goal, Move, WhenFull};
use nearhead_disk::Nanos;

/// Logs moved to the tail.
#[derive(Clone, Debug, Default)]
pub struct MoveToTail {
    cleaned: Cleaned,
}

impl Cleaner for MoveToTail {
    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        let from = self.cleaned.next(view, |_| view.logs.blocks_for_moves())?;
        Some(Move { from, to: Goal::Tail })
    }

    fn relocate_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        Cleaned::wake(view)
    }

    fn is_pressed(&self, view: &CleaningView<'_>) -> bool {
        self.cleaned.is_pressed(view)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.clone())
    }
}
