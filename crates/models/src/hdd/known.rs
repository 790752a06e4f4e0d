//! What is known of a drive from outside without any time passing: what is outstanding, what is only in its memory,
//! and where its content is known to be zeros.

use super::HddModel;
use nearhead_disk::Run;

impl HddModel {
    /// Commands accepted and not completed.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Bytes acknowledged and not on the medium.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.bytes()
    }

    /// What the store knows, unless something may be on its way there.
    pub(super) fn known_run(&self, offset: u64) -> Run {
        let at_rest = self.dirty.bytes() == 0 && self.outstanding == 0;
        if at_rest { self.store.run_at(offset) } else { Run::UNKNOWN }
    }
}
