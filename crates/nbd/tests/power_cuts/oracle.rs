//! What may be read, of each cell of 128 bytes: a quarter of a sector, so that requests share
//! sectors.
//!
//! Cells say which cell they are and which change they show, so that a read tells how old it is.
//! Nobody changes a cell while another change of it is under way; one whose client left before its
//! reply stays in doubt for ever and is left alone.

use std::ops::Range;

pub(crate) const CELL_BYTES: usize = 128;

/// One change of one cell.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Names it among all changes; 0 for zeros.
    version: u32,
}

#[derive(Clone, Debug)]
struct Cell {
    /// Since the beginning; the first is what was there, zeros.
    changes: Vec<Change>,
    /// The newest one that was answered.
    answered: usize,
    /// The newest one that must survive.
    durable: usize,
    is_busy: bool,
}

pub(crate) struct Oracle {
    cells: Vec<Cell>,
    /// Every answer means durable.
    is_always_durable: bool,
}

/// What a flush covers: the newest answered change of each cell when it was sent.
pub(crate) type Covered = Vec<usize>;

pub(crate) fn content(cell: usize, version: u32) -> Vec<u8> {
    let word = (cell as u64 + 1) << 32 | u64::from(version);
    word.to_le_bytes().repeat(CELL_BYTES / 8)
}

impl Oracle {
    pub(crate) fn new(cells: usize, is_always_durable: bool) -> Self {
        let cell =
            Cell { changes: vec![Change { version: 0 }], answered: 0, durable: 0, is_busy: false };
        Self { cells: vec![cell; cells], is_always_durable }
    }

    /// The part of `range` before the first cell that is under way.
    pub(crate) fn free(&self, range: Range<usize>) -> Range<usize> {
        let busy = self.cells[range.clone()].iter().position(|cell| cell.is_busy);
        range.start..busy.map_or(range.end, |busy| range.start + busy)
    }

    /// A request for `range` is sent; with a version if it changes them.
    pub(crate) fn sent(&mut self, range: Range<usize>, version: Option<u32>) {
        for cell in &mut self.cells[range] {
            cell.is_busy = true;
            cell.changes.extend(version.map(|version| Change { version }));
        }
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, range: Range<usize>, changes: bool, fua: bool) {
        let durable = fua || self.is_always_durable;
        for cell in &mut self.cells[range] {
            cell.is_busy = false;
            if changes {
                cell.answered = cell.changes.len() - 1;
                cell.durable = if durable { cell.answered } else { cell.durable };
            }
        }
    }

    /// Its client left. A read leaves nothing behind.
    pub(crate) fn abandoned(&mut self, range: Range<usize>, changes: bool) {
        if !changes {
            self.cells[range].iter_mut().for_each(|cell| cell.is_busy = false);
        }
    }

    pub(crate) fn flush_sent(&self) -> Covered {
        self.cells.iter().map(|cell| cell.answered).collect()
    }

    pub(crate) fn flushed(&mut self, covered: &Covered) {
        for (cell, covered) in self.cells.iter_mut().zip(covered) {
            cell.durable = cell.durable.max(*covered);
        }
    }

    /// What a read shows must be the newest there is.
    pub(crate) fn check_read(&self, range: Range<usize>, bytes: &[u8]) {
        assert_eq!(bytes.len(), range.len() * CELL_BYTES);
        for (number, found) in range.zip(bytes.chunks(CELL_BYTES)) {
            let newest = self.cells[number].changes.last().unwrap().version;
            let found = version_in(number, found);
            assert_eq!(found, Ok(newest), "cell {number} (byte {})", number * CELL_BYTES);
        }
    }

    /// What is there after a power cut must be nothing older than what was promised.
    pub(crate) fn check_restart(&self, bytes: &[u8]) {
        for (number, found) in bytes.chunks(CELL_BYTES).enumerate() {
            let Cell { changes, durable, answered, .. } = &self.cells[number];
            let found = version_in(number, found);
            let allowed = || changes[*durable..].iter().map(|change| change.version);
            let is_allowed =
                found.as_ref().is_ok_and(|found| allowed().any(|version| version == *found));
            assert!(
                is_allowed,
                "cell {number} (byte {}) after the cut: expected one of {:?}, found {found:?}; durable is \
                 change {durable}, answered {answered} of {:?}",
                number * CELL_BYTES,
                allowed().collect::<Vec<_>>(),
                changes.iter().map(|change| change.version).collect::<Vec<_>>(),
            );
        }
    }
}

/// The version that a cell shows.
fn version_in(cell: usize, bytes: &[u8]) -> Result<u32, String> {
    let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let is_whole = bytes.iter().all(|byte| *byte == 0) || bytes == content(cell, version);
    if is_whole {
        Ok(version)
    } else {
        Err(format!("torn or of another cell: {:02x?}", &bytes[..16]))
    }
}
