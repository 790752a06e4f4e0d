//! `compact_in_body`: what is needed of a log is copied within its own device, so that cleaning touches the tail with neither reads nor writes
//! (Gecko, section 4, "smarter cleaning").
//!
//! Which log goes when is the same for both ways to clean a chain (`victim.rs`). Nothing goes home, as there are no homes, and clients wait while no
//! log has room.

use super::victim::Cleaned;
use super::{Cleaner, CleaningView, Goal, Move, WhenFull};
use nearhead_disk::Nanos;

/// Logs compacted within their devices.
#[derive(Clone, Debug, Default)]
pub struct CompactInBody {
    cleaned: Cleaned,
}

impl Cleaner for CompactInBody {
    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        let from = self.cleaned.next(view, |device| view.logs.blocks_for_copies(device.clone()))?;
        Some(Move { from, to: Goal::Body })
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
