//! The model of the engine's durable protocol, built fast and explored.
//!
//! `ci` explores at least a million states; a number given explores more, for a soak.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the model with the arguments given; true if every law holds.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(["run", "--quiet", "--release", "--package", "nearhead-protocol-model", "--"]);
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cargo cannot be run: {error}");
            false
        }
    }
}
