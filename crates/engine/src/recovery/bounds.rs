//! Whether what a sound checksum covers can be true of this volume.
//!
//! A checksum says that bytes are as they were written, not who wrote them or for which layout. What
//! names a sector past the volume, a place outside of every log or a number near the end of its
//! range is found here, once, so that nothing behind has to expect it. A volume with such a snapshot
//! or record does not open: it was written under another superblock, and what it holds must not be
//! passed over.

use nearhead_format::record::{Claim, FLAG_BODY, Fragment, RecordHeader};
use nearhead_format::snapshot::{BodyItem, SnapshotHeader};
use nearhead_format::{Entry, Layout, Place, SECTOR_BYTES};

/// Counters that grow by one are refused from here on: no volume lives so long, and none overflows.
const COUNTER_MAX: u64 = 1 << 62;

/// Whether the counters of a snapshot leave room to go on.
pub(super) fn check_header(header: &SnapshotHeader) -> Result<(), String> {
    let highest = header.snapshot_number.max(header.record_sequence);
    if highest < COUNTER_MAX {
        return Ok(());
    }
    Err(format!(
        "snapshot number and record sequence: expected below {COUNTER_MAX}, found {highest}"
    ))
}

/// Whether an item of a snapshot's body lies on the volume.
pub(super) fn check_item(item: &BodyItem, layout: &Layout) -> Result<(), String> {
    let fits = match item {
        BodyItem::Entry(entry) => entry_fits(entry, layout),
        BodyItem::Log(log) => log_fits(log.log_index, log.position, layout),
        BodyItem::Claim(log_index) => *log_index < layout.log_count(),
        BodyItem::Fragment(cell) => {
            let start = cell.home_byte / SECTOR_BYTES;
            let end = (cell.home_byte + u64::from(cell.len)).div_ceil(SECTOR_BYTES);
            let is_home = is_on_volume(start, end - start, layout);
            is_home && layout.fragments && is_in_log(cell.record_sector, 1, layout)
        }
        BodyItem::Hint(hint) => is_on_volume(hint.start_sector, hint.len_sectors, layout),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("expected only what lies on the volume, found {item:?}"))
    }
}

/// Whether a record is one of those that have an order, and its sequence leaves room to go on.
pub(super) fn sequence_fits(header: &RecordHeader) -> bool {
    header.flags & FLAG_BODY == 0 && header.sequence < COUNTER_MAX
}

/// What a record names that does not lie on the volume.
pub(super) fn record_past_volume(header: &RecordHeader, layout: &Layout) -> Option<String> {
    let count = layout.log_count();
    let logs = header.claims.iter().map(|claim| claim.log_index).chain([header.log_index]);
    if let Some(index) = logs.filter(|index| *index >= count).max() {
        return Some(log_outside(index, count));
    }
    let writes = header.writes.iter().map(nearhead_format::record::WriteItem::range);
    let writes = writes.chain(header.fragments.iter().map(Fragment::range));
    let others = header.invalidations.iter().chain(&header.echo).copied();
    let mut ranges = writes.chain(others);
    let beyond = ranges
        .find(|range| !is_on_volume(range.start_sector, u64::from(range.len_sectors), layout))
        .map(|range| format!("{range:?}"));
    let log = |claim: &&Claim| !log_fits(claim.log_index, claim.position, layout);
    let claim = || header.claims.iter().find(log).map(|claim| format!("{claim:?}"));
    let moved = || header.moves.iter().find(|entry| !entry_fits(entry, layout));
    let moved = || moved().map(|entry| format!("{entry:?}"));
    let misplaced = header.fragments.first().filter(|_| !layout.fragments);
    let misplaced = || misplaced.map(|fragment| format!("{fragment:?} on a volume without them"));
    let found = beyond.or_else(misplaced).or_else(claim).or_else(moved)?;
    let sequence = header.sequence;
    Some(outside(&format!(
        "record {sequence}: expected only what lies on the volume, found {found}"
    )))
}

/// The map or a record names a log that the superblock does not have. The superblock must be an older one: of
/// a volume that has grown since, with its newest copies damaged or unreadable.
pub(super) fn log_outside(index: u32, count: u32) -> String {
    format!(
        "expected a log below {count}, found log {index} in use: the superblock that was read is older than \
         the map; make its other copies readable, see `nearhead check`"
    )
}

/// The same of anything else.
pub(super) fn outside(problem: &str) -> String {
    format!(
        "{problem}: the superblock that was read is older than the map, or the volume was tampered with; make \
         its other copies readable, see `nearhead check`"
    )
}

fn entry_fits(entry: &Entry, layout: &Layout) -> bool {
    let in_log = match entry.place {
        Place::Log { chunk_sector, chunk_len, .. } => {
            is_in_log(chunk_sector, u64::from(chunk_len), layout)
        }
        Place::Home => layout.fragments,
        Place::Zero | Place::Poisoned => true,
    };
    in_log && is_on_volume(entry.home_sector, u64::from(entry.len_sectors), layout)
}

fn is_on_volume(start_sector: u64, sectors: u64, layout: &Layout) -> bool {
    let end = start_sector.checked_add(sectors);
    end.is_some_and(|end| end <= layout.client_bytes() / SECTOR_BYTES)
}

fn log_fits(log_index: u32, position: u32, layout: &Layout) -> bool {
    log_index < layout.log_count() && position <= layout.log_blocks()
}

fn is_in_log(chunk_sector: u64, sectors: u64, layout: &Layout) -> bool {
    if layout.log_count() == 0 {
        return false;
    }
    let start = chunk_sector * SECTOR_BYTES;
    let log = layout.log_offset(layout.group_of(start));
    let end = start + sectors * SECTOR_BYTES;
    log.is_some_and(|log| start >= log && end <= log + layout.log_bytes)
}
