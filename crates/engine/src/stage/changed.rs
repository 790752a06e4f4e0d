//! Which sectors of a staged piece have new bytes, and which bytes those are.

use super::block::Piece;
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use std::ops::Range;

/// Neighbouring sectors of a block that have new bytes, and those bytes, by their places in the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedRuns {
    sectors: Range<u8>,
    bytes: Vec<Range<u16>>,
}

impl ChangedRuns {
    /// The sectors, and the bytes.
    pub(crate) fn into_parts(self) -> (Range<u8>, Vec<Range<u16>>) {
        (self.sectors, self.bytes)
    }

    /// The runs of `piece`, of which only `changed` is new, bytes of the volume in order. Sectors count in units of so many, which are written
    /// together or not at all.
    pub(crate) fn of(
        block: u64,
        piece: &Piece,
        changed: &[Range<u64>],
        sectors_of_unit: u16,
    ) -> Vec<Self> {
        let start = block * BLOCK_SECTORS * SECTOR as u64;
        let within = |sector: u8| start + u64::from(sector) * SECTOR as u64;
        let (from, to) = (within(piece.first()), within(piece.first() + piece.len()));
        let unit = u16::max(sectors_of_unit, 1) * SECTOR as u16;
        let first = changed.partition_point(|range| range.end <= from);
        let mut runs: Vec<Self> = Vec::new();
        for range in changed[first..].iter().take_while(|range| range.start < to) {
            let bytes = (range.start.max(from) - start) as u16..(range.end.min(to) - start) as u16;
            let sector = |byte: u16| (byte / SECTOR as u16) as u8;
            let (first, end) =
                (sector(bytes.start / unit * unit), sector(bytes.end.div_ceil(unit) * unit));
            match runs.last_mut() {
                Some(last) if first <= last.sectors.end => {
                    last.sectors.end = end;
                    match last.bytes.last_mut() {
                        Some(before) if before.end == bytes.start => before.end = bytes.end,
                        _ => last.bytes.push(bytes),
                    }
                }
                _ => runs.push(Self { sectors: first..end, bytes: vec![bytes] }),
            }
        }
        runs
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges, which has one")]
mod tests {
    use super::*;
    use nearhead_disk::Payload;

    fn runs(changed: &[Range<u64>], unit: u16) -> Vec<(Range<u8>, Vec<Range<u16>>)> {
        let piece = Piece::new(1, 6, Payload::Zeros(6 * SECTOR));
        let found = ChangedRuns::of(2, &piece, changed, unit);
        found.into_iter().map(|run| (run.sectors, run.bytes)).collect()
    }

    #[test]
    fn sectors_without_a_new_byte_are_left_out_and_neighbours_are_one_run() {
        let at = |byte: u64| 8192 + byte;
        assert_eq!(runs(&[0..8192, at(4096)..at(5000)], 1), [], "of other blocks");
        assert_eq!(
            runs(&[at(0)..at(520), at(600)..at(601), at(1100)..at(1101), at(3000)..at(9000)], 1),
            [(1..3, vec![512..520, 600..601, 1100..1101]), (5..7, vec![3000..3584])],
            "cut to the piece, which is sectors 1 to 6"
        );
        assert_eq!(
            runs(&[at(600)..at(601), at(601)..at(602)], 1),
            [(1..2, vec![600..602])],
            "what follows on is one"
        );
    }

    #[test]
    fn where_only_whole_blocks_are_written_all_sectors_of_one_are_there() {
        let piece = Piece::new(0, 8, Payload::Zeros(8 * SECTOR));
        let found = ChangedRuns::of(0, &piece, &[700..701], 8);
        assert_eq!(found, [ChangedRuns { sectors: 0..8, bytes: vec![700..701] }]);
    }
}
