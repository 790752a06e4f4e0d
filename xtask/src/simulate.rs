//! The swarm simulator, built as the tests are, and run with the arguments given.
//!
//! `ci` runs some hundred seeds, those that once failed, and a campaign, the same ones each time: what others find is
//! older than the change at hand, and must not hide what the change did. `make soak` takes new ones, for hours.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Seeds of one test run, beside those that once failed, the first of them, and lives of a campaign.
const SEEDS: &str = "400";
const FIRST_SEED: &str = "79549500000000";
const STEERED_LIVES: &str = "240";

/// The campaign that every test run repeats.
const CAMPAIGN: &str = "7";

/// Lives are short and take much memory: it stays with the process between them.
pub(crate) const MEMORY: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "1000000000"), ("MALLOC_TRIM_THRESHOLD_", "1000000000")];

/// Runs the simulator; true if no life failed.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--package", "nearhead-swarm"]);
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
pub(crate) fn repeated(root: &Path) -> bool {
    let seeds = ["--fresh", SEEDS, "--first", FIRST_SEED];
    let steered = ["--steer", STEERED_LIVES, "--campaign", CAMPAIGN];
    let arguments: Vec<String> = seeds.into_iter().chain(steered).map(str::to_owned).collect();
    run(root, &arguments)
}
