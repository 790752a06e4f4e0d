//! A cleaner for tests that has each chunk of a log read by itself, so that much happens while it gathers.

use nearhead_engine::cleaner::{Cleaner, CleaningView, Move, Reading, WhenFull};

/// A cleaner that has each chunk read by itself.
#[derive(Clone, Debug)]
pub(crate) struct ChunkByChunk(pub(crate) Box<dyn Cleaner>);

impl Cleaner for ChunkByChunk {
    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        self.0.relocate(view)
    }

    fn reading(&self) -> Reading {
        Reading::ChunkByChunk
    }

    fn when_full(&self) -> WhenFull {
        self.0.when_full()
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.clone())
    }
}
