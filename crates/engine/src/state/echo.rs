//! What a record says again of the one before it: the home ranges that that one changed. If it rots, recovery knows what is
//! lost, and those sectors read as errors instead of as something older.

use nearhead_format::record::{Fragment, RecordHeader, SectorRange, WriteItem};

/// Most ranges echoed; within the format's limit.
const ECHO_RANGES_MAX: usize = 64;
const _: () = assert!(ECHO_RANGES_MAX <= nearhead_format::record::ECHO_MAX);

/// What a later record echoes of this one: the home ranges that it changes.
pub(super) fn echo_of(header: &RecordHeader) -> Vec<SectorRange> {
    let mut ranges: Vec<SectorRange> = Vec::new();
    for range in header.writes.iter().map(WriteItem::range) {
        match ranges.last_mut() {
            Some(last) if last.end_sector() == range.start_sector => {
                last.len_sectors += range.len_sectors;
            }
            _ => ranges.push(range),
        }
    }
    ranges.extend(header.fragments.iter().map(Fragment::range));
    ranges.extend_from_slice(&header.invalidations);
    widened(ranges, ECHO_RANGES_MAX)
}

/// Fits `ranges` into at most `count_max` by closing the smallest gaps; what comes out covers all.
fn widened(mut ranges: Vec<SectorRange>, count_max: usize) -> Vec<SectorRange> {
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
}
