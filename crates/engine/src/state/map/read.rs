//! Reading the map: what a range holds, whether it holds anything, and everything in order.

use super::Map;
use super::row::cut;
use super::tree::At;
use nearhead_format::{Entry, SECTORS_MAX};

/// A part of a range that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The newest copy is where the entry says; the entry is cut to the range.
    Mapped(Entry),
    /// Nothing is logged: the newest copy is at home.
    Home {
        /// First sector.
        start_sector: u64,
        /// Number of sectors, at least 1.
        len_sectors: u64,
    },
}

impl Map {
    /// Says where the newest copy of each of `len_sectors` sectors from `start_sector` on is:
    /// `visit` gets segments in ascending order that cover the range exactly.
    #[inline]
    pub fn lookup(&self, start_sector: u64, len_sectors: u64, visit: &mut impl FnMut(Segment)) {
        let end = start_sector.saturating_add(len_sectors);
        let mut cursor = start_sector;
        let mut at = (cursor < end).then(|| self.tree.locate(cursor));
        while let Some(here) = at {
            let base = self.tree.base(here);
            if base >= end {
                break;
            }
            let leaf = self.tree.leaf(here);
            for index in leaf.overlapping(cursor.max(base) - base, end - base) {
                let entry = cut(&leaf.entry(index, base), cursor, end);
                home(cursor, entry.home_sector, visit);
                cursor = entry.end_sector();
                visit(Segment::Mapped(entry));
            }
            at = self.tree.next(here);
        }
        home(cursor, end, visit);
    }

    /// Brings what an insert or lookup at each of `sectors` needs into the processor's cache. The
    /// misses of one after another would be waited for in turn; here nothing depends on anything.
    pub fn warm(&self, sectors: impl Iterator<Item = u64>) {
        let touch = |sum, sector| sum ^ self.tree.leaf(self.tree.locate(sector)).touch();
        std::hint::black_box(sectors.fold(0, touch));
    }

    /// Whether anything is logged in `len_sectors` sectors from `start_sector` on.
    #[inline]
    pub fn overlaps(&self, start_sector: u64, len_sectors: u64) -> bool {
        let end = start_sector.saturating_add(len_sectors);
        start_sector < end
            && !self.is_empty()
            && self.iter_from(start_sector).next().is_some_and(|entry| entry.home_sector < end)
    }

    /// Whether the map says exactly this: nothing newer took any of the entry's sectors.
    pub fn holds(&self, entry: &Entry) -> bool {
        let mut same = false;
        self.lookup(entry.home_sector, u64::from(entry.len_sectors), &mut |segment| {
            same = segment == Segment::Mapped(*entry);
        });
        same
    }

    /// All entries in ascending order that end after `start_sector`; the first is cut to begin
    /// there. Where a walk was left at an entry's end it can be taken up again, also when the map
    /// changed in between.
    #[inline]
    pub fn iter_from(&self, start_sector: u64) -> Iter<'_> {
        if start_sector >= SECTORS_MAX {
            return Iter { map: self, at: None, base: 0, index: 0, from: start_sector };
        }
        let at = self.tree.locate(start_sector);
        let base = self.tree.base(at);
        let index = self.tree.leaf(at).first_ending_after(start_sector - base);
        Iter { map: self, at: Some(at), base, index, from: start_sector }
    }

    /// All entries in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = Entry;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[inline]
fn home(from: u64, to: u64, visit: &mut impl FnMut(Segment)) {
    if from < to {
        visit(Segment::Home { start_sector: from, len_sectors: to - from });
    }
}

/// Entries in ascending order.
pub struct Iter<'a> {
    map: &'a Map,
    at: Option<At>,
    base: u64,
    index: usize,
    from: u64,
}

impl Iterator for Iter<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let mut at = self.at?;
        while self.index >= self.map.tree.leaf(at).len() {
            self.at = self.map.tree.next(at);
            at = self.at?;
            self.base = self.map.tree.base(at);
            self.index = 0;
        }
        let entry = self.map.tree.leaf(at).entry(self.index, self.base);
        self.index += 1;
        Some(cut(&entry, self.from, u64::MAX))
    }
}
