//! The two units of the volume's address space: 512-byte sectors and 4 KiB home blocks.

/// Bytes of a sector.
pub(crate) const SECTOR: usize = nearhead_disk::SECTOR_BYTES as usize;
/// Sectors of a home block, the unit of the map.
pub(crate) const BLOCK_SECTORS: u64 = 8;

/// Splits `sectors` at the edges of home blocks: `(block, first sector in it, length)`.
pub(crate) fn blocks_of(start: u64, sectors: u64) -> impl Iterator<Item = (u64, u8, u8)> {
    let end = start + sectors;
    let mut at = start;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let block = at / BLOCK_SECTORS;
            let stop = end.min((block + 1) * BLOCK_SECTORS);
            let piece = (block, (at % BLOCK_SECTORS) as u8, (stop - at) as u8);
            at = stop;
            piece
        })
    })
}

/// The home blocks that `sectors` from `start` touch, as `first..end`.
pub(crate) fn block_span(start: u64, sectors: u64) -> (u64, u64) {
    (start / BLOCK_SECTORS, (start + sectors).div_ceil(BLOCK_SECTORS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unaligned_range_is_split_at_block_edges() {
        assert_eq!(blocks_of(6, 11).collect::<Vec<_>>(), [(0, 6, 2), (1, 0, 8), (2, 0, 1)]);
        assert_eq!(block_span(6, 11), (0, 3));
    }
}
