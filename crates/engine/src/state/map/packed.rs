//! A packed leaf: whole blocks one behind the other, each logged as a chunk of its own.
//!
//! Such content is what a chain is full of, where nothing has a home and everything is written in whole blocks. The address follows from
//! the row's number, and a place that is a multiple of a block takes 32 bits up to 16 TiB, so a block takes eight bytes:
//!
//! ```text
//! cell    63                           32 31                            0
//!         | chunk_sector / block sectors | CRC32C of the chunk           |
//! ```
//!
//! Nothing can be put between two blocks of such a leaf; one can be written over by another of its kind. Anything else needs rows.

use super::row::{Row, pack, unfold, unpack};
use super::rows::{CAPACITY, Rows};
use nearhead_format::{BLOCK_SECTORS, Entry};
use std::ops::Range;

/// Cells in 64 bytes, the cache line of every processor this is likely to run on.
const CELLS_PER_LINE: usize = 8;

/// One cell for each block.
pub(super) struct Packed {
    cells: Box<[u64]>,
}

fn cell(row: &Row) -> Option<u64> {
    Some((u64::from(pack(row.word)?) << 32) | u64::from(row.crc))
}

fn row(index: usize, cell: u64) -> Row {
    let word = unpack((cell >> 32) as u32);
    Row { key: index as u32 * BLOCK_SECTORS as u32, word, crc: cell as u32 }
}

impl Packed {
    /// What these rows say, if they are of this kind.
    pub(super) fn of(rows: &Rows) -> Option<Self> {
        let packed = |(index, found): (usize, Row)| {
            let follows = u64::from(found.key) == index as u64 * BLOCK_SECTORS;
            cell(&found).filter(|_| follows)
        };
        let cells: Option<Box<[u64]>> = rows.iter().enumerate().map(packed).collect();
        cells.map(|cells| Self { cells })
    }

    /// The same in rows.
    pub(super) fn unpacked(&self) -> Box<Rows> {
        let mut rows = Rows::boxed();
        let mut all = [row(0, 0); CAPACITY];
        for (index, cell) in self.cells.iter().enumerate() {
            all[index] = row(index, *cell);
        }
        rows.splice(0..0, &all[..self.len()]);
        rows
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    pub(super) fn entry(&self, index: usize, base: u64) -> Entry {
        let Row { key, word, crc } = row(index, self.cells[index]);
        unfold(base + u64::from(key), word, crc)
    }

    #[inline]
    pub(super) fn find(&self, distance: u64) -> Option<usize> {
        let index = usize::try_from(distance / BLOCK_SECTORS).ok()?;
        (distance.is_multiple_of(BLOCK_SECTORS) && index < self.len()).then_some(index)
    }

    #[inline]
    pub(super) fn touch(&self) -> u32 {
        self.cells.iter().step_by(CELLS_PER_LINE).fold(0, |sum, cell| sum ^ *cell as u32)
    }

    #[inline]
    pub(super) fn overlapping(&self, from: u64, to: u64) -> Range<usize> {
        let index = |block: u64| usize::try_from(block).unwrap_or(usize::MAX).min(self.len());
        let first = index(from / BLOCK_SECTORS);
        first..index(to.div_ceil(BLOCK_SECTORS)).max(first)
    }

    /// Whether one block is replaced by one of this kind.
    #[inline]
    pub(super) fn takes(gone: &Range<usize>, rows: &[Row]) -> bool {
        let is_at = |row: &Row| u64::from(row.key) == gone.start as u64 * BLOCK_SECTORS;
        matches!(rows, [row] if gone.len() == 1 && is_at(row) && cell(row).is_some())
    }

    /// Writes `row` over the block there, if it is of this kind.
    #[inline]
    pub(super) fn overwrite(&mut self, index: usize, row: &Row) -> bool {
        let cell = cell(row);
        if let Some(cell) = cell {
            self.cells[index] = cell;
        }
        cell.is_some()
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.cells)
    }
}
