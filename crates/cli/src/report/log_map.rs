//! Where on the disk the logs are full: logs in the order of their addresses, several to a cell where there are many.
//!
//! A report stays small however large the disk is, and costs what is logged, not what could be.

use nearhead_disk::Disk;
use nearhead_volume::Volume;
use serde::{Deserialize, Serialize};

/// Most cells.
const CELLS_MAX: u32 = 128;

/// The logs along the disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogMap {
    /// From the first log to the last; of several devices one behind the other.
    pub cells: Vec<LogCell>,
    /// The cell that is nearest to where the head is taken to be, if there is one that moves.
    pub head_cell: Option<u32>,
}

/// Logs beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogCell {
    /// Number of the first of them.
    pub first_log: u32,
    /// How many.
    pub logs: u32,
    /// Share of them that cannot be written now, 0 to 100.
    pub fill_pct: f64,
    /// Share of them that is still needed, 0 to 100: the rest waits for a snapshot.
    pub needed_pct: f64,
}

impl LogMap {
    /// Of an open volume, whose head is taken to be at this device byte.
    pub(super) fn of(volume: &Volume<Box<dyn Disk + Send>>, head_offset: Option<u64>) -> Self {
        let engine = volume.engine();
        let log_bytes = volume.superblock().layout.log_bytes;
        let mut map = Self::empty(engine.log_count());
        for log in engine.log_fills() {
            map.add(log.log, f64::from(log.fill_pct), pct(log.needed_bytes, log_bytes));
        }
        map.head_cell =
            head_offset.and_then(|at| engine.log_nearest(at)).and_then(|log| map.cell_of(log));
        map
    }

    fn empty(logs: u32) -> Self {
        let cells = logs.min(CELLS_MAX);
        let first =
            |cell: u32| (u64::from(cell) * u64::from(logs) / u64::from(cells.max(1))) as u32;
        let cell = |cell: u32| LogCell {
            first_log: first(cell),
            logs: first(cell + 1) - first(cell),
            ..LogCell::default()
        };
        Self { cells: (0..cells).map(cell).collect(), head_cell: None }
    }

    fn cell_of(&self, log: u32) -> Option<u32> {
        let behind = self.cells.partition_point(|cell| cell.first_log <= log);
        behind.checked_sub(1).map(|cell| cell as u32)
    }

    fn add(&mut self, log: u32, fill_pct: f64, needed_pct: f64) {
        let cell = self.cell_of(log).and_then(|cell| self.cells.get_mut(cell as usize));
        let Some(cell) = cell else { return };
        cell.fill_pct += fill_pct / f64::from(cell.logs);
        cell.needed_pct += needed_pct / f64::from(cell.logs);
    }
}

fn pct(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_log_is_in_one_cell_and_a_cell_is_as_full_as_its_logs_are_on_average() {
        for logs in [0, 1, 127, 128, 129, 1000, 200_000] {
            let mut map = LogMap::empty(logs);
            assert_eq!(map.cells.iter().map(|cell| cell.logs).sum::<u32>(), logs, "{logs}");
            assert!(
                map.cells.len() <= CELLS_MAX as usize && map.cells.iter().all(|it| it.logs > 0)
            );
            (0..logs).for_each(|log| map.add(log, 50.0, 25.0));
            for cell in &map.cells {
                assert!((cell.fill_pct - 50.0).abs() < 1e-6, "{logs}: {cell:?}");
                assert!((cell.needed_pct - 25.0).abs() < 1e-6, "{logs}: {cell:?}");
            }
        }
        assert_eq!(LogMap::empty(1000).cell_of(999), Some(127));
        assert_eq!(LogMap::empty(0).cell_of(0), None);
    }
}
