//! What a checkpoint batch reads and writes: pure functions from entries to transfers.
//!
//! Reads are of the logs, and of the gaps of a band that is written as a whole. What they bring is
//! verified before it goes anywhere: a logged chunk by its checksum, which its address is part of.

use crate::state::chunks::{LoggedCopy, content_of};
use crate::state::remembered::Remembered;
use crate::state::sectors::SECTOR;
use nearhead_disk::{Command, Payload};
use nearhead_format::{Entry, Layout, Place};
use std::ops::Range;

/// Reads, and writes of scattered homes, are merged up to this many bytes.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// A transfer of device bytes into memory.
#[derive(Debug)]
pub(super) struct SourceRead {
    pub(super) device_offset: u64,
    pub(super) len: u32,
    pub(super) data: Option<Payload>,
}

/// The reads that fetch every chunk once, neighbours in the log merged. What is in memory is there already.
pub(super) fn plan_reads(
    entries: &[Entry],
    memory: &Remembered,
    layout: &Layout,
) -> Vec<SourceRead> {
    let mut copies: Vec<LoggedCopy> = entries.iter().filter_map(LoggedCopy::of).collect();
    copies.sort_unstable_by_key(|copy| copy.device_offset);
    copies.dedup();
    let mut reads: Vec<SourceRead> = Vec::new();
    for copy in copies {
        let data = memory.get(&copy).cloned();
        match reads.last_mut() {
            Some(last)
                if last.device_offset + u64::from(last.len) == copy.device_offset
                    && last.len + copy.bytes <= TRANSFER_BYTES_MAX
                    && last.data.is_none()
                    && data.is_none() =>
            {
                last.len += copy.bytes;
            }
            _ => {
                let (device_offset, len) = (copy.device_offset, copy.bytes);
                reads.push(SourceRead { device_offset, len, data });
            }
        }
    }
    reads.extend(plan_homes(entries, layout));
    reads
}

/// The reads of what lies at home under fragments, neighbours merged.
fn plan_homes(entries: &[Entry], layout: &Layout) -> Vec<SourceRead> {
    let mut reads: Vec<SourceRead> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.place == Place::Home) {
        let bytes = u64::from(entry.len_sectors) * SECTOR as u64;
        for piece in layout.home_pieces(entry.home_sector * SECTOR as u64, bytes) {
            let (device_offset, len) = (piece.device_offset, piece.len as u32);
            match reads.last_mut() {
                Some(last)
                    if last.device_offset + u64::from(last.len) == device_offset
                        && last.len + len <= TRANSFER_BYTES_MAX =>
                {
                    last.len += len;
                }
                _ => reads.push(SourceRead { device_offset, len, data: None }),
            }
        }
    }
    reads
}

/// How much of them needs no read.
pub(super) fn in_memory(reads: &[SourceRead]) -> u64 {
    reads.iter().filter(|read| read.data.is_some()).map(|read| u64::from(read.len)).sum()
}

/// The bytes of an entry, from verified chunks.
pub(super) fn content(
    entry: &Entry,
    reads: &[SourceRead],
    layout: &Layout,
) -> Result<Payload, String> {
    if entry.place == Place::Home {
        return at_home(entry, reads, layout);
    }
    let offset = LoggedCopy::of(entry).map_or(0, |copy| copy.device_offset);
    let at = reads.partition_point(|read| read.device_offset <= offset);
    let read = at.checked_sub(1).map(|at| &reads[at]);
    let data = read.and_then(|read| read.data.as_ref()).unwrap_or(&Payload::EMPTY);
    let from = read.map_or(0, |read| read.device_offset);
    content_of(entry, data, from).map_err(|problem| format!("checkpoint: {problem}"))
}

/// The bytes that were read of an entry's home.
fn at_home(entry: &Entry, reads: &[SourceRead], layout: &Layout) -> Result<Payload, String> {
    let offset = entry.home_sector * SECTOR as u64;
    let len = u64::from(entry.len_sectors) * SECTOR as u64;
    let mut parts = Vec::new();
    fill(layout, offset..offset + len, reads, &mut parts)
        .filter(|()| parts.len() == 1)
        .and_then(|()| parts.pop())
        .map(|(_, data)| data)
        .ok_or_else(|| {
            format!("checkpoint: the home of sector {} could not be read", entry.home_sector)
        })
}

/// Home writes in home order, neighbours on the device merged.
pub(super) fn merge(
    layout: &Layout,
    writes: Vec<(u64, Payload)>,
    alone: &dyn Fn(u64) -> bool,
) -> Vec<Command> {
    merge_up_to(layout, writes, u64::from(TRANSFER_BYTES_MAX), alone)
}

/// The same for transfers of at most `bytes_max`; what is at a client byte that is to go `alone` is merged with
/// nothing.
fn merge_up_to(
    layout: &Layout,
    writes: Vec<(u64, Payload)>,
    bytes_max: u64,
    alone: &dyn Fn(u64) -> bool,
) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let (mut end, mut len) = (u64::MAX, 0);
    for (client_offset, data) in writes {
        let Some(home) = layout.home(client_offset) else { continue };
        let (bytes, alone) = (data.len() as u64, alone(client_offset));
        match commands.last_mut() {
            Some(Command::Write { parts, .. })
                if end == home.device_offset && len + bytes <= bytes_max && !alone =>
            {
                parts.push(data);
                len += bytes;
            }
            _ => {
                let offset = home.device_offset;
                commands.push(Command::Write { offset, parts: vec![data], durable: false });
                len = bytes;
            }
        }
        end = if alone { u64::MAX } else { home.device_offset + bytes };
    }
    commands
}

/// The reads of those parts of a band that `entries` do not cover.
pub(super) fn read_band(layout: &Layout, band: &Range<u64>, entries: &[Entry]) -> Vec<SourceRead> {
    let mut entries = entries.iter().peekable();
    let mut reads = Vec::new();
    let (mut at, end) = (band.start, band.end);
    while at < end {
        let stop = (at + u64::from(TRANSFER_BYTES_MAX) / SECTOR as u64).min(end);
        let mut covered = 0;
        while let Some(entry) = entries.peek() {
            let (from, to) = (entry.home_sector.max(at), entry.end_sector().min(stop));
            covered += to.saturating_sub(from);
            if entry.end_sector() > stop || entry.home_sector >= stop {
                break;
            }
            entries.next();
        }
        if covered < stop - at {
            let bytes = (stop - at) * SECTOR as u64;
            reads.extend(layout.home_pieces(at * SECTOR as u64, bytes).map(|piece| SourceRead {
                device_offset: piece.device_offset,
                len: piece.len as u32,
                data: None,
            }));
        }
        at = stop;
    }
    reads
}

/// The writes of a whole band, in pieces of at most `piece_bytes`: `writes`, in home order, and
/// between them what was read of the band. None if not all of that is there.
pub(super) fn whole_band(
    layout: &Layout,
    band: &Range<u64>,
    writes: &[(u64, Payload)],
    reads: &[SourceRead],
    piece_bytes: u64,
) -> Option<Vec<Command>> {
    let sector = SECTOR as u64;
    let mut all = Vec::with_capacity(2 * writes.len() + 1);
    let mut at = band.start * sector;
    for (offset, data) in writes {
        fill(layout, at..*offset, reads, &mut all)?;
        all.push((*offset, data.clone()));
        at = offset + data.len() as u64;
    }
    fill(layout, at..(band.end * sector).max(at), reads, &mut all)?;
    Some(merge_up_to(layout, all, piece_bytes, &|_| false))
}

/// Adds the home bytes of `gap` as they were read.
fn fill(
    layout: &Layout,
    gap: Range<u64>,
    reads: &[SourceRead],
    all: &mut Vec<(u64, Payload)>,
) -> Option<()> {
    let mut at = gap.start;
    while at < gap.end {
        let home = layout.home(at)?;
        let after = reads.partition_point(|read| read.device_offset <= home.device_offset);
        let read = &reads[after.checked_sub(1)?];
        let from = home.device_offset - read.device_offset;
        let left = u64::from(read.len).checked_sub(from).filter(|left| *left > 0)?;
        let len = left.min(home.len).min(gap.end - at);
        all.push((at, read.data.as_ref()?.slice(from as usize..(from + len) as usize)));
        at += len;
    }
    Some(())
}
