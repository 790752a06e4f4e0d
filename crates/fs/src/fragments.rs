//! What the volume is given of the blocks of a record: the sectors in which anything is new, and which bytes of them are.
//!
//! The bytes of those sectors that are not said to be new are what a read of the volume would give at that moment: who hands a block over
//! has made sure of that. A sector that is not given stays as it is, and so does a block in which nothing is new.

use crate::changed_bytes::ChangedBytes;
use nearhead_disk::Payload;
use nearhead_ext4::BLOCK_BYTES;
use nearhead_journal::{Piece, merged};
use nearhead_service::Changed;
use std::ops::Range;

/// Extents of one atomic write, at most.
pub(crate) const EXTENTS_MAX: usize = 256;

/// A block of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordBlock {
    /// Its first byte on the volume.
    pub(crate) offset: u64,
    /// All of it.
    pub(crate) data: Payload,
    pub(crate) changed: ChangedBytes,
}

/// The extents of an atomic write of these blocks, at most [`EXTENTS_MAX`] of them, in sectors of the volume; and which bytes are new.
pub(crate) fn extents_of(
    mut blocks: Vec<RecordBlock>,
    sector_bytes: usize,
) -> (Vec<(u64, Payload)>, Changed) {
    blocks.sort_by_key(|block| block.offset);
    let parts = |of: fn(&RecordBlock, usize) -> Vec<Range<usize>>| {
        let pieces = blocks.iter().flat_map(|block| {
            of(block, sector_bytes).into_iter().map(|part| Piece {
                offset: block.offset + part.start as u64,
                data: slice(&block.data, part),
            })
        });
        merged(pieces.collect())
    };
    let mut pieces = parts(sectors_of);
    if pieces.len() > EXTENTS_MAX {
        pieces = parts(span_of);
    }
    let changed = changed_within(&pieces, &blocks);
    (pieces.into_iter().map(|piece| (piece.offset, piece.data)).collect(), changed)
}

/// The runs of sectors in which anything is new; of a block that is new as a whole the zeros at both ends apart.
fn sectors_of(block: &RecordBlock, sector_bytes: usize) -> Vec<Range<usize>> {
    if block.changed.is_all() {
        return zeros_apart(&block.data, sector_bytes);
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for range in block.changed.ranges() {
        let start = range.start / sector_bytes * sector_bytes;
        let end = range.end.next_multiple_of(sector_bytes);
        match runs.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => runs.push(start..end),
        }
    }
    runs
}

/// The same as one run.
fn span_of(block: &RecordBlock, sector_bytes: usize) -> Vec<Range<usize>> {
    let ranges = block.changed.ranges();
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Vec::new() };
    let start = first.start / sector_bytes * sector_bytes;
    let span = start..last.end.next_multiple_of(sector_bytes);
    vec![span]
}

/// A block in up to three parts: zeros, what begins and ends with a sector that is none, zeros.
fn zeros_apart(data: &Payload, sector_bytes: usize) -> Vec<Range<usize>> {
    let whole = 0..data.len();
    let Payload::Bytes(bytes) = data else { return vec![whole] };
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let sectors = || bytes.chunks(sector_bytes);
    let first = sectors().take_while(|sector| is_zero(sector)).count() * sector_bytes;
    let after = sectors().rev().take_while(|sector| is_zero(sector)).count() * sector_bytes;
    let last = bytes.len().saturating_sub(after).max(first);
    [0..first, first..last, last..bytes.len()].into_iter().filter(|part| !part.is_empty()).collect()
}

/// A part of a block; one of whole sectors of zeros has no bytes.
fn slice(data: &Payload, part: Range<usize>) -> Payload {
    match data {
        Payload::Bytes(bytes) if bytes[part.clone()].iter().all(|byte| *byte == 0) => {
            Payload::Zeros(part.len())
        }
        _ => data.slice(part),
    }
}

/// What is new, each range within one of the pieces.
fn changed_within(pieces: &[Piece], blocks: &[RecordBlock]) -> Changed {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    for piece in pieces {
        let (mut first, end) = (true, piece.end());
        while let Some(block) = blocks.get(at) {
            for range in block.changed.ranges() {
                let start = (block.offset + range.start as u64).max(piece.offset);
                let stop = (block.offset + range.end as u64).min(end);
                if start >= stop {
                    continue;
                }
                match ranges.last_mut() {
                    Some(last) if !first && last.end == start => last.end = stop,
                    _ => ranges.push(start..stop),
                }
                first = false;
            }
            // The next piece may have more of this block.
            if block.offset + BLOCK_BYTES as u64 > end {
                break;
            }
            at += 1;
        }
    }
    let given: u64 = pieces.iter().map(|piece| piece.data.len() as u64).sum();
    let new: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    if given == new { Changed::All } else { Changed::Only(ranges) }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
mod tests {
    use super::*;
    use nearhead_disk::BufferMut;

    fn block(number: u64, bytes: &[u8], changed: &[Range<usize>]) -> RecordBlock {
        let mut whole = BufferMut::zeroed(BLOCK_BYTES);
        whole[..bytes.len()].copy_from_slice(bytes);
        let mut told = ChangedBytes::default();
        for range in changed {
            told.insert(range.clone());
        }
        RecordBlock {
            offset: number * BLOCK_BYTES as u64,
            data: Payload::Bytes(whole.freeze()),
            changed: told,
        }
    }

    fn shape(extents: &[(u64, Payload)]) -> Vec<(u64, usize, bool)> {
        let is_zeros = |data: &Payload| matches!(data, Payload::Zeros(_));
        extents.iter().map(|(at, data)| (*at, data.len(), is_zeros(data))).collect()
    }

    #[test]
    fn of_a_block_that_changed_in_part_the_sectors_with_new_bytes_are_given() {
        let blocks = vec![
            block(2, &[1; 4096], &[100..130, 500..520, 4000..4096]),
            block(1, &[2; 4096], &[0..4096]),
            block(5, &[3; 4096], &[]),
        ];
        let (extents, changed) = extents_of(blocks.clone(), 512);
        let expected = [(4096, 4096, false), (8192, 1024, false), (11_776, 512, false)];
        assert_eq!(shape(&extents), expected);
        let new = [4096..8192, 8292..8322, 8692..8712, 12_192..12_288];
        assert_eq!(changed, Changed::Only(new.to_vec()));
        let (extents, _) = extents_of(blocks, 4096);
        assert_eq!(shape(&extents), [(4096, 4096, false), (8192, 4096, false)]);
    }

    #[test]
    fn a_new_block_with_few_bytes_is_a_sector_and_zeros_and_all_of_it_is_new() {
        let few = block(3, &[1; 20], &[0..4096]);
        let (extents, changed) = extents_of(vec![few, block(4, &[], &[0..4096])], 512);
        assert_eq!(shape(&extents), [(12_288, 512, false), (12_800, 3584 + 4096, true)]);
        assert_eq!(changed, Changed::All);
    }

    #[test]
    fn where_there_would_be_too_many_extents_each_block_is_one() {
        let blocks: Vec<RecordBlock> =
            (0..100).map(|at| block(2 * at, &[1; 4096], &[0..1, 2000..2001, 4095..4096])).collect();
        let (extents, changed) = extents_of(blocks, 512);
        assert_eq!(extents.len(), 100);
        let Changed::Only(ranges) = changed else { panic!("all of them") };
        assert_eq!(ranges.len(), 300);
    }
}
