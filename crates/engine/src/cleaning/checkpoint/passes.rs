//! The end of a pass over the map, and what it says about another one.

use super::{Checkpoint, News};
use nearhead_disk::Nanos;

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

    /// Whether the last pass that ended took anything home.
    pub(crate) fn has_copied(&self) -> bool {
        self.copied_this_pass > 0
    }

    pub(super) fn end_pass(&mut self, now: Nanos) {
        self.running = false;
        // A pass that was stopped says nothing of what it did not come to.
        self.found_nothing = self.copied_this_pass == 0 && !self.stopped;
        let nothing = self.found_nothing && !self.logged_this_pass;
        self.nothing_left = nothing && self.everything;
        (self.everything, self.tries_all) = (false, false);
        self.finished_at = now;
        self.news = Some(News::PassEnded);
    }
}
