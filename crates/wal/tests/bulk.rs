//! Bulk through the gate: the bytes are right, the bound is kept, and it follows the log.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_basics::SplitMix;
use nearhead_wal::bulk::{BulkReader, BulkWriter, Gate, PaceOptions};
use nearhead_wal::{Histogram, OpenOptions, WalErrorKind};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn directory(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bulk-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn idle_gate() -> Arc<Gate> {
    Arc::new(Gate::new(PaceOptions::default(), Box::new(Histogram::default)))
}

#[test]
fn what_was_written_in_pieces_is_read_in_pieces() {
    let directory = directory("round");
    let mut random = SplitMix::new(1);
    for len in [0, 1, 4096, 65_535, 65_536, 65_537, 1_048_577, 3_000_001] {
        let path = directory.join(format!("{len}"));
        let all: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        let gate = idle_gate();
        let mut writer = BulkWriter::create(&path, Arc::clone(&gate)).unwrap();
        for piece in all.chunks(77_777) {
            writer.write(piece).unwrap();
        }
        assert_eq!(writer.position(), len as u64);
        assert_eq!(writer.finish().unwrap(), len as u64);
        assert!(std::fs::read(&path).unwrap() == all, "{len}");
        let mut read = Vec::new();
        BulkReader::open(&path, gate).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == all, "{len}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn the_report_tells_bytes_bound_and_latency() {
    let directory = directory("report");
    // A log whose every window misses the target: bulk is held to one piece, and still ends.
    let slow = || {
        let mut window = Histogram::default();
        (0..100).for_each(|_| window.record(50_000_000));
        window
    };
    let gate = Arc::new(Gate::new(PaceOptions::default(), Box::new(slow)));
    let mut round = 0;
    while gate.report().windows < 3 {
        let mut writer =
            BulkWriter::create(&directory.join(format!("{round}")), Arc::clone(&gate)).unwrap();
        writer.write(&vec![1; 4 << 20]).unwrap();
        writer.finish().unwrap();
        round += 1;
    }
    let report = gate.report();
    assert_eq!(report.bytes, round << 22);
    assert_eq!(report.bound_pieces, 1);
    assert_eq!(report.windows, report.windows_over_target);
    assert!(report.log_latency_ns_p99 >= 50_000_000, "{report}");
    println!("{report}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_log_paces_the_bulk_beside_it() {
    let directory = directory("beside");
    let log = OpenOptions::default().open(&directory.join("log"), |_, _| {}).unwrap().log;
    let log = Arc::new(log);
    let source = Arc::clone(&log);
    let options = PaceOptions { samples_min: 1, ..PaceOptions::default() };
    let gate = Arc::new(Gate::new(options, Box::new(move || source.take_latency_window())));
    let mut writer = BulkWriter::create(&directory.join("bulk"), Arc::clone(&gate)).unwrap();
    for _ in 0..50 {
        log.append_durable(b"small and durable").unwrap();
        writer.write(&vec![7; 300_000]).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 15_000_000);
    println!("{}", gate.report());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_file_that_exists_is_not_written_over_and_one_that_is_missing_not_read() {
    let directory = directory("errors");
    let path = directory.join("file");
    std::fs::write(&path, b"somebody's").unwrap();
    let error = BulkWriter::create(&path, idle_gate()).map(drop).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::AlreadyExists);
    let error = BulkReader::open(&directory.join("none"), idle_gate()).map(drop).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::NotFound);
    let mut reader = BulkReader::open(&path, idle_gate()).unwrap();
    std::fs::write(&path, b"").unwrap();
    assert_eq!(reader.read(&mut [0; 10]).unwrap_err().kind, WalErrorKind::Io);
    std::fs::remove_dir_all(&directory).unwrap();
}
