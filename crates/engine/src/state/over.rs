//! What lies over the map: bytes that records brought by themselves, laid there by records and snapshots and taken away by what is newer.
//!
//! What stays true: a sector that has any has an entry in the map, be it one that says *at home*; and what is needed of a log for them is counted
//! as they come and go.

use super::Recorded;
use super::fragments::Needed;
use super::logs::Logs;
use super::map::Segment;
use super::sectors::BLOCK_SECTORS;
use nearhead_disk::SECTOR_BYTES;
use nearhead_format::snapshot::FragmentCell;
use nearhead_format::{Entry, Place};
use std::ops::Range;

impl Recorded {
    /// A piece of a snapshot.
    pub(crate) fn adopt_cell(&mut self, cell: &FragmentCell) {
        let bytes = &cell.bytes[..usize::from(cell.len)];
        // The map has the rest of the block as it was: whole, but for what was written in place since.
        let sectors = cell.home_byte / SECTOR_BYTES..cell.end_byte().div_ceil(SECTOR_BYTES);
        self.lay_over(cell.home_byte, bytes, cell.record_sector, sectors);
    }

    /// Bytes that a record brought lie over what the map says of their block; it says *at home* where it said nothing of these sectors of it,
    /// so that the block goes home whole. Over what was lost nothing can lie.
    pub(super) fn lay_over(
        &mut self,
        home_byte: u64,
        bytes: &[u8],
        record_sector: u64,
        sectors: Range<u64>,
    ) {
        let block = home_byte / (BLOCK_SECTORS * SECTOR_BYTES);
        let (mut at_home, mut lost) = (Vec::new(), Vec::new());
        let len = sectors.end - sectors.start;
        self.map.lookup(sectors.start, len, &mut |segment| match segment {
            Segment::Home { start_sector, len_sectors } => {
                at_home.push((start_sector, len_sectors));
            }
            Segment::Mapped(entry) if entry.place == Place::Poisoned => lost.push(entry),
            Segment::Mapped(_) => {}
        });
        let is_new = !at_home.is_empty();
        for (home_sector, len) in at_home {
            let (len_sectors, place) = (len as u8, Place::Home);
            self.insert(Entry { home_sector, len_sectors, place, crc: 0 });
        }
        let logs = &mut self.logs;
        let needed = &mut |needed: Needed| count(logs, needed);
        self.fragments.add(home_byte, bytes, record_sector, needed);
        if is_new {
            self.fragments.base_is_new(block);
        }
        for entry in lost {
            self.drop_fragments(entry.home_sector, u64::from(entry.len_sectors));
        }
    }

    /// What lies over these sectors counts no more.
    pub(super) fn drop_fragments(&mut self, start: u64, sectors: u64) {
        let logs = &mut self.logs;
        self.fragments.drop_sectors(start, sectors, &mut |needed| count(logs, needed));
    }
}

/// Counts what a piece needs of a log.
pub(super) fn count(logs: &mut Logs, needed: Needed) {
    match needed {
        Needed::More { record_sector } => logs.add_piece(record_sector),
        Needed::Less { record_sector } => logs.drop_piece(record_sector),
    }
}
