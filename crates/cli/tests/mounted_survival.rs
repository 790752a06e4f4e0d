//! A mount outlives its processes: after a kill, programs see a pause and no error, and all that they were answered is there.

#![allow(clippy::unwrap_used)]

mod common;

use common::mounts::{Mounted, assert_clean, can_mount, mount, unmount, volume};
use common::{Scratch, run_fails, run_ok};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Processes that `pid` started.
fn children(pid: u32) -> Vec<u32> {
    // Each thread has a list of its own.
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let lists: Vec<String> = lists.filter_map(Result::ok).collect();
    lists.join(" ").split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn kill(pid: u32) {
    // It may have ended since it was found.
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
}

/// Kills the worker of a mount, once there is one.
fn kill_worker(supervisor: u32) {
    loop {
        if let [worker, ..] = children(supervisor)[..] {
            return kill(worker);
        }
        std::thread::yield_now();
    }
}

/// A mount that is killed, and its volume.
struct It {
    scratch: Scratch,
    image: String,
    folder: std::path::PathBuf,
    mounted: Option<Mounted>,
}

impl It {
    fn new(name: &str, more: &[&str]) -> Option<Self> {
        if !can_mount() || !has_resend() {
            return None;
        }
        let scratch = Scratch::new(name);
        let (image, folder) = volume(&scratch, "256M");
        let mounted = Some(mount(&scratch, &image, &folder, more));
        Some(Self { scratch, image, folder, mounted })
    }

    fn supervisor(&self) -> u32 {
        self.mounted.as_ref().unwrap().daemon().pid()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.join(name)
    }

    /// Unmounts; what the supervisor logged.
    fn end(mut self) -> String {
        run_ok(&self.scratch, &["umount", self.folder.to_str().unwrap()]);
        let mounted = self.mounted.take().unwrap();
        let (status, _, problems) = mounted.into_daemon().wait();
        assert!(status.success(), "{status}: {problems}");
        assert_clean(&self.scratch, &self.image);
        problems
    }
}

/// Whether the kernel sends unanswered requests again (Linux 6.9).
fn has_resend() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).filter_map(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 9) {
        println!("skipped: a mount outlives its process from Linux 6.9 on, this is {release}");
    }
    version >= (6, 9)
}

#[test]
fn a_killed_worker_costs_a_pause_and_no_error() {
    let Some(it) = It::new("survive-load", &["-o", "commit=3600"]) else { return };
    let supervisor = it.supervisor();
    // A message for each kill, which comes at any moment of the requests of its round.
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let mut expected = BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(move || receiver.iter().for_each(|()| kill_worker(supervisor)));
        for round in 1..300_u32 {
            let (name, other) = (format!("a{}", round % 40), format!("b{}", round % 30));
            let bytes = vec![round as u8; 1 + (round as usize * 977) % 70_000];
            if round.is_multiple_of(50) {
                sender.send(()).unwrap();
            }
            fs::write(it.path(&name), &bytes).unwrap();
            expected.insert(name.clone(), bytes);
            if round.is_multiple_of(3) {
                fs::rename(it.path(&name), it.path(&other)).unwrap();
                let bytes = expected.remove(&name).unwrap();
                expected.insert(other.clone(), bytes);
            }
            if round.is_multiple_of(7) {
                fs::remove_file(it.path(expected.first_key_value().unwrap().0)).unwrap();
                expected.pop_first();
            }
        }
        drop(sender);
    });
    for (name, bytes) in &expected {
        assert!(fs::read(it.path(name)).unwrap() == *bytes, "{name}");
    }
    let count = fs::read_dir(&it.folder).unwrap().count();
    assert_eq!(count, expected.len() + 1, "lost+found is one more");
    assert!(it.end().contains("going on"));
}

#[test]
fn open_files_without_a_name_and_their_times_survive() {
    let Some(it) = It::new("survive-open", &["-o", "commit=3600"]) else { return };
    let open = |name: &str| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).open(it.path(name)).unwrap()
    };
    let mut gone = open("gone");
    gone.write_all(b"content of a file without a name").unwrap();
    fs::remove_file(it.path("gone")).unwrap();
    let mut large = open("large");
    for _ in 0..20 {
        large.write_all(&vec![7; 1 << 20]).unwrap();
    }
    fs::remove_file(it.path("large")).unwrap();
    let kept = open("kept");
    kept.write_at(&[1; 5000], 100_000).unwrap();
    kept.set_len(102_345).unwrap();
    rustix::fs::fsetxattr(&kept, "user.x", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    let times = |file: &File| {
        let found = file.metadata().unwrap();
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec(), found.size())
    };
    let before = [times(&gone), times(&large), times(&kept)];
    rustix::fs::flock(&kept, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for _ in 0..3 {
        kill_worker(it.supervisor());
        // Another process, without the kernel's cache.
        fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
        fs::write(it.path("other"), "x").unwrap();
        assert_eq!([times(&gone), times(&large), times(&kept)], before);
    }
    let mut text = String::new();
    gone.seek(SeekFrom::Start(0)).unwrap();
    gone.read_to_string(&mut text).unwrap();
    assert_eq!(text, "content of a file without a name");
    let mut bytes = vec![0; 20 << 20];
    large.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    let mut value = [0; 16];
    let len = rustix::fs::fgetxattr(&kept, "user.x", &mut value[..]).unwrap();
    assert_eq!(&value[..len], b"value");
    let other = File::open(it.path("kept")).unwrap();
    let busy = rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    assert!(busy.is_err(), "a lock survives");
    drop((gone, large, kept, other));
    it.end();
}

#[test]
fn a_worker_starts_a_supervisor_in_place_of_a_killed_one() {
    let Some(mut it) = It::new("survive-supervisor", &[]) else { return };
    let supervisor = it.supervisor();
    let worker = children(supervisor)[0];
    fs::write(it.path("one"), "1").unwrap();
    kill(supervisor);
    let next = loop {
        if let [next, ..] = children(worker)[..] {
            break next;
        }
        std::thread::yield_now();
    };
    fs::write(it.path("two"), "2").unwrap();
    // The next supervisor watches the worker once it has a pidfd of it.
    while !fs::read_dir(format!("/proc/{next}/fd")).is_ok_and(|open| {
        open.flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|path| path.to_string_lossy().contains("pidfd"))
        })
    }) {
        std::thread::yield_now();
    }
    kill(worker);
    let read = |name: &str| fs::read_to_string(it.path(name)).unwrap();
    assert_eq!((read("one").as_str(), read("two").as_str()), ("1", "2"));
    run_ok(&it.scratch, &["umount", it.folder.to_str().unwrap()]);
    drop(it.mounted.take());
    assert_clean(&it.scratch, &it.image);
}

#[test]
fn a_worker_that_cannot_be_started_is_tried_again() {
    let Some(it) = It::new("survive-spawn", &[]) else { return };
    fs::write(it.path("file"), "content").unwrap();
    let supervisor = Pid::from_raw(it.supervisor().cast_signed());
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), ..limit };
    prlimit(supervisor, Resource::Nofile, none).unwrap();
    kill_worker(it.supervisor());
    let log = it.scratch.path("daemon.stderr");
    while !fs::read_to_string(&log).unwrap().contains("no worker can be started") {
        std::thread::yield_now();
    }
    prlimit(supervisor, Resource::Nofile, limit).unwrap();
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    assert_eq!(fs::read_to_string(it.path("file")).unwrap(), "content");
    it.end();
}

#[test]
fn a_mount_without_processes_names_what_to_do() {
    let Some(mut it) = It::new("survive-none", &[]) else { return };
    fs::write(it.path("file"), "x").unwrap();
    run_ok(&it.scratch, &["sync", it.folder.to_str().unwrap()]);
    let mounted = it.mounted.take().unwrap();
    let folder = it.folder.to_str().unwrap().to_owned();
    mounted.into_daemon().kill();
    run_fails(&it.scratch, &["mount", &it.image, &folder], &["has ended", "nearhead umount"]);
    run_ok(&it.scratch, &["umount", &folder]);
    it.mounted = Some(mount(&it.scratch, &it.image, Path::new(&folder), &[]));
    assert_eq!(fs::read_to_string(it.path("file")).unwrap(), "x");
    let mounted = it.mounted.take().unwrap();
    unmount(&it.scratch, &it.folder, mounted);
}
