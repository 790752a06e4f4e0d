//! The tutorial as a script: `PostgreSQL` with a backup beside it, on plain ext4 and on Nearhead, each on an emulated disk in real time.
//!
//! What is held here are laws: both sides ran, every commit that was answered is there after a kill of the daemon and a start of everything, the
//! table is printed, nothing is left behind. Never a speed.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Scratch, tools};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SIDES: [&str; 2] = ["plain ext4", "Nearhead"];

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo-postgres")
}

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(script());
    command.arg(env!("CARGO_BIN_EXE_nearhead")).args(args).output().unwrap()
}

/// Whether it can run here; says why not.
fn can_run() -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: attaching takes root");
        return false;
    }
    let missing = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|it| !Path::new(it).exists());
    if let Some(path) = missing {
        println!("skipped: attaching takes {path}");
        return false;
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    if !versions.into_iter().any(|version| version.path().join("bin/pgbench").exists()) {
        println!("skipped: PostgreSQL is not installed (scripts/install-deps postgres)");
        return false;
    }
    tools(&["python3", "mkfs.ext4", "losetup", "blockdev", "fallocate", "ionice", "tar"])
}

/// Mounts and loop devices of emulated disks below `/tmp/nearhead-demo-`.
fn left_behind() -> Vec<String> {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mounts = text("/proc/mounts");
    let mounts = mounts.lines().filter(|line| line.contains("nearhead-demo-")).map(str::to_owned);
    let folders = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let folders = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    mounts.chain(folders.filter(|name| name.starts_with("nearhead-demo-"))).collect()
}

#[test]
fn both_sides_run_and_every_commit_that_was_answered_is_there() {
    let scratch = Scratch::new("demo-postgres");
    if !can_run() {
        return;
    }
    let before = left_behind();
    let out = scratch.text("out");
    let output = run(&["--quick", "--out", &out]);
    let (told, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "scripts/demo-postgres --quick: {told}{problems}");
    for line in ["commits/s", "a commit, ms", "backup, MB/s", "plain ext4", "Nearhead"] {
        assert!(told.contains(line), "{line} in the table: {told}");
    }
    let text = std::fs::read_to_string(scratch.path("out").join("demo-postgres.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    for side in SIDES {
        for what in ["alone", "both", "same work"] {
            for name in ["commits/s", "backup, MB/s"] {
                let value = found["medians"][side][what][name].as_f64().unwrap();
                assert!(value > 0.0, "{side}, {what}: {name} is {value}");
            }
        }
        let commits = &found["commits"][side];
        let count = |name: &str| commits[name].as_u64().unwrap();
        assert!(count("answered") > 0 && count("there") >= count("answered"), "{side}: {commits}");
    }
    assert!(found["machine_was_busy"].is_array(), "{found}");
    let left = left_behind();
    let new: Vec<_> = left.iter().filter(|it| !before.contains(it)).collect();
    assert!(new.is_empty(), "left behind: {new:?}");
}

#[test]
fn what_cannot_be_is_refused_in_a_line_before_anything_is_made() {
    if !can_run() {
        return;
    }
    for (args, expected) in [
        (["--disk", "nosuch"], "--disk: expected one of "),
        (["--disk", "sata-ssd-240gb"], "--disk: expected one of "),
        (["--seconds", "0"], "--seconds: expected 1 to 3600, found 0"),
        (["--bulk-share", "100"], "--bulk-share: expected 1 to 95, found 100"),
    ] {
        let output = run(&args);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(expected), "{args:?}: {told}");
        assert!(!told.contains("Traceback"), "{args:?}: {told}");
    }
}
