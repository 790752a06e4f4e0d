//! Counting everything anew: what must be the same as what was counted as it happened.
//!
//! The counts decide which log space may be written over, which log is passed over and when cleaning begins. They
//! are kept step by step, over records, snapshots, stops and recoveries; this says whether they still tell the
//! truth. Tests and the simulator ask after every step, a volume that serves never does.

use super::Logs;
use super::ring::{Ring, SLICES};
use nearhead_format::{Entry, Place};
use std::collections::BTreeMap;

/// What one log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCounts {
    /// Which log.
    pub log_index: u32,
    /// Log blocks that cannot be written now.
    pub used_blocks: u32,
    /// Sectors that are still needed.
    pub live_sectors: u32,
    /// Log block where the next record goes.
    pub position: u32,
}

/// What of the logs and of the map is in use: the same before an orderly stop and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Of each log that holds anything.
    pub logs: Vec<LogCounts>,
    /// Logs a recovery would scan.
    pub logs_claimed: Vec<u32>,
    /// Share of log space in use, 0 to 100.
    pub log_fill_pct: u32,
    /// Blocks of a map device's journal that cannot be written now.
    pub journal_blocks: u32,
    /// Entries of the map.
    pub map_entries: usize,
    /// Sequence of the newest durable record.
    pub record_sequence: u64,
    /// Number of the newest snapshot.
    pub snapshot_number: u64,
}

impl Logs {
    /// What each log holds of which anything is in use.
    pub(crate) fn counts(&self) -> Vec<LogCounts> {
        let in_use = self.present().filter(|(_, ring)| ring.used_blocks() > 0);
        let counts = in_use.map(|(log_index, ring)| LogCounts {
            log_index,
            used_blocks: ring.used_blocks(),
            live_sectors: ring.live_sectors(),
            position: ring.position(),
        });
        counts.collect()
    }

    /// Compares the counts of what is needed alone.
    #[cfg(test)]
    pub(in crate::state) fn check_needed(
        &self,
        needed: impl Iterator<Item = Entry>,
    ) -> Result<(), String> {
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        for entry in needed {
            if let Place::Log { chunk_sector, .. } = entry.place {
                *live.entry(self.log_of(chunk_sector)).or_default() += u32::from(entry.len_sectors);
            }
        }
        for log in 0..self.count() {
            let (expected, found) = (live.get(&log).copied(), self.live_sectors_of(log));
            if expected.unwrap_or(0) != found {
                return Err(format!(
                    "log {log}: expected {expected:?} live sectors, found {found}"
                ));
            }
        }
        Ok(())
    }

    /// Compares every count with what `needed` says, all entries whose copy in a log is still needed.
    pub(crate) fn check(&self, needed: impl Iterator<Item = Entry>) -> Result<(), String> {
        let mut live: BTreeMap<u32, [u32; SLICES as usize]> = BTreeMap::new();
        let mut by_block: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for entry in needed {
            if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
                let (log, blocks) = self.blocks_of(chunk_sector, chunk_len);
                let position = blocks.start;
                let counting = by_block.entry(log).or_default();
                counting.resize(counting.len().max(blocks.end as usize), 0);
                for block in blocks {
                    counting[block as usize] += u16::from(entry.len_sectors);
                }
                let Some(ring) = self.get(log) else {
                    return Err(format!("log {log} is needed and not in memory: {entry:?}"));
                };
                let slices = live.entry(log).or_insert([0; SLICES as usize]);
                slices[ring.slice_of(position) as usize] += u32::from(entry.len_sectors);
            }
        }
        let mut used_total = 0;
        for (log, ring) in self.present() {
            let expected = live.remove(&log).unwrap_or([0; SLICES as usize]);
            ring.check(&expected).map_err(|problem| format!("log {log}: {problem}"))?;
            if let Some(scatter) = ring.scatter() {
                let expected = by_block.get(&log).map_or(&[][..], Vec::as_slice);
                scatter.check(expected).map_err(|problem| format!("log {log}: {problem}"))?;
            }
            let (used, full) = (ring.used_blocks(), ring.fill_pct() >= super::FULL_PCT);
            let known = (self.used_blocks[log as usize], self.full[log as usize]);
            if known != (used, full) {
                return Err(format!(
                    "log {log}: expected {used} blocks in use (full: {full}), counted {known:?}"
                ));
            }
            if ring.claimed != self.claimed.contains(&log) {
                return Err(format!("log {log}: claimed is {}, the set differs", ring.claimed));
            }
            used_total += u64::from(used);
        }
        if used_total != self.used_blocks_total {
            let counted = self.used_blocks_total;
            return Err(format!("expected {used_total} blocks in use in all, counted {counted}"));
        }
        self.check_uses()
    }
}

impl Ring {
    /// Compares the counts with `expected` live sectors of each slice.
    fn check(&self, expected: &[u32; SLICES as usize]) -> Result<(), String> {
        let total: u32 = expected.iter().sum();
        let bits = (0..SLICES).filter(|slice| expected[*slice as usize] > 0);
        let bits: u64 = bits.map(|slice| 1 << slice).sum();
        let found = (self.live_by_slice(), self.live_slices(), self.live_sectors());
        if found == (expected, bits, total) {
            return Ok(());
        }
        Err(format!("expected live sectors {:?}, counted {found:?}", (expected, bits, total)))
    }
}
