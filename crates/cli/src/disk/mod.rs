//! `nearhead disk`: emulated disks by themselves, without a volume.

mod list;
mod serve;

use clap::Subcommand;

/// What `nearhead disk` does.
#[derive(Subcommand, Debug)]
pub enum DiskCommand {
    /// Serve a bare emulated disk over NBD, with a control socket for power cuts and statistics
    Serve(serve::DiskServeArgs),
    /// List the disks that can be emulated
    List(list::DiskListArgs),
}

/// Runs the command.
pub fn run(command: &DiskCommand) -> Result<(), String> {
    match command {
        DiskCommand::Serve(args) => serve::run(args),
        DiskCommand::List(args) => list::run(args),
    }
}
