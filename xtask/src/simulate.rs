//! The swarm simulator, built fast and with every assertion, and run with the arguments given.
//!
//! `ci` runs some hundred fresh seeds, those that once failed, and a campaign; `make soak` runs for hours.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// New seeds in one test run, beside those that once failed, and lives of a campaign.
const FRESH_SEEDS: &str = "400";
const STEERED_LIVES: &str = "240";

/// The campaign that every test run repeats. Soaks steer new ones: what those find is older than the change at hand.
const CAMPAIGN: &str = "7";

/// Lives are short and take much memory: it stays with the process between them.
pub(crate) const MEMORY: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "1000000000"), ("MALLOC_TRIM_THRESHOLD_", "1000000000")];

/// Runs the simulator; true if no life failed.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--profile", "sim", "--package", "nearhead-swarm"]);
    command.args(["--bin", "nearhead-sim", "--"]).args(arguments).envs(MEMORY);
    match command.current_dir(root).stdin(Stdio::null()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cargo cannot be run: {error}");
            false
        }
    }
}

/// What the test run simulates.
pub(crate) fn fresh(root: &Path) -> bool {
    let arguments = ["--fresh", FRESH_SEEDS, "--steer", STEERED_LIVES, "--campaign", CAMPAIGN];
    run(root, &arguments.map(str::to_owned))
}
