//! A bit for each region, in the order of the blank map's units.
//!
//! Ranges are clipped by whoever asks; past the last bit everything is clear.

use std::ops::Range;

/// Bits by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// These words; bits from `count` on are cleared.
    pub(super) fn new(mut words: Vec<u64>, count: u64) -> Self {
        let whole = (count / 64) as usize;
        if let Some(last) = words.get_mut(whole) {
            *last &= (1 << (count % 64)) - 1;
        }
        words.iter_mut().skip(whole + 1).for_each(|word| *word = 0);
        Self { words }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Each word that `range` touches, and which of its bits.
    fn masks(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
        let end = range.end.max(range.start);
        (range.start / 64..end.div_ceil(64)).map(move |word| {
            let from = range.start.saturating_sub(word * 64);
            let to = (end - word * 64).min(64);
            let up_to = |bits: u64| if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            (word as usize, up_to(to) & !up_to(from))
        })
    }

    pub(super) fn set(&mut self, range: Range<u64>) {
        for (word, mask) in Self::masks(range) {
            if let Some(word) = self.words.get_mut(word) {
                *word |= mask;
            }
        }
    }

    pub(super) fn clear(&mut self, range: Range<u64>) {
        for (word, mask) in Self::masks(range) {
            if let Some(word) = self.words.get_mut(word) {
                *word &= !mask;
            }
        }
    }

    /// Whether any bit of the range is set.
    pub(super) fn any(&self, range: Range<u64>) -> bool {
        Self::masks(range).any(|(word, mask)| self.words.get(word).is_some_and(|w| w & mask != 0))
    }

    pub(super) fn get(&self, index: u64) -> bool {
        self.words.get((index / 64) as usize).is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    /// Where the run of equal bits that begins at `index` ends, at most at `end`.
    pub(super) fn run_end(&self, index: u64, end: u64) -> u64 {
        let is_set = self.get(index);
        let mut at = index;
        while at < end {
            let word = self.words.get((at / 64) as usize).copied().unwrap_or(0);
            // Bits that differ are ones, those before `at` left out.
            let differs = (if is_set { !word } else { word }) >> (at % 64);
            if differs != 0 {
                return (at + u64::from(differs.trailing_zeros())).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_agree_with_a_list_of_booleans(
            steps in prop::collection::vec((any::<bool>(), 0..200_u64, 0..140_u64), 1..40),
            count in 0..256_u64,
        ) {
            let mut bits = Bits::new(vec![u64::MAX; 4], count);
            let mut model: Vec<bool> = (0..256).map(|at| at < count).collect();
            for (set, start, len) in steps {
                let (range, end) = (start..start + len, (start + len).min(256));
                let part = start.min(256) as usize..end.max(start.min(256)) as usize;
                prop_assert_eq!(bits.any(range.clone()), model[part.clone()].contains(&true));
                if set { bits.set(range.clone()) } else { bits.clear(range) }
                model[part].fill(set);
                for (at, expected) in model.iter().enumerate() {
                    prop_assert_eq!(bits.get(at as u64), *expected);
                }
                let run = model[start as usize..].iter().take_while(|b| **b == model[start as usize]);
                prop_assert_eq!(bits.run_end(start, 256), start + run.count() as u64);
            }
        }
    }
}
