//! `nearhead wal` and `nearhead run` as people type them; what they do is tested where they are built.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

mod common;

use common::preload_library;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn nearhead(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearhead")).args(arguments).output().unwrap()
}

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("wal-programs-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn the_helper_answers_over_pipes_and_ends_with_its_input() {
    let mut helper = Command::new(env!("CARGO_BIN_EXE_nearhead"))
        .args(["wal", "helper"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // HELLO with tag 1, as docs/wal-helper.md has it, but without a directory.
    let hello = b"\x08\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0NHWP\x01\0\0\0";
    helper.stdin.take().unwrap().write_all(hello).unwrap();
    let output = helper.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), 20 + 16);
    assert_eq!(&output.stdout[4..6], b"\x01\x80");
    assert_eq!(&output.stdout[20..28], b"NHWP\x01\0\0\0");
}

#[test]
fn advise_names_the_log_and_what_would_help() {
    let place = directory("advise");
    let log = std::fs::File::create(place.join("log.1a")).unwrap();
    for subject in [place.to_str().unwrap().to_owned(), std::process::id().to_string()] {
        let output = nearhead(&["wal", "advise", &subject]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        for words in ["log.1a: through the page cache", "what would help", "nearhead run --wal"] {
            assert!(said.contains(words), "{said}");
        }
    }
    drop(log);
    std::fs::remove_dir_all(&place).unwrap();
    let output = nearhead(&["wal", "advise", "/nowhere"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/nowhere: expected a process"), "{said}");
}

#[test]
fn run_says_what_it_lacks() {
    let said = |arguments: &[&str]| {
        let output = nearhead(arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["run", "--", "true"]).contains("expected --wal or --bulk"));
    assert!(said(&["run", "--wal", "a:b", "--", "true"]).contains("nearhead"));
}

#[test]
fn run_keeps_processors_awake_for_as_long_as_the_program_runs() {
    const DEVICE: &str = "/dev/cpu_dma_latency";
    let Some(library) = preload_library() else { return };
    let command = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_nearhead"))
            .env("NEARHEAD_PRELOAD", &library)
            .args(["run", "--wal", "*.wal"])
            .args(arguments)
            .output()
            .unwrap()
    };
    // What all who hold the device asked for together.
    let asked = ["od", "-An", "-td4", "-N4", DEVICE];
    let output = command(&[&["--awake", "--"], asked.as_slice()].concat());
    if std::fs::OpenOptions::new().write(true).open(DEVICE).is_err() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("run as root"), "{output:?}");
        return;
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "{output:?}");
}

#[test]
fn run_becomes_the_program_with_its_log_routed() {
    let Some(library) = preload_library() else { return };
    let place = directory("run");
    for (way, line) in
        [(&[][..], "has its exact size"), (&["--ahead"], "is written through a stream")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_nearhead"))
            .env("NEARHEAD_PRELOAD", &library)
            .current_dir(&place)
            .args(["run", "--verbose", "--wal", "./*.wal"])
            .args(way)
            .args(["--", "dd", "if=/dev/zero", "of=out.wal", "bs=1000", "count=50", "conv=fsync"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("out.wal {line}")), "{said}");
        assert!(said.contains("scheduler"), "{said}");
        assert_eq!(std::fs::read(place.join("out.wal")).unwrap(), vec![0; 50_000]);
    }
    std::fs::remove_dir_all(&place).unwrap();
}

/// Writes a log and is killed; `exec` makes it the process that `run` became.
const KILLED: &str = "import os; f = os.open('out.wal', os.O_CREAT | os.O_WRONLY | os.O_APPEND); \
    os.write(f, b'synced;'); os.fsync(f); os.write(f, b'not synced'); os.kill(os.getpid(), 9)";

/// The guardian holds standard error until it is done, so the end of that is the moment to look.
#[test]
fn a_killed_program_leaves_exactly_what_it_wrote() {
    let Some(library) = preload_library() else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let place = directory("killed");
    for way in [&[][..], &["--ahead"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_nearhead"))
            .env("NEARHEAD_PRELOAD", &library)
            .current_dir(&place)
            .args(["run", "--wal", "*.wal"])
            .args(way)
            .args(["--", "python3", "-c", KILLED])
            .output()
            .unwrap();
        assert!(output.status.code().is_none(), "{output:?}");
        let found = std::fs::read(place.join("out.wal")).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), "synced;not synced", "{way:?} {output:?}");
        std::fs::remove_file(place.join("out.wal")).unwrap();
    }
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn repair_cuts_zeros_only_where_a_mark_says_so() {
    let place = directory("repair");
    let file = place.join("x.wal");
    std::fs::write(&file, b"content\0\0\0").unwrap();
    let shown = file.to_str().unwrap();
    let output = nearhead(&["run", "--repair", shown]);
    assert!(
        output.status.success()
            && String::from_utf8_lossy(&output.stdout).contains("nothing to cut")
    );
    assert_eq!(std::fs::read(&file).unwrap().len(), 10);
    let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    nearhead_wal::guardian::Mark { stream: 1, end_min: 0 }.set(&open).unwrap();
    let output = nearhead(&["run", "--repair", shown]);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("a process has it open"),
        "{output:?}"
    );
    drop(open);
    assert!(nearhead(&["run", "--repair", shown]).status.success());
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
    assert!(!nearhead(&["run", "--repair", place.join("none").to_str().unwrap()]).status.success());
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn zeros_ahead_are_refused_for_a_pattern_that_takes_everything() {
    let Some(library) = preload_library() else { return };
    for pattern in ["*", "/data/*", "/data/**"] {
        let output = Command::new(env!("CARGO_BIN_EXE_nearhead"))
            .env("NEARHEAD_PRELOAD", &library)
            .args(["run", "--ahead", "--wal", pattern, "--", "true"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("takes every file"), "{pattern}: {said}");
    }
}
