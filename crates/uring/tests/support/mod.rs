//! What the tests on real files share: a scratch directory, a driver that waits for completions,
//! a small generator of random numbers, and loop devices that clean up after themselves.
#![allow(dead_code, reason = "every test program uses a part of it")]

use nearhead_basics::SplitMix;
use nearhead_disk::{
    Buffer, BufferMut, Class, Command, CommandId, Completion, Disk, DiskError, Nanos, Payload,
    Submission, Ticket,
};
use nearhead_uring::{Engine, OpenOptions, RealDisk, create_image};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const ENGINES: [Engine; 2] = [Engine::Uring, Engine::Threads];

/// A directory of its own for one test, removed afterwards.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        Self::under(Path::new(env!("CARGO_TARGET_TMPDIR")), test)
    }

    pub(crate) fn under(parent: &Path, test: &str) -> Self {
        let path = parent.join(format!("nearhead-{}-{test}", process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn image(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        create_image(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Whether `engine` can be tested here; says why not.
pub(crate) fn available(engine: Engine, path: &Path) -> bool {
    match nearhead_uring::open(path, &options(engine)) {
        Ok(_) => true,
        Err(error) if error.kind == nearhead_uring::OpenErrorKind::NoUring => {
            println!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn options(engine: Engine) -> OpenOptions {
    OpenOptions { engine, ..OpenOptions::default() }
}

pub(crate) fn open(path: &Path, engine: Engine) -> RealDisk {
    nearhead_uring::open(path, &options(engine)).unwrap()
}

pub(crate) fn submit(disk: &mut RealDisk, id: u64, class: Class, command: Command) {
    let ticket = Ticket::new(CommandId(id));
    disk.submit(Submission { ticket, class, command }, Nanos::ZERO);
}

/// The next completion, waited for through `wake_at` and `wake_fd` as a driver does.
pub(crate) fn next_completion(disk: &mut RealDisk) -> Completion {
    loop {
        if let Some(completion) = disk.poll(Nanos::ZERO) {
            return completion;
        }
        if disk.wake_at().is_none() {
            let fd = disk.wake_fd().expect("a real disk has a descriptor");
            let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
            assert_ne!(ready, Ok(0), "no completion within a minute: a wake-up was lost");
        }
    }
}

/// Carries out one command.
pub(crate) fn run(disk: &mut RealDisk, command: Command) -> Result<Payload, DiskError> {
    submit(disk, 7, Class::Foreground, command);
    disk.kick();
    let completion = next_completion(disk);
    assert_eq!(completion.id, CommandId(7));
    completion.result
}

pub(crate) fn read(disk: &mut RealDisk, offset: u64, len: u32) -> Vec<u8> {
    match run(disk, Command::Read { offset, len }).unwrap() {
        Payload::Bytes(bytes) => bytes.to_vec(),
        other => panic!("expected bytes, found {other:?}"),
    }
}

pub(crate) fn write(disk: &mut RealDisk, offset: u64, bytes: &[u8], durable: bool) {
    let parts = vec![Payload::Bytes(buffer(bytes))];
    run(disk, Command::Write { offset, parts, durable }).unwrap();
}

pub(crate) fn buffer(bytes: &[u8]) -> Buffer {
    BufferMut::copy_of(bytes).freeze()
}

/// Bytes that differ in every sector and for every `salt`.
pub(crate) fn pattern(len: usize, salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SplitMix::new(salt).fill(&mut bytes);
    bytes
}

/// A loop device over a file, detached when dropped.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
}

impl LoopDevice {
    /// Attaches one, or says why this machine does not allow it.
    pub(crate) fn attach(file: &Path, arguments: &[&str]) -> Option<Self> {
        let output = process::Command::new("losetup")
            .args(["--find", "--show"])
            .args(arguments)
            .arg(file)
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8(output.stdout).unwrap().trim().into();
                Some(Self { path })
            }
            Ok(output) => {
                println!("skipped: losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: losetup cannot be run: {error}");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = process::Command::new("losetup").arg("--detach").arg(&self.path).status();
        // The kernel detaches once the last process has closed it, such as one that lists all loop devices. A test that gets the
        // same number would find it attached.
        let name = self.path.file_name().unwrap_or_default().to_owned();
        let attached = Path::new("/sys/block").join(name).join("loop/backing_file");
        let deadline = Instant::now() + Duration::from_secs(5);
        while attached.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A mounted file system, unmounted when dropped.
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
}

impl Mount {
    /// Makes an ext4 on `device` and mounts it, or says why that is not possible here.
    pub(crate) fn ext4(device: &Path, point: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&point).unwrap();
        let made = succeeds(process::Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device));
        let mounted = made && succeeds(process::Command::new("mount").arg(device).arg(&point));
        mounted.then_some(Self { point })
    }

    /// Mounts a file system in memory with so many bytes, or says why that is not possible here.
    pub(crate) fn in_memory(bytes: u64, point: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&point).unwrap();
        let size = format!("size={bytes}");
        let mut mount = process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "nearhead-test"]).arg(&point);
        succeeds(&mut mount).then_some(Self { point })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The kernel may still hold, for a ring or a child, what was open there: then it goes once nobody does.
        let umount = |options: &[&str]| {
            process::Command::new("umount").args(options).arg(&self.point).output()
        };
        if !umount(&[]).is_ok_and(|output| output.status.success()) {
            let _ = umount(&["--lazy"]);
        }
    }
}

fn succeeds(command: &mut process::Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            println!("skipped: {command:?}: {}", message.trim());
            false
        }
        Err(error) => {
            println!("skipped: {command:?}: {error}");
            false
        }
    }
}
