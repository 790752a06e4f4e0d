//! Repairing a volume: what has a sound copy is copied, what has none is named and given up.
//!
//! Nothing is given up unless the owner accepts the loss. Every step leaves a volume that opens at
//! least as well as before, so a repair may be cut at any point and run again.

use crate::create::{CreateError, write_empty_snapshots, write_superblocks};
use crate::dump::{read_slots, scan_log};
use crate::map_device;
use crate::open::{OpenError, find_superblock_to_change};
use crate::sync_io::SyncIo;
use nearhead_disk::DiskError;
use nearhead_engine::range_set::RangeSet;
use nearhead_format::Superblock;
use nearhead_planted::{Mistake, is_made};

/// What is known of a volume without a sound snapshot.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// The highest sequence of any record found; records continue after it.
    pub record_sequence: u64,
    /// Records found in the logs.
    pub records: u64,
    /// Client bytes that some record in a log wrote: ranges of first byte and length. What was not
    /// copied home since reads as its older copy from now on.
    pub doubtful: Vec<(u64, u64)>,
}

/// Writes the superblock copies that are damaged or older again; says which.
pub fn repair_superblocks(io: &mut SyncIo<'_>) -> Result<Vec<String>, OpenError> {
    let found = find_superblock_to_change(io)?;
    if found.to_repair.is_empty() {
        return Ok(Vec::new());
    }
    let generation = found.superblock.generation + 1;
    write_superblocks(io, &Superblock { generation, ..found.superblock })?;
    Ok(found.to_repair)
}

/// Whether neither snapshot can be used.
pub fn snapshots_are_lost(io: &mut SyncIo<'_>, superblock: &Superblock) -> bool {
    read_slots(io, superblock).iter().all(|slot| !slot.is_sound())
}

/// Looks at every log for what a lost map may have pointed to. Changes nothing.
pub fn look_for_records(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<Rebuilt, DiskError> {
    let mut rebuilt = Rebuilt::default();
    let mut written = RangeSet::new();
    let logs = superblock.layout.log_count();
    for log_index in 0..logs {
        scan_log(io, superblock, log_index, &mut |record| {
            rebuilt.records += 1;
            rebuilt.record_sequence = rebuilt.record_sequence.max(record.header.sequence);
            for item in &record.header.writes {
                let range = item.range();
                written.insert(range.start_sector..range.end_sector());
            }
        })?;
        progress(log_index + 1, logs);
    }
    let sector = nearhead_disk::SECTOR_BYTES;
    let bytes =
        |range: std::ops::Range<u64>| (range.start * sector, (range.end - range.start) * sector);
    rebuilt.doubtful = written.iter().map(bytes).collect();
    Ok(rebuilt)
}

/// Writes an empty map in place of the lost one.
pub fn give_up_the_map(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    rebuilt: &Rebuilt,
) -> Result<(), CreateError> {
    let on_map = map_device::on_map(io, superblock)?;
    let begins_anew = is_made(Mistake::SequencesBeginAnew);
    write_empty_snapshots(io, &on_map, if begins_anew { 0 } else { rebuilt.record_sequence })
}
