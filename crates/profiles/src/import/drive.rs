//! The drive's electronics in a package: command overheads, bus, cache, queue.
//!
//! DiskSim counts its overheads by the phases of a SCSI command (select, disconnect, reselect, data,
//! completion). Here they become what a host can see: from when until when. With "Extra write
//! disconnect" a write releases the bus once more before its data come.

use super::files::Folder;
use super::syntax::{Content, Section, Sections};
use super::{ImportError, Notes, overheads};
use nearhead_models::{
    CacheSpec, CommandSpec, ExchangeSpec, InterfaceSpec, QueuePolicy, QueueSpec, ReadAhead,
};

const MODEL: &str = "Model";
/// Interface without transfer times, in MB/s: nothing is waited for.
const FREE_MEGABYTES_PER_S: f64 = 1e6;

/// Everything that is not mechanical.
pub(super) struct Electronics {
    pub(super) command: CommandSpec,
    pub(super) interface: InterfaceSpec,
    pub(super) cache: CacheSpec,
    pub(super) queue: QueueSpec,
}

/// The section of the drive, if the package has one.
pub(super) fn find_disk<'a>(
    sections: &'a Sections,
    folder: &Folder,
) -> Result<Option<&'a Section>, ImportError> {
    let disks: Vec<&Section> = sections.of_kind("disksim_disk").collect();
    let (Some(first), Some(last)) = (disks.first(), disks.last()) else { return Ok(None) };
    if disks.len() == 1 || first.name == last.name {
        return Ok(Some(last));
    }
    let named = |disk: &&&Section| disk.name.eq_ignore_ascii_case(folder.name());
    if let Some(disk) = disks.iter().find(named) {
        return Ok(Some(disk));
    }
    let mut used = disks.iter().filter(|disk| sections.instantiates(&disk.name));
    if let (Some(disk), None) = (used.next(), used.next()) {
        return Ok(Some(disk));
    }
    let found: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    Err(ImportError::new(
        &last.place,
        format!(
            "expected one drive or one called {}, found {}; import the .diskspecs of one of them",
            folder.name(),
            found.join(", ")
        ),
    ))
}

/// The section of the drive's mechanics and layout.
pub(super) fn find_model<'a>(
    sections: &'a Sections,
    disk: Option<&'a Section>,
    folder: &Folder,
) -> Result<&'a Section, ImportError> {
    if let Some(value) = disk.and_then(|disk| disk.get(MODEL)) {
        return match &value.content {
            // A model may be named that stands elsewhere in the same files.
            Content::Word(name) => sections
                .of_kind("dm_disk")
                .find(|section| section.name == *name)
                .ok_or_else(|| ImportError::new(&value.place, format!("no dm_disk called {name}"))),
            _ => value.section(MODEL),
        };
    }
    sections.of_kind("dm_disk").last().ok_or_else(|| {
        ImportError::new(
            folder.path().display(),
            format!(
                "package {}: expected a section dm_disk (mechanics and layout of a hard disk), found \
                 {}; other kinds of devices cannot be imported",
                folder.name(),
                kinds(sections)
            ),
        )
    })
}

/// The kinds of all sections, for messages.
fn kinds(sections: &Sections) -> String {
    let mut kinds: Vec<&str> = sections.all().map(|section| section.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() { "no section at all".to_owned() } else { kinds.join(", ") }
}

/// For people: what the package calls the drive.
pub(super) fn description(model: &Section, disk: Option<&Section>) -> String {
    let name = disk.map_or(model.name.as_str(), |disk| disk.name.as_str());
    let name =
        name.trim_end_matches("_validate").trim_end_matches(".model").replace(['_', '-'], " ");
    format!("{name}, imported from a DiskSim package")
}

pub(super) fn read(
    sections: &Sections,
    disk: Option<&Section>,
    notes: &mut Notes,
) -> Result<Electronics, ImportError> {
    let Some(disk) = disk else {
        notes.warn(
            "package",
            "it has no section disksim_disk: no command times, no cache, no queue",
        );
        return Ok(bare());
    };
    notes.sources.insert("command", format!("{}: overheads, in ms.", disk.place));
    notes.sources.insert("cache", format!("{}: buffer segments.", disk.place));
    let exchange = exchange(disk, notes)?;
    let interface = interface(sections, disk, notes)?;
    Ok(Electronics {
        command: CommandSpec {
            read_ms: exchange.read_seek_ms[0],
            write_ms: exchange.write_seek_ms[0],
            cached_ms: exchange.read_hit_ms[0],
            exchange: Some(exchange),
        },
        interface,
        cache: cache(disk, notes)?,
        queue: queue(disk)?,
    })
}

/// A drive of which only the mechanics are known.
fn bare() -> Electronics {
    Electronics {
        command: CommandSpec { read_ms: 0.0, write_ms: 0.0, cached_ms: 0.0, exchange: None },
        interface: InterfaceSpec {
            megabytes_per_s: FREE_MEGABYTES_PER_S,
            write_megabytes_per_s: None,
        },
        cache: CacheSpec {
            segments: 1,
            segment_sectors: 1,
            read_ahead_sectors: 0,
            read_ahead_until: ReadAhead::Sectors,
            read_ahead_keeps_requested: false,
            read_ahead_when_sequential: false,
            joins_read_ahead: true,
            keeps_passing_sectors: false,
            written_segments: 0,
            zero_latency_reads: false,
            write_cache: false,
            dirty_bytes_max: 1 << 20,
            destage_idle_ms: 1.0,
        },
        queue: QueueSpec {
            depth: 32,
            policy: QueuePolicy::Sptf,
            aging: 0.03,
            age_limit_ms: 1000.0,
            honours_priority: false,
        },
    }
}

/// `key after read` and `key after write`.
fn pair(disk: &Section, key: &str) -> Result<[f64; 2], ImportError> {
    Ok([
        disk.number_or(&format!("{key} after read"), 0.0)?,
        disk.number_or(&format!("{key} after write"), 0.0)?,
    ])
}

fn exchange(disk: &Section, notes: &mut Notes) -> Result<ExchangeSpec, ImportError> {
    let scale = disk.number_or("Time scale for overheads", 1.0)?;
    let each = disk.number_or("Per-request overhead time", 0.0)?;
    let ms = |key: &str| Ok::<f64, ImportError>(disk.number_or(key, 0.0)? * scale);
    let plus = |pair: [f64; 2], more: f64| pair.map(|ms| (ms + each) * scale + more);
    let ready = ms("Data preparation overhead")?;
    let reselect = ms("First reselect overhead")?;
    let mut read_miss = pair(disk, "Read miss over.")?;
    let mut write_miss = pair(disk, "Write miss over.")?;
    let mut read_hit = overheads::hits(pair(disk, "Read hit over.")?, &disk.place, notes);
    let mut write_hit = pair(disk, "Write hit over.")?;
    let releases_twice = disk.whole_or("Extra write disconnect", 0)? == 1;
    // Only what the drive makes use of can be seen to be wrong.
    if disk.whole_or("Fast write level", 0)? > 0 {
        let names = ["Read hit over.", "Write hit over."];
        (read_hit, write_hit) = overheads::agreed(names, read_hit, write_hit, &disk.place, notes);
    } else if !releases_twice {
        let names = ["Read miss over.", "Write miss over."];
        (read_miss, write_miss) =
            overheads::agreed(names, read_miss, write_miss, &disk.place, notes);
    }
    let (write_seek_ms, write_data_ms, write_reselect) = if releases_twice {
        let command = disk.number_or("Extradisc command overhead", 0.0)?;
        let released = command
            + disk.number_or("Extradisc disconnect overhead", 0.0)?
            + disk.number_or("Extradisc inter-disconnect delay", 0.0)?;
        let seek = command + disk.number_or("Extradisc seek delta", 0.0)?;
        let data = plus([released; 2], reselect + ready);
        (plus([seek; 2], 0.0), data, ms("Other reselect overhead")?)
    } else {
        (plus(write_miss, 0.0), plus(write_miss, ready), reselect)
    };
    let write_end = ms("Write completion overhead")?;
    let spec = ExchangeSpec {
        read_seek_ms: plus(read_miss, 0.0),
        read_hit_ms: plus(read_hit, ready),
        read_reconnect_ms: reselect + ready,
        read_enough: disk.number_or("High (read) water mark", 0.0)?.clamp(0.0, 1.0),
        read_keeps_interface: disk.whole_or("Hold bus entire read xfer", 0)? == 1,
        read_end_ms: ms("Read completion overhead")?,
        write_seek_ms,
        write_data_ms,
        write_seek_least_ms: ms("Minimum seek delay")?,
        write_end_ms: write_reselect + write_end,
        cached_write_data_ms: plus(write_hit, ready),
        cached_write_end_ms: write_end,
        read_ahead_end_ms: 0.0,
    };
    spec.check().map_err(|problem| ImportError::new(&disk.place, problem))?;
    Ok(spec)
}

/// The slowest of the buses and of the drive's own limit.
fn interface(
    sections: &Sections,
    disk: &Section,
    notes: &mut Notes,
) -> Result<InterfaceSpec, ImportError> {
    let own = disk.number_or("Bulk sector transfer time", 0.0)?;
    let mut block_ms = [own; 2];
    for bus in sections.of_kind("disksim_bus") {
        block_ms[0] = block_ms[0].max(bus.number_or("Read block transfer time", 0.0)?);
        block_ms[1] = block_ms[1].max(bus.number_or("Write block transfer time", 0.0)?);
    }
    if own < 0.0 {
        notes.warn(
            &disk.place,
            format!("\"Bulk sector transfer time\" is {own}: taken as no time at all"),
        );
    }
    notes.sources.insert(
        "interface",
        format!(
            "{} and its bus: {} ms a sector read, {} ms a sector written.",
            disk.place,
            block_ms[0].max(0.0),
            block_ms[1].max(0.0)
        ),
    );
    let rate = |ms: f64| if ms > 0.0 { 0.512 / ms } else { FREE_MEGABYTES_PER_S };
    let differs = (block_ms[0] - block_ms[1]).abs() > 1e-9;
    Ok(InterfaceSpec {
        megabytes_per_s: rate(block_ms[0]),
        write_megabytes_per_s: differs.then(|| rate(block_ms[1])),
    })
}

/// Whether what is read ahead may take the place of what was asked for.
const OVER: &str = "Read-ahead over requested";

fn cache(disk: &Section, notes: &mut Notes) -> Result<CacheSpec, ImportError> {
    let on = |key: &str| Ok::<bool, ImportError>(disk.whole_or(key, 0)? > 0);
    let segments = disk.whole_or("Number of buffer segments", 1)?.clamp(1, 4096);
    let writes = disk.whole_or("Maximum number of write segments", 1)?.clamp(1, 4096);
    let sectors = disk.whole_or("Segment size (in blks)", 1)?.clamp(1, 1 << 24);
    let caching = disk.whole_or("Enable caching in buffer", 1)? > 0;
    let ahead = disk.whole_or("Maximum read-ahead (blks)", 0)?;
    let (until, ahead) = match disk.whole_or("Buffer continuous read", 0)? {
        0 => (ReadAhead::Sectors, 0),
        1 => (ReadAhead::Track, sectors),
        2 => (ReadAhead::Cylinder, sectors),
        3 if ahead > 0 => (ReadAhead::Sectors, ahead.min(sectors)),
        3 => (ReadAhead::Sectors, sectors),
        // The segment keeps the newest sectors if the track is longer.
        4 => (ReadAhead::NextTrack, sectors),
        other => {
            notes.warn(
                &disk.place,
                format!("\"Buffer continuous read\" {other} is not known: no read-ahead"),
            );
            (ReadAhead::Sectors, 0)
        }
    };
    let separate = on("Use separate write segment")?;
    let reads = if separate { segments.saturating_sub(writes).max(1) } else { segments };
    let keeps = caching && on("Allow read hits on write data")?;
    Ok(CacheSpec {
        segments: reads as u16,
        segment_sectors: if caching { sectors as u32 } else { 1 },
        read_ahead_sectors: if caching { ahead as u32 } else { 0 },
        read_ahead_until: until,
        read_ahead_keeps_requested: until == ReadAhead::Sectors
            && disk.get(OVER).is_some()
            && disk.number(OVER)? == 0.0,
        read_ahead_when_sequential: false,
        joins_read_ahead: on("Allow almost read hits")?,
        keeps_passing_sectors: caching && on("Read any free blocks")?,
        written_segments: if keeps { writes as u16 } else { 0 },
        zero_latency_reads: on("Immediate buffer read")?,
        write_cache: on("Fast write level")?,
        dirty_bytes_max: writes * sectors * 512,
        destage_idle_ms: 0.0,
    })
}

fn queue(disk: &Section) -> Result<QueueSpec, ImportError> {
    let policy = match disk.get("Scheduler").map(|value| value.section("Scheduler")).transpose()? {
        Some(scheduler) => match scheduler.whole_or("Scheduling policy", 1)? {
            0 | 1 => QueuePolicy::Fifo,
            2..=7 => QueuePolicy::Clook,
            _ => QueuePolicy::Sptf,
        },
        None => QueuePolicy::Fifo,
    };
    Ok(QueueSpec {
        depth: disk.whole_or("Max queue length", 1)?.clamp(1, 1024) as u16,
        policy,
        aging: 0.03,
        age_limit_ms: 1000.0,
        honours_priority: false,
    })
}
