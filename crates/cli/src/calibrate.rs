//! `nearhead calibrate`: what a drive's own timing tells of it.
//!
//! A real device is timed past the page cache and alone; an emulated one named `model:PROFILE` in virtual time, which takes a moment.
//! Reads alone are made, unless a range is named that may be overwritten.

use crate::target::{Access, DiskArgs, Target};
use crate::units::{ByteSize, Span};
use nearhead_arrays::{ArraySpec, model_from_text};
use nearhead_calibrate::{Calibration, Findings, Options, OverDisk, Progress, Report, calibrate};
use nearhead_disk::{Command, Nanos, Payload};
use nearhead_models::ModelSpec;
use nearhead_output::{note, say, say_json};
use nearhead_volume::open::find_own_superblock;
use nearhead_volume::{SyncIo, find_superblock, tracks};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `nearhead calibrate` is told.
#[derive(clap::Args, Debug)]
pub struct CalibrateArgs {
    /// The block device or image file, or `model:PROFILE`
    pub target: String,
    /// Overwrite this many bytes from `--scratch-at` on, to measure what a write costs before the drive begins: 64MiB is enough
    #[arg(long, value_name = "BYTES")]
    pub scratch: Option<ByteSize>,
    /// Where they begin
    #[arg(long, value_name = "BYTES", requires = "scratch", default_value = "0")]
    pub scratch_at: ByteSize,
    /// Do so whatever stands there
    #[arg(long, requires = "scratch")]
    pub force: bool,
    /// Time that it may take; what is not known by then stays unknown
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub time_max: Span,
    /// Other numbers probe other places
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Write what was found here, as TOML
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Keep what was found in the volume on the target, or on the target if that is a further log device; it must not be served meanwhile
    #[arg(long)]
    pub store: bool,
    /// With --store: the data devices of the volume, if it has those; they may be left out
    #[arg(long, value_name = "D1,D2,...", requires = "store")]
    pub data_devices: Vec<String>,
    /// Measure nothing: take what another run wrote with --out; of a striped array one for each member, in their order
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scratch", "out"])]
    pub known: Vec<PathBuf>,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The preset that makes use of it.
const DEFAULT_ANYWHERE: &str = "nearhead";

/// Runs the command.
pub fn run(args: &CalibrateArgs) -> Result<(), String> {
    let told = |problem: String| format!("calibrate: {problem}");
    let all = all_findings(args).map_err(told)?;
    let reports: Vec<Report> =
        all.iter().map(|findings| Report::of(&args.target, findings)).collect();
    let kept = if args.store { Some(keep(args, &reports).map_err(told)?) } else { None };
    if let (Some(out), [report]) = (&args.out, &reports[..]) {
        let text = toml::to_string(report).map_err(|error| told(error.to_string()))?;
        std::fs::write(out, text)
            .map_err(|error| told(format!("cannot write {}: {error}", out.display())))?;
    }
    if args.json {
        return match &reports[..] {
            [report] => say_json(report),
            several => say_json(&several),
        };
    }
    for findings in &all {
        match findings {
            Findings::Turns(found) => say(&shown(found, args.scratch.is_some())),
            Findings::NothingToLearn(why) => {
                say(&format!("{}: nothing to learn: {why}", args.target));
            }
        }
    }
    if let Some(kept) = kept {
        say(&kept);
    }
    Ok(())
}

/// Of the disk, or of each member of an array.
fn all_findings(args: &CalibrateArgs) -> Result<Vec<Findings>, String> {
    if !args.known.is_empty() {
        return args.known.iter().map(|file| known(file)).collect();
    }
    if ArraySpec::is_array(&args.target) {
        return Err(format!(
            "{}: expected one drive, found an array, whose members turn each on their own; calibrate each of them (`nearhead \
             calibrate MEMBER --out FILE`), then name the files here in the members' order, with --known FILE for each, and --store",
            args.target
        ));
    }
    Ok(vec![find(args)?])
}

/// What another run found.
fn known(file: &Path) -> Result<Findings, String> {
    let told = |error: &dyn std::fmt::Display| format!("--known {}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| told(&error))?;
    let report = Report::from_toml(&text).map_err(|error| told(&error))?;
    report.tracks().map_err(|error| told(&error))?;
    Ok(match (report.found, report.why_not) {
        (Some(found), _) => Findings::Turns(found),
        (None, why) => Findings::NothingToLearn(why.unwrap_or_default()),
    })
}

/// Writes it into the volume on the target.
fn keep(args: &CalibrateArgs, reports: &[Report]) -> Result<String, String> {
    let found: Result<Vec<_>, String> = reports.iter().map(Report::tracks).collect();
    let tracks: Vec<_> = found?.into_iter().flatten().map(Arc::new).collect();
    if tracks.is_empty() {
        return Ok(format!("{}: nothing was kept", args.target));
    }
    let disk = DiskArgs { data_devices: args.data_devices.clone(), ..DiskArgs::default() };
    let mut target = Target::open(&args.target, Access::Write, &disk)?;
    let io = &mut target.io();
    // A further log device has its own.
    if find_own_superblock(io).is_err()
        && tracks::write_on_log_device(io, &tracks).map_err(|error| error.to_string())?
    {
        target.leave()?;
        return Ok(format!(
            "{}: kept on this device of its volume; it counts from the next time that is opened, if the device has logs",
            args.target
        ));
    }
    // The tables are where the logs are.
    let find = if disk.data_devices.is_empty() { find_own_superblock } else { find_superblock };
    let found = find(io).map_err(|error| format!("--store: {error}"))?;
    if !found.superblock.layout.records_anywhere {
        let preset = io.presets().name_of(&found.superblock);
        return Err(format!(
            "--store: expected a volume whose records go where the head will be (preset {DEFAULT_ANYWHERE}), found {preset}, which \
             would make no use of it; leave --store out, or copy to a volume created with --preset {DEFAULT_ANYWHERE}"
        ));
    }
    tracks::write(io, &found.superblock, &tracks).map_err(|error| error.to_string())?;
    target.leave()?;
    Ok(format!("{}: kept in the volume; it counts from the next time it is opened", args.target))
}

fn find(args: &CalibrateArgs) -> Result<Findings, String> {
    let scratch = args.scratch.map(|ByteSize(bytes)| {
        let ByteSize(start) = args.scratch_at;
        start..start.saturating_add(bytes)
    });
    let options = Options { scratch, time_max: args.time_max.0, seed: args.seed };
    if ModelSpec::is_model(&args.target) {
        let mut model = model_from_text(&args.target).map_err(|error| error.to_string())?;
        let io = SyncIo::in_virtual_time(model.as_mut(), Nanos::ZERO);
        return on(io, args, &options);
    }
    let access = if options.scratch.is_some() { Access::Write } else { Access::Read };
    let past_the_cache =
        DiskArgs { page_cache: Some(false), direct_reads: true, ..DiskArgs::default() };
    let mut target = Target::open(&args.target, access, &past_the_cache)?;
    let found = on(target.io(), args, &options);
    target.leave()?;
    found
}

fn on(io: SyncIo<'_>, args: &CalibrateArgs, options: &Options) -> Result<Findings, String> {
    let capacity = io.disk().properties().capacity_bytes;
    if let Some(scratch) = options.scratch.as_ref().filter(|scratch| scratch.end > capacity) {
        return Err(format!(
            "--scratch: expected a range inside {}, which has {capacity} bytes, found {} to {}; take less, or another place",
            args.target, scratch.start, scratch.end
        ));
    }
    if let Some(scratch) = &options.scratch
        && !(1..=SCRATCH_BYTES_MAX).contains(&(scratch.end - scratch.start))
    {
        return Err(format!(
            "--scratch: expected 1 byte to 1 GiB, found {} bytes; 64MiB hold a few tracks of any disk",
            scratch.end - scratch.start
        ));
    }
    let mut io = io;
    if let Some(scratch) = options.scratch.as_ref().filter(|_| !args.force) {
        refuse_content(&mut io, scratch, &args.target)?;
    }
    let mut timer = OverDisk::new(io, &args.target);
    let mut last = None;
    let mut progress = |progress: Progress| {
        // A line for each tenth is enough for a log, and for somebody who waits.
        let now = (progress.of, progress.done_pct / 10);
        if last != Some(now) {
            last = Some(now);
            note(&format!("calibrate: {} %, {}", progress.done_pct, progress.of));
        }
    };
    calibrate(&mut timer, options, &mut progress).map_err(|error| error.to_string())
}

/// Read at once.
const LOOK_BYTES: u64 = 1 << 20;
/// Most room that is overwritten: a few tracks are needed, and all of it is read before.
const SCRATCH_BYTES_MAX: u64 = 1 << 30;

/// Nothing may stand where scratch is.
fn refuse_content(io: &mut SyncIo<'_>, scratch: &Range<u64>, name: &str) -> Result<(), String> {
    let mut at = scratch.start;
    while at < scratch.end {
        let len = LOOK_BYTES.min(scratch.end - at);
        let found = io.run(Command::Read { offset: at, len: len as u32 });
        let found =
            found.map_err(|error| format!("{name}: a read at byte {at} failed: {error}"))?;
        if let Payload::Bytes(bytes) = found
            && let Some(byte) = bytes.iter().position(|byte| *byte != 0)
        {
            return Err(format!(
                "--scratch: expected nothing but zeros from byte {} to {} of {name}, found something else at byte {}; name \
                 another place, or say --force to overwrite it",
                scratch.start,
                scratch.end,
                at + byte as u64
            ));
        }
        at += len;
    }
    Ok(())
}

fn shown(found: &Calibration, has_scratch: bool) -> String {
    let turning = &found.turning;
    let mut text = format!(
        "one revolution takes {:.4} ms, {:.1} a minute, give or take {:.2} ppm; readings are {:.0} us off\n",
        turning.period_ns / 1e6,
        60e9 / turning.period_ns,
        turning.doubt_ppm,
        turning.spread_us
    );
    let _ = match found.overhead {
        Some(overhead) => writeln!(
            text,
            "a write begins {:.0} us after the one before ended, give or take {:.0}",
            overhead.write_us, overhead.doubt_us
        ),
        None if has_scratch => writeln!(
            text,
            "what a write costs before it begins does not show: no whole track lies in --scratch, or writes are answered from memory"
        ),
        None => writeln!(
            text,
            "what a write costs before it begins was not measured: --scratch names room for it"
        ),
    };
    let _ = writeln!(
        text,
        "{:>18} {:>18} {:>8} {:>8} {:>13} {:>6} {:>8} {:>8} {:>9}",
        "from byte",
        "give or take",
        "sectors",
        "skew",
        "tracks alike",
        "group",
        "missing",
        "its skew",
        "foretold"
    );
    for zone in &found.zones {
        let alike = format!("{} of {}", zone.tracks_alike, zone.tracks_probed);
        let _ = write!(
            text,
            "{:>18} {:>18} {:>8} {:>8.4} {alike:>13}",
            zone.first_byte, zone.begins_within_bytes, zone.sectors_per_track, zone.skew_turns
        );
        let _ = if zone.group_tracks == 0 {
            writeln!(text, " {:>6} {:>8} {:>8} {:>9}", "-", "-", "-", "-")
        } else {
            let foretold = format!("{} of {}", zone.foretold, zone.foretold_of);
            let (tracks, missing) = (zone.group_tracks, zone.group_missing_sectors);
            writeln!(text, " {tracks:>6} {missing:>8} {:>8.4} {foretold:>9}", zone.group_skew_turns)
        };
    }
    let _ = write!(text, "{} reads in {:.0} s", found.reads, found.took_s);
    text
}
