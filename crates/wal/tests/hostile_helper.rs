//! A helper that answers nonsense, under a whole log; and a machine that has no memory files for a ring. Whatever comes
//! back, an append is acknowledged and there, or fails by its deadline; nothing acknowledged is missing afterwards.
//!
//! The nonsense is made by `support/hostile_helper.py`, which stands before the real helper: without Python a line
//! says that it was not tried.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_wal::process::{HelperOptions, OnDeath, Transport};
use nearhead_wal::writer::Mode;
use nearhead_wal::{Geometry, LogOptions, OpenOptions, Opened, Result, Tail, WalErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const HELPER: &str = env!("CARGO_BIN_EXE_nearhead-wal-helper");
const PROXY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/hostile_helper.py");
const SEEDS: u64 = 24;
/// Set for the process that has no memory files: the directory of its log.
const CHILD_VARIABLE: &str = "NEARHEAD_TEST_NO_MEMORY_FILES";

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("hostile-helper-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn options(transport: Transport) -> HelperOptions {
    HelperOptions {
        program: HELPER.into(),
        arguments: Vec::new(),
        on_death: OnDeath::Fail,
        deadline: None,
        transport,
    }
}

fn record(lsn: u64) -> Vec<u8> {
    vec![lsn as u8; (lsn * 37 % 5000) as usize]
}

/// Opens the log, and says how many records it has, each as it was written.
fn open(path: &Path, helper: &HelperOptions) -> Result<(Opened, u64)> {
    let geometry = Geometry { segment_bytes: 256 << 10, block_bytes: 4096, tail: Tail::Rewritten };
    let log = LogOptions { geometry, record_bytes_max: 60_000, ..LogOptions::default() };
    let options = OpenOptions { log, mode: Mode::Process, direct: true, create: true };
    let mut found = 0;
    let opened = options.open_through(path, helper, |lsn, bytes| {
        found += 1;
        assert_eq!((lsn.0, bytes), (found, &record(found)[..]));
    })?;
    Ok((opened, found))
}

#[test]
fn whatever_a_helper_answers_nothing_that_was_acknowledged_is_lost() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3, which plays the hostile helper");
        return;
    }
    let path = directory("nonsense");
    let (mut acknowledged, mut failures) = (0, 0);
    for seed in 0..SEEDS {
        let hostile = HelperOptions {
            program: "python3".into(),
            arguments: vec![PROXY.into(), seed.to_string().into(), HELPER.into()],
            deadline: Some(Duration::from_millis(500)),
            ..options(Transport::Socket)
        };
        if let Ok((opened, found)) = open(&path, &hostile) {
            assert!(found >= acknowledged, "seed {seed}: {found} of {acknowledged}");
            acknowledged = found;
            for lsn in found + 1..found + 30 {
                if let Err(error) = opened.log.append_durable(&record(lsn)) {
                    failures += 1;
                    assert!(error.detail.contains("helper"), "seed {seed}: {error}");
                    let next = opened.log.append_durable(b"x").unwrap_err();
                    assert_eq!(next.kind, WalErrorKind::Stopped, "seed {seed}: {next}");
                    break;
                }
                acknowledged = lsn;
            }
        } else {
            failures += 1;
        }
        let (opened, found) = open(&path, &options(Transport::Socket)).unwrap();
        assert!(found >= acknowledged, "seed {seed}: {found} of {acknowledged}");
        // The honest one writes as well: on a machine so busy that no hostile one answers in time there is something to lose all the same.
        acknowledged = found + 1;
        opened.log.append_durable(&record(acknowledged)).unwrap();
        drop(opened);
    }
    assert!(failures > SEEDS / 3, "{failures} failures: the helpers were not hostile");
    std::fs::remove_dir_all(&path).unwrap();
}

/// Not a test by itself: what the next one runs where files may not be as large as a ring.
#[test]
fn a_program_without_memory_files() {
    let Some(path) = std::env::var_os(CHILD_VARIABLE).map(PathBuf::from) else { return };
    let (opened, _) = open(&path, &options(Transport::Automatic)).unwrap();
    let line = opened.choice.to_string();
    assert!(line.contains("told through a socket, as there is no ring: "), "{line}");
    for lsn in 1..=50 {
        opened.log.append_durable(&record(lsn)).unwrap();
    }
    drop(opened);
    let error = open(&path, &options(Transport::Ring)).map(drop).unwrap_err();
    assert!(error.detail.contains("a ring in shared memory"), "{error}");
    let (_, found) = open(&path, &options(Transport::Socket)).unwrap();
    assert_eq!(found, 50);
}

#[test]
fn without_memory_files_the_socket_is_taken_and_a_ring_that_is_insisted_on_is_refused() {
    let path = directory("no-memory-files");
    // A bound on files, in blocks of 512 bytes: a segment fits, a ring of two lanes does not.
    let limited = r#"trap "" XFSZ; ulimit -f 800; exec "$0" "$@""#;
    let output = Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_without_memory_files", "--nocapture"])
        .env(CHILD_VARIABLE, &path)
        .env_remove("NEARHEAD_WAL_TRANSPORT")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(path.join("wal.control").exists(), "the program wrote its log");
    std::fs::remove_dir_all(&path).unwrap();
}
