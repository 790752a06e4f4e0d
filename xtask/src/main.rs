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
mod simulate;
mod test_output;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy   check the rules of STYLE.md that a program can decide
       cargo xtask ci     format, tidy, clippy, cargo-deny where installed, every test, lives of the swarm
       cargo xtask sim    lives of volumes under faults: --seed N, --seeds A..B, --minutes M, --fresh COUNT, --steer COUNT
       cargo xtask planted [NAMES]   make each planted mistake and see which rungs of SAFETY.md find it
       cargo xtask mutants PART [--only RE]   small changes to codec, map, recovery, volume, arrays, nbd or uring: which does no test notice?
       cargo xtask daemon   the real daemon under kills and power cuts: --cycles N, --seed N
       cargo xtask golden-images   write test images of a new format version
       cargo xtask coverage   which lines of format, engine and nbd the tests never run
       cargo xtask protocol [STATES | mistakes]   explore the model of the engine's protocol";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let succeeded = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::report_workspace(&workspace_root()),
        ["ci"] => ci::run(&workspace_root()),
        ["daemon", ..] => daemon::run(&workspace_root(), &arguments[1..]),
        ["golden-images"] => daemon::golden_images(&workspace_root()),
        ["mutants", ..] => mutants::run(&workspace_root(), &arguments[1..]),
        ["planted"] => planted::run(&workspace_root(), "all"),
        ["planted", names] => planted::run(&workspace_root(), names),
        ["coverage"] => coverage::run(&workspace_root()),
        ["protocol", ..] => protocol::run(&workspace_root(), &arguments[1..]),
        ["sim", ..] => simulate::run(&workspace_root(), &arguments[1..]),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            true
        }
        _ => {
            eprintln!("xtask: expected one task, found {arguments:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The directory that holds the workspace's Cargo.toml, wherever the task was started.
fn workspace_root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}
