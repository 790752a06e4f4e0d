//! `nearhead repair --lost-superblocks`: a superblock made again from what lies on the device and what `create` was told.
//!
//! What was found is opened by an engine that cannot write before anything is written, and said before and after.

use super::RepairArgs;
use crate::offline::{self, Look};
use crate::report::words;
use crate::target::{Access, Target, device_flags};
use crate::units::ByteSize;
use nearhead_format::Label;
use nearhead_output::{hex, say, say_json};
use nearhead_settings::{AckArg, checked_threshold};
use nearhead_volume::lost_superblock::{self, Fit, Known, in_words};
use nearhead_volume::open::{is_of_newer, read_copies};
use nearhead_volume::{NamedPreset, Presets};
use serde::Serialize;

/// What `create` was told, as far as its owner knows.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LostArgs {
    /// All superblock copies are gone, and there is no backup: make them again from snapshots and records. With --dry-run
    /// only say what was found
    #[arg(long, conflicts_with_all = ["accept_loss", "doubtful"])]
    pub lost_superblocks: bool,
    /// With --lost-superblocks: the preset that the volume was made with
    #[arg(long, requires = "lost_superblocks")]
    pub preset: Option<String>,
    /// With --lost-superblocks: the --group-size that it was made with
    #[arg(long, value_name = "BYTES", requires = "lost_superblocks")]
    pub group_size: Option<ByteSize>,
    /// With --lost-superblocks: the --log-size that it was made with
    #[arg(long, value_name = "BYTES", requires = "lost_superblocks")]
    pub log_size: Option<ByteSize>,
    /// With --lost-superblocks: the --grow-to that it was made with
    #[arg(long, value_name = "BYTES", requires = "lost_superblocks")]
    pub grow_to: Option<ByteSize>,
    /// With --lost-superblocks: the size of the device that the volume was made on, if it was grown over a larger one since
    #[arg(long, value_name = "BYTES", requires = "lost_superblocks")]
    pub grown_from: Option<ByteSize>,
    /// With --lost-superblocks: writes up to this size are to be logged [default: the preset's]
    #[arg(long, value_name = "BYTES", requires = "lost_superblocks")]
    pub threshold: Option<ByteSize>,
    /// With --lost-superblocks: when writes are to be answered [default: flush]
    #[arg(long, value_enum, requires = "lost_superblocks")]
    pub ack: Option<AckArg>,
    /// With --lost-superblocks: where the second snapshot is; far, at the other end of the device, in all volumes that this
    /// version made
    #[arg(long, value_enum, requires = "lost_superblocks")]
    pub second_snapshot: Option<SecondSnapshot>,
    /// With --lost-superblocks: a name for people
    #[arg(long, requires = "lost_superblocks")]
    pub label: Option<String>,
}

/// Where the second snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SecondSnapshot {
    /// Right behind the first one
    Near,
    /// At the other end of the device
    Far,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    target: &'a str,
    dry_run: bool,
    /// Whether the superblocks were written.
    done: bool,
    volume_id: String,
    layout: String,
    client_bytes: u64,
    /// Sound snapshots and copies of their headers.
    snapshots: u32,
    snapshot_number: u64,
    map_entries: u64,
    /// Logs that begin with a record where the layout has them.
    logs_confirmed: u32,
    /// Newest record that recovery found.
    record_sequence: u64,
    /// What recovery found damaged.
    damage: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &RepairArgs) -> Result<(), String> {
    let failed = |problem: &dyn std::fmt::Display| format!("repair {}: {problem}", args.target);
    refuse_data_devices(args).map_err(|problem| failed(&problem))?;
    let access = if args.dry_run { Access::Read } else { Access::Write };
    let mut target = Target::open(&args.target, access, &args.disk)?;
    refuse_if_any_is_left(&mut target).map_err(|problem| failed(&problem))?;
    let fit = lost_superblock::search(&mut target.io(), &known(&args.lost)?)
        .map_err(|error| failed(&error))?;
    let look = Look { superblock: Some(fit.superblock.clone()), ..Look::default() };
    let offline = offline::inspecting(target, look).map_err(|refused| {
        failed(&format_args!(
            "a volume fits ({}), but it does not open: {}; nothing was written",
            in_words(Presets::default(), &fit.superblock),
            refused.problem
        ))
    })?;
    let status = offline.volume.status();
    let mut target = offline.into_target();
    if !args.dry_run {
        lost_superblock::write(&mut target.io(), &fit.superblock)
            .map_err(|error| failed(&error))?;
        target.leave()?;
    }
    let report = Report {
        target: &args.target,
        dry_run: args.dry_run,
        done: !args.dry_run,
        volume_id: hex(&fit.superblock.volume_id),
        layout: in_words(Presets::default(), &fit.superblock),
        client_bytes: fit.superblock.layout.client_bytes(),
        snapshots: fit.snapshots,
        snapshot_number: fit.snapshot_number,
        map_entries: fit.map_entries,
        logs_confirmed: fit.logs_confirmed,
        record_sequence: status.record_sequence,
        damage: words(status.damage),
    };
    if args.json {
        return say_json(&report);
    }
    tell(&report, &fit);
    Ok(())
}

/// What lies where follows from the sizes of all devices then, and from their order: too much to be guessed.
fn refuse_data_devices(args: &RepairArgs) -> Result<(), String> {
    let preset = args.lost.preset.as_deref().map(NamedPreset::by_name).transpose();
    let preset = preset.map_err(|error| error.to_string())?;
    let is_on_data_devices = preset
        .is_some_and(|preset| preset.layout.is_for_data_devices() || preset.layout.is_chain());
    let has_no_others = args.disk.data_devices.is_empty() && args.disk.log_devices.is_empty();
    if has_no_others && !is_on_data_devices {
        return Ok(());
    }
    Err(format!(
        "--lost-superblocks: expected a volume on one device with homes, found one with data devices or a chain, whose superblocks cannot be made again \
         from what is left; restore a backup of its metadata: nearhead restore-metadata {} FILE{}",
        args.target,
        device_flags(&args.disk)
    ))
}

/// Where one is sound it says more than anybody can find out, and where one is of a newer program it is not ours to judge.
fn refuse_if_any_is_left(target: &mut Target) -> Result<(), String> {
    for (copy, offset) in read_copies(&mut target.io()).copies.iter().zip(0..) {
        match copy {
            Ok(_) => {
                return Err(format!(
                    "--lost-superblocks: expected no superblock, found copy {offset} to be sound; `nearhead repair` without \
                     this option writes the others again"
                ));
            }
            Err(error) if is_of_newer(error) => return Err(error.to_string()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn known(args: &LostArgs) -> Result<Known, String> {
    let preset = args.preset.as_deref().map(NamedPreset::by_name).transpose();
    let threshold = args.threshold.map(|size| checked_threshold(size.0)).transpose()?;
    Ok(Known {
        preset: preset.map_err(|error| error.to_string())?,
        group_bytes: args.group_size.map(|size| size.0),
        log_bytes: args.log_size.map(|size| size.0),
        grow_to_bytes: args.grow_to.map(|size| size.0),
        grown_from_bytes: args.grown_from.map(|size| size.0),
        logged_write_bytes_max: threshold,
        ack: args.ack.unwrap_or_default().into(),
        second_snapshot_is_far: args.second_snapshot.map(|place| place == SecondSnapshot::Far),
        label: Label::new(args.label.clone().unwrap_or_default())
            .map_err(|error| format!("repair: --label: {error}"))?,
    })
}

fn tell(report: &Report<'_>, fit: &Fit) {
    say(&format!(
        "{} holds volume {} of {} for clients: {}",
        report.target,
        report.volume_id,
        ByteSize(report.client_bytes),
        report.layout
    ));
    say(&format!(
        "for this speak {} snapshots and copies of their headers (the newest is {}, with {} pieces in the logs, all at places \
         that there are) and {} logs that begin with a record of theirs; recovery finds records up to {}",
        report.snapshots,
        report.snapshot_number,
        report.map_entries,
        report.logs_confirmed,
        report.record_sequence
    ));
    say(&format!(
        "taken, as nothing on the device tells: {}, replies {}, label \"{}\"",
        crate::health::threshold_in_words(fit.superblock.logged_write_bytes_max) + " are logged",
        if fit.superblock.ack == nearhead_format::AckMode::Flush {
            "early"
        } else {
            "when durable"
        },
        fit.superblock.label
    ));
    for finding in &report.damage {
        say(&format!("recovery: {finding}"));
    }
    say(if report.done {
        "written: three copies of the superblock; look at the contents (`nearhead check`, `serve --read-only`) before \
         anybody writes"
    } else {
        "nothing was changed; without --dry-run three copies of the superblock are written"
    });
}
