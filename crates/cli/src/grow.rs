//! `nearhead grow`: extends a volume over a device or image that became larger, by itself or through the daemon that serves it.

use crate::attach::{self, AttachedVolume};
use crate::control::Client;
use crate::offline;
use crate::report::StatusReport;
use crate::target::{Access, DiskArgs, Target, refuse_if_misnamed};
use crate::units::{ByteSize, Span};
use nearhead_disk::Nanos;
use nearhead_output::{note, say, say_json};
use nearhead_volume::grow::{self, Growth};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a daemon is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long it may take unless told otherwise.
const WAIT_MAX_DEFAULT: Nanos = Nanos::from_secs(3600);

/// What `nearhead grow` is told.
#[derive(clap::Args, Debug)]
pub struct GrowArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B; or an attached volume by its name
    pub target: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Give up waiting for the daemon after this long; it goes on [default: 1h]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// What growing did, or would do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrowReport {
    target: String,
    done: bool,
    pub client_bytes_before: u64,
    pub client_bytes_after: u64,
    groups_before: u32,
    groups_after: u32,
    /// Groups for which the snapshots, sized at creation, have no room.
    groups_left_out: u64,
    /// Share of the logs' blocks that the map has room for.
    map_room_pct: u64,
}

impl GrowReport {
    /// Name of the volume.
    pub fn target(&self) -> &str {
        &self.target
    }

    pub fn of(target: &str, growth: &Growth, done: bool) -> Self {
        let (before, after) = (&growth.before.layout, &growth.after.layout);
        Self {
            target: target.to_owned(),
            done,
            client_bytes_before: before.client_bytes(),
            client_bytes_after: after.client_bytes(),
            groups_before: before.group_count,
            groups_after: after.group_count,
            groups_left_out: growth.groups_left_out,
            map_room_pct: growth.map_room_pct,
        }
    }
}

/// What a daemon says of growing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grown {
    /// It was never asked to.
    Never,
    UnderWay,
    Done(GrowReport),
    /// Why it did not.
    Not(String),
}

/// What became of a device whose volume had grown before.
#[derive(Debug, Serialize)]
struct Followed<'a> {
    device: &'a Path,
    size_bytes: u64,
}

/// Runs the command.
pub fn run(args: &GrowArgs) -> Result<(), String> {
    let attached = attach::attached(&args.target);
    let report = match Client::find(&args.target, args.control.as_deref())? {
        Some(mut client) => match through_daemon(args, &mut client) {
            Ok(report) => report,
            Err(problem) => return follow(args, client, attached.as_ref(), problem),
        },
        None => at_rest(args)?,
    };
    let device = attached.filter(|_| report.done);
    let device = device.map(|attached| attached.resize(report.client_bytes_after)).transpose()?;
    if args.json {
        return say_json(&report);
    }
    tell(&report);
    if let Some(device) = device {
        tell_of(&device);
    }
    Ok(())
}

/// The volume cannot grow. If it has, and whoever asked for that ended before the device was told, the device follows now.
fn follow(
    args: &GrowArgs,
    mut client: Client,
    attached: Option<&AttachedVolume>,
    problem: String,
) -> Result<(), String> {
    let Some(attached) = attached.filter(|_| !args.dry_run) else { return Err(problem) };
    let status: StatusReport = client.ask("status")?;
    if !attached.is_smaller_than(status.volume.client_bytes) {
        return Err(problem);
    }
    let device = attached.resize(status.volume.client_bytes)?;
    if args.json {
        return say_json(&Followed { device: &device, size_bytes: status.volume.client_bytes });
    }
    tell_of(&device);
    Ok(())
}

fn tell_of(device: &Path) {
    let device = device.display();
    say(&format!(
        "{device} has the size of the volume: a file system on it grows with its own program (resize2fs {device}, xfs_growfs MOUNTPOINT)"
    ));
}

fn at_rest(args: &GrowArgs) -> Result<GrowReport, String> {
    let mut target = Target::open(&args.target, Access::Write, &args.disk)
        .map_err(|problem| offline::with_a_way_to_the_daemon(problem, true))?;
    refuse_if_misnamed(&mut target)?;
    let growth = grow::plan(&mut target.io()).map_err(|error| error.to_string())?;
    if !args.dry_run {
        // Recovered and closed in order first: the map rests in a snapshot.
        target = offline::on(target, Access::Write, false)?.close()?;
        grow::grow(&mut target.io(), &growth).map_err(|error| error.to_string())?;
        target.leave()?;
    }
    Ok(GrowReport::of(&args.target, &growth, !args.dry_run))
}

fn through_daemon(args: &GrowArgs, client: &mut Client) -> Result<GrowReport, String> {
    if args.dry_run {
        return client.ask("grow look");
    }
    let _planned: Option<GrowReport> = client.ask("grow")?;
    let Span(most) = args.timeout.unwrap_or(Span(WAIT_MAX_DEFAULT));
    let begun = Instant::now();
    loop {
        match client.ask("grown")? {
            Grown::Done(report) => return Ok(report),
            Grown::Not(problem) => return Err(problem),
            Grown::Never => {
                return Err(format!("grow {}: the daemon was started anew meanwhile", args.target));
            }
            Grown::UnderWay if begun.elapsed().as_secs_f64() >= most.as_secs_f64() => {
                note("the daemon goes on");
                return Err(format!(
                    "grow {}: expected that it ends within {:.0} s, found it under way",
                    args.target,
                    most.as_secs_f64()
                ));
            }
            Grown::UnderWay => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn tell(report: &GrowReport) {
    say(&format!(
        "{} {}: from {} in {} groups to {} in {}",
        if report.done { "grew" } else { "would grow" },
        report.target,
        ByteSize(report.client_bytes_before),
        report.groups_before,
        ByteSize(report.client_bytes_after),
        report.groups_after,
    ));
    if report.map_room_pct < 100 {
        say(&format!(
            "the map, whose room was fixed at creation, can hold {} % of what the logs can; past that \
             small writes go in place (see create --grow-to)",
            report.map_room_pct
        ));
    }
    if report.groups_left_out > 0 {
        say(&format!(
            "{} more groups would fit the device, but not the snapshots, whose size was fixed at creation \
             (see create --grow-to)",
            report.groups_left_out
        ));
    }
}
