//! `nearhead upgrade`: an attached volume goes on with another program, while users of the device wait a moment.

use super::desk::ask_for_upgrade;
use super::place::Place;
use crate::units::Span;
use nearhead_output::{say, say_json};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `nearhead upgrade`.
#[derive(clap::Args, Debug)]
pub struct UpgradeArgs {
    /// The attached volume: its name, /dev/nearhead/NAME, its device or its target
    pub what: String,
    /// The program that is to go on [default: this one]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Go back to the program before if the other one does not get on towards readiness for this long [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Report of `upgrade --json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    name: &'a str,
    binary: &'a Path,
    told: &'a str,
}

/// Runs the command.
pub fn run(args: &UpgradeArgs) -> Result<(), String> {
    let (place, _) = Place::find(&args.what)?;
    let binary = match &args.binary {
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe(),
    };
    let binary = binary.map_err(|error| format!("upgrade {}: {error}", args.what))?;
    let limit = args.timeout.map(|Span(limit)| Duration::from_nanos(limit.0));
    let told = ask_for_upgrade(&place, &binary, limit)?;
    if args.json {
        return say_json(&Report { name: &place.name, binary: &binary, told: &told });
    }
    say(&told);
    Ok(())
}
