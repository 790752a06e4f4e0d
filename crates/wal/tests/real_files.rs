//! A log in a real directory: written in every mode, read again, and refused where it must be.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_wal::writer::Mode;
use nearhead_wal::{Geometry, LogOptions, Lsn, OpenOptions, Tail, WalErrorKind, read_log};
use std::path::{Path, PathBuf};

fn directory(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wal-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn options(mode: Mode, direct: bool, block_bytes: u32) -> OpenOptions {
    let geometry = Geometry { segment_bytes: 256 << 10, block_bytes, tail: Tail::Rewritten };
    let log = LogOptions { geometry, record_bytes_max: 60_000, ..LogOptions::default() };
    OpenOptions { log, mode, direct, create: true }
}

fn record(lsn: u64) -> Vec<u8> {
    vec![lsn as u8; (lsn * 37 % 5000) as usize]
}

#[test]
fn every_mode_writes_what_is_read_again() {
    for (index, mode) in [Mode::Thread, Mode::Request, Mode::Caller].into_iter().enumerate() {
        for direct in [true, false] {
            let path = directory(&format!("modes-{index}-{direct}"));
            let options = options(mode, direct, if direct { 4096 } else { 512 });
            for life in 0..3 {
                let mut next = 1;
                let opened = options
                    .open(&path, |lsn, bytes| {
                        assert_eq!((lsn.0, bytes), (next, &record(next)[..]));
                        next += 1;
                    })
                    .unwrap();
                assert_eq!(opened.recovered.next_lsn, Lsn(life * 100 + 1), "{}", opened.choice);
                for lsn in next..next + 100 {
                    if lsn % 7 == 0 {
                        opened.log.append_durable(&record(lsn)).unwrap();
                    } else {
                        opened.log.append(&record(lsn)).unwrap();
                    }
                }
                if life == 1 {
                    opened.log.sync().unwrap();
                    drop(opened);
                } else {
                    opened.log.close().unwrap();
                }
            }
            let mut count = 0;
            read_log(&path, |_, _| count += 1).unwrap();
            assert_eq!(count, 300);
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}

#[test]
fn the_choice_is_one_line_that_names_scheduler_and_path() {
    let path = directory("choice");
    let opened = options(Mode::Thread, true, 4096).open(&path, |_, _| {}).unwrap();
    let line = opened.choice.to_string();
    assert!(line.contains("scheduler") && line.lines().count() == 1, "{line}");
    println!("{line}");
    drop(opened);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_second_writer_is_told_who_has_it() {
    let path = directory("second");
    let options = options(Mode::Caller, true, 4096);
    let opened = options.open(&path, |_, _| {}).unwrap();
    let error = options.open(&path, |_, _| {}).map(drop).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::InUse);
    assert!(error.detail.contains(&std::process::id().to_string()), "{error}");
    drop(opened);
    options.open(&path, |_, _| {}).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn what_is_no_log_is_refused_with_a_reason() {
    let path = directory("nothing");
    let existing = OpenOptions { create: false, ..options(Mode::Caller, true, 4096) };
    let error = existing.open(&path, |_, _| {}).map(drop).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::NotFound);
    std::fs::create_dir(&path).unwrap();
    assert_eq!(read_log(&path, |_, _| {}).unwrap_err().kind, WalErrorKind::NotFound);
    assert_eq!(existing.open(&path, |_, _| {}).map(drop).unwrap_err().kind, WalErrorKind::NotFound);
    let file = path.join("file");
    std::fs::write(&file, b"not a directory").unwrap();
    assert_eq!(existing.open(&file, |_, _| {}).map(drop).unwrap_err().kind, WalErrorKind::NotALog);
    std::fs::remove_dir_all(&path).unwrap();
}
