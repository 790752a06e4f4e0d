//! Putting pieces into a record.
//!
//! Every staged piece becomes one chunk, every run of zeros one item without payload. Bytes that
//! lie next to each other in memory stay one part of the transfer, so a large write costs one
//! vector, not one per block.

use crate::stage::{Forms, StagedBlock};
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::Payload;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{Fragment, WriteItem};

/// The parts of a record under construction.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    writes: Vec<WriteItem>,
    fragments: Vec<Fragment>,
    parts: Vec<Payload>,
}

/// A run of bytes from byte `start` of a home block on. What a data-less simulation left out is zeros.
fn fragment(block: u64, start: usize, run: &Payload) -> Fragment {
    let mut bytes = vec![0; run.len()].into_boxed_slice();
    if !matches!(run, Payload::Phantom(_)) {
        run.copy_to(&mut bytes);
    }
    let home_sector = block * BLOCK_SECTORS + (start / SECTOR) as u64;
    Fragment { home_sector, offset: (start % SECTOR) as u16, bytes }
}

impl Packer {
    /// Adds staged blocks, each piece of them in the form that `forms` gives it.
    pub(super) fn blocks(&mut self, blocks: &[StagedBlock], mut forms: Forms<'_>) {
        for staged in blocks {
            for (home_sector, piece) in staged.homes() {
                match forms.fragments(home_sector, piece).and(piece.fragments()) {
                    Some(runs) => {
                        if piece.is_over_zeros() {
                            self.zeros(home_sector, u32::from(piece.len()));
                        }
                        let runs = runs.map(|(start, run)| fragment(staged.block(), start, &run));
                        self.fragments.extend(runs);
                    }
                    None => self.chunk(home_sector, piece.len(), piece.data()),
                }
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

    /// The items of the header, and the payload.
    pub(super) fn finish(self) -> (Vec<WriteItem>, Vec<Fragment>, Vec<Payload>) {
        (self.writes, self.fragments, self.parts)
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
    fn part(&mut self, data: Payload) {
        match (self.parts.last_mut(), &data) {
            (Some(Payload::Bytes(last)), Payload::Bytes(next)) if last.is_followed_by(next) => {
                *last = last.joined_with(next);
            }
            (Some(Payload::Phantom(last)), Payload::Phantom(next)) => *last += next,
            _ => self.parts.push(data),
        }
    }
}

/// Zero bytes that fill the last log block.
pub(crate) fn padding(payload_bytes: usize, log_block_bytes: usize) -> usize {
    debug_assert!(payload_bytes.is_multiple_of(SECTOR));
    payload_bytes.next_multiple_of(log_block_bytes) - payload_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

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
