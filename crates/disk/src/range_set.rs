//! A set of numbers kept as sorted, disjoint, half-open ranges.
//!
//! What stays true: ranges are not empty, do not overlap and do not touch (neighbours are one
//! range), and the total length is kept, not counted. The unit (sectors, bytes, log blocks) is the
//! caller's, and so is the bound: [`RangeSet::len`] is what memory is used for.

use std::collections::BTreeMap;
use std::ops::Range;

/// Sorted, disjoint ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// End of each range by its start.
    ends: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many numbers are in the set.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds `range`; ranges it overlaps or touches become one with it. Returns how many numbers were
    /// new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end, mut absorbed) = (range.start, range.end, 0);
        // From the last range that starts in reach backwards: all that touch are one run.
        while let Some((&other_start, &other_end)) = self.ends.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.ends.remove(&other_start);
            absorbed += other_end - other_start;
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.ends.insert(start, end);
        let added = end - start - absorbed;
        self.total += added;
        added
    }

    /// Takes `range` out. Returns how many numbers left.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut removed = 0;
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.ends.remove(&start);
            removed += end.min(range.end) - start.max(range.start);
            if end > range.end {
                self.ends.insert(range.end, end);
            }
            if start < range.start {
                self.ends.insert(start, range.start);
                break;
            }
        }
        self.total -= removed;
        removed
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.total = 0;
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.ends.range(..=number).next_back().is_some_and(|(_, end)| *end > number)
    }

    /// Whether every number of `range` is in the set; true of an empty range.
    pub fn contains_range(&self, range: Range<u64>) -> bool {
        range.is_empty()
            || self.ends.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Whether any number of `range` is in the set.
    pub fn overlaps(&self, range: Range<u64>) -> bool {
        !range.is_empty()
            && self.ends.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// The parts of `range` that are in the set, ascending.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ends.range(..range.start).next_back();
        let from = before.filter(|(_, end)| **end > range.start);
        // No numbers, so that no bound is before the other.
        let inside = self.ends.range(range.start..range.end.max(range.start));
        let (start, end) = (range.start, range.end);
        from.into_iter()
            .chain(inside)
            .map(move |(first, behind)| (*first).max(start)..(*behind).min(end))
            .filter(|part| !part.is_empty())
    }

    /// Takes the first range out.
    pub fn pop_first(&mut self) -> Option<Range<u64>> {
        let (start, end) = self.ends.pop_first()?;
        self.total -= end - start;
        Some(start..end)
    }
}

impl Extend<Range<u64>> for RangeSet {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The maximal runs of consecutive numbers, which is what the ranges must be.
    fn runs(numbers: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        runs
    }

    fn range() -> impl Strategy<Value = Range<u64>> {
        (0..80_u64, 0..16_u64).prop_map(|(start, len)| start..start + len)
    }

    proptest! {
        #[test]
        fn the_set_agrees_with_a_set_of_numbers(
            steps in prop::collection::vec((0..9_u8, range()), 1..80)
        ) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for (kind, range) in steps {
                match kind {
                    0..=3 => {
                        let added = range.clone().filter(|at| model.insert(*at)).count() as u64;
                        prop_assert_eq!(set.insert(range.clone()), added);
                    }
                    4..=7 => {
                        let removed = range.clone().filter(|at| model.remove(at)).count() as u64;
                        prop_assert_eq!(set.remove(range.clone()), removed);
                    }
                    _ => {
                        let first = runs(model.iter().copied()).first().cloned();
                        first.clone().into_iter().flatten().for_each(|at| { model.remove(&at); });
                        prop_assert_eq!(set.pop_first(), first);
                    }
                }
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), runs(model.iter().copied()));
                prop_assert_eq!(set.total(), model.len() as u64);
                prop_assert_eq!(set.overlaps(range.clone()), model.range(range.clone()).count() > 0);
                let all = range.clone().all(|at| model.contains(&at));
                prop_assert_eq!(set.contains_range(range.clone()), all);
                prop_assert_eq!(set.contains(range.start), model.contains(&range.start));
                let within: Vec<_> = set.within(range.clone()).collect();
                prop_assert_eq!(within, runs(model.range(range.clone()).copied()));
            }
        }
    }

    #[test]
    fn the_ends_of_the_number_line_are_ordinary() {
        let mut set = RangeSet::from_iter([0..1, u64::MAX - 1..u64::MAX]);
        assert_eq!(set.insert(1..u64::MAX - 1), u64::MAX - 2);
        assert_eq!((set.len(), set.total()), (1, u64::MAX));
        assert_eq!(set.remove(0..u64::MAX), u64::MAX);
        assert!(set.is_empty());
    }
}
