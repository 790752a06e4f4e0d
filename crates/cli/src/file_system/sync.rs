//! `nearhead sync`: makes everything durable that was done to a mounted file system, as `sync -f` does on other file systems.
//!
//! It asks the daemon that has the file system mounted, and ends only once all files, names and attributes of that moment are durable.

use crate::control::Client;
use nearhead_output::{say, say_json};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `nearhead sync`.
#[derive(clap::Args, Debug)]
pub struct SyncArgs {
    /// The volume whose file system is mounted, or any folder in it
    pub target: String,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Report of a sync.
#[derive(Debug, Serialize)]
struct SyncReport<'a> {
    target: &'a str,
    durable: bool,
}

/// Runs the command.
pub fn run(args: &SyncArgs) -> Result<(), String> {
    let target = &args.target;
    let Some(mut client) = Client::find(target, args.control.as_deref())? else {
        return Err(format!(
            "sync {target}: expected a mounted file system, found none: nothing waits to be written"
        ));
    };
    let report: crate::report::StatusReport = client.ask("status")?;
    if report.file_system.is_none() {
        return Err(format!(
            "sync {target}: expected a mounted file system, found a served volume; a flush of its client makes its writes durable"
        ));
    }
    let _: String = client.ask("sync")?;
    if args.json {
        return say_json(&SyncReport { target, durable: true });
    }
    say(&format!("sync of {target}: everything is durable"));
    Ok(())
}
