//! The rows of a leaf of any content: sorted by home sector, in three parallel arrays of fixed size.
//!
//! Keys lie together so that a search touches few cache lines, and unused keys hold [`UNUSED`],
//! which sorts after every real one, so that a search may count over the whole array without a
//! branch. Rows never overlap, and all rows of one 4 KiB home block are in one leaf. A leaf does not
//! know its base; the index does.

use super::leaf::Columns;
use super::row::{Row, len_of, unfold};
use nearhead_format::{BLOCK_SECTORS, Entry};
use std::ops::Range;

/// Rows of a leaf. 126 rows are 2 KiB: small enough to shift on an insert, large enough that the
/// index above costs well under a byte per row. Tests use small leaves to meet every split.
#[cfg(not(test))]
pub(super) const CAPACITY: usize = 126;
#[cfg(test)]
pub(super) const CAPACITY: usize = 24;

/// Sectors after its base that a leaf can describe; a multiple of the home block, and below
/// [`UNUSED`].
pub(super) const REACH_SECTORS: u64 = u32::MAX as u64 + 1 - BLOCK_SECTORS;

const UNUSED: u32 = u32::MAX;
/// Keys in 64 bytes, the cache line of every processor this is likely to run on.
const KEYS_PER_LINE: usize = 16;

/// Sorted rows.
pub(super) struct Rows {
    len: u16,
    keys: [u32; CAPACITY],
    crcs: [u32; CAPACITY],
    words: [u64; CAPACITY],
}

impl Rows {
    pub(super) fn boxed() -> Box<Self> {
        Box::new(Self {
            len: 0,
            keys: [UNUSED; CAPACITY],
            crcs: [0; CAPACITY],
            words: [0; CAPACITY],
        })
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The entry in row `index` of a leaf that starts at sector `base`.
    #[inline]
    pub(super) fn entry(&self, index: usize, base: u64) -> Entry {
        unfold(base + u64::from(self.keys[index]), self.words[index], self.crcs[index])
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        let row = |at| Row { key: self.keys[at], word: self.words[at], crc: self.crcs[at] };
        (0..self.len()).map(row)
    }

    /// The row that starts at exactly `distance` sectors after the base.
    #[inline]
    pub(super) fn find(&self, distance: u64) -> Option<usize> {
        let at = self.count_below(distance);
        (at < self.len() && u64::from(self.keys[at]) == distance).then_some(at)
    }

    /// Reads one key of each cache line of them and says something that depends on all.
    #[inline]
    pub(super) fn touch(&self) -> u32 {
        self.keys.iter().step_by(KEYS_PER_LINE).fold(0, |sum, key| sum ^ key)
    }

    /// The first row that ends after `from` (sectors after the base).
    #[inline]
    pub(super) fn first_ending_after(&self, from: u64) -> usize {
        let at = self.count_below(from);
        match at.checked_sub(1) {
            Some(before) if self.end(before) > from => before,
            _ => at,
        }
    }

    /// The rows that overlap `from..to` (sectors after the base).
    #[inline]
    pub(super) fn overlapping(&self, from: u64, to: u64) -> Range<usize> {
        let first = self.first_ending_after(from);
        let mut last = first;
        if to - from > BLOCK_SECTORS {
            last = self.count_below(to).max(first);
        } else {
            while last < self.len() && u64::from(self.keys[last]) < to {
                last += 1;
            }
        }
        first..last
    }

    /// Puts `rows` in the place of the rows `gone`. There must be room, and order must stay.
    #[inline]
    pub(super) fn splice(&mut self, gone: Range<usize>, rows: &[Row]) {
        let old_len = self.len();
        let new_len = old_len - gone.len() + rows.len();
        if new_len != old_len {
            let target = gone.start + rows.len();
            self.keys.copy_within(gone.end..old_len, target);
            self.crcs.copy_within(gone.end..old_len, target);
            self.words.copy_within(gone.end..old_len, target);
            if new_len < old_len {
                self.keys[new_len..old_len].fill(UNUSED);
            }
            self.len = new_len as u16;
        }
        for (index, row) in (gone.start..).zip(rows) {
            self.overwrite(index, row);
        }
    }

    /// Puts `row` in the place of row `index`.
    #[inline]
    pub(super) fn overwrite(&mut self, index: usize, row: &Row) {
        self.keys[index] = row.key;
        self.crcs[index] = row.crc;
        self.words[index] = row.word;
    }

    /// Appends all rows to `target` and forgets them.
    pub(super) fn drain_into(&mut self, base: u64, target: &mut Columns) {
        let len = self.len();
        target.homes.extend(self.keys[..len].iter().map(|key| base + u64::from(*key)));
        target.crcs.extend_from_slice(&self.crcs[..len]);
        target.words.extend_from_slice(&self.words[..len]);
        self.keys[..len].fill(UNUSED);
        self.len = 0;
    }

    /// Fills this empty leaf with the rows `range` of `source`.
    pub(super) fn fill_from(&mut self, base: u64, source: &Columns, range: Range<usize>) {
        debug_assert_eq!(self.len, 0, "only an empty leaf is filled");
        let len = range.len();
        for (key, home) in self.keys.iter_mut().zip(&source.homes[range.clone()]) {
            *key = (home - base) as u32;
        }
        self.crcs[..len].copy_from_slice(&source.crcs[range.clone()]);
        self.words[..len].copy_from_slice(&source.words[range]);
        self.len = len as u16;
    }

    #[inline]
    fn end(&self, index: usize) -> u64 {
        u64::from(self.keys[index]) + len_of(self.words[index])
    }

    /// How many keys are below `distance`: a branchless count, which the compiler vectorizes and
    /// whose cache lines the processor fetches side by side, unlike those of a binary search.
    #[inline]
    fn count_below(&self, distance: u64) -> usize {
        let distance = distance.min(u64::from(UNUSED)) as u32;
        self.keys.iter().map(|key| u32::from(*key < distance)).sum::<u32>() as usize
    }
}
