//! `nearhead repair`: writes again what has a sound copy, and gives up what has none only if told to.
//!
//! First everything is looked at by an engine that cannot write; `--dry-run` ends there. Without a sound snapshot the
//! map is rebuilt from the logs, and what is doubtful about it is listed before anything is given up. A volume that
//! needs nothing is not written to.

mod lost;
mod new_log;
mod report;

use crate::offline::{self, Look, Offline, Refused};
use crate::report::words;
use crate::target::{Access, DiskArgs, Opener, Target, device_flags};
pub use lost::LostArgs;
use nearhead_disk::SECTOR_BYTES;
use nearhead_format::{Place, Superblock};
use nearhead_output::say_json;
use nearhead_volume::backup::Backup;
use nearhead_volume::check::unverified;
use nearhead_volume::repair::{
    Weighed, clear_torn, repair_superblocks, slots_to_repair, superblocks_to_repair, weigh,
};
use nearhead_volume::{SyncIo, find_superblock};
pub use report::{ClientRange, tell_ranges};
use report::{Report, needs_consent, tell};
use std::sync::Arc;

/// Arguments of `nearhead repair`.
#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub struct RepairArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B; not being served
    pub target: String,
    /// Say all that would be done and given up, and change nothing; exit code 1 if something would be given up or cannot be read
    #[arg(long)]
    pub dry_run: bool,
    /// Give up what has no sound copy; what that is will be listed
    #[arg(long)]
    pub accept_loss: bool,
    /// What bytes read as whose newest copy in the logs may be an older one: an error, or that copy
    #[arg(long, value_enum, default_value_t = DoubtfulArg::Error)]
    pub doubtful: DoubtfulArg,
    /// Make TARGET, an empty device or a new file, the log device of a volume that has lost its own; its data devices (--data-devices) must
    /// have been drained and stopped in order
    #[arg(long, conflicts_with_all = ["lost_superblocks", "accept_loss"])]
    pub new_log: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// What is known of a volume without superblocks.
    pub lost: LostArgs,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// What becomes of bytes whose newest copy may be an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DoubtfulArg {
    /// Reads fail until they are written again
    Error,
    /// The newest copy that was found is served
    Newest,
}

/// What an engine that cannot write said.
struct Inspected {
    offline: Offline,
    report: Report,
    /// The map was rebuilt.
    weighed: Option<Weighed>,
}

/// Runs the command.
pub fn run(args: &RepairArgs) -> Result<(), String> {
    if args.lost.lost_superblocks {
        return lost::run(args);
    }
    if args.new_log {
        return new_log::run(args);
    }
    let access = if args.dry_run { Access::Read } else { Access::Write };
    let disk = DiskArgs { opener: Opener::Mend, ..args.disk.clone() };
    let mut target = Target::open(&args.target, access, &disk)?;
    let io = &mut target.io();
    let to_rewrite = superblocks_to_repair(io).map_err(|error| error.to_string())?;
    if !args.dry_run && !to_rewrite.is_empty() {
        repair_superblocks(io).map_err(|error| error.to_string())?;
    }
    let superblock = find_superblock(io).map_err(|error| error.to_string())?.superblock;
    let mut report = Report::new(args, to_rewrite);
    report.snapshot_slots = slots_to_repair(io, &superblock);
    let again =
        format!("nearhead repair {}{} --accept-loss", args.target, device_flags(&args.disk));
    go_on(args, target, report, &superblock, None, &again)
}

/// Rebuilds the map from the snapshot of a backup and the logs, on a device that has superblocks, unless it is only
/// looked at. `again` is the command that accepts the loss.
pub fn from_backup(
    args: &RepairArgs,
    target: Target,
    backup: &Backup,
    superblock: &Superblock,
    again: &str,
) -> Result<(), String> {
    let report = Report::new(args, Vec::new());
    go_on(args, target, report, superblock, Some(backup.base()), again)
}

fn go_on(
    args: &RepairArgs,
    target: Target,
    report: Report,
    superblock: &Superblock,
    base: Option<Arc<Vec<u8>>>,
    again: &str,
) -> Result<(), String> {
    let look = Look { base, superblock: Some(superblock.clone()), accept_loss: false };
    let inspected = inspect(target, report, &look)?;
    let consent = inspected.report.consent.clone();
    let refused = consent.filter(|_| args.dry_run || !args.accept_loss);
    let report = if args.dry_run || refused.is_some() || !inspected.needs_snapshots() {
        let Inspected { offline, report, .. } = inspected;
        if !args.dry_run {
            offline.into_target().leave()?;
        }
        report
    } else {
        change(args, inspected)?
    };
    if args.json {
        say_json(&report)?;
    } else {
        tell(&report);
    }
    if let Some(why) = refused {
        return Err(needs_consent(args, &why, again));
    }
    report.remaining_losses().filter(|_| !args.accept_loss).map_or(Ok(()), |losses| {
        Err(format!(
            "repair {}: {losses}; write these bytes again, from a backup; --accept-loss ends with exit code 0 nevertheless",
            args.target
        ))
    })
}

fn inspect(target: Target, mut report: Report, look: &Look) -> Result<Inspected, String> {
    let offline = match offline::inspecting(target, look.clone()) {
        Ok(offline) => offline,
        Err(Refused { target: Some(target), problem }) => {
            report.note_consent(problem);
            let accepting = Look { accept_loss: true, ..look.clone() };
            offline::inspecting(*target, accepting).map_err(|refused| refused.problem)?
        }
        Err(refused) => return Err(refused.problem),
    };
    Ok(looked_at(offline, report))
}

fn looked_at(mut offline: Offline, mut report: Report) -> Inspected {
    let start = offline.start;
    report.damage = words(offline.volume.engine().status().damage);
    let weighed = weigh(&mut offline.volume, |lanes| lanes.in_real_time(start));
    if let Some(weighed) = &weighed {
        report.take_rebuilt(weighed);
    } else {
        let entries = offline.volume.engine().map().iter();
        for entry in entries.filter(|entry| entry.place == Place::Poisoned) {
            let len_bytes = u64::from(entry.len_sectors) * SECTOR_BYTES;
            report.add_lost(entry.home_sector * SECTOR_BYTES, len_bytes);
        }
        for copy in unverified(&mut offline.volume, start) {
            report.add_unverified(&copy);
        }
    }
    Inspected { offline, report, weighed }
}

impl Inspected {
    fn needs_snapshots(&self) -> bool {
        self.weighed.is_some() || self.report.has_findings() || self.report.consent.is_some()
    }
}

/// Carries out what was told.
fn change(args: &RepairArgs, inspected: Inspected) -> Result<Report, String> {
    let Inspected { mut offline, mut report, weighed } = inspected;
    let superblock = offline.volume.superblock().clone();
    let failed = |error: &dyn std::fmt::Display| format!("repair {}: {error}", args.target);
    if let Some(weighed) = &weighed {
        if weighed.outgrows_slot {
            return Err(failed(&format_args!(
                "the map that the logs give has {} pieces, expected no more than a snapshot slot holds; nothing was \
                 changed",
                weighed.map_entries
            )));
        }
        let start = offline.start;
        let mut io = SyncIo::in_real_time(offline.volume.disk_mut(), start);
        clear_torn(&mut io, &superblock, &weighed.found.torn).map_err(|error| failed(&error))?;
        let keeps_newest = args.doubtful == DoubtfulArg::Newest;
        offline.volume.take_rebuilt(weighed.to_give_up(keeps_newest));
    } else {
        offline = offline::on(offline.into_target(), Access::Write, args.accept_loss)?;
    }
    let now = offline.now();
    offline.volume.start_snapshot(now);
    // Together with the one of the orderly stop both slots are new.
    offline.drive_until(|volume| volume.status().stats.snapshots > 0)?;
    let target = offline.close()?;
    report.snapshots_written = 2;
    report.done = true;
    assert_opens(target).map_err(|problem| {
        failed(&format_args!(
            "both snapshots are written again, but the volume still does not open: {problem}"
        ))
    })?;
    Ok(report)
}

/// A repaired volume opens without consent: else it is not called repaired.
fn assert_opens(target: Target) -> Result<(), String> {
    let opened = offline::inspecting(target, Look::default());
    let offline = opened.map_err(|refused| refused.problem)?;
    offline.into_target().leave()
}
