//! `nearhead dump`: what is on a volume, in readable form, damaged or not. It decides nothing and
//! changes nothing.

use crate::report::{DeviceReport, VolumeFacts, preset_name};
use crate::target::{Access, DiskArgs, Target};
use crate::units::date_of;
use nearhead_disk::Lane;
use nearhead_format::record::{FLAG_ATOMIC, FLAG_RELOCATION, NO_POSITION, WriteItem};
use nearhead_format::snapshot::{BodyItem, FLAG_CLEAN_SHUTDOWN};
use nearhead_format::{Entry, Place, SECTOR_BYTES, Superblock};
use nearhead_output::{plain, say, say_json};
use nearhead_volume::blanks;
use nearhead_volume::dump::{LogRecord, Slot, read_body, read_slots, scan_log};
use nearhead_volume::open::{Copies, read_copies};
use nearhead_volume::{SyncIo, find_superblock};
use serde::Serialize;
use std::collections::BTreeSet;

/// What `nearhead dump` is told.
#[derive(clap::Args, Debug)]
pub struct DumpArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// Show the records of this log
    #[arg(long, value_name = "NUMBER")]
    pub log: Option<u32>,
    /// Show the map of the newest snapshot
    #[arg(long)]
    pub map: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    target: String,
    superblock_copies: Vec<CopyReport>,
    volume: VolumeFacts,
    devices: Vec<DeviceReport>,
    layout: LayoutReport,
    snapshots: Vec<SlotReport>,
    /// None if the volume has none, or gave it up.
    blank_map: Option<BlankMapReport>,
    /// Logs as the newest snapshot says.
    logs: Vec<LogReport>,
    hints: Vec<HintReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<Vec<EntryReport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Vec<RecordReport>>,
}

#[derive(Debug, Serialize)]
struct CopyReport {
    copy: usize,
    device_offset: u64,
    generation: Option<u64>,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct LayoutReport {
    sector_bytes: u32,
    log_block_bytes: u32,
    slot_offsets: [u64; 2],
    slot_bytes: u64,
    groups_offset: u64,
    group_bytes: u64,
    log_bytes: u64,
    groups: u32,
}

#[derive(Debug, Serialize)]
struct SlotReport {
    slot: u32,
    device_offset: u64,
    /// That byte is one of the map device.
    on_map_device: bool,
    unused: bool,
    problem: Option<String>,
    number: Option<u64>,
    record_sequence: Option<u64>,
    clean_shutdown: Option<bool>,
    entries: Option<u64>,
    logs: Option<u32>,
    claims: Option<u32>,
    hints: Option<u32>,
    /// Cells of what is left of fragments.
    fragments: Option<u32>,
    body_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct BlankMapReport {
    region_bytes: u64,
    /// Bytes of regions that are promised to be blank; a logged block in one counts too.
    blank_bytes: u64,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct LogReport {
    log: u32,
    device_offset: Option<u64>,
    next_position: u32,
    claimed: bool,
}

#[derive(Debug, Serialize)]
struct HintReport {
    client_offset: u64,
    len_bytes: u64,
    kind: &'static str,
}

#[derive(Debug, Serialize)]
struct EntryReport {
    client_offset: u64,
    len_bytes: u64,
    /// `log`, `zero`, `home` (below what fragments brought) or `lost`.
    place: &'static str,
    device_offset: Option<u64>,
    chunk_bytes: Option<u64>,
    chunk_crc32c: Option<String>,
}

#[derive(Debug, Serialize)]
struct RecordReport {
    position: u32,
    device_offset: u64,
    bytes: u64,
    sequence: u64,
    flags: Vec<&'static str>,
    previous_position: Option<u32>,
    oldest_live_position: u32,
    chunks_unsound: usize,
    writes: Vec<WriteReport>,
    invalidations: Vec<[u64; 2]>,
    claims: Vec<[u32; 2]>,
    echo: Vec<[u64; 2]>,
    /// Bytes of all fragments together.
    fragment_bytes: usize,
    /// Of each its first client byte and its length.
    fragments: Vec<[u64; 2]>,
}

#[derive(Debug, Serialize)]
struct WriteReport {
    client_offset: u64,
    len_bytes: u64,
    zeros: bool,
}

/// Runs the command.
pub fn run(args: &DumpArgs) -> Result<(), String> {
    let mut target = Target::open(&args.target, Access::Read, &args.disk)?;
    let lone_member = target.lone_member.clone();
    let mut io = target.io();
    let copies = copy_reports(&read_copies(&mut io));
    let superblock = match find_superblock(&mut io) {
        Ok(found) => found.superblock,
        Err(error) => {
            for copy in &copies {
                say(&copy_line(copy));
            }
            return Err(Target::problem(&args.target, lone_member.as_ref(), &error));
        }
    };
    let slots = read_slots(&mut io, &superblock);
    let blanks = blanks::load(&mut io, &superblock);
    let body = newest_body(&mut io, &slots, args.map);
    let records = match args.log {
        None => None,
        Some(log) => Some(records(&mut io, &superblock, log)?),
    };
    let layout = &superblock.layout;
    let report = Report {
        target: args.target.clone(),
        superblock_copies: copies,
        volume: VolumeFacts::of(&superblock),
        devices: DeviceReport::of_io(&superblock, &io),
        layout: LayoutReport {
            sector_bytes: layout.sector_bytes,
            log_block_bytes: layout.log_block_bytes,
            slot_offsets: layout.slot_offsets,
            slot_bytes: layout.slot_bytes,
            groups_offset: layout.groups_offset,
            group_bytes: layout.group_bytes,
            log_bytes: layout.log_bytes,
            groups: layout.group_count,
        },
        snapshots: slots.iter().map(slot_report).collect(),
        blank_map: blanks.found.map(|found| BlankMapReport {
            region_bytes: found.region_bytes,
            blank_bytes: found.blank_bytes(layout.client_bytes()),
            problem: blanks.findings.first().cloned(),
        }),
        logs: log_reports(&superblock, &body),
        hints: body.hints,
        map: args.map.then_some(body.entries),
        records,
    };
    if args.json {
        return say_json(&report);
    }
    tell(&report, args.log);
    Ok(())
}

fn copy_reports(copies: &Copies) -> Vec<CopyReport> {
    let report = |(copy, found): (usize, &Result<Superblock, _>)| CopyReport {
        copy,
        device_offset: copies.offsets[copy],
        generation: found.as_ref().ok().map(|superblock| superblock.generation),
        problem: found.as_ref().err().map(nearhead_format::SuperblockError::to_string),
    };
    copies.copies.iter().enumerate().map(report).collect()
}

fn problem_of(slot: &Slot) -> Option<String> {
    let unsound = slot.header.as_ref().err().or(slot.body_problem.as_ref());
    unsound.or(slot.header_problem.as_ref()).cloned()
}

fn slot_report(slot: &Slot) -> SlotReport {
    let header = slot.header.as_ref().ok();
    SlotReport {
        slot: slot.slot,
        device_offset: slot.at.offset,
        on_map_device: slot.at.lane != Lane::MAIN,
        unused: slot.is_unused,
        problem: problem_of(slot),
        number: header.map(|header| header.snapshot_number),
        record_sequence: header.map(|header| header.record_sequence),
        clean_shutdown: header.map(|header| header.flags & FLAG_CLEAN_SHUTDOWN != 0),
        entries: header.map(|header| header.body.entry_count),
        logs: header.map(|header| header.body.log_count),
        claims: header.map(|header| header.body.claim_count),
        hints: header.map(|header| header.body.hint_count),
        fragments: header.map(|header| header.body.fragment_count),
        body_bytes: header.map(|header| header.body.body_bytes),
    }
}

/// What the body of the newest sound snapshot lists.
#[derive(Default)]
struct Body {
    entries: Vec<EntryReport>,
    states: Vec<nearhead_format::snapshot::LogState>,
    claims: BTreeSet<u32>,
    hints: Vec<HintReport>,
}

fn newest_body(io: &mut SyncIo<'_>, slots: &[Slot; 2], with_map: bool) -> Body {
    let newest = slots
        .iter()
        .filter(|slot| slot.is_sound())
        .filter_map(|slot| Some((slot.at, slot.header.as_ref().ok()?)))
        .max_by_key(|(_, header)| header.snapshot_number);
    let mut body = Body::default();
    let Some((at, header)) = newest else { return body };
    let read = read_body(io, at, header, &mut |item| match item {
        BodyItem::Entry(entry) if with_map => body.entries.push(entry_report(&entry)),
        BodyItem::Entry(_) | BodyItem::Fragment(_) => {}
        BodyItem::Log(state) => body.states.push(state),
        BodyItem::Claim(log) => drop(body.claims.insert(log)),
        BodyItem::Hint(hint) => body.hints.push(HintReport {
            client_offset: hint.start_sector * SECTOR_BYTES,
            len_bytes: hint.len_sectors * SECTOR_BYTES,
            kind: "durability-only",
        }),
        // How many there are, the header says.
    });
    // It was sound a moment ago; if it is not now, nothing of it counts.
    if read.is_ok() { body } else { Body::default() }
}

fn entry_report(entry: &Entry) -> EntryReport {
    let mut report = EntryReport {
        client_offset: entry.home_sector * SECTOR_BYTES,
        len_bytes: u64::from(entry.len_sectors) * SECTOR_BYTES,
        place: "lost",
        device_offset: None,
        chunk_bytes: None,
        chunk_crc32c: None,
    };
    match entry.place {
        Place::Poisoned => {}
        Place::Zero => report.place = "zero",
        Place::Home => report.place = "home",
        Place::Log { chunk_sector, chunk_len, offset } => {
            report.place = "log";
            report.device_offset = Some((chunk_sector + u64::from(offset)) * SECTOR_BYTES);
            report.chunk_bytes = Some(u64::from(chunk_len) * SECTOR_BYTES);
            report.chunk_crc32c = Some(format!("{:08x}", entry.crc));
        }
    }
    report
}

fn log_reports(superblock: &Superblock, body: &Body) -> Vec<LogReport> {
    body.states
        .iter()
        .map(|state| LogReport {
            log: state.log_index,
            device_offset: superblock.layout.log_offset(state.log_index),
            next_position: state.position,
            claimed: body.claims.contains(&state.log_index),
        })
        .collect()
}

fn records(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    log: u32,
) -> Result<Vec<RecordReport>, String> {
    let logs = superblock.layout.log_count();
    if log >= logs {
        let expected = match logs {
            0 => format!("a volume with logs, found preset {}", preset_name(superblock)),
            _ => format!("a log from 0 to {}, found {log}", logs - 1),
        };
        return Err(format!("dump: --log: expected {expected}"));
    }
    let mut records = Vec::new();
    scan_log(io, superblock, log, &mut |record| records.push(record_report(&record)))
        .map_err(|error| error.to_string())?;
    Ok(records)
}

fn record_report(record: &LogRecord) -> RecordReport {
    let header = &record.header;
    let flags = [(FLAG_RELOCATION, "relocation"), (FLAG_ATOMIC, "atomic")];
    let range = |range: &nearhead_format::record::SectorRange| {
        [range.start_sector * SECTOR_BYTES, u64::from(range.len_sectors) * SECTOR_BYTES]
    };
    RecordReport {
        position: record.position,
        device_offset: record.offset,
        bytes: record.bytes,
        sequence: header.sequence,
        flags: flags
            .iter()
            .filter(|(bit, _)| header.flags & bit != 0)
            .map(|(_, name)| *name)
            .collect(),
        previous_position: Some(header.previous_position).filter(|at| *at != NO_POSITION),
        oldest_live_position: header.oldest_live_position,
        chunks_unsound: record.chunks_sound.iter().filter(|sound| !**sound).count(),
        writes: header
            .writes
            .iter()
            .map(|item| {
                let [client_offset, len_bytes] = range(&item.range());
                WriteReport {
                    client_offset,
                    len_bytes,
                    zeros: matches!(item, WriteItem::Zeros { .. }),
                }
            })
            .collect(),
        invalidations: header.invalidations.iter().map(range).collect(),
        claims: header.claims.iter().map(|claim| [claim.log_index, claim.position]).collect(),
        echo: header.echo.iter().map(range).collect(),
        fragment_bytes: header.fragment_bytes(),
        fragments: header
            .fragments
            .iter()
            .map(|fragment| [fragment.home_byte(), fragment.bytes.len() as u64])
            .collect(),
    }
}

fn copy_line(copy: &CopyReport) -> String {
    let state = match (&copy.problem, copy.generation) {
        (Some(problem), _) => problem.clone(),
        (None, Some(generation)) => format!("generation {generation}"),
        (None, None) => "nothing".to_owned(),
    };
    format!("superblock copy {} at byte {}: {state}", copy.copy, copy.device_offset)
}

fn tell(report: &Report, log: Option<u32>) {
    let (volume, layout) = (&report.volume, &report.layout);
    report.superblock_copies.iter().for_each(|copy| say(&copy_line(copy)));
    say(&format!(
        "volume {} \"{}\": preset {}, ack {}, {} logged, created {}",
        volume.volume_id,
        plain(&volume.label),
        volume.preset,
        volume.ack,
        match volume.logged_write_bytes_max {
            u32::MAX => "all writes are".to_owned(),
            bytes => format!("writes up to {bytes} bytes are"),
        },
        date_of(volume.created_unix_s)
    ));
    for line in DeviceReport::lines(&report.devices) {
        say(&line);
    }
    say(&format!(
        "layout: {} bytes, sectors of {}, log blocks of {}, snapshot slots of {} at {} and {}",
        volume.device_bytes,
        layout.sector_bytes,
        layout.log_block_bytes,
        layout.slot_bytes,
        layout.slot_offsets[0],
        layout.slot_offsets[1]
    ));
    say(&format!(
        "groups: {} of {} bytes from byte {} on, each with a log of {} bytes",
        layout.groups, layout.group_bytes, layout.groups_offset, layout.log_bytes
    ));
    report.snapshots.iter().for_each(|slot| say(&slot_line(slot)));
    if let Some(map) = &report.blank_map {
        let problem = map.problem.as_ref().map_or(String::new(), |problem| format!("; {problem}"));
        let (blank, region) = (map.blank_bytes, map.region_bytes);
        say(&format!("blank map: {blank} bytes in regions of {region}{problem}"));
    }
    for log in &report.logs {
        say(&format!(
            "log {} at byte {}: next record at block {}{}",
            log.log,
            log.device_offset.unwrap_or(0),
            log.next_position,
            if log.claimed { ", to be scanned by a recovery" } else { "" }
        ));
    }
    for hint in &report.hints {
        say(&format!("hint: {} bytes at {} are {}", hint.len_bytes, hint.client_offset, hint.kind));
    }
    for entry in report.map.iter().flatten() {
        let place =
            entry.device_offset.map_or(String::new(), |offset| format!(" at device byte {offset}"));
        say(&format!(
            "map: {} bytes at {}: {}{place}",
            entry.len_bytes, entry.client_offset, entry.place
        ));
    }
    if let Some(log) = log {
        report.records.iter().flatten().for_each(|record| tell_record(log, record));
    }
}

fn slot_line(slot: &SlotReport) -> String {
    let place = format!("snapshot slot {} at byte {}", slot.slot, slot.device_offset);
    if slot.unused {
        return format!("{place}: never used");
    }
    let problem = slot.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
    let Some(number) = slot.number else { return format!("{place}{problem}") };
    format!(
        "{place}: number {number} up to record {}, {} entries, {} logs, {} claims, {} hints{}{}{problem}",
        slot.record_sequence.unwrap_or(0),
        slot.entries.unwrap_or(0),
        slot.logs.unwrap_or(0),
        slot.claims.unwrap_or(0),
        slot.hints.unwrap_or(0),
        match slot.fragments {
            None | Some(0) => String::new(),
            Some(count) => format!(", {count} cells of fragments"),
        },
        if slot.clean_shutdown == Some(true) { ", after an orderly stop" } else { "" },
    )
}

fn tell_record(log: u32, record: &RecordReport) {
    let unsound = match record.chunks_unsound {
        0 => String::new(),
        count => format!(", {count} chunks do not match their checksum"),
    };
    let fragments = match record.fragments.len() {
        0 => String::new(),
        count => format!("{count} fragments of {} bytes, ", record.fragment_bytes),
    };
    say(&format!(
        "log {log} block {}: record {}, {} bytes, {} writes, {fragments}{} invalidations, {} claims {}{unsound}",
        record.position,
        record.sequence,
        record.bytes,
        record.writes.len(),
        record.invalidations.len(),
        record.claims.len(),
        record.flags.join(" "),
    ));
    for write in &record.writes {
        let what = if write.zeros { "zeros" } else { "bytes" };
        say(&format!("    {} {what} at {}", write.len_bytes, write.client_offset));
    }
    for [client_offset, len_bytes] in &record.fragments {
        say(&format!("    {len_bytes} bytes at {client_offset}, in the header"));
    }
}
