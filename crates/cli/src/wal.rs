//! `nearhead wal`: what the write-ahead log library offers to programs that are no Rust programs.
//!
//! `helper` writes for another program, over pipes (docs/wal-helper.md); `advise` looks at one that runs.

use nearhead_output::say;
use nearhead_wal::advise::{Action, Facts, judge};
use nearhead_wal::process::{Ended, serve_standard};
use std::io::IsTerminal;
use std::path::Path;

/// What `nearhead wal` is told.
#[derive(clap::Subcommand, Debug)]
pub enum WalCommand {
    /// Write logs for another program, which sends requests to standard input (docs/wal-helper.md)
    Helper,
    /// Say what would help the log of a running program
    Advise(AdviseArgs),
}

/// What `nearhead wal advise` is told.
#[derive(clap::Args, Debug)]
pub struct AdviseArgs {
    /// A process, or the directory of a log
    #[arg(value_name = "PID|DIR")]
    pub subject: String,
    /// Do at once what can be done at once: priorities of threads, the scheduler
    #[arg(long)]
    pub apply: bool,
}

/// Runs the command.
pub fn run(command: &WalCommand) -> Result<(), String> {
    match command {
        WalCommand::Helper => helper(),
        WalCommand::Advise(args) => advise(args),
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

fn advise(args: &AdviseArgs) -> Result<(), String> {
    let facts = match args.subject.parse() {
        Ok(process) => Facts::of_process(process),
        Err(_) => Facts::of_directory(Path::new(&args.subject)),
    };
    let facts = facts.map_err(|error| format!("wal advise: {error}"))?;
    tell(&facts);
    let advice = judge(&facts);
    say("what would help, most first:");
    for (number, advice) in advice.iter().enumerate() {
        say(&format!("  {}. {}", number + 1, advice.text));
    }
    let actions: Vec<&Action> = advice.iter().filter_map(|advice| advice.action.as_ref()).collect();
    if !args.apply {
        if !actions.is_empty() {
            say(&format!("with --apply, {} of these are done at once", actions.len()));
        }
        return Ok(());
    }
    let mut failed = 0;
    for action in actions {
        say(&format!("applying: {action}"));
        if let Err(error) = action.apply() {
            failed += 1;
            say(&format!("  not done: {error}"));
        }
    }
    if failed > 0 {
        return Err(format!("wal advise: {failed} could not be applied; run as root"));
    }
    Ok(())
}

fn tell(facts: &Facts) {
    if let Some(process) = facts.process {
        say(&format!(
            "process {process} ({}), {} threads",
            facts.process_name,
            facts.threads.len()
        ));
    }
    for file in facts.files.iter().filter(|file| file.is_log) {
        let cache = if file.is_direct { "past the page cache" } else { "through the page cache" };
        let sync = if file.writes_through { ", each write durable" } else { "" };
        say(&format!("log {}: {cache}{sync}", file.path.display()));
    }
    if let Some((kind, options)) = &facts.file_system {
        say(&format!("{} is {kind} ({options})", facts.directory.display()));
    }
    if let Some((major, minor)) = facts.device {
        let scheduler = facts.scheduler.as_deref().unwrap_or("unknown");
        let others = facts.schedulers_other.join(" ");
        say(&format!("device {major}:{minor}, scheduler {scheduler} (others: {others})"));
    }
}
