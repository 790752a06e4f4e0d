//! `nearhead repair`: writes again what has a sound copy, and gives up what has none only if told to.

use crate::offline;
use crate::output::{note, say, say_json};
use crate::target::{Access, DiskArgs, Target};
use nearhead_volume::find_superblock;
use nearhead_volume::repair::{
    Rebuilt, give_up_the_map, look_for_records, repair_superblocks, snapshots_are_lost,
};
use serde::Serialize;

/// Ranges listed for people; programs get all of them.
pub const RANGES_SHOWN_MAX: usize = 50;

/// What `nearhead repair` is told.
#[derive(clap::Args, Debug)]
pub struct RepairArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// Give up what has no sound copy; what that is will be listed
    #[arg(long)]
    pub accept_loss: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// A range of client bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClientRange {
    /// First byte.
    pub client_offset: u64,
    /// Number of bytes.
    pub len_bytes: u64,
}

impl From<(u64, u64)> for ClientRange {
    fn from((client_offset, len_bytes): (u64, u64)) -> Self {
        Self { client_offset, len_bytes }
    }
}

#[derive(Debug, Default, Serialize)]
struct Report {
    target: String,
    /// Superblock copies that were written again, with what was wrong.
    superblock_copies_rewritten: Vec<String>,
    /// Whether both snapshots were damaged and the map was given up.
    map_given_up: bool,
    /// Client bytes that may read as an older copy from now on.
    doubtful: Vec<ClientRange>,
    /// What recovery found.
    damage: Vec<String>,
    /// Snapshots written.
    snapshots_written: u64,
}

/// Runs the command.
pub fn run(args: &RepairArgs) -> Result<(), String> {
    let mut target = Target::open(&args.target, Access::Write, &args.disk)?;
    let mut report = Report { target: args.target.clone(), ..Report::default() };
    let failed = |error: &dyn std::fmt::Display| format!("repair {}: {error}", args.target);
    report.superblock_copies_rewritten =
        repair_superblocks(&mut target.io()).map_err(|error| error.to_string())?;
    let superblock =
        find_superblock(&mut target.io()).map_err(|error| error.to_string())?.superblock;
    if snapshots_are_lost(&mut target.io(), &superblock) {
        let rebuilt = look(&mut target, &superblock).map_err(|error| failed(&error))?;
        if !args.accept_loss {
            return Err(needs_consent(args, &rebuilt));
        }
        give_up_the_map(&mut target.io(), &superblock, &rebuilt).map_err(|error| failed(&error))?;
        report.map_given_up = true;
        report.doubtful = rebuilt.doubtful.into_iter().map(ClientRange::from).collect();
    }
    let mut offline = offline::on(target, Access::Write, args.accept_loss)?;
    report.damage = offline.volume.engine().status().damage;
    let now = offline.now();
    offline.volume.start_snapshot(now);
    // Together with the one of the orderly stop both slots are new.
    offline.drive_until(|volume| volume.status().stats.snapshots > 0)?;
    report.snapshots_written = 2;
    offline.close()?;
    if args.json {
        return say_json(&report);
    }
    tell(&report);
    Ok(())
}

fn look(
    target: &mut Target,
    superblock: &nearhead_format::Superblock,
) -> Result<Rebuilt, nearhead_disk::DiskError> {
    let mut told = std::time::Instant::now();
    look_for_records(&mut target.io(), superblock, &mut |done, logs| {
        if told.elapsed().as_secs() >= 1 {
            told = std::time::Instant::now();
            note(&format!("repair: looked at {done} of {logs} logs"));
        }
    })
}

fn needs_consent(args: &RepairArgs, rebuilt: &Rebuilt) -> String {
    let bytes: u64 = rebuilt.doubtful.iter().map(|(_, len)| len).sum();
    format!(
        "repair {}: expected a sound snapshot of the map in slot 0 or 1, found both damaged; the logs \
         hold {} records that wrote {bytes} client bytes in {} ranges, and what was not copied home \
         since would read as its older copy; to accept that: nearhead repair {} --accept-loss",
        args.target,
        rebuilt.records,
        rebuilt.doubtful.len(),
        args.target
    )
}

fn tell(report: &Report) {
    for copy in &report.superblock_copies_rewritten {
        say(&format!("written again: {copy}"));
    }
    if report.map_given_up {
        let bytes: u64 = report.doubtful.iter().map(|range| range.len_bytes).sum();
        say(&format!(
            "both snapshots were damaged: the map was given up; {bytes} client bytes in {} ranges may \
             read as an older copy",
            report.doubtful.len()
        ));
        tell_ranges("doubtful", &report.doubtful);
    }
    for finding in &report.damage {
        say(&format!("recovery: {finding}"));
    }
    say(&format!("repaired {}: both snapshots are written again", report.target));
}

/// Lists ranges for people.
pub fn tell_ranges(what: &str, ranges: &[ClientRange]) {
    for range in ranges.iter().take(RANGES_SHOWN_MAX) {
        say(&format!("{what}: {} client bytes at {}", range.len_bytes, range.client_offset));
    }
    if ranges.len() > RANGES_SHOWN_MAX {
        say(&format!(
            "{what}: {} more ranges, listed with --json",
            ranges.len() - RANGES_SHOWN_MAX
        ));
    }
}
