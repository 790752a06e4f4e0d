//! The map: for every logged sector, where its newest copy is (the papers' MTL, Manylogs III-B).
//!
//! It keeps [`Entry`]s ordered by home sector. What stays true:
//!
//! - entries never overlap: an insert cuts or replaces what it covers, and reports exactly the
//!   pieces that lost, so that whoever counts live sectors per log stays exact;
//! - an entry stays inside one 4 KiB home block and keeps naming its whole chunk when it is cut;
//! - it takes under 24 bytes of memory for each logged 4 KiB block at ten million of them (16-byte
//!   rows in leaves that are at least 70 % full after inserts; `examples/map_memory.rs` measures), and under 9 where no
//!   block is missing and each was logged whole ([`packed`]).
//!
//! It never looks at a disk or a clock, and the same calls always give the same answers. Its size is
//! bounded by what the logs can hold, one entry per logged sector at most, which the caller keeps.

#[cfg(test)]
mod joining_tests;
mod leaf;
mod load;
mod packed;
mod read;
mod row;
mod rows;
#[cfg(test)]
mod shape_tests;
mod spread;
#[cfg(test)]
mod tests;
mod tree;

pub use load::{LoadError, Loader};
pub use read::{Iter, Segment};

use leaf::{CAPACITY, Leaf};
use nearhead_format::{Entry, SECTORS_MAX};
use row::Row;
pub(in crate::state) use row::cut;
use tree::{At, Tree};

/// The newest logged copy of every home sector that has one.
pub struct Map {
    tree: Tree,
    len: usize,
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    /// A map with nothing logged.
    pub fn new() -> Self {
        Self { tree: Tree::new(), len: 0 }
    }

    /// A map of entries that come in ascending order, as a snapshot has them.
    pub fn from_sorted(entries: impl IntoIterator<Item = Entry>) -> Result<Self, LoadError> {
        let mut loader = Loader::new();
        for entry in entries {
            loader.push(entry)?;
        }
        Ok(loader.finish())
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is logged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of heap it holds, by the capacity of everything that is allocated. Costs a step for
    /// every 256 leaves.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes()
    }

    /// Makes `entry` the newest copy of its sectors. `displaced` gets the pieces of older entries
    /// that it covers, in ascending order, cut to what was covered.
    ///
    /// # Panics
    /// If the entry is not valid ([`Entry::validate`]); decoders check what comes from a disk.
    pub fn insert(&mut self, entry: Entry, displaced: &mut impl FnMut(Entry)) {
        assert!(entry.validate().is_ok(), "an invalid entry reached the map: {entry:?}");
        if let Some(old) = self.tree.overwrite(&entry) {
            displaced(old);
            return;
        }
        let at = self.tree.make_room(entry.home_sector);
        self.replace_in_leaf(at, entry.home_sector, entry.end_sector(), Some(entry), displaced);
    }

    /// Forgets `len_sectors` sectors from `start_sector` on: their home is the newest copy.
    /// `displaced` gets what was there, as for [`Map::insert`].
    pub fn remove(
        &mut self,
        start_sector: u64,
        len_sectors: u64,
        displaced: &mut impl FnMut(Entry),
    ) {
        let end = start_sector.saturating_add(len_sectors).min(SECTORS_MAX);
        let mut cursor = start_sector;
        while cursor < end {
            let mut at = self.tree.locate(cursor);
            if self.tree.leaf(at).len() == CAPACITY {
                // Cutting a piece out of an entry's middle adds a row.
                self.tree.relieve(at);
                at = self.tree.locate(cursor);
            }
            let next_base = self.tree.next(at).map_or(SECTORS_MAX, |next| self.tree.base(next));
            let stop = end.min(next_base);
            self.replace_in_leaf(at, cursor, stop, None, displaced);
            cursor = stop;
        }
    }

    /// Replaces what `from..to`, which lies in what the leaf `at` describes, holds by `middle`. The
    /// leaf has room.
    #[inline]
    fn replace_in_leaf(
        &mut self,
        at: At,
        from: u64,
        to: u64,
        middle: Option<Entry>,
        displaced: &mut impl FnMut(Entry),
    ) {
        let base = self.tree.base(at);
        let leaf = self.tree.leaf(at);
        let len_before = leaf.len();
        let gone = leaf.overlapping(from - base, to - base);
        let mut rows = [Row { key: 0, word: 0, crc: 0 }; 3];
        let mut count = 0;
        let mut push = |entry: &Entry| {
            rows[count] = Leaf::row(entry, base);
            count += 1;
        };
        let mut after = None;
        for index in gone.clone() {
            let entry = leaf.entry(index, base);
            if entry.home_sector < from {
                push(&cut(&entry, entry.home_sector, from));
            }
            if entry.end_sector() > to {
                after = Some(cut(&entry, to, entry.end_sector()));
            }
            displaced(cut(&entry, from, to));
        }
        middle.iter().for_each(&mut push);
        after.iter().for_each(&mut push);
        self.tree.splice(at, gone.clone(), &rows[..count]);
        self.len = self.len + count - gone.len();
        if count < gone.len() {
            self.tree.shrink(at, len_before);
        } else if count > gone.len() {
            self.tree.pack(at);
        }
    }
}
