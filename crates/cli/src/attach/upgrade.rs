//! `nearhead upgrade`: an attached volume goes on with another program, while whoever uses it waits a moment.

use super::desk::ask_for_upgrade;
use super::place::Place;
use nearhead_output::say;
use std::path::PathBuf;

/// What `nearhead upgrade` is told.
#[derive(clap::Args, Debug)]
pub struct UpgradeArgs {
    /// The attached volume: its name, /dev/nearhead/NAME, its device or its target
    pub what: String,
    /// The program that is to go on [default: this one]
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &UpgradeArgs) -> Result<(), String> {
    let (place, _) = Place::find(&args.what)?;
    let binary = match &args.binary {
        Some(path) => std::path::absolute(path),
        None => std::env::current_exe(),
    };
    let binary = binary.map_err(|error| format!("upgrade {}: {error}", args.what))?;
    say(&ask_for_upgrade(&place, &binary)?);
    Ok(())
}
