//! The end of a pass over the map, and what it says about another one.

use super::Checkpoint;
use crate::engine::Engine;
use crate::state::sectors::BLOCK_SECTORS;

impl Checkpoint {
    /// Whether the last pass found nothing to copy.
    pub(crate) fn found_nothing(&self) -> bool {
        self.found_nothing && !self.running
    }

    /// Whether another pass could not free anything.
    pub(crate) fn nothing_left(&self) -> bool {
        self.nothing_left && !self.running
    }

    /// Whether the last pass that ended left nothing that it could free, and nothing was logged since.
    pub(crate) fn left_nothing(&self) -> bool {
        self.nothing_left
    }

    /// Whether the last pass left out what a client was writing over.
    pub(crate) fn met_transfers(&self) -> bool {
        self.met_transfers
    }

    /// Client data was logged: there may be something to copy.
    pub(crate) fn note_logged(&mut self) {
        self.nothing_left = false;
        self.logged_this_pass = true;
    }
}

impl Engine {
    pub(super) fn end_pass(&mut self) {
        let checkpoint = &mut self.checkpoint;
        checkpoint.running = false;
        // A pass that was stopped says nothing of what it did not come to.
        checkpoint.found_nothing = checkpoint.copied_this_pass == 0 && !checkpoint.stopped;
        let nothing = checkpoint.found_nothing && !checkpoint.logged_this_pass;
        checkpoint.nothing_left = nothing && checkpoint.everything;
        (checkpoint.everything, checkpoint.tries_all) = (false, false);
        checkpoint.finished_at = self.now;
        if checkpoint.nothing_left {
            self.schedule.room.note_fruitless(self.now);
        }
        if checkpoint.copied_this_pass > 0 {
            self.schedule.room.note_found();
            // Only a snapshot gives the emptied logs back for use.
            self.snapshotter.wish();
        }
        let (map, stage, taken) = (&self.core.map, &self.stage, &self.taken);
        self.failed_homes.review(|block| {
            map.overlaps(block * BLOCK_SECTORS, BLOCK_SECTORS)
                || stage.get(block).is_some()
                || taken.get(block).is_some()
        });
    }
}
