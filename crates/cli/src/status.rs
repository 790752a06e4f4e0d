//! `nearhead status`: asks the daemon that serves a volume, or looks at the volume itself.
//!
//! The exit code is for monitoring: 0 if all is well, 2 if the volume is degraded or has failed, 1 if
//! that could not be found out.

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
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// Of a volume that is degraded or has failed.
const EXIT_NOT_WELL: u8 = 2;

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<ExitCode, String> {
    let report = match Client::find(&args.target, args.control.as_deref())? {
        Some(mut client) => client.ask::<StatusReport>("status")?,
        None => at_rest(args)?,
    };
    if args.json {
        say_json(&report)?;
    } else {
        say(&report.text());
    }
    Ok(if report.health.is_well() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOT_WELL) })
}

fn at_rest(args: &StatusArgs) -> Result<StatusReport, String> {
    let volume = offline::open(&args.target, Access::Read, &args.disk, false)?;
    Ok(StatusReport::new(&args.target, &volume.volume, None, volume.now()))
}
