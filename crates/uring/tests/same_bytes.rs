//! The same bytes under two names have one user: a file and the loop device attached to it, two loop
//! devices on one file, links, a partition and the whole disk, swap space, and images that a program
//! for virtual machines has open.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use nearhead_uring::{Engine, OpenError, OpenErrorKind, OpenOptions};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::*;

fn refusal(path: &Path) -> OpenError {
    let refused = nearhead_uring::open(path, &options(Engine::Threads));
    let error = refused.err().unwrap_or_else(|| panic!("{} was had twice", path.display()));
    assert_eq!(error.kind, OpenErrorKind::InUse, "{error}");
    error
}

fn assert_names(error: &OpenError, parts: &[&str]) {
    for part in parts {
        assert!(error.detail.contains(part), "{part:?} is missing in {error}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_with_a_loop_device_on_it_is_refused_naming_the_device() {
    let scratch = Scratch::new("file-under-loop");
    let image = scratch.image("disk.img", 4 * MIB);
    let hard_link = scratch.path("hard.img");
    std::fs::hard_link(&image, &hard_link).unwrap();
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    for name in [&image, &hard_link] {
        let error = refusal(name);
        assert_names(&error, &[text(&device.path), "losetup --detach"]);
    }
    // Also where the kernel can only say that the name is gone.
    std::fs::remove_file(&image).unwrap();
    assert_names(&refusal(&hard_link), &[text(&device.path)]);
    drop(device);
    // The kernel detaches once nobody, udev included, has the device open.
    while nearhead_uring::open(&hard_link, &options(Engine::Threads)).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_under_a_mounted_loop_device_is_refused_naming_the_mount_point() {
    let scratch = Scratch::new("file-under-mount");
    let image = scratch.image("fs.img", 16 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("mnt")) else { return };
    assert_names(&refusal(&image), &[text(&device.path), text(&mount.point), "unmount it"]);
}

#[test]
fn a_loop_device_and_its_file_have_one_user_whichever_is_opened_first() {
    let scratch = Scratch::new("loop-and-file");
    let image = scratch.image("disk.img", 4 * MIB);
    let by_file = open(&image, Engine::Threads);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let own_pid = std::process::id().to_string();
    assert_names(&refusal(&device.path), &[text(&image), text(&device.path), &own_pid]);
    drop(by_file);

    let by_device = open(&device.path, Engine::Threads);
    refusal(&image);
    drop(by_device);
    drop(open(&device.path, Engine::Threads));
}

#[test]
fn two_loop_devices_on_the_same_bytes_refuse_each_other_and_on_others_do_not() {
    let scratch = Scratch::new("two-loops");
    let image = scratch.image("disk.img", 4 * MIB);
    let Some(first) = LoopDevice::attach(&image, &[]) else { return };
    let second = LoopDevice::attach(&image, &[]).unwrap();
    assert_names(&refusal(&first.path), &[text(&second.path)]);
    assert_names(&refusal(&second.path), &[text(&first.path)]);
    drop((first, second));

    let half = (2 * MIB).to_string();
    let first = LoopDevice::attach(&image, &["--sizelimit", &half]).unwrap();
    let second = LoopDevice::attach(&image, &["--offset", &half]).unwrap();
    let (one, other) = (open(&first.path, Engine::Threads), open(&second.path, Engine::Threads));
    refusal(&image);
    drop((one, other));
}

#[test]
fn a_loop_device_on_a_device_has_it_too() {
    let scratch = Scratch::new("loop-on-loop");
    let image = scratch.image("disk.img", 4 * MIB);
    let Some(below) = LoopDevice::attach(&image, &[]) else { return };
    let above = LoopDevice::attach(&below.path, &[]).unwrap();
    assert_names(&refusal(&below.path), &[text(&above.path)]);
    let user = open(&above.path, Engine::Threads);
    refusal(&below.path);
    refusal(&image);
    let by_others = || {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(&below.path, flags, Mode::empty())
    };
    assert_eq!(by_others().err(), Some(Errno::BUSY), "the kernel keeps others out of it, too");
    drop(user);
    // A child that is not a program of its own yet holds what we had open, for a moment.
    while by_others().is_err() {
        std::thread::yield_now();
    }
}

/// What the kernel tells of a file whose name was taken away may be the name of another one.
#[test]
fn what_took_the_name_of_the_file_under_a_loop_device_is_not_taken_for_that_file() {
    let scratch = Scratch::new("name-taken");
    let image = scratch.image("disk.img", 4 * MIB);
    let hard_link = scratch.path("hard.img");
    std::fs::hard_link(&image, &hard_link).unwrap();
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    std::fs::remove_file(&image).unwrap();
    let other = scratch.image("disk.img (deleted)", 4 * MIB);
    assert_names(&refusal(&hard_link), &[text(&device.path)]);
    let user_of_other = open(&other, Engine::Threads);
    let user = open(&device.path, Engine::Threads);
    drop((user_of_other, user));

    // Nobody waits for the other end of a pipe.
    std::fs::remove_file(&other).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &other, FileType::Fifo, mode, 0).unwrap();
    assert_names(&refusal(&hard_link), &[text(&device.path)]);
    drop(open(&device.path, Engine::Threads));
}

#[test]
fn a_file_under_a_loop_device_is_known_whatever_bytes_its_name_is_made_of() {
    let scratch = Scratch::new("odd-name");
    for name in [&b"blank \xff.img"[..], b"line end\n", b"two\n\n", b"kept (deleted)"] {
        let image = scratch.path("").join(OsStr::from_bytes(name));
        nearhead_uring::create_image(&image, MIB).unwrap();
        let Some(device) = LoopDevice::attach(&image, &[]) else { return };
        assert_names(&refusal(&image), &[text(&device.path)]);
        assert_eq!(nearhead_uring::attached_to(&device.path), Some(image));
        drop(open(&device.path, Engine::Threads));
    }
}

/// It would keep others out for as long as it goes on.
#[test]
fn a_program_that_is_started_meanwhile_has_nothing_of_an_open_disk() {
    let scratch = Scratch::new("inherited");
    let image = scratch.image("disk.img", 4 * MIB);
    let check = |path: &Path| {
        for engine in ENGINES {
            if !available(engine, path) {
                continue;
            }
            let cached = OpenOptions { cache_reads: true, cache_writes: true, ..options(engine) };
            let mut disk = nearhead_uring::open(path, &cached).unwrap();
            // Those that are made when they are needed.
            run(&mut disk, nearhead_disk::Command::Trim { offset: 0, len: 4096 }).unwrap();
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            // Started means that it is a program of its own: until then it holds what we have.
            let child = Process(command.spawn().unwrap());
            let descriptors = std::fs::read_dir(format!("/proc/{}/fd", child.0.id())).unwrap();
            let paths = descriptors.map(|entry| std::fs::read_link(entry.unwrap().path()));
            for held in paths.filter_map(Result::ok) {
                let held = held.to_string_lossy();
                let scratch = scratch.path("");
                let made = ["anon_inode:[io_uring]", "anon_inode:[eventfd]"];
                let ours = [text(&scratch), "/dev/loop", made[0], made[1]];
                assert!(!ours.iter().any(|ours| held.starts_with(ours)), "{held}");
            }
            drop(disk);
        }
    };
    check(&image);
    let Some(below) = LoopDevice::attach(&image, &[]) else { return };
    check(&below.path);
    let above = LoopDevice::attach(&below.path, &[]).unwrap();
    check(&above.path);
}

#[test]
fn a_partition_and_its_disk_have_one_user_and_two_partitions_may_have_two() {
    let scratch = Scratch::new("partition");
    let image = scratch.image("disk.img", 16 * MIB);
    let Some(disk) = LoopDevice::attach(&image, &["--partscan"]) else { return };
    let Some((one, two)) = two_partitions(&disk.path) else { return };
    let first = open(&one, Engine::Threads);
    let second = open(&two, Engine::Threads);
    refusal(&disk.path);
    refusal(&one);
    refusal(&image);
    drop((first, second));
    let whole = open(&disk.path, Engine::Threads);
    refusal(&one);
    drop(whole);
}

/// The kernel keeps nobody out for a loop device.
#[test]
fn who_may_use_a_partition_or_its_disk_by_a_loop_device_keeps_those_out_who_share_bytes_with_it() {
    let scratch = Scratch::new("loop-on-partition");
    let image = scratch.image("disk.img", 16 * MIB);
    let Some(disk) = LoopDevice::attach(&image, &["--partscan"]) else { return };
    let Some((one, two)) = two_partitions(&disk.path) else { return };
    let above = LoopDevice::attach(&one, &[]).unwrap();
    for shared in [&one, &disk.path] {
        assert_names(&refusal(shared), &[text(&above.path)]);
    }
    drop(open(&two, Engine::Threads));
    let user = open(&above.path, Engine::Threads);
    refusal(&disk.path);
    refusal(&image);
    drop(open(&two, Engine::Threads));
    drop((user, above));

    let above = LoopDevice::attach(&disk.path, &[]).unwrap();
    for shared in [&one, &two, &disk.path] {
        assert_names(&refusal(shared), &[text(&above.path)]);
    }
}

/// Makes two partitions, or says why that cannot be done here.
fn two_partitions(disk: &Path) -> Option<(PathBuf, PathBuf)> {
    for (number, start) in [("1", 2048), ("2", 16384)] {
        let sectors = "8192";
        let made = Command::new("addpart")
            .args([text(disk), number, &start.to_string(), sectors])
            .output();
        match made {
            Ok(output) if output.status.success() => {}
            other => {
                println!("skipped: addpart cannot make partitions: {other:?}");
                return None;
            }
        }
    }
    let part = |number: u8| PathBuf::from(format!("{}p{number}", disk.display()));
    let (one, two) = (part(1), part(2));
    if one.exists() && two.exists() {
        return Some((one, two));
    }
    println!("skipped: nobody makes device nodes for partitions here");
    None
}

#[test]
fn swap_space_is_refused_as_such() {
    let scratch = Scratch::new("swap");
    let image = scratch.path("swap.img");
    std::fs::write(&image, vec![0; 4 << 20]).unwrap();
    let Some(swap) = Swap::on(&image) else { return };
    assert_names(&refusal(&image), &["swap space", "swapoff"]);
    drop(swap);
    drop(open(&image, Engine::Threads));
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let Some(_swap) = Swap::on(&device.path) else { return };
    assert_names(&refusal(&device.path), &["swap space", text(&device.path)]);
}

struct Swap(PathBuf);

impl Swap {
    fn on(path: &Path) -> Option<Self> {
        for tool in ["mkswap", "swapon"] {
            match Command::new(tool).arg(path).output() {
                Ok(output) if output.status.success() => {}
                other => {
                    println!("skipped: {tool}: {other:?}");
                    return None;
                }
            }
        }
        Some(Self(path.to_owned()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_image_that_qemu_has_is_refused_and_qemu_refuses_one_of_ours() {
    let scratch = Scratch::new("qemu");
    let image = scratch.image("disk.img", 4 * MIB);
    let socket = scratch.path("qemu.sock");
    let serve = |image: &Path| {
        let mut command = Command::new("qemu-nbd");
        command.args(["--format=raw", "--persistent", "--socket"]).arg(&socket).arg(image);
        command.stderr(std::process::Stdio::piped()).spawn()
    };
    let Ok(child) = serve(&image) else {
        println!("skipped: qemu-nbd is not installed");
        return;
    };
    let mut process = Process(child);
    while !socket.exists() {
        assert_eq!(process.0.try_wait().unwrap(), None, "qemu-nbd ended");
        std::thread::yield_now();
    }
    // It listens before it opens the image, and greets after that.
    let mut greeting = [0; 8];
    let mut client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    std::io::Read::read_exact(&mut client, &mut greeting).unwrap();
    let pid = format!("process {}", process.0.id());
    assert_names(&refusal(&image), &[&pid, "qemu-nbd"]);
    drop(process);

    let assert_refused = |image: &Path| {
        let refused = serve(image).unwrap().wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && told.contains("lock"), "{told}");
    };
    let ours = open(&image, Engine::Threads);
    assert_refused(&image);
    drop(ours);
    let shared = OpenOptions { read_only: true, ..options(Engine::Threads) };
    drop(nearhead_uring::open(&image, &shared).unwrap());

    // Nor does it get the file of a loop device that we have, or have a part of.
    for part in [&[][..], &["--sizelimit", "1048576"]] {
        let Some(device) = LoopDevice::attach(&image, part) else { return };
        let ours = open(&device.path, Engine::Threads);
        assert_refused(&image);
        drop(ours);
    }
}
