//! A set of block numbers as ranges that neither touch nor overlap.
//!
//! For blocks that are free on disk and yet not to be allocated. Its size follows the number of ranges, not of blocks.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
    blocks: u64,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Blocks in it.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// Adds what is not in it yet.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // What touches or overlaps starts at or before `end`.
        while let Some((&known, &known_end)) = self.ranges.range(..=end).next_back() {
            if known_end < start {
                break;
            }
            self.ranges.remove(&known);
            self.blocks -= known_end - known;
            (start, end) = (start.min(known), end.max(known_end));
        }
        self.blocks += end - start;
        self.ranges.insert(start, end);
    }

    /// Takes away what is in it.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        while let Some((&known, &known_end)) = self.ranges.range(..range.end).next_back() {
            if known_end <= range.start || range.is_empty() {
                break;
            }
            self.ranges.remove(&known);
            self.blocks -= known_end - known;
            for rest in [known..range.start, range.end..known_end] {
                if !rest.is_empty() {
                    self.blocks += rest.end - rest.start;
                    self.ranges.insert(rest.start, rest.end);
                }
            }
        }
    }

    /// The first part of it that overlaps `range`.
    pub(crate) fn first_overlap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let before = self.ranges.range(..=range.start).next_back();
        let after = self.ranges.range(range.start..).next();
        let overlaps = |(start, end): (&u64, &u64)| {
            let part = range.start.max(*start)..range.end.min(*end);
            (part.start < part.end).then_some(part)
        };
        before.and_then(overlaps).or_else(|| after.and_then(overlaps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_are_the_set_of_their_numbers() {
        let mut random = SplitMix::new(5);
        let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
        for _ in 0..5000 {
            let start = random.below(200);
            let range = start..start + random.below(20);
            if random.coin() {
                ranges.insert(range.clone());
                set.extend(range);
            } else {
                ranges.remove(&range);
                range.for_each(|number| {
                    set.remove(&number);
                });
            }
            let all: Vec<u64> = ranges.iter().flatten().collect();
            assert_eq!(all, set.iter().copied().collect::<Vec<_>>());
            assert_eq!(ranges.blocks(), set.len() as u64);
            let asked = random.below(200)..random.below(220);
            let first = ranges.first_overlap(&asked);
            let expected = asked.clone().find(|number| set.contains(number));
            assert_eq!(first.map(|part| part.start), expected, "{asked:?}");
        }
        let bounds: Vec<Range<u64>> = ranges.iter().collect();
        assert!(bounds.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}
