//! What is known about ranges without reading them: which read as zeros.

use crate::engine::Engine;
use crate::sectors::SECTOR;
use nearhead_format::Place;

/// A run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length in bytes.
    pub len: u64,
    /// Whether it certainly reads as zeros.
    pub zero: bool,
}

impl Engine {
    /// Runs from `offset` on, at most `runs_max` (at least one), together at most `len` bytes.
    pub fn allocation(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Run> {
        let sector = SECTOR as u64;
        let (start, end) = (offset / sector, (offset + len).div_ceil(sector));
        let mut runs: Vec<Run> = Vec::new();
        let mut add = |len: u64, zero: bool| {
            if len == 0 || runs.len() > runs_max {
                return;
            }
            match runs.last_mut() {
                Some(last) if last.zero == zero => last.len += len,
                _ => runs.push(Run { len, zero }),
            }
        };
        let mut at = start;
        if !self.is_in_memory(start, end) {
            let zeros = self.map.iter_from(start).take_while(|entry| entry.home_sector < end);
            for entry in zeros.filter(|entry| entry.place == Place::Zero).take(64 << 10) {
                let (from, to) = (entry.home_sector.max(start), entry.end_sector().min(end));
                add((from - at) * sector, false);
                add((to - from) * sector, true);
                at = to;
            }
        }
        add((end - at) * sector, false);
        runs.truncate(runs_max.max(1));
        runs
    }
}
