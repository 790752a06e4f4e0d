//! One user at a time: a second opener is refused, told who is in, and let in once the first is
//! gone, however it went.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use nearhead_disk::{Class, Command, Payload};
use nearhead_uring::{Engine, OpenErrorKind, OpenOptions};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use support::*;

/// This very test program, holding `path` open until it is told to stop or killed.
struct Holder {
    child: Child,
    /// Kept open: the holder's test harness reports to it in the end.
    output: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(path: &Path, engine: Engine) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hold_a_disk_for_another_test", "--nocapture"])
            .env("NEARHEAD_HOLD", path)
            .env("NEARHEAD_HOLD_ENGINE", format!("{engine:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let held = output.any(|line| line.is_ok_and(|line| line.contains("held")));
        assert!(held, "the holder could not open {}", path.display());
        Self { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.output.by_ref().all(|line| line.is_ok()));
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: the other process of the tests below. It keeps writes in flight, so that
/// a kill finds the kernel busy with them.
#[test]
fn hold_a_disk_for_another_test() {
    let Some(path) = std::env::var_os("NEARHEAD_HOLD") else { return };
    let engine = match std::env::var("NEARHEAD_HOLD_ENGINE").as_deref() {
        Ok("Threads") => Engine::Threads,
        _ => Engine::Uring,
    };
    let mut disk = open(Path::new(&path), engine);
    for id in 0..64 {
        let parts = vec![Payload::Bytes(buffer(&pattern(65536, id)))];
        let command = Command::Write { offset: id % 16 * 65536, parts, durable: true };
        submit(&mut disk, id, Class::Bulk, command);
    }
    nearhead_disk::Disk::kick(&mut disk);
    println!("held");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn refusal(path: &Path, engine: Engine) -> nearhead_uring::OpenError {
    let error = nearhead_uring::open(path, &options(engine)).err().expect("a second opener got in");
    assert_eq!(error.kind, OpenErrorKind::InUse, "{error}");
    assert!(error.detail.contains("in use by another process"), "{error}");
    error
}

fn check_one_user_at_a_time(path: &Path, engine: Engine) {
    let first = open(path, engine);
    refusal(path, engine);
    drop(first);

    let holder = Holder::start(path, engine);
    // To have it open, as we do, is not to keep others out.
    let reader = std::fs::File::open(path).unwrap();
    let error = refusal(path, engine);
    drop(reader);
    let pid = format!("process {}", holder.pid());
    assert!(error.detail.contains(&pid), "expected {pid} to be named: {error}");
    let shared = OpenOptions { exclusive: false, read_only: true, ..options(engine) };
    drop(nearhead_uring::open(path, &shared).expect("a reader that asks for no exclusiveness"));
    holder.stop();
    drop(open(path, engine));

    for _ in 0..5 {
        Holder::start(path, engine).kill();
        drop(open(path, engine));
    }
}

#[test]
fn a_file_has_one_user_at_a_time() {
    let scratch = Scratch::new("exclusive-file");
    for engine in ENGINES {
        let path = scratch.image(&format!("{engine:?}.img"), 4 * MIB);
        if available(engine, &path) {
            check_one_user_at_a_time(&path, engine);
        }
    }
}

#[test]
fn a_block_device_has_one_user_at_a_time() {
    let scratch = Scratch::new("exclusive-device");
    let image = scratch.image("disk.img", 4 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    for engine in ENGINES {
        if available(engine, &device.path) {
            check_one_user_at_a_time(&device.path, engine);
        }
    }
}

#[test]
fn a_mounted_device_is_refused_naming_the_mount_point() {
    let scratch = Scratch::new("mounted");
    let image = scratch.image("fs.img", 16 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("mnt")) else { return };
    let error = refusal(&device.path, Engine::Automatic);
    let point = mount.point.display().to_string();
    assert!(error.detail.contains(&point), "expected {point} to be named: {error}");
}
