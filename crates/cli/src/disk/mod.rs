//! `nearhead disk`: emulated disks by themselves, without a volume.

mod list;
mod serve;
mod serve_file;
mod told;

use clap::Subcommand;
use nearhead_measure::drives::{import, validate};
use nearhead_models::Profile;
use nearhead_output::note;

/// What `nearhead disk` does.
#[derive(Subcommand, Debug)]
pub enum DiskCommand {
    /// Serve a bare emulated disk over NBD, with a control socket for power cuts and statistics
    Serve(serve::DiskServeArgs),
    /// List the disks that can be emulated
    List(list::DiskListArgs),
    /// Make a profile of a measured drive's parameter package (DiskSim's formats)
    Import(import::DiskImportArgs),
    /// Replay a trace that was measured on a drive on its model, and compare
    Validate(validate::DiskValidateArgs),
}

/// Runs the command.
pub fn run(command: &DiskCommand) -> Result<(), String> {
    match command {
        DiskCommand::Serve(args) => serve::run(args),
        DiskCommand::List(args) => {
            warn_of_contradictions();
            list::run(args)
        }
        DiskCommand::Import(args) => import::run(args),
        DiskCommand::Validate(args) => validate::run(args),
    }
}

/// Tells where the datasheets of embedded profiles contradict what the profiles derive.
fn warn_of_contradictions() {
    for profile in Profile::known_names().filter_map(|name| Profile::named(name).ok()) {
        for warning in profile.warnings() {
            note(&format!("warning: {warning}"));
        }
    }
}
