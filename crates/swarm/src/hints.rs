//! What is hinted, as the client knows it, and what may be found of that after a restart.
//!
//! A hint is promised to survive an orderly stop. A cut may take it back to what it was when the newest committed
//! snapshot began, not further.

use nearhead_disk::RangeSet;
use std::ops::Range;

/// Hints sent, by when they were replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    now: RangeSet,
    /// Older states, and the number of the newest committed snapshot when each was replaced.
    before: Vec<(Vec<Range<u64>>, u64)>,
    /// One failed, or an answer was lost: what is found next is right.
    unsure: bool,
}

impl Hints {
    /// A hint is sent while snapshot `number` is the newest that is committed.
    pub(crate) fn sent(&mut self, sectors: Range<u64>, on: bool, number: u64) {
        let old: Vec<_> = self.now.iter().collect();
        if on {
            self.now.insert(sectors);
        } else {
            self.now.remove(sectors);
        }
        // The next snapshot may have begun before that; one before it is of no use any more.
        self.before.retain(|(_, replaced_at)| replaced_at + 1 >= number);
        self.before.push((old, number));
    }

    /// One was refused: whether it counts is not known.
    pub(crate) fn failed(&mut self) {
        self.unsure = true;
    }

    /// What was found after an orderly stop.
    pub(crate) fn check_after_a_stop(&self, found: &[Range<u64>]) -> Result<(), String> {
        let expected: Vec<_> = self.now.iter().collect();
        if self.unsure || expected == found {
            return Ok(());
        }
        Err(format!("hints after a stop: expected {expected:?}, found {found:?}"))
    }

    /// What a cut now would leave.
    pub(crate) fn check_after_a_cut(
        &self,
        found: &[Range<u64>],
        number: u64,
    ) -> Result<(), String> {
        let is_now = self.now.iter().eq(found.iter().cloned());
        let was = |(state, replaced_at): &(Vec<Range<u64>>, u64)| {
            replaced_at + 1 >= number && state == found
        };
        if self.unsure || is_now || self.before.iter().any(was) {
            return Ok(());
        }
        Err(format!("hints after a cut, snapshot {number}: found {found:?}, expected {self:?}"))
    }

    /// What was found is what there is.
    pub(crate) fn adopt(&mut self, found: &[Range<u64>]) {
        *self = Self::default();
        for range in found {
            self.now.insert(range.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_may_take_hints_back_to_the_newest_snapshot_and_a_stop_to_nothing() {
        let mut hints = Hints::default();
        hints.sent(0..8, true, 3);
        hints.sent(16..24, true, 6);
        let earlier = 0..8;
        let (none, first, both) = ([], [earlier.clone()], [earlier, 16..24]);
        assert!(hints.check_after_a_stop(&both).is_ok());
        assert!(hints.check_after_a_stop(&first).is_err());
        // Snapshot 7 began after snapshot 6 was committed.
        assert!(
            hints.check_after_a_cut(&both, 7).is_ok() && hints.check_after_a_cut(&first, 7).is_ok()
        );
        assert!(hints.check_after_a_cut(&none, 7).is_err());
        assert!(hints.check_after_a_cut(&first, 8).is_err());
        hints.adopt(&first);
        assert!(hints.check_after_a_stop(&first).is_ok());
    }
}
