//! `nearhead forget-log`: gives up what one damaged log held, and lists it.
//!
//! It accepts no loss that cannot be listed: a volume that recovery refuses is left to `nearhead repair`.

use crate::offline;
use crate::repair::{ClientRange, tell_ranges};
use crate::report::words;
use crate::target::{Access, DiskArgs, Opener};
use nearhead_output::{say, say_json};
use nearhead_volume::find_superblock;
use nearhead_volume::forget::{client_ranges, give_up, given_up_with_log};
use serde::Serialize;

/// Arguments of `nearhead forget-log`.
#[derive(clap::Args, Debug)]
pub struct ForgetLogArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B; not being served
    pub target: String,
    /// Number of the log, as `nearhead check --repair-hint` names it
    pub log: u32,
    /// List what would be lost, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    target: &'a str,
    log: u32,
    done: bool,
    /// Reads of these fail until they are written again: what the log held, and what recovery found lost.
    lost: Vec<ClientRange>,
    lost_bytes: u64,
    /// What recovery found, in this log or others.
    damage: Vec<String>,
}

/// Runs the command.
pub fn run(args: &ForgetLogArgs) -> Result<(), String> {
    let access = if args.dry_run { Access::Read } else { Access::Write };
    let disk = DiskArgs { opener: Opener::Mend, ..args.disk.clone() };
    let mut offline = offline::open(&args.target, access, &disk, false).map_err(|problem| {
        format!("{problem} (forget-log changed nothing: it gives up what it can list, in a volume that opens)")
    })?;
    let superblock = offline.volume.superblock().clone();
    let logs = superblock.layout.log_count();
    if args.log >= logs {
        return Err(format!(
            "forget-log {}: expected a log below {logs}, found {}",
            args.target, args.log
        ));
    }
    let damage = words(offline.volume.engine().status().damage);
    let start = offline.start;
    let lost = given_up_with_log(&mut offline.volume, start, args.log);
    if !args.dry_run {
        let mut target = offline.close()?;
        let io = &mut target.io();
        // Snapshots may lie on a data device, which is known by this.
        let superblock = find_superblock(io).map_err(|error| error.to_string())?.superblock;
        give_up(io, &superblock, &lost).map_err(|error| error.to_string())?;
        target.leave()?;
    }
    let ranges: Vec<ClientRange> =
        client_ranges(&lost).into_iter().map(ClientRange::from).collect();
    let report = Report {
        target: &args.target,
        log: args.log,
        done: !args.dry_run,
        lost_bytes: ranges.iter().map(|range| range.len_bytes).sum(),
        lost: ranges,
        damage,
    };
    if args.json {
        return say_json(&report);
    }
    for finding in &report.damage {
        say(&format!("recovery: {finding}"));
    }
    tell_ranges("lost", &report.lost);
    say(&format!(
        "{} log {} of {}: {} client bytes in {} ranges read as errors until they are written again",
        if report.done { "gave up" } else { "would give up" },
        report.log,
        report.target,
        report.lost_bytes,
        report.lost.len(),
    ));
    Ok(())
}
