//! A scheduler that changes under a log, as `nearhead wal advise --apply` and administrators do it: nothing that was
//! acknowledged is lost, in no mode, and the next opening says what it found.
//!
//! Needs a loop device and a mount, which only root may: without them a line says that nothing was tried.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_uring::{scheduler_of, set_scheduler_of};
use nearhead_wal::process::HelperOptions;
use nearhead_wal::writer::Mode;
use nearhead_wal::{Geometry, LogOptions, OpenOptions, Opened, Tail, read_log};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

const DISK_BYTES: u64 = 64 << 20;
const RECORD_BYTES: usize = 3000;
/// Appends between two changes, and changes in each mode.
const APPENDS: u64 = 5;
const CHANGES: usize = 12;

/// A file system on a block device of its own, until this is dropped.
struct Mounted {
    folder: PathBuf,
    device: String,
}

impl Mounted {
    fn new() -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("scheduler-change-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("mount")).unwrap();
        let image = folder.join("image");
        File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        let image = image.to_str().unwrap();
        let device = run("losetup", &["--find", "--show", image])?;
        let mounted = Self { folder, device };
        run("mkfs.ext4", &["-q", "-F", &mounted.device])?;
        run("mount", &[&mounted.device, mounted.mount().to_str().unwrap()])?;
        Some(mounted)
    }

    fn mount(&self) -> PathBuf {
        self.folder.join("mount")
    }

    /// The numbers of the device, if the mount really is on it.
    fn numbers(&self) -> (u32, u32) {
        let of_mount = std::fs::metadata(self.mount()).unwrap().dev();
        assert_eq!(of_mount, std::fs::metadata(&self.device).unwrap().rdev(), "it is mounted");
        (rustix::fs::major(of_mount), rustix::fs::minor(of_mount))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let mount = self.mount();
        let _ = Command::new("umount").arg("--lazy").arg(mount).output();
        let _ = Command::new("losetup").args(["--detach", &self.device]).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What it printed; a line, if it cannot be done here.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }
        found => {
            println!("skipped: {program} {arguments:?}: {found:?}");
            None
        }
    }
}

fn open(path: &Path, mode: Mode) -> Opened {
    let geometry = Geometry { segment_bytes: 256 << 10, block_bytes: 4096, tail: Tail::Rewritten };
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
    let options = OpenOptions { log, mode, direct: true, create: true };
    options.open_through(path, &helper, |_, _| {}).unwrap()
}

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; RECORD_BYTES]
}

#[test]
fn a_log_goes_on_and_keeps_everything_while_schedulers_come_and_go_under_it() {
    let Some(mounted) = Mounted::new() else { return };
    let (major, minor) = mounted.numbers();
    let Some((first, mut names)) = scheduler_of(major, minor) else {
        println!("skipped: the kernel does not tell the scheduler of {}", mounted.device);
        return;
    };
    names.push(first);
    for mode in [Mode::Caller, Mode::Thread, Mode::Request, Mode::Process] {
        let path = mounted.mount().join(format!("{mode:?}"));
        let opened = open(&path, mode);
        let acknowledged = AtomicU64::new(0);
        let append = || {
            let number = acknowledged.load(Ordering::Acquire) + 1;
            opened.log.append_durable(&record(number)).unwrap();
            acknowledged.store(number, Ordering::Release);
        };
        let last = &names[CHANGES % names.len()];
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..CHANGES as u64 * APPENDS).for_each(|_| append()));
            for (number, name) in names.iter().cycle().take(CHANGES).enumerate() {
                // The next change comes when a few more are durable, so each falls among writes.
                while acknowledged.load(Ordering::Acquire) < number as u64 * APPENDS
                    && !writer.is_finished()
                {
                    std::thread::yield_now();
                }
                set_scheduler_of(major, minor, name).unwrap();
            }
        });
        set_scheduler_of(major, minor, last).unwrap();
        append();
        drop(opened);
        let mut found = 0;
        read_log(&path, |_, bytes| {
            found += 1;
            assert_eq!(bytes, record(found), "{mode:?}: record {found}");
        })
        .unwrap();
        assert_eq!(found, acknowledged.into_inner(), "{mode:?}");
        let line = open(&path, mode).choice.to_string();
        assert!(line.contains(&format!("scheduler {last}")), "{mode:?}: {line}");
    }
}
