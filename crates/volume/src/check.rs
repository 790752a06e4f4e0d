//! Checking a volume: everything that has a checksum is read and compared; nothing is written.
//!
//! Three steps: the superblock copies and snapshot slots as they are; a recovery without writing,
//! which finds what is wrong with the logs; then every logged chunk that the map points to. Blocks
//! at home have no checksum, so nothing can be said about them; what fragments brought is in the snapshot or in the headers of
//! records, under their checksums. A finding names the address, what
//! was expected and what was found.

use crate::blanks;
use crate::dump::{Slot, read_slots};
use crate::lanes::Lanes;
use crate::open::{Copies, OpenError, find_superblock, read_copies};
use crate::opening::Clock;
use crate::presets::Presets;
use crate::sync_io::SyncIo;
use crate::volume::Volume;
use nearhead_disk::{Buffer, Disk, Lane, Payload, SECTOR_BYTES};
use nearhead_engine::DamageKind;
use nearhead_engine::chunks::LoggedCopy;
use nearhead_format::snapshot::FLAG_CLEAN_SHUTDOWN;
use nearhead_format::{Entry, Place, Superblock};
use std::time::Instant;

/// Entries verified together: their chunks are read in the order they have on the device.
const BATCH_ENTRIES: usize = 64 * 1024;
/// Chunks that lie one after the other are read together up to this many bytes.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Findings kept; past them only their number grows.
pub const FINDINGS_MAX: usize = 10_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// Whether it is damage; otherwise it is worth knowing and no reason to act.
    pub is_damage: bool,
    /// What it is about: `superblock copy 1`.
    pub place: String,
    /// Where on the device, in bytes.
    pub device_offset: Option<u64>,
    /// Where clients see it, in bytes.
    pub client_offset: Option<u64>,
    /// How many bytes are concerned.
    pub len_bytes: Option<u64>,
    /// Expected and found.
    pub problem: String,
}

/// A logged copy that cannot be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unverified {
    /// The log that has it.
    pub log_index: u32,
    /// First client byte.
    pub client_offset: u64,
    /// Number of bytes.
    pub len_bytes: u64,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Entries verified.
    pub entries_done: u64,
    /// Entries of the map.
    pub entries: u64,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The superblock that counts.
    pub superblock: Superblock,
    /// Whether the volume can be opened as it is.
    pub opens: bool,
    /// Snapshot slots with a sound snapshot.
    pub sound_snapshots: usize,
    /// Entries of the map.
    pub entries: u64,
    /// Chunks read and compared.
    pub chunks: u64,
    /// Their bytes.
    pub chunk_bytes: u64,
    /// The first [`FINDINGS_MAX`] findings.
    pub findings: Vec<CheckFinding>,
    /// How many there were in all.
    pub findings_total: u64,
}

impl CheckReport {
    /// How many of the findings kept are damage.
    pub fn damage_count(&self) -> usize {
        self.findings.iter().filter(|finding| finding.is_damage).count()
    }

    fn add(&mut self, finding: CheckFinding) {
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// Checks the volume on a disk, or on a disk and a map device, which may be open for reading only.
pub fn check<D: Disk>(
    lanes: impl Into<Lanes<D>>,
    start: Instant,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport, OpenError> {
    check_with(Presets::default(), lanes, start, progress)
}

/// Checks a volume with one of `presets`.
pub fn check_with<D: Disk>(
    presets: Presets,
    lanes: impl Into<Lanes<D>>,
    start: Instant,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport, OpenError> {
    let mut lanes = lanes.into();
    let mut io = lanes.in_real_time(start).knowing(presets);
    let superblock = find_superblock(&mut io)?.superblock;
    let mut report = CheckReport {
        superblock: superblock.clone(),
        opens: true,
        sound_snapshots: 0,
        entries: 0,
        chunks: 0,
        chunk_bytes: 0,
        findings: Vec::new(),
        findings_total: 0,
    };
    check_copies(&read_copies(&mut io), &superblock, &mut report);
    for finding in blanks::load(&mut io, &superblock).findings {
        report.add(text_finding("blank map", finding));
    }
    let slots = read_slots(&mut io, &superblock);
    report.sound_snapshots = slots.iter().filter(|slot| slot.is_sound()).count();
    let clock = Clock::Real { start };
    let (mut volume, _) =
        Volume::open_with(presets, lanes, clock, |_, config| config.read_only = true)?;
    let opened = volume.wait_until_open(start);
    let status = volume.engine().status();
    check_slots(&slots, status.recovery_records > 0, &mut report);
    for finding in status.damage {
        // Of a home that takes nothing, or a data device that was given up, the logs are none the worse.
        let place = if finding.kind == DamageKind::Home { "homes" } else { "logs" };
        report.add(text_finding(place, finding.text));
    }
    if let Err(error) = opened {
        report.opens = false;
        report.add(text_finding("recovery", error.to_string()));
        return Ok(report);
    }
    check_chunks(&mut volume, start, &mut report, progress);
    Ok(report)
}

fn text_finding(place: &str, problem: String) -> CheckFinding {
    CheckFinding {
        is_damage: true,
        place: place.to_owned(),
        device_offset: None,
        client_offset: None,
        len_bytes: None,
        problem,
    }
}

fn check_copies(copies: &Copies, chosen: &Superblock, report: &mut CheckReport) {
    for (index, copy) in copies.copies.iter().enumerate() {
        let problem = match copy {
            Ok(copy) if copy == chosen => continue,
            Ok(copy) => format!(
                "expected generation {} of the newest copy, found {}",
                chosen.generation, copy.generation
            ),
            Err(error) => error.to_string(),
        };
        report.add(CheckFinding {
            device_offset: Some(copies.offsets[index]),
            len_bytes: Some(4096),
            ..text_finding(&format!("superblock copy {index}"), problem)
        });
    }
}

/// One unsound slot is damage if the volume was closed in order and not used since, or if both are; else
/// it may be what a crash during a snapshot leaves.
fn check_slots(slots: &[Slot; 2], used_since: bool, report: &mut CheckReport) {
    let newest = slots
        .iter()
        .filter(|slot| slot.is_sound())
        .filter_map(|slot| slot.header.as_ref().ok())
        .max_by_key(|header| header.snapshot_number);
    for slot in slots {
        let is_first = newest.is_some_and(|newest| newest.snapshot_number == 0);
        if slot.is_unused && is_first {
            continue;
        }
        let problem = match (&slot.header, &slot.header_problem, &slot.body_problem) {
            (Err(problem), ..) => problem.clone(),
            (Ok(_), _, Some(problem)) => format!("its body is not sound: {problem}"),
            (Ok(_), Some(problem), None) => format!("{problem}; the copy of it is sound"),
            (Ok(_), None, None) => continue,
        };
        // A header was sound once if its copy is the newest snapshot of all.
        let counts = slot.is_sound() && slot.header.as_ref().ok() == newest;
        let by_crash = !counts
            && newest.is_some_and(|newest| used_since || newest.flags & FLAG_CLEAN_SHUTDOWN == 0);
        let hint = if by_crash { " (as a crash during a snapshot leaves it)" } else { "" };
        let of = if slot.at.lane == Lane::MAIN { "" } else { " of the map device" };
        report.add(CheckFinding {
            is_damage: !by_crash,
            device_offset: Some(slot.at.offset),
            ..text_finding(&format!("snapshot slot {}{of}", slot.slot), format!("{problem}{hint}"))
        });
    }
}

fn check_chunks<D: Disk>(
    volume: &mut Volume<D>,
    start: Instant,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(Progress),
) {
    report.entries = volume.engine().map().len() as u64;
    let (mut cursor, mut entries_done) = (0, 0);
    loop {
        let batch: Vec<Entry> =
            volume.engine().map().iter_from(cursor).take(BATCH_ENTRIES).collect();
        let Some(last) = batch.last() else { return };
        cursor = last.end_sector();
        entries_done += batch.len() as u64;
        check_poison(&batch, report);
        let mut chunks: Vec<LoggedCopy> = batch.iter().filter_map(LoggedCopy::of).collect();
        chunks.sort_unstable_by_key(|chunk| (chunk.device_offset, chunk.home_sector));
        chunks.dedup();
        let mut io = volume.io(start);
        for run in runs(&chunks) {
            verify_run(&mut io, run, &mut |finding| report.add(finding));
        }
        report.chunks += chunks.len() as u64;
        report.chunk_bytes += chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum::<u64>();
        progress(Progress { entries_done, entries: report.entries });
    }
}

/// Logged copies of an open volume that cannot be read or do not match their checksum, as a check finds them: the client
/// bytes of each, and the log that has it. Changes nothing.
pub fn unverified<D: Disk>(volume: &mut Volume<D>, start: Instant) -> Vec<Unverified> {
    let layout = volume.superblock().layout;
    let chunks = volume.engine().map().iter().filter_map(|entry| LoggedCopy::of(&entry));
    let mut chunks: Vec<LoggedCopy> = chunks.collect();
    chunks.sort_unstable_by_key(|chunk| (chunk.device_offset, chunk.home_sector));
    chunks.dedup();
    let mut io = volume.io(start);
    let mut found = Vec::new();
    for run in runs(&chunks) {
        verify_run(&mut io, run, &mut |finding| {
            found.push(Unverified {
                log_index: layout.group_of(finding.device_offset.unwrap_or_default()),
                client_offset: finding.client_offset.unwrap_or_default(),
                len_bytes: finding.len_bytes.unwrap_or_default(),
            });
        });
    }
    found.sort_unstable_by_key(|copy| copy.client_offset);
    found
}

fn check_poison(batch: &[Entry], report: &mut CheckReport) {
    for entry in batch.iter().filter(|entry| entry.place == Place::Poisoned) {
        report.add(CheckFinding {
            client_offset: Some(entry.home_sector * SECTOR_BYTES),
            len_bytes: Some(u64::from(entry.len_sectors) * SECTOR_BYTES),
            ..text_finding(
                "lost block",
                "its newest copy was lost: reads fail until it is written again".to_owned(),
            )
        });
    }
}

/// The bytes of a logged copy, if they can be read and are sound.
pub(crate) fn read_copy(io: &mut SyncIo<'_>, copy: &LoggedCopy) -> Option<Buffer> {
    let bytes = io.read(copy.device_offset, copy.bytes as usize).ok()?;
    let sound = copy.take(&Payload::Bytes(bytes.clone()), copy.device_offset).is_ok();
    sound.then_some(bytes)
}

/// Reads a logged copy and compares it; what is wrong, if anything.
pub(crate) fn copy_problem(io: &mut SyncIo<'_>, copy: &LoggedCopy) -> Option<String> {
    match io.read(copy.device_offset, copy.bytes as usize) {
        Err(error) => Some(error.to_string()),
        Ok(bytes) => {
            let unsound = copy.take(&Payload::Bytes(bytes), copy.device_offset).err()?;
            Some(unsound.to_string())
        }
    }
}

/// Chunks that follow each other on the device, cut to what is read at once.
fn runs(chunks: &[LoggedCopy]) -> impl Iterator<Item = &[LoggedCopy]> {
    let mut rest = chunks;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut end = first.end();
        let mut len = 1;
        while let Some(next) = rest.get(len)
            && next.device_offset == end
            && next.end() - first.device_offset <= READ_BYTES_MAX
        {
            end = next.end();
            len += 1;
        }
        let (run, left) = rest.split_at(len);
        rest = left;
        Some(run)
    })
}

fn verify_run(io: &mut SyncIo<'_>, run: &[LoggedCopy], add: &mut dyn FnMut(CheckFinding)) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    let read = io.read(first.device_offset, (last.end() - first.device_offset) as usize);
    let read = read.map_or(Payload::EMPTY, Payload::Bytes);
    for chunk in run {
        if chunk.take(&read, first.device_offset).is_ok() {
            continue;
        }
        // By itself, once more: a neighbour may be what cannot be read.
        if let Some(problem) = copy_problem(io, chunk) {
            add(CheckFinding {
                device_offset: Some(chunk.device_offset),
                client_offset: Some(chunk.home_sector * SECTOR_BYTES),
                len_bytes: Some(u64::from(chunk.bytes)),
                ..text_finding("logged block", problem)
            });
        }
    }
}

#[cfg(test)]
mod tests;
