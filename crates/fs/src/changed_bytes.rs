//! Which bytes of a block may differ from what the volume has of it.
//!
//! A bounded number of ranges: neighbours that are nearer than what it costs to name another range are one, and where there would be too
//! many, those nearest to each other. So it may say too much, and never too little.

use nearhead_ext4::BLOCK_BYTES;
use std::ops::Range;

/// What naming a range costs in a record: bytes between two ranges that are not more are cheaper as a part of them.
const RANGE_COST_BYTES: usize = 12;
/// Ranges of one block, at most.
const RANGES_MAX: usize = 16;

/// Bytes of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedBytes {
    /// In order, and apart from each other.
    ranges: Vec<Range<usize>>,
}

impl ChangedBytes {
    /// All of them.
    pub(crate) fn all() -> Self {
        let whole = 0..BLOCK_BYTES;
        Self { ranges: Vec::from([whole]) }
    }

    /// Those in which two contents of a block differ.
    pub(crate) fn between(before: &[u8; BLOCK_BYTES], now: &[u8; BLOCK_BYTES]) -> Self {
        const WORD: usize = 8;
        let mut changed = Self::default();
        for (at, (one, other)) in before.chunks(WORD).zip(now.chunks(WORD)).enumerate() {
            if one == other {
                continue;
            }
            for inside in (0..WORD).filter(|inside| one[*inside] != other[*inside]) {
                let byte = at * WORD + inside;
                match changed.ranges.last_mut() {
                    Some(last) if byte - last.end <= RANGE_COST_BYTES => last.end = byte + 1,
                    _ => changed.ranges.push(byte..byte + 1),
                }
            }
        }
        changed.bound();
        changed
    }

    pub(crate) fn is_all(&self) -> bool {
        self.ranges.first().is_some_and(|first| first.start == 0 && first.end == BLOCK_BYTES)
    }

    /// These as well.
    pub(crate) fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let at = self.ranges.partition_point(|known| known.start <= range.start);
        self.ranges.insert(at, range);
        self.join(RANGE_COST_BYTES);
        self.bound();
    }

    pub(crate) fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// Ranges that are no further apart become one.
    fn join(&mut self, apart: usize) {
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end + apart => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.ranges = joined;
    }

    fn bound(&mut self) {
        let mut apart = RANGE_COST_BYTES;
        while self.ranges.len() > RANGES_MAX {
            apart *= 2;
            self.join(apart);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::Random;

    #[test]
    fn every_byte_that_differs_is_in_one_of_few_ranges_that_are_apart() {
        let mut random = Random::new(3);
        for round in 0..400 {
            let before = [7; BLOCK_BYTES];
            let mut now = before;
            let mut told = ChangedBytes::default();
            for _ in 0..random.below(40) {
                let start = random.below(BLOCK_BYTES as u64) as usize;
                let end = (start + random.below(if round % 2 == 0 { 30 } else { 900 }) as usize)
                    .min(BLOCK_BYTES);
                now[start..end].fill(9);
                told.insert(start..end);
            }
            for changed in [&told, &ChangedBytes::between(&before, &now)] {
                let is_told = |byte| changed.ranges().iter().any(|range| range.contains(&byte));
                let missing = (0..BLOCK_BYTES).find(|byte| now[*byte] == 9 && !is_told(*byte));
                assert_eq!(missing, None, "{changed:?}");
                assert!(changed.ranges().len() <= RANGES_MAX);
                let apart = |pair: &[Range<usize>]| pair[0].end + RANGE_COST_BYTES < pair[1].start;
                assert!(changed.ranges().windows(2).all(apart), "{changed:?}");
            }
        }
    }

    #[test]
    fn single_bytes_far_apart_are_named_alone_and_near_ones_together() {
        let before = [0; BLOCK_BYTES];
        let mut now = before;
        for byte in [0, 13, 1000, 4095] {
            now[byte] = 1;
        }
        let changed = ChangedBytes::between(&before, &now);
        assert_eq!(changed.ranges(), [0..14, 1000..1001, 4095..4096]);
        assert!(!changed.is_all() && ChangedBytes::all().is_all());
    }
}
