//! The real daemon under kills and power cuts, for as many cycles as asked; and the golden images.
//!
//! Both are tests of the program: fifty cycles run with all the others, more by hand and in `make soak`.
//! A cycle that fails ends its run and prints seed and command.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a soak runs.
const CYCLES: u64 = 2000;

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct DaemonArgs {
    /// How many cycles
    #[arg(long, value_name = "N", default_value_t = CYCLES)]
    cycles: u64,
    /// What they follow from [default: one of the day]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Runs the cycles; true if none failed.
pub(crate) fn run(root: &Path, arguments: &DaemonArgs) -> bool {
    let cycles = arguments.cycles;
    let seed = arguments.seed.unwrap_or_else(seed_of_now);
    println!("daemon: {cycles} cycles, seed {seed}");
    let mut command = cargo_test(root, "power_cuts", &["--nocapture"]);
    command.env("NEARHEAD_CYCLES", cycles.to_string()).env("NEARHEAD_SEED", seed.to_string());
    succeeds(command)
}

/// Writes the golden images of the present format version that are not there yet.
pub(crate) fn golden_images(root: &Path) -> bool {
    succeeds(cargo_test(
        root,
        "formats",
        &["--ignored", "--exact", "write_the_images_of_this_format_version"],
    ))
}

fn cargo_test(root: &Path, test: &str, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(["test", "--quiet", "--package", "nearhead-cli", "--test", test, "--"]);
    command.args(arguments).current_dir(root).stdin(Stdio::null());
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

fn seed_of_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs())
}
