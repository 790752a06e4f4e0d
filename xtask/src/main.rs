//! Checks on the source tree itself, and the one test run that everybody does the same way.
//!
//! `tidy` turns the rules of STYLE.md that a program can decide into findings with a file, a line
//! and what to do; `ci` is what `make test` runs. Nothing here changes a file, and no other crate
//! depends on this one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ci;
mod coverage;
mod daemon;
mod mutants;
mod planted;
mod protocol;
mod sandbox;
mod simulate;
mod test_output;
mod tidy;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Checks on the source tree, and the test runs that everybody does the same way
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Words {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of STYLE.md that a program can decide
    Tidy,
    /// Format, tidy, clippy, cargo-deny where installed, every test, lives of the swarm
    Ci,
    /// Lives of volumes under faults; `cargo xtask sim --help` says which can be chosen
    #[command(disable_help_flag = true)]
    Sim(Passed),
    /// Make each planted mistake and see which rungs of SAFETY.md find it
    Planted {
        /// Names with commas between them, or `list`
        #[arg(default_value = "all")]
        names: String,
    },
    /// Small changes to the code: which does no test notice?
    Mutants(mutants::MutantsArgs),
    /// The real daemon under kills and power cuts
    Daemon(daemon::DaemonArgs),
    /// Write test images of a new format version
    GoldenImages,
    /// Which lines of format, engine and nbd the tests never run
    Coverage,
    /// Explore the model of the engine's protocol; `cargo xtask protocol --help` says how far
    #[command(disable_help_flag = true)]
    Protocol(Passed),
}

/// What another program reads.
#[derive(clap::Args)]
struct Passed {
    /// As the program takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    let root = workspace_root();
    let succeeded = match Words::parse().task {
        Task::Tidy => tidy::report_workspace(&root),
        Task::Ci => ci::run(&root),
        Task::Sim(passed) => simulate::run(&root, &passed.arguments),
        Task::Planted { names } => planted::run(&root, &names),
        Task::Mutants(arguments) => mutants::run(&root, &arguments),
        Task::Daemon(arguments) => daemon::run(&root, &arguments),
        Task::GoldenImages => daemon::golden_images(&root),
        Task::Coverage => coverage::run(&root),
        Task::Protocol(passed) => protocol::run(&root, &passed.arguments),
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The directory that holds the workspace's Cargo.toml, wherever the task was started.
fn workspace_root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn read(line: &str) -> Option<Task> {
        let words = std::iter::once("xtask").chain(line.split_whitespace());
        Words::try_parse_from(words).ok().map(|words| words.task)
    }

    #[test]
    fn the_command_line_is_sound() {
        Words::command().debug_assert();
    }

    #[test]
    fn what_another_program_takes_is_passed_on_as_it_is() {
        for line in ["--seed 7 --long", "--help", "--seeds 1..9"] {
            let Some(Task::Sim(passed)) = read(&format!("sim {line}")) else { panic!("{line}") };
            assert_eq!(passed.arguments.join(" "), line);
        }
    }

    #[test]
    fn what_no_task_takes_is_refused() {
        for line in ["", "nonsense", "tidy more", "mutants", "mutants moon", "daemon --cycles x"] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
