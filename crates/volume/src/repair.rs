//! Repairing a volume: what has a sound copy is copied, what has none is named and given up.
//!
//! Nothing is given up unless the owner accepts the loss, and everything that would be is listed before. Without a
//! sound snapshot the map is rebuilt from the logs by the engine ([`nearhead_engine::Rebuilt`]); here its doubts are
//! weighed: where the newest copy in a log and home hold the same bytes, it does not matter which of them counts.
//! Every step leaves a volume that opens at least as well as before, so a repair may be cut at any point and run again.

use crate::check::read_copy;
use crate::create::write_superblocks;
use crate::dump::read_slots;
use crate::lanes::Lanes;
use crate::open::{OpenError, find_superblock_to_change};
use crate::sync_io::SyncIo;
use crate::volume::Volume;
use nearhead_disk::{Disk, SECTOR_BYTES};
use nearhead_engine::chunks::LoggedCopy;
use nearhead_engine::{Doubt, Rebuilt};
use nearhead_format::{Entry, Layout, Place, Superblock};
use std::ops::Range;

/// Why it is not certain what some bytes should read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// What a rebuild of the map says.
    Rebuild(Doubt),
    /// The volume, or a part of its logs, was written by a program that let snapshots alone take logged copies back.
    Unvouched,
}

impl Reason {
    /// Every reason, in the order in which they are told.
    pub const ALL: [Self; 4] = [
        Self::Rebuild(Doubt::Damaged),
        Self::Rebuild(Doubt::Lost),
        Self::Rebuild(Doubt::Outrun),
        Self::Unvouched,
    ];

    /// One word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rebuild(Doubt::Damaged) => "damaged",
            Self::Rebuild(Doubt::Lost) => "lost",
            Self::Rebuild(Doubt::Outrun) => "outrun",
            Self::Unvouched => "unvouched",
        }
    }

    /// A sentence for people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Rebuild(Doubt::Damaged) => "their newest copy does not match its checksum",
            Self::Rebuild(Doubt::Lost) => "the record that wrote them last is gone",
            Self::Rebuild(Doubt::Outrun) => {
                "a newer record is gone, and nothing says whether it wrote them or took them back"
            }
            Self::Unvouched => {
                "the volume was made by an older program, whose snapshots alone may have taken them back"
            }
        }
    }

    /// Whether there is a copy in a log that may be the newest.
    pub fn has_copy(self) -> bool {
        matches!(self, Self::Rebuild(Doubt::Outrun) | Self::Unvouched)
    }
}

/// Client bytes that are in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// First byte.
    pub client_offset: u64,
    /// Number of bytes.
    pub len_bytes: u64,
    /// Why.
    pub reason: Reason,
}

impl Doubtful {
    fn sectors(&self) -> Range<u64> {
        let start = self.client_offset / SECTOR_BYTES;
        start..start + self.len_bytes / SECTOR_BYTES
    }
}

/// A map that was rebuilt, and what is not certain about it.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// What the engine found.
    pub found: Rebuilt,
    /// Entries of the rebuilt map.
    pub map_entries: u64,
    /// By offset, without overlaps.
    pub doubtful: Vec<Doubtful>,
    /// Bytes in doubt by the records, of which log and home hold the same.
    pub agreeing_bytes: u64,
    /// The map would not fit a snapshot slot.
    pub outgrows_slot: bool,
}

impl Weighed {
    /// Whether the map is certainly what the lost one was.
    pub fn is_certain(&self) -> bool {
        self.doubtful.is_empty() && !self.found.is_rest_unknown
    }

    /// Sectors whose reads must fail; with `keep_newest` those of which a log has a copy are served from it.
    pub fn to_give_up(&self, keep_newest: bool) -> Vec<Range<u64>> {
        let given_up =
            self.doubtful.iter().filter(|range| !keep_newest || !range.reason.has_copy());
        given_up.map(Doubtful::sectors).collect()
    }
}

/// Weighs what a rebuild is in doubt about; `None` if the volume was not opened by one. Changes nothing.
pub fn weigh<D: Disk>(
    volume: &mut Volume<D>,
    io_of: impl for<'a> FnOnce(&'a mut Lanes<D>) -> SyncIo<'a>,
) -> Option<Weighed> {
    let engine = volume.engine();
    let found = engine.rebuilt()?.clone();
    let is_vouched = volume.superblock().logs_tell_all();
    let layout = volume.superblock().layout;
    let map = engine.map();
    let mut candidates: Vec<(Entry, Reason)> = Vec::new();
    for entry in map.iter().filter(|entry| entry.place != Place::Poisoned) {
        let sectors = entry.home_sector..entry.end_sector();
        if entry.place == Place::Home {
            // It says nothing but where bytes lie over it.
            let runs = found.outrun.within(sectors).map(|run| {
                let len_sectors = (run.end - run.start) as u8;
                let entry = Entry { home_sector: run.start, len_sectors, ..entry };
                (entry, Reason::Rebuild(Doubt::Outrun))
            });
            candidates.extend(runs);
        } else if found.outrun.overlaps(sectors) {
            candidates.push((entry, Reason::Rebuild(Doubt::Outrun)));
        } else if !is_vouched {
            candidates.push((entry, Reason::Unvouched));
        }
    }
    let with_bytes = |(entry, reason): (Entry, Reason)| {
        let over = engine.bytes_over(entry.home_sector..entry.end_sector());
        (entry, reason, over)
    };
    let candidates: Vec<_> = candidates.into_iter().map(with_bytes).collect();
    let map_entries = map.len() as u64;
    let outgrows_slot = engine.map_outgrows_slot(candidates.len());
    let mut doubtful = Vec::new();
    let mut agreeing_bytes = 0;
    let mut io = io_of(volume.lanes_mut());
    // Homes may be on data devices, which are in their order since it was opened.
    let data_devices = 0..layout.data_parts.bytes().len();
    io.join(&layout, &data_devices.collect::<Vec<_>>());
    for (entry, reason, over) in candidates {
        let range = (entry.home_sector, u64::from(entry.len_sectors));
        if log_and_home_agree(&mut io, &layout, &entry, &over) {
            agreeing_bytes += range.1 * SECTOR_BYTES;
        } else {
            doubtful.push(of_sectors(range.0..range.0 + range.1, reason));
        }
    }
    for (doubt, ranges) in &found.poisoned {
        doubtful.extend(ranges.iter().map(|range| of_sectors(range, Reason::Rebuild(*doubt))));
    }
    Some(Weighed { found, map_entries, doubtful: merged(doubtful), agreeing_bytes, outgrows_slot })
}

fn of_sectors(range: Range<u64>, reason: Reason) -> Doubtful {
    let len_bytes = (range.end - range.start) * SECTOR_BYTES;
    Doubtful { client_offset: range.start * SECTOR_BYTES, len_bytes, reason }
}

/// By offset, neighbours with the same reason as one.
fn merged(mut ranges: Vec<Doubtful>) -> Vec<Doubtful> {
    ranges.sort_by_key(|range| range.client_offset);
    let mut merged: Vec<Doubtful> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last)
                if last.client_offset + last.len_bytes == range.client_offset
                    && last.reason == range.reason =>
            {
                last.len_bytes += range.len_bytes;
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Bytes of the client's address space, from which one on.
type Over = (u64, Vec<u8>);

/// Whether it does not matter if an entry counts, and the bytes that lie over it: home holds what they say.
fn log_and_home_agree(io: &mut SyncIo<'_>, layout: &Layout, entry: &Entry, over: &[Over]) -> bool {
    let len = usize::from(entry.len_sectors) * SECTOR_BYTES as usize;
    let start = entry.home_sector * SECTOR_BYTES;
    // A home block is never split.
    let Some(home) = layout.home(start) else { return false };
    let Ok(at_home) = io.read(home.device_offset, len) else { return false };
    let said = match entry.place {
        Place::Home => Some(at_home.to_vec()),
        Place::Zero => Some(vec![0; len]),
        Place::Poisoned => None,
        Place::Log { offset, .. } => logged(io, entry, usize::from(offset), len),
    };
    let Some(mut said) = said else { return false };
    for (offset, bytes) in over {
        let from = (offset - start) as usize;
        said[from..from + bytes.len()].copy_from_slice(bytes);
    }
    said[..] == at_home[..]
}

/// The bytes of an entry as a log has them, from this sector of its chunk on; none if that is not sound.
fn logged(io: &mut SyncIo<'_>, entry: &Entry, offset: usize, len: usize) -> Option<Vec<u8>> {
    let chunk = read_copy(io, &LoggedCopy::of(entry)?)?;
    let from = offset * SECTOR_BYTES as usize;
    chunk.get(from..from + len).map(<[u8]>::to_vec)
}

/// Overwrites the beginnings of records that a power cut tore, so that none becomes whole later.
pub fn clear_torn(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    torn: &[u64],
) -> Result<(), OpenError> {
    let block = superblock.layout.log_block_bytes as usize;
    for offset in torn {
        io.write(*offset, &vec![0; block])?;
    }
    if !torn.is_empty() {
        io.flush()?;
    }
    Ok(())
}

/// Copies of the superblock that are damaged or older, with what is wrong. Changes nothing.
pub fn superblocks_to_repair(io: &mut SyncIo<'_>) -> Result<Vec<String>, OpenError> {
    Ok(find_superblock_to_change(io)?.to_repair)
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

/// Snapshot slots that hold no sound snapshot although they did or should, with what is wrong. Changes nothing.
pub fn slots_to_repair(io: &mut SyncIo<'_>, superblock: &Superblock) -> Vec<String> {
    let slots = read_slots(io, superblock);
    let sound = slots.iter().filter(|slot| slot.is_sound());
    let newest = sound
        .filter_map(|slot| slot.header.as_ref().ok())
        .map(|header| header.snapshot_number)
        .max();
    let mut problems = Vec::new();
    for slot in &slots {
        // Beside the snapshot of creation the other slot waits for its first one.
        if slot.is_unused && newest == Some(0) {
            continue;
        }
        let problem = match (&slot.header, &slot.header_problem, &slot.body_problem) {
            (Err(problem), ..) | (Ok(_), Some(problem), None) => problem.clone(),
            (Ok(_), _, Some(problem)) => format!("its body is not sound: {problem}"),
            (Ok(_), None, None) => continue,
        };
        problems.push(format!("snapshot slot {} at {}: {problem}", slot.slot, slot.at));
    }
    problems
}

#[cfg(test)]
mod tests;
