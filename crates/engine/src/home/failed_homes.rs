//! Homes that could not be written: what is to go there stays where it is, and is tried again by itself, later.
//!
//! A transfer over many blocks that fails says nothing of which of them is bad, so each of them is written alone
//! the next time; one that fails alone rests, longer after every failure. Nothing is ever given up here: a block
//! is forgotten when it was written, or when there is no room to remember it, and then it is only tried sooner.

use nearhead_disk::Nanos;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most blocks remembered: 256 MiB of homes, some MiB of memory.
const BLOCKS_MAX: usize = 64 << 10;
/// The first rest after a block has failed alone; each failure doubles it.
const REST_FIRST: Nanos = Nanos::from_secs(1);
/// The longest rest.
const REST_MAX: Nanos = Nanos::from_secs(64);

/// What is known of a block whose home failed.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// How often it failed alone.
    alone: u32,
    rests_until: Nanos,
}

/// Blocks whose homes failed, by number.
#[derive(Debug, Default)]
pub(crate) struct FailedHomes {
    blocks: BTreeMap<u64, Failed>,
    /// Of which so many failed alone.
    failed_alone: usize,
    /// When the next of them is due, as of the last review.
    due_at: Option<Nanos>,
}

impl FailedHomes {
    /// Blocks that could not be written even alone.
    pub(crate) fn len(&self) -> usize {
        self.failed_alone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether the block is to be written by a transfer of its own.
    pub(crate) fn is_suspect(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Whether any of these blocks is.
    pub(crate) fn any_suspect(&self, blocks: Range<u64>) -> bool {
        !self.blocks.is_empty() && self.blocks.range(blocks).next().is_some()
    }

    /// Whether the block is not to be tried yet.
    pub(crate) fn rests(&self, block: u64, now: Nanos) -> bool {
        self.blocks.get(&block).is_some_and(|failed| failed.rests_until > now)
    }

    /// When the next block may be tried again, as of the last review.
    pub(crate) fn due_at(&self) -> Option<Nanos> {
        self.due_at
    }

    /// Forgets blocks that nothing `waits` to be written to any more, and finds out when the next one is due: after
    /// a pass that tried those that were.
    pub(crate) fn review(&mut self, waits: impl Fn(u64) -> bool) {
        self.blocks.retain(|block, _| waits(*block));
        self.failed_alone = self.blocks.values().filter(|failed| failed.alone > 0).count();
        self.due_at = self.blocks.values().map(|failed| failed.rests_until).min();
    }

    /// A transfer failed, of which the block was a part, or all of it if `alone`.
    pub(crate) fn note_failed(&mut self, block: u64, alone: bool, now: Nanos) {
        if self.blocks.len() == BLOCKS_MAX && !self.blocks.contains_key(&block) {
            return;
        }
        let failed = self.blocks.entry(block).or_insert(Failed { alone: 0, rests_until: now });
        if alone {
            let doubled = REST_FIRST.0.saturating_mul(1 << failed.alone.min(16));
            failed.rests_until = now + Nanos(doubled).min(REST_MAX);
            self.failed_alone += usize::from(failed.alone == 0);
            failed.alone += 1;
        }
    }

    /// There was no space for the block, which says nothing of its home. There may be some any time.
    pub(crate) fn note_short_of_space(&mut self, block: u64, now: Nanos) {
        self.note_failed(block, false, now);
        if let Some(failed) = self.blocks.get_mut(&block) {
            failed.rests_until = failed.rests_until.max(now + REST_FIRST);
        }
    }

    /// The block was written.
    pub(crate) fn note_written(&mut self, block: u64) {
        if self.blocks.is_empty() {
            return;
        }
        let failed = self.blocks.remove(&block);
        self.failed_alone -= usize::from(failed.is_some_and(|failed| failed.alone > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_fails_alone_rests_ever_longer_up_to_a_bound() {
        let (mut homes, mut now, mut rests) = (FailedHomes::default(), Nanos::ZERO, Vec::new());
        for _ in 0..40 {
            homes.note_failed(7, true, now);
            homes.review(|_| true);
            let until = homes.due_at().unwrap();
            rests.push(until.since(now).0 / 1_000_000_000);
            assert!(homes.rests(7, now) && !homes.rests(7, until));
            now = until;
        }
        assert_eq!(rests[..8], [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!((rests[39], homes.len()), (64, 1));
        homes.note_written(7);
        assert!(homes.is_empty() && !homes.is_suspect(7));
        homes.note_failed(8, true, now);
        homes.review(|_| false);
        assert!(homes.is_empty() && homes.due_at().is_none());
    }

    #[test]
    fn what_failed_beside_others_is_tried_alone_at_once() {
        let mut homes = FailedHomes::default();
        homes.note_failed(7, false, Nanos::ZERO);
        assert!(homes.is_suspect(7) && !homes.rests(7, Nanos::ZERO));
        assert!(homes.any_suspect(5..8) && !homes.any_suspect(8..100));
        assert_eq!(homes.len(), 0, "it was not bad for certain");
    }

    #[test]
    fn what_found_no_space_rests_equally_long_each_time_and_is_no_bad_home() {
        let mut homes = FailedHomes::default();
        for second in 0..10 {
            homes.note_short_of_space(7, Nanos::from_secs(second));
            assert!(homes.rests(7, Nanos(Nanos::from_secs(second + 1).0 - 1)));
            assert!(!homes.rests(7, Nanos::from_secs(second + 1)));
        }
        assert_eq!(homes.len(), 0);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let mut homes = FailedHomes::default();
        for block in 0..2 * BLOCKS_MAX as u64 {
            homes.note_failed(block, true, Nanos::ZERO);
        }
        assert_eq!(homes.len(), BLOCKS_MAX);
        assert!(!homes.rests(2 * BLOCKS_MAX as u64 - 1, Nanos::ZERO), "tried like any other");
    }
}
