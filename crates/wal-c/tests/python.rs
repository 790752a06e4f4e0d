//! The Python binding over this library: its own check writes, is killed, and reads.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use std::path::Path;
use std::process::Command;

#[test]
fn python_finds_everything_that_was_acknowledged() {
    let binding = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python");
    let library = std::env::current_exe().unwrap().with_file_name("libnearhead_wal_c.so");
    let checked = Command::new("python3")
        .arg(binding.join("tests/check.py"))
        .env("PYTHONPATH", &binding)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NEARHEAD_WAL_LIBRARY", library)
        .output();
    let Ok(output) = checked else {
        println!("skipped: there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"ok\n", "{said}");
}
