//! The swarm simulator, built fast and with every assertion, and run with the arguments given.
//!
//! `ci` runs a thousand fresh seeds and those that once failed; `make soak` runs for hours.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// New seeds in one test run, beside those that once failed.
const FRESH_SEEDS: &str = "1000";

/// Runs the simulator; true if no life failed.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    succeeds(simulator(root, arguments))
}

fn simulator(root: &Path, arguments: &[String]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--profile", "sim", "--package", "nearhead-swarm"]);
    command.args(["--bin", "nearhead-sim", "--"]).args(arguments);
    // Lives are short and take much memory: it stays with the process between them.
    command.env("MALLOC_MMAP_THRESHOLD_", "1000000000").env("MALLOC_TRIM_THRESHOLD_", "1000000000");
    command.current_dir(root).stdin(Stdio::null());
    command
}

fn succeeds(mut command: Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cargo cannot be run: {error}");
            false
        }
    }
}

/// Builds everything with the planted mistakes and lets the simulator find them; true if it found all.
pub(crate) fn planted(root: &Path, names: &str) -> bool {
    // A directory of its own: the flag would otherwise build everything again, twice.
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut command = simulator(root, &["--planted".to_owned(), names.to_owned()]);
    command.env("RUSTFLAGS", "--cfg planted").env("CARGO_TARGET_DIR", target.join("planted"));
    succeeds(command)
}

/// What the test run simulates.
pub(crate) fn fresh(root: &Path) -> bool {
    run(root, &["--fresh".to_owned(), FRESH_SEEDS.to_owned()])
}
