//! `nearhead wal`: what the write-ahead log library offers to programs that are no Rust programs.
//!
//! `helper` writes for another program, over pipes (docs/wal-helper.md).

use nearhead_wal::process::{Ended, serve_standard};
use std::io::IsTerminal;

/// What `nearhead wal` is told.
#[derive(clap::Subcommand, Debug)]
pub enum WalCommand {
    /// Write logs for another program, which sends requests to standard input (docs/wal-helper.md)
    Helper,
}

/// Runs the command.
pub fn run(command: &WalCommand) -> Result<(), String> {
    match command {
        WalCommand::Helper => helper(),
    }
}

fn helper() -> Result<(), String> {
    if std::io::stdin().is_terminal() {
        return Err("wal helper: expected a pipe as standard input, found a terminal; programs \
                    start it, see docs/wal-helper.md"
            .to_owned());
    }
    let ended = serve_standard()
        .map_err(|error| format!("wal helper: cannot use standard input and output: {error}"))?;
    if ended == Ended::Finished {
        return Ok(());
    }
    // Programs tell the cases apart by the status.
    std::process::exit(i32::from(ended.status()));
}
