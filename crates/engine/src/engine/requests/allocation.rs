//! What is known about ranges without reading them: which read as zeros.
//!
//! Newest first, as a read: what is in memory is data, what is logged is data or zeros, and a home is zeros where
//! its region is blank. Answered from memory in bounded work; what is not said in one answer is in the next.

use crate::engine::Engine;
use crate::state::map::Segment;
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::RangeSet;
use nearhead_disk::Run;
use nearhead_format::Place;
use std::ops::Range;

/// Entries of the map looked at for one answer.
const ENTRIES_MAX: usize = 64 << 10;

/// Sectors of a paged map looked at for one answer: 32 MiB.
const PAGED_SECTORS_MAX: u64 = 64 << 10;

/// Runs of sectors under construction, neighbours alike made one.
struct Runs {
    found: Vec<Run>,
    count_max: usize,
    at: u64,
}

impl Runs {
    /// Nothing more would be said.
    fn is_full(&self) -> bool {
        self.found.len() > self.count_max
    }

    fn add(&mut self, end: u64, zero: bool) {
        let len = end.saturating_sub(self.at) * SECTOR as u64;
        self.at = self.at.max(end);
        if len == 0 || self.is_full() {
            return;
        }
        match self.found.last_mut() {
            Some(last) if last.zero == zero => last.len += len,
            _ => self.found.push(Run { len, zero }),
        }
    }
}

impl Engine {
    /// Runs from `offset` on, at most `runs_max` (at least one), together at most `len` bytes.
    pub fn allocation(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Run> {
        let sector = SECTOR as u64;
        let (start, end) = (offset / sector, (offset + len).div_ceil(sector));
        let runs_max = runs_max.max(1);
        let mut runs = Runs { found: Vec::new(), count_max: runs_max, at: start };
        let memory = self.blocks_in_memory(start..end);
        for block in memory.iter().chain(std::iter::once(end..end)) {
            if !self.add_below_memory(runs.at..block.start, &mut runs) {
                break;
            }
            runs.add(block.end, false);
        }
        let mut runs = runs.found;
        runs.truncate(runs_max);
        if runs.is_empty() {
            runs.push(Run { len, zero: false });
        }
        runs
    }

    /// The sectors of blocks that are staged or on their way into a log: at most a stage full.
    fn blocks_in_memory(&self, within: Range<u64>) -> RangeSet {
        let sectors = self.stage.all_blocks().map(|block| {
            let first = block * BLOCK_SECTORS;
            first.max(within.start)..(first + BLOCK_SECTORS).min(within.end)
        });
        sectors.filter(|range| range.start < range.end).collect()
    }

    /// What the map and the homes say of `range`; false if there was too much to look at, or no room for more.
    fn add_below_memory(&self, range: Range<u64>, runs: &mut Runs) -> bool {
        if self.core.layers().paged().is_some() {
            return self.add_of_pages(range, runs);
        }
        let fragments = self.core.recorded().fragments();
        let mut at = range.start;
        let entries =
            self.core.map().iter_from(at).take_while(|entry| entry.home_sector < range.end);
        for (looked_at, entry) in entries.enumerate() {
            if runs.is_full() || looked_at == ENTRIES_MAX {
                return false;
            }
            self.add_homes(at..entry.home_sector.max(at), runs);
            at = entry.end_sector().min(range.end);
            let sectors = entry.home_sector..entry.end_sector();
            let is_zero = entry.place == Place::Zero && !fragments.touches(sectors);
            runs.add(at, is_zero);
        }
        self.add_homes(at..range.end, runs);
        !runs.is_full()
    }

    /// The same of a paged map: what would need a page that is not here is said to be data, and may be zeros.
    fn add_of_pages(&self, range: Range<u64>, runs: &mut Runs) -> bool {
        let end = range.end.min(range.start + PAGED_SECTORS_MAX);
        let mut found = Vec::new();
        let sectors = end.saturating_sub(range.start);
        let missing = self.core.layers().lookup(range.start, sectors, &[], &mut |segment| {
            found.push(segment);
        });
        if !missing.is_empty() {
            runs.add(end, false);
        }
        for segment in found.into_iter().filter(|_| missing.is_empty()) {
            match segment {
                Segment::Mapped(entry) => runs.add(entry.end_sector(), entry.place == Place::Zero),
                Segment::Home { start_sector, len_sectors } => {
                    runs.add(start_sector + len_sectors, true);
                }
            }
        }
        end == range.end && !runs.is_full()
    }

    fn add_homes(&self, range: Range<u64>, runs: &mut Runs) {
        let mut at = range.start;
        if !self.core.setup().has_homes() && range.start < range.end {
            return runs.add(range.end, true);
        }
        while at < range.end && !runs.is_full() {
            let (zero, end) = self.blanks.run_at(at, range.end);
            runs.add(end, zero);
            at = end;
        }
    }
}
