//! Which log a device sector is in, and where.

use super::Logs;
use std::ops::Range;

impl Logs {
    fn position_of(&self, chunk_sector: u64) -> (u32, u32) {
        let offset = chunk_sector * nearhead_disk::SECTOR_BYTES;
        if let Some(run) = self.runs.iter().rev().find(|run| run.start <= offset) {
            let within = offset - run.start;
            let (log, rest) = (within / self.layout.log_bytes, within % self.layout.log_bytes);
            let block = rest / u64::from(self.layout.log_block_bytes);
            return (run.first + log as u32, block as u32);
        }
        let index = self.layout.group_of(offset);
        let start = self.layout.log_offset(index).unwrap_or(0);
        (index, (offset.saturating_sub(start) / u64::from(self.layout.log_block_bytes)) as u32)
    }

    /// The log that holds the chunk at this device sector.
    pub(crate) fn log_of(&self, chunk_sector: u64) -> u32 {
        self.position_of(chunk_sector).0
    }

    /// The device sectors of a log; none if there is no such log.
    pub(crate) fn sectors_of(&self, index: u32) -> Option<Range<u64>> {
        let start = self.layout.log_offset(index)?;
        let sector = nearhead_disk::SECTOR_BYTES;
        Some(start / sector..(start + self.layout.log_bytes) / sector)
    }

    /// The log, and the blocks of it, in which a chunk lies.
    pub(super) fn blocks_of(&self, chunk_sector: u64, chunk_sectors: u8) -> (u32, Range<u32>) {
        let (index, start) = self.position_of(chunk_sector);
        let last = chunk_sector + u64::from(chunk_sectors.max(1)) - 1;
        (index, start..self.position_of(last).1.max(start) + 1)
    }
}
