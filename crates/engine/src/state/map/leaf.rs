//! A leaf of the map: what a stretch of the address space holds, as rows or packed.
//!
//! Rows take any content. A leaf of which every block is whole and in a log is packed into half of what rows take
//! ([`super::packed`]), and unpacked as soon as something comes that does not fit there. Whoever looks at a leaf sees rows either way. A
//! leaf does not know its base; the index does.

use super::packed::Packed;
use super::row::{Row, fold};
use super::rows::Rows;
pub(super) use super::rows::{CAPACITY, REACH_SECTORS};
use nearhead_format::Entry;
use std::ops::Range;

/// Entries of a stretch of the address space, in order.
pub(super) enum Leaf {
    /// Of any kind.
    Rows(Box<Rows>),
    /// Whole logged blocks, one behind the other.
    Packed(Packed),
}

impl Leaf {
    pub(super) fn new() -> Self {
        Self::Rows(Rows::boxed())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// The entry in row `index` of a leaf that starts at sector `base`.
    #[inline]
    pub(super) fn entry(&self, index: usize, base: u64) -> Entry {
        match self {
            Self::Rows(rows) => rows.entry(index, base),
            Self::Packed(packed) => packed.entry(index, base),
        }
    }

    /// The row that `entry` becomes in a leaf that starts at sector `base`.
    #[inline]
    pub(super) fn row(entry: &Entry, base: u64) -> Row {
        let distance = entry.home_sector - base;
        debug_assert!(distance < REACH_SECTORS, "{entry:?} is out of reach of base {base}");
        Row { key: distance as u32, word: fold(entry), crc: entry.crc }
    }

    /// The row that starts at exactly `distance` sectors after the base.
    #[inline]
    pub(super) fn find(&self, distance: u64) -> Option<usize> {
        match self {
            Self::Rows(rows) => rows.find(distance),
            Self::Packed(packed) => packed.find(distance),
        }
    }

    /// Reads something of each cache line that a search looks at and says something that depends on all.
    #[inline]
    pub(super) fn touch(&self) -> u32 {
        match self {
            Self::Rows(rows) => rows.touch(),
            Self::Packed(packed) => packed.touch(),
        }
    }

    /// The first row that ends after `from` (sectors after the base).
    #[inline]
    pub(super) fn first_ending_after(&self, from: u64) -> usize {
        match self {
            Self::Rows(rows) => rows.first_ending_after(from),
            Self::Packed(packed) => packed.overlapping(from, u64::MAX).start,
        }
    }

    /// The rows that overlap `from..to` (sectors after the base).
    #[inline]
    pub(super) fn overlapping(&self, from: u64, to: u64) -> Range<usize> {
        match self {
            Self::Rows(rows) => rows.overlapping(from, to),
            Self::Packed(packed) => packed.overlapping(from, to),
        }
    }

    /// Puts `row` in the place of row `index`, which begins where it does, if that is possible as the leaf is.
    #[inline]
    pub(super) fn overwrite(&mut self, index: usize, row: &Row) -> bool {
        match self {
            Self::Rows(rows) => rows.overwrite(index, row),
            Self::Packed(packed) => return packed.overwrite(index, row),
        }
        true
    }

    /// Whether rows `gone` can be replaced by `rows` as the leaf is; else it is to be unpacked before.
    #[inline]
    pub(super) fn takes(&self, gone: &Range<usize>, rows: &[Row]) -> bool {
        match self {
            Self::Rows(_) => true,
            Self::Packed(_) => Packed::takes(gone, rows),
        }
    }

    /// Puts `rows` in the place of the rows `gone`, which it takes. There must be room, and order must stay.
    #[inline]
    pub(super) fn splice(&mut self, gone: Range<usize>, rows: &[Row]) {
        match (self, rows) {
            (Self::Rows(leaf), _) => leaf.splice(gone, rows),
            (Self::Packed(packed), rows) => {
                for (index, row) in (gone.start..).zip(rows) {
                    packed.overwrite(index, row);
                }
            }
        }
    }

    /// Packs it, if all of it is whole logged blocks without a gap; says whether it is packed now.
    pub(super) fn pack(&mut self) -> bool {
        if let Self::Rows(rows) = self
            && let Some(packed) = Packed::of(rows)
        {
            *self = Self::Packed(packed);
        }
        self.is_packed()
    }

    /// Has rows from now on.
    pub(super) fn unpack(&mut self) {
        if let Self::Packed(packed) = self {
            *self = Self::Rows(packed.unpacked());
        }
    }

    /// Appends all rows to `target` and forgets them.
    pub(super) fn drain_into(&mut self, base: u64, target: &mut Columns) {
        self.unpack();
        if let Self::Rows(rows) = self {
            rows.drain_into(base, target);
        }
    }

    /// Fills this empty leaf with the rows `range` of `source`.
    pub(super) fn fill_from(&mut self, base: u64, source: &Columns, range: Range<usize>) {
        self.unpack();
        if let Self::Rows(rows) = self {
            rows.fill_from(base, source, range);
        }
    }

    /// Bytes of heap it holds.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Rows(_) => size_of::<Rows>(),
            Self::Packed(packed) => packed.memory_bytes(),
        }
    }
}

/// Rows of several leaves while they are spread anew.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) homes: Vec<u64>,
    pub(super) crcs: Vec<u32>,
    pub(super) words: Vec<u64>,
}

impl Columns {
    pub(super) fn clear(&mut self) {
        self.homes.clear();
        self.crcs.clear();
        self.words.clear();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.homes.capacity() * 8 + self.crcs.capacity() * 4 + self.words.capacity() * 8
    }
}
