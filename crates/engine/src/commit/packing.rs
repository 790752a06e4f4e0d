//! How a record is packed: `whole_blocks`.
//!
//! Every staged piece becomes one chunk, every run of zeros one item without payload. Bytes that
//! lie next to each other in memory stay one part of the transfer, so a large write costs one
//! vector, not one per block.

use crate::sectors::{BLOCK_SECTORS, SECTOR};
use crate::stage::StagedBlock;
use nearhead_disk::Payload;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{SectorRange, WriteItem};

/// The parts of a record under construction.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    pub(crate) writes: Vec<WriteItem>,
    pub(crate) parts: Vec<Payload>,
}

impl Packer {
    /// Adds staged blocks.
    pub(crate) fn blocks(&mut self, blocks: &[StagedBlock]) {
        for staged in blocks {
            for piece in &staged.pieces {
                let home_sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                self.chunk(home_sector, piece.len, &piece.data);
            }
        }
    }

    /// Adds one chunk of at most eight sectors.
    pub(crate) fn chunk(&mut self, home_sector: u64, len_sectors: u8, data: &Payload) {
        let sectors = u32::from(len_sectors);
        let crc = match data {
            Payload::Zeros(_) => return self.zeros(home_sector, sectors),
            Payload::Bytes(bytes) => chunk_crc(home_sector, bytes),
            Payload::Phantom(_) => 0,
        };
        self.writes.push(WriteItem::Chunk { home_sector, len_sectors, crc });
        self.part(data.clone());
    }

    fn zeros(&mut self, home_sector: u64, sectors: u32) {
        if let Some(WriteItem::Zeros { home_sector: start, run_sectors }) = self.writes.last_mut()
            && *start + u64::from(*run_sectors) == home_sector
        {
            *run_sectors += sectors;
            return;
        }
        self.writes.push(WriteItem::Zeros { home_sector, run_sectors: sectors });
    }

    /// Appends payload, joining it with what it follows in memory.
    pub(crate) fn part(&mut self, data: Payload) {
        match (self.parts.last_mut(), &data) {
            (Some(Payload::Bytes(last)), Payload::Bytes(next)) if last.is_followed_by(next) => {
                *last = last.joined_with(next);
            }
            (Some(Payload::Phantom(last)), Payload::Phantom(next)) => *last += next,
            _ => self.parts.push(data),
        }
    }
}

/// Fits `ranges` into at most `count_max` by closing the smallest gaps; what comes out covers all.
pub(crate) fn widened(mut ranges: Vec<SectorRange>, count_max: usize) -> Vec<SectorRange> {
    if ranges.len() <= count_max {
        return ranges;
    }
    ranges.sort_unstable_by_key(|range| range.start_sector);
    let mut gaps: Vec<u64> = ranges
        .windows(2)
        .map(|pair| pair[1].start_sector.saturating_sub(pair[0].end_sector()))
        .collect();
    gaps.sort_unstable();
    let close_up_to = gaps[ranges.len() - count_max - 1];
    let mut out: Vec<SectorRange> = Vec::with_capacity(count_max);
    for range in ranges {
        if let Some(last) = out.last_mut() {
            let gap = range.start_sector.saturating_sub(last.end_sector());
            let end = range.end_sector().max(last.end_sector());
            let joined = u32::try_from(end - last.start_sector);
            if let (true, Ok(len_sectors)) = (gap <= close_up_to, joined) {
                last.len_sectors = len_sectors;
                continue;
            }
        }
        out.push(range);
    }
    // Gaps of more than 2 TiB cannot be closed in 32 bits of sectors; such a record is echoed in
    // part, and the damage it could hide is reported as unknown.
    out.truncate(count_max);
    out
}

/// Zero bytes that fill the last log block.
pub(crate) fn padding(payload_bytes: usize, log_block_bytes: usize) -> usize {
    debug_assert!(payload_bytes.is_multiple_of(SECTOR));
    payload_bytes.next_multiple_of(log_block_bytes) - payload_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start_sector: u64, len_sectors: u32) -> SectorRange {
        SectorRange { start_sector, len_sectors }
    }

    #[test]
    fn widening_covers_every_range_and_keeps_the_count() {
        let ranges: Vec<_> = (0..100).map(|n| range(n * n * 10, 8)).collect();
        let wide = widened(ranges.clone(), 16);
        assert!(wide.len() <= 16);
        for range in ranges {
            assert!(wide.iter().any(|wide| wide.start_sector <= range.start_sector
                && wide.end_sector() >= range.end_sector()));
        }
    }

    #[test]
    fn neighbouring_zeros_become_one_run_without_payload() {
        let mut packer = Packer::default();
        for block in 0..4 {
            packer.chunk(block * 8, 8, &Payload::Zeros(4096));
        }
        assert_eq!(packer.writes, [WriteItem::Zeros { home_sector: 0, run_sectors: 32 }]);
        assert!(packer.parts.is_empty());
    }
}
