//! A log on a file system of its own that is full, or read-only: before the log is made, while the next segment
//! is, in the middle of appending; and a bulk file there. A clear error, and nothing that was acknowledged is missing.
//!
//! Needs to mount a small tmpfs, which only root may: without that a line says that nothing was tried.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_wal::bulk::{BulkWriter, Gate, PaceOptions};
use nearhead_wal::process::HelperOptions;
use nearhead_wal::writer::Mode;
use nearhead_wal::{
    Geometry, Histogram, LogOptions, OpenOptions, Opened, Tail, WalErrorKind, read_log,
};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SEGMENT_BYTES: u32 = 256 << 10;
/// Room for a log of three segments and little more.
const MOUNT_BYTES: u64 = 1 << 20;
const RECORD_BYTES: usize = 4000;
const MODES: [Mode; 4] = [Mode::Caller, Mode::Thread, Mode::Request, Mode::Process];

/// One test at a time: a process that another one starts holds everybody's files until it has begun.
static ALONE: Mutex<()> = Mutex::new(());

/// A mounted file system, until this is dropped.
struct Mounted(PathBuf, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Mounted {
    fn new(name: &str) -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("full-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let size = format!("size={MOUNT_BYTES}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Self(path, alone));
        }
        println!("skipped: a tmpfs cannot be mounted at {}; it takes root", path.display());
        std::fs::remove_dir(&path).unwrap();
        None
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(status.success(), "mount -o {options}");
    }

    /// Takes the room, block by block, while more than so many bytes are free: the log may be taking some too.
    fn fill(&self, bytes_left: u64) {
        let mut filler = std::fs::File::create(self.0.join("filler")).unwrap();
        let free = || {
            let found = rustix::fs::statvfs(&self.0).unwrap();
            found.f_bavail * found.f_frsize
        };
        while free() > bytes_left {
            match filler.write_all(&[1; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a helper may need a moment to end.
        let status = Command::new("umount").arg("--lazy").arg(&self.0).status();
        if status.is_ok_and(|status| status.success()) {
            let _ = std::fs::remove_dir(&self.0);
        }
    }
}

fn open(path: &Path, mode: Mode) -> nearhead_wal::Result<Opened> {
    let geometry =
        Geometry { segment_bytes: SEGMENT_BYTES, block_bytes: 4096, tail: Tail::Rewritten };
    let log = LogOptions {
        geometry,
        record_bytes_max: RECORD_BYTES as u32,
        batch_bytes_max: 64 << 10,
        ..LogOptions::default()
    };
    let helper = HelperOptions {
        program: env!("CARGO_BIN_EXE_nearhead-wal-helper").into(),
        ..HelperOptions::default()
    };
    OpenOptions { log, mode, direct: true, create: true }.open_through(path, &helper, |_, _| {})
}

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; RECORD_BYTES]
}

/// How many records there are, each as it was written.
fn count(path: &Path) -> u64 {
    let mut count = 0;
    read_log(path, |_, bytes| {
        count += 1;
        assert_eq!(bytes, record(count), "record {count}");
    })
    .unwrap();
    count
}

/// Appends until one fails; how many were acknowledged, and the failure.
fn append_until_it_fails(opened: &Opened, from: u64) -> (u64, nearhead_wal::WalError) {
    let mut acknowledged = from;
    loop {
        match opened.log.append_durable(&record(acknowledged + 1)) {
            Ok(_) => acknowledged += 1,
            Err(error) => return (acknowledged, error),
        }
        assert!(acknowledged < 1000, "it took more than the file system holds");
    }
}

#[test]
fn a_log_for_which_there_is_no_room_says_so_and_is_in_nobodys_way() {
    for mode in MODES {
        let Some(mounted) = Mounted::new("before") else { return };
        mounted.fill(64 << 10);
        // At the latest with the first record, which needs a segment.
        let first = open(&mounted.log(), mode);
        let error = first.and_then(|opened| opened.log.append_durable(&record(1))).unwrap_err();
        assert_eq!(error.kind, WalErrorKind::NoSpace, "{mode:?}: {error}");
        assert!(error.detail.contains("full-before"), "it names the place: {error}");
        mounted.make_room();
        let opened = open(&mounted.log(), mode).unwrap();
        opened.log.append_durable(&record(1)).unwrap();
        opened.log.close().unwrap();
        assert_eq!(count(&mounted.log()), 1, "{mode:?}");
    }
}

#[test]
fn a_disk_that_fills_up_fails_an_append_and_loses_none_before_it() {
    for mode in MODES {
        let Some(mounted) = Mounted::new("meanwhile") else { return };
        let opened = open(&mounted.log(), mode).unwrap();
        opened.log.append_durable(&record(1)).unwrap();
        // The next segment may be there already, or half of it: there is room for no other.
        mounted.fill(16 << 10);
        let (acknowledged, error) = append_until_it_fails(&opened, 1);
        assert_eq!(error.kind, WalErrorKind::NoSpace, "{mode:?}: {error}");
        let full_segment = u64::from(SEGMENT_BYTES) / RECORD_BYTES as u64 - 2;
        assert!(acknowledged >= full_segment, "{mode:?}: failed after {acknowledged} already");
        drop(opened);
        let there = count(&mounted.log());
        assert!((acknowledged..=acknowledged + 1).contains(&there), "{mode:?}: {there} records");
        mounted.make_room();
        let opened = open(&mounted.log(), mode).unwrap();
        for number in there + 1..=there + 20 {
            opened.log.append_durable(&record(number)).unwrap();
        }
        opened.log.close().unwrap();
        assert_eq!(count(&mounted.log()), there + 20, "{mode:?}");
    }
}

#[test]
fn a_log_that_is_full_goes_on_once_there_is_room() {
    for mode in MODES {
        let Some(mounted) = Mounted::new("goes-on") else { return };
        let opened = open(&mounted.log(), mode).unwrap();
        opened.log.append_durable(&record(1)).unwrap();
        mounted.fill(16 << 10);
        let (acknowledged, _) = append_until_it_fails(&opened, 1);
        mounted.make_room();
        // An attempt at a segment that began before there was room may still fail what waits for it.
        let mut again = (0..100).map(|_| opened.log.append_durable(&record(acknowledged + 1)));
        assert!(again.any(|outcome| outcome.is_ok()), "{mode:?}: it never goes on");
        drop(opened);
        assert_eq!(count(&mounted.log()), acknowledged + 1, "{mode:?}");
    }
}

#[test]
fn a_log_on_a_file_system_that_is_read_only_says_so_and_can_still_be_read() {
    for mode in MODES {
        let Some(mounted) = Mounted::new("read-only") else { return };
        let opened = open(&mounted.log(), mode).unwrap();
        opened.log.append_durable(&record(1)).unwrap();
        opened.log.close().unwrap();
        mounted.remount("ro");
        let error = open(&mounted.log(), mode).map(drop).unwrap_err();
        assert_eq!(error.kind, WalErrorKind::ReadOnly, "{mode:?}: {error}");
        assert_eq!(count(&mounted.log()), 1, "{mode:?}");
    }
}

#[test]
fn a_bulk_file_that_just_fits_is_written_and_one_that_does_not_says_so() {
    let Some(mounted) = Mounted::new("bulk") else { return };
    let all = vec![7; 900 << 10];
    let write = |name: &str| {
        let gate = Gate::new(PaceOptions::default(), Box::new(Histogram::default));
        let mut writer = BulkWriter::create(&mounted.0.join(name), gate.into())?;
        writer.write(&all)?;
        writer.finish()
    };
    // More room than this was never made for it.
    assert_eq!(write("first"), Ok(900 << 10));
    assert!(std::fs::read(mounted.0.join("first")).unwrap() == all);
    assert_eq!(write("second").unwrap_err().kind, WalErrorKind::NoSpace);
}
