//! The blocks of a log in which records may begin anywhere: which of them cannot be written over now.
//!
//! A block is taken while a chunk lies in it of which any sector counts (what is read is verified as a whole), and while a record
//! stands there that is newer than the last committed snapshot, dead or alive, because it may carry invalidations and claims. All
//! else is free, in whatever order it was written: recovery reads such a log whole.
//!
//! The last blocks are kept for records that carry no data, so that an invalidation finds a place in every log.

use super::Need;
use super::bad_places::BadPlaces;
use std::ops::Range;

const WORD_BITS: u32 = u64::BITS;

/// One bit for each block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits(Box<[u64]>);

impl Bits {
    fn new(blocks: u32) -> Self {
        Self(vec![0; blocks.div_ceil(WORD_BITS) as usize].into())
    }

    fn set(&mut self, blocks: Range<u32>) {
        for block in blocks {
            self.0[(block / WORD_BITS) as usize] |= 1 << (block % WORD_BITS);
        }
    }

    fn clear(&mut self, block: u32) {
        self.0[(block / WORD_BITS) as usize] &= !(1 << (block % WORD_BITS));
    }

    fn clear_all(&mut self) {
        self.0.fill(0);
    }

    fn any(&self) -> bool {
        self.0.iter().any(|word| *word != 0)
    }

    fn runs(&self, blocks: u32) -> Vec<(u32, u32)> {
        let has = |block: u32| self.0[(block / WORD_BITS) as usize] >> (block % WORD_BITS) & 1 == 1;
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for block in (0..blocks).filter(|block| has(*block)) {
            match runs.last_mut() {
                Some((_, end)) if *end == block => *end += 1,
                _ => runs.push((block, block + 1)),
            }
        }
        runs
    }
}

/// What of one log is taken.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    blocks: u32,
    /// Sectors that count of all chunks that lie in a block.
    counting: Box<[u16]>,
    live: Bits,
    /// Records since the last committed snapshot.
    protected: Bits,
    /// Records since the snapshot now being written began.
    next_protected: Bits,
    /// Places that did not take a record since the last committed snapshot, and may hold it all the same.
    twins: Bits,
    /// Those since the snapshot now being written began.
    next_twins: Bits,
}

impl Scatter {
    pub(super) fn new(blocks: u32) -> Self {
        Self {
            blocks,
            counting: vec![0; blocks as usize].into(),
            live: Bits::new(blocks),
            protected: Bits::new(blocks),
            next_protected: Bits::new(blocks),
            twins: Bits::new(blocks),
            next_twins: Bits::new(blocks),
        }
    }

    /// `sectors` more count of a chunk that lies in these blocks.
    pub(super) fn add_live(&mut self, chunk: Range<u32>, sectors: u32) {
        for block in chunk.start..chunk.end.min(self.blocks) {
            let counting = &mut self.counting[block as usize];
            *counting = counting.saturating_add(sectors as u16);
        }
        self.live.set(chunk.start..chunk.end.min(self.blocks));
    }

    /// They count no longer.
    pub(super) fn drop_live(&mut self, chunk: Range<u32>, sectors: u32) {
        for block in chunk.start..chunk.end.min(self.blocks) {
            let counting = &mut self.counting[block as usize];
            debug_assert!(u32::from(*counting) >= sectors, "more sectors dropped than counted");
            *counting = counting.saturating_sub(sectors as u16);
            if *counting == 0 {
                self.live.clear(block);
            }
        }
    }

    pub(super) fn advance(&mut self, record: Range<u32>) {
        self.protected.set(record.start..record.end.min(self.blocks));
        self.next_protected.set(record.start..record.end.min(self.blocks));
    }

    /// A record could not be written here. It stands elsewhere then, so this place may be written over; but until then a recovery
    /// may find it here, too, whole.
    pub(super) fn note_twin(&mut self, record: Range<u32>) {
        self.twins.set(record.start..record.end.min(self.blocks));
        self.next_twins.set(record.start..record.end.min(self.blocks));
    }

    pub(super) fn snapshot_begins(&mut self) {
        self.next_protected.clear_all();
        self.next_twins.clear_all();
    }

    pub(super) fn snapshot_committed(&mut self) {
        self.protected.clone_from(&self.next_protected);
        self.twins.clone_from(&self.next_twins);
    }

    pub(super) fn snapshot_failed(&mut self) {
        self.next_protected.clone_from(&self.protected);
        self.next_twins.clone_from(&self.twins);
    }

    pub(super) fn protects_any(&self) -> bool {
        self.protected.any()
    }

    pub(super) fn protected(&self) -> Vec<(u32, u32)> {
        self.protected.runs(self.blocks)
    }

    fn taken_word(&self, word: usize) -> u64 {
        self.live.0[word] | self.protected.0[word] | self.next_protected.0[word]
    }

    /// Blocks that cannot be written now.
    pub(super) fn used_blocks(&self) -> u32 {
        (0..self.live.0.len()).map(|word| self.taken_word(word).count_ones()).sum()
    }

    /// Those that can, and where no recovery would find anything.
    pub(super) fn free(&self) -> Vec<(u32, u32)> {
        let words =
            (0..self.live.0.len()).map(|word| !(self.taken_word(word) | self.twins.0[word]));
        Bits(words.collect()).runs(self.blocks)
    }

    /// The first block from `from` on that is taken, or the end of the log.
    fn next_taken(&self, from: u32) -> u32 {
        self.next(from, |word| self.taken_word(word))
    }

    fn next_free(&self, from: u32) -> u32 {
        self.next(from, |word| !self.taken_word(word))
    }

    fn next(&self, from: u32, word: impl Fn(usize) -> u64) -> u32 {
        let mut at = from;
        while at < self.blocks {
            let ahead = word((at / WORD_BITS) as usize) >> (at % WORD_BITS);
            if ahead != 0 {
                return (at + ahead.trailing_zeros()).min(self.blocks);
            }
            at = (at / WORD_BITS + 1) * WORD_BITS;
        }
        self.blocks
    }

    /// Where what needs so much room must end.
    fn end_for(&self, need: Need) -> u32 {
        self.blocks.saturating_sub(need.reserve)
    }

    /// Whether a record can go to this block.
    pub(super) fn accepts(&self, block: u32, need: Need, bad: &BadPlaces) -> bool {
        let end = u64::from(block) + u64::from(need.blocks);
        end <= u64::from(self.end_for(need))
            && u64::from(self.next_taken(block)) >= end
            && bad.end_of_one_in(block, need.blocks).is_none()
    }

    /// The first block from `from` on where a record can go, without going round.
    pub(super) fn place_from(&self, from: u32, need: Need, bad: &BadPlaces) -> Option<u32> {
        let end = self.end_for(need);
        let mut at = self.next_free(from);
        while u64::from(at) + u64::from(need.blocks) <= u64::from(end) {
            let taken = self.next_taken(at);
            if taken - at < need.blocks {
                at = self.next_free(taken);
                continue;
            }
            match bad.end_of_one_in(at, need.blocks) {
                None => return Some(at),
                Some(behind) => at = self.next_free(behind.max(at + 1)),
            }
        }
        None
    }

    /// Compares with `expected`, the sectors that count of chunks in each block.
    pub(super) fn check(&self, expected: &[u16]) -> Result<(), String> {
        let differs = (0..self.blocks as usize).find(|block| {
            let counting = expected.get(*block).copied().unwrap_or(0);
            let is_live = self.live.0[block / 64] >> (block % 64) & 1 == 1;
            self.counting[*block] != counting || is_live != (counting > 0)
        });
        let Some(block) = differs else { return Ok(()) };
        let counting = expected.get(block).copied().unwrap_or(0);
        let found = self.counting[block];
        Err(format!("expected {counting} sectors that count in block {block}, counted {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Need = Need { blocks: 0, reserve: 0 };

    fn need(blocks: u32) -> Need {
        Need { blocks, ..NONE }
    }

    fn places(scatter: &Scatter, blocks: u32) -> Vec<u32> {
        let bad = BadPlaces::default();
        (0..scatter.blocks).filter(|block| scatter.accepts(*block, need(blocks), &bad)).collect()
    }

    #[test]
    fn a_block_is_free_once_nothing_in_it_counts_and_a_snapshot_has_passed_its_record() {
        let mut scatter = Scatter::new(100);
        scatter.advance(10..20);
        scatter.add_live(11..13, 12);
        scatter.add_live(12..14, 8);
        assert_eq!((scatter.used_blocks(), scatter.protected()), (10, vec![(10, 20)]));
        scatter.snapshot_begins();
        scatter.advance(50..51);
        assert_eq!(scatter.used_blocks(), 11, "not before it is committed");
        scatter.snapshot_committed();
        assert_eq!((scatter.used_blocks(), scatter.protected()), (4, vec![(50, 51)]));
        scatter.drop_live(11..13, 4);
        assert_eq!(scatter.free(), [(0, 11), (14, 50), (51, 100)], "a part of it counts");
        scatter.drop_live(11..13, 8);
        assert_eq!(scatter.free(), [(0, 12), (14, 50), (51, 100)], "another lies in block 12");
        scatter.drop_live(12..14, 8);
        assert_eq!(scatter.free(), [(0, 50), (51, 100)]);
    }

    #[test]
    fn a_snapshot_that_failed_lets_go_of_nothing() {
        let mut scatter = Scatter::new(70);
        scatter.advance(0..2);
        scatter.snapshot_begins();
        scatter.advance(64..66);
        scatter.snapshot_failed();
        scatter.snapshot_begins();
        scatter.snapshot_failed();
        scatter.snapshot_committed();
        assert_eq!(scatter.protected(), [(0, 2), (64, 66)]);
    }

    #[test]
    fn a_record_goes_to_any_row_of_free_blocks_that_is_long_enough() {
        let mut scatter = Scatter::new(130);
        for taken in [2..3, 6..63, 66..128] {
            scatter.advance(taken);
        }
        assert_eq!(places(&scatter, 2), [0, 3, 4, 63, 64, 128]);
        assert_eq!(places(&scatter, 3), [3, 63]);
        assert_eq!(places(&scatter, 4), [0; 0]);
        let bad = BadPlaces::default();
        let from = |from, blocks| scatter.place_from(from, need(blocks), &bad);
        assert_eq!([from(0, 3), from(4, 3), from(64, 3)], [Some(3), Some(63), None]);
        assert_eq!([from(64, 2), from(65, 1), from(129, 2)], [Some(64), Some(65), None]);
    }

    #[test]
    fn what_carries_data_leaves_the_last_blocks_to_what_carries_none() {
        let scatter = Scatter::new(40);
        let bad = BadPlaces::default();
        let data = Need { blocks: 4, reserve: 16 };
        assert!(scatter.accepts(20, data, &bad) && !scatter.accepts(21, data, &bad));
        assert_eq!(scatter.place_from(21, data, &bad), None);
        assert_eq!(scatter.place_from(21, need(16), &bad), Some(21));
        assert!(!scatter.accepts(u32::MAX, need(2), &bad));
    }
}
