//! `nearhead status`: asks the daemon that serves a volume, or looks at the volume itself; without a target, all daemons of this machine.
//!
//! The exit code is for monitoring: 0 if all is well, 2 if a volume is degraded or has failed, 1 if
//! that could not be found out.

mod list;
mod screen;
mod watch;

use crate::attach;
use crate::control::Client;
use crate::offline;
use crate::report::StatusReport;
use crate::target::{Access, DiskArgs};
use nearhead_output::{say, say_json};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `nearhead status` is told.
#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B [default: all volumes that are served or mounted here]
    pub target: Option<String>,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    /// Go on and show what it does, every so many seconds, until Ctrl-C; with --json a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    pub watch: Option<f64>,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// Of a volume that is degraded or has failed.
const EXIT_NOT_WELL: u8 = 2;

/// How often a volume can be looked at: more would be work for it, less is no watching.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|seconds| SECONDS.contains(seconds)).ok_or_else(|| {
        format!("expected seconds, 0.1 to 3600, found {text}; a target goes before --watch")
    })
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<ExitCode, String> {
    if let Some(seconds) = args.watch {
        return watch::run(args, seconds);
    }
    let Some(target) = &args.target else {
        return match &args.control {
            Some(path) => said(&Client::at(path)?.ask::<StatusReport>("status")?, args),
            None => list::run(args.json),
        };
    };
    let report = match Client::connected(target, args.control.as_deref())? {
        Some(mut client) => client.ask::<StatusReport>("status")?,
        None => match attach::status(target, args.json) {
            Some(told) => return told.map(|()| exit_code(false)),
            None => at_rest(target, &args.disk)?,
        },
    };
    said(&with_user(report), args)
}

/// The same with what keeps the block device busy, which the daemon does not look for.
fn with_user(mut report: StatusReport) -> StatusReport {
    if let Some(served) = &mut report.served {
        served.attached = served.attached.take().map(attach::with_user);
    }
    report
}

fn said(report: &StatusReport, args: &StatusArgs) -> Result<ExitCode, String> {
    if args.json {
        say_json(report)?;
    } else {
        say(&report.text());
    }
    Ok(exit_code(report.health.is_well()))
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOT_WELL) }
}

/// So many seconds, in the two largest units that say something.
fn lasting(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn at_rest(target: &str, disk: &DiskArgs) -> Result<StatusReport, String> {
    let volume = offline::open(target, Access::Read, disk, false)?;
    Ok(StatusReport::new(target, &volume.volume, None, volume.now()))
}
