//! Volumes as block devices, as a user has them: attached, used, their workers killed, upgraded, detached.
//!
//! Each is made the best way that this machine has, or as `NEARHEAD_ATTACH_BY` says (`make test-guest` tries them all).

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;
#[path = "attach/full_disk.rs"]
mod full_disk;
#[path = "attach/identity.rs"]
mod identity;
#[path = "attach/replacement_disks.rs"]
mod replacement_disks;
#[path = "attach/replacing.rs"]
mod replacing;

use common::attached::{Attached, BLOCK, block_of, can_attach};
use common::{Scratch, run, run_fails, run_ok, tool, tool_ok, tools};
use nearhead_basics::SplitMix;
use nearhead_disk::BufferMut;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;

/// Blocks that writers use.
const BLOCKS: usize = 512;

#[test]
fn a_volume_is_a_block_device_until_it_is_detached_and_keeps_what_was_written() {
    let scratch = Scratch::new("attach-life");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "life", &[]);
    let device = attached.device();
    assert_eq!(tool_ok("blockdev", &["--getss", &device]).trim(), "4096");
    let status = run_ok(&scratch, &["status", &device]);
    assert!(status.contains(&device), "it is found by its device, too: {status}");
    assert!(status.contains(&format!(" s on {device}\n")), "and is nowhere else: {status}");
    let by_name = run_ok(&scratch, &["status", &attached.name]);
    assert!(by_name.contains(&device), "and by what it is called: {by_name}");
    run_fails(&scratch, &["stop", &device], &["is attached as", "nearhead detach"]);
    let kernel_name = std::fs::canonicalize(&device).unwrap();
    let for_udev = Path::new("/run/nearhead/devices").join(kernel_name.file_name().unwrap());
    let known = std::fs::read_link(&for_udev).unwrap();
    assert_eq!(known, Path::new(&attached.name), "what its device is called, for udev");
    let file = attached.open();
    let mut data = BufferMut::zeroed(1 << 20);
    data.fill(7);
    file.write_all_at(&data, 1 << 20).unwrap();
    drop(file);
    // A hole in the middle of it.
    let discard = ["--zeroout", "--offset", "1052672", "--length", "8192", &device];
    if tools(&["blkdiscard"]) {
        tool_ok("blkdiscard", &discard);
    }
    run_fails(&scratch, &["attach", &attached.target, "--as", &attached.name], &["is attached as"]);
    let other = run(&scratch, &["attach", &attached.target, "--as", "another"]);
    assert_eq!(other.status.code(), Some(1), "the volume is served already");
    attached.detach(&["--drain"]);
    assert!(std::fs::read_link(&for_udev).is_err(), "the device is nobody's");
    attached.attach(&["--read-only"]);
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
    let file = file.open(&device).unwrap();
    for number in 256..512 {
        let expected = if (257..259).contains(&number) { 0 } else { 7 };
        assert!(block_of(&file, number) == vec![expected; BLOCK], "block {number}");
    }
    assert_eq!(tool_ok("blockdev", &["--getro", &device]).trim(), "1");
    drop(file);
    attached.detach(&[]);
}

#[test]
fn nobody_notices_that_workers_are_killed_and_whatever_was_answered_is_there() {
    let scratch = Scratch::new("attach-kill");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "kill", &[]);
    let (device, mut random) = (attached.open(), SplitMix::new(23));
    let mut model = vec![0_u8; BLOCKS];
    let (begun, is_begun) = channel::<()>();
    std::thread::scope(|scope| {
        // Kills while something is under way, each time somebody says that it has begun.
        let attached = &attached;
        scope.spawn(move || {
            while is_begun.recv().is_ok() {
                attached.kill_worker();
            }
        });
        for number in 0..1200 {
            if number % 150 == 75 {
                begun.send(()).unwrap();
            }
            let first = random.next_u64() as usize % BLOCKS;
            let count = (1 + random.next_u64() as usize % 32).min(BLOCKS - first);
            let value = random.next_u64() as u8;
            match random.next_u64() % 16 {
                0 => device.sync_all().unwrap(),
                1 => assert!(block_of(&device, first) == vec![model[first]; BLOCK]),
                _ => {
                    let mut data = BufferMut::zeroed(count * BLOCK);
                    data.fill(value);
                    device.write_all_at(&data, (first * BLOCK) as u64).unwrap();
                    model[first..first + count].fill(value);
                }
            }
        }
        drop(begun);
    });
    attached.kill_worker();
    let check = |device: &File, when: &str| {
        for (number, value) in model.iter().enumerate() {
            assert!(block_of(device, number) == vec![*value; BLOCK], "{when}: block {number}");
        }
    };
    check(&device, "after the last kill");
    drop(device);
    attached.detach(&[]);
    attached.attach(&[]);
    let device = attached.open();
    check(&device, "attached again");
    drop(device);
    attached.detach(&[]);
}

#[test]
fn who_uses_it_is_named_and_keeps_it() {
    let scratch = Scratch::new("attach-users");
    if !can_attach() || !tools(&["mkfs.ext4"]) {
        return;
    }
    let attached = Attached::new(&scratch, "users", &[]);
    let folder = scratch.path("folder");
    std::fs::create_dir(&folder).unwrap();
    tool_ok("mkfs.ext4", &["-q", &attached.device()]);
    attached.detach(&[]);
    let place = folder.to_str().unwrap();
    run_ok(&scratch, &["attach", &attached.target, "--as", &attached.name, "--mount", place]);
    std::fs::write(folder.join("file"), "written").unwrap();
    run_fails(&scratch, &["detach", &attached.name], &["mounted at", place, "umount"]);
    let file = File::open(folder.join("file")).unwrap();
    let busy = run(&scratch, &["detach", &attached.name, "--unmount"]);
    assert_eq!(busy.status.code(), Some(1), "somebody has a file open: {busy:?}");
    drop(file);
    attached.kill_worker();
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "written");
    // A file system that saw an error takes nothing more.
    let mut more = File::create(folder.join("more")).unwrap();
    more.write_all(b"as well").unwrap();
    more.sync_all().unwrap();
    drop(more);
    attached.detach(&["--unmount"]);
    run_ok(&scratch, &["attach", &attached.target, "--as", &attached.name, "--mount", place]);
    assert_eq!(std::fs::read_to_string(folder.join("more")).unwrap(), "as well");
    attached.detach(&["--unmount"]);
    attached.attach(&[]);
    let user = attached.open();
    let pid = std::process::id().to_string();
    run_fails(&scratch, &["detach", &attached.target], &["process", &pid]);
    drop(user);
    attached.detach(&[]);
}

#[test]
fn another_program_goes_on_and_one_that_cannot_is_not_kept() {
    let scratch = Scratch::new("attach-upgrade");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "upgrade", &[]);
    let (device, before) = (attached.open(), attached.answering_worker());
    let mut data = BufferMut::zeroed(BLOCK);
    data.fill(5);
    device.write_all_at(&data, 0).unwrap();
    let copy = scratch.path("nearhead-new");
    std::fs::copy(env!("CARGO_BIN_EXE_nearhead"), &copy).unwrap();
    run_ok(&scratch, &["upgrade", &attached.name, "--binary", copy.to_str().unwrap()]);
    let after = attached.answering_worker();
    let program = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert!(after != before && program(after) == copy, "{}", program(after).display());
    let problem = ["ended before it was ready"];
    run_fails(&scratch, &["upgrade", &attached.name, "--binary", "/bin/false"], &problem);
    assert_eq!(program(attached.answering_worker()), copy);
    assert!(block_of(&device, 0) == vec![5; BLOCK]);
    drop(device);
    attached.detach(&[]);
}

#[test]
fn what_cannot_be_attached_is_said_and_nothing_is_left() {
    let scratch = Scratch::new("attach-refused");
    if !can_attach() {
        return;
    }
    let image = scratch.text("empty.img");
    std::fs::write(&image, vec![0; 1 << 20]).unwrap();
    let name = format!("t{}-refused", std::process::id());
    let attach = |more: &[&str], parts: &[&str]| {
        let mut args = vec!["attach", &image, "--as", &name];
        args.extend_from_slice(more);
        run_fails(&scratch, &args, parts);
        let place = Path::new("/run/nearhead/attached").join(&name);
        assert!(!place.exists(), "{}", place.display());
    };
    attach(&[], &["empty.img", "cannot be served", "nearhead create"]);
    let output = run(&scratch, &["attach", &image, "--as", &name]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("\\n") && told.matches("no sound superblock").count() == 1, "{told}");
    attach(&["--mount", "/no/such/folder"], &["expected a folder"]);
    attach(&["--file", "here"], &["expected no --file"]);
    if tools(&["prlimit"]) {
        // Its supervisor cannot be started, or cannot begin.
        for files in ["--nofile=6", "--nofile=10"] {
            let program = env!("CARGO_BIN_EXE_nearhead");
            tool("prlimit", &[files, program, "attach", &image, "--as", &name, "--by", "loop"]);
            assert!(!Path::new("/run/nearhead/attached").join(&name).exists(), "{files}");
        }
    }
    run_fails(&scratch, &["attach", &image, "--as", "a/b"], &["--as a/b"]);
    run_fails(&scratch, &["detach", &name], &["expected an attached volume"]);
}

#[test]
fn a_file_system_of_our_own_is_named_and_not_given_to_the_kernel() {
    let scratch = Scratch::new("attach-own");
    if !can_attach() || !tools(&["mkfs.ext4"]) {
        return;
    }
    let attached = Attached::new(&scratch, "own", &[]);
    attached.detach(&[]);
    run_ok(&scratch, &["mkfs", &attached.target]);
    let folder = scratch.text("folder");
    std::fs::create_dir(&folder).unwrap();
    let args = ["attach", &attached.target, "--as", &attached.name, "--mount", &folder];
    run_fails(&scratch, &args, &["nearhead mkfs", "nearhead mount"]);
    attached.detach(&[]);
}

#[test]
fn a_volume_served_as_a_file_ends_when_the_folder_is_unmounted() {
    let scratch = Scratch::new("serve-file");
    if !can_attach() {
        return;
    }
    let (target, folder) = (scratch.text("volume.img"), scratch.path("folder"));
    std::fs::create_dir(&folder).unwrap();
    run_ok(&scratch, &["create", &target, "--size", "128M", "--preset", "mlb"]);
    let serve = ["serve", &target, "--file", folder.to_str().unwrap()];
    let daemon = common::Daemon::spawn(&scratch, &serve);
    let file = PathBuf::from(&folder).join("disk").display().to_string();
    tool_ok(
        "dd",
        &["if=/dev/urandom", &format!("of={file}"), "bs=64k", "count=9", "conv=notrunc,fsync"],
    );
    let sum = |from: &str| tool_ok("sh", &["-c", &format!("head --bytes 589824 {from} | cksum")]);
    let before = sum(&file);
    let small =
        tool("dd", &["if=/dev/zero", &format!("of={file}"), "bs=1", "count=1", "conv=notrunc"]);
    assert!(!small.status.success(), "less than a block");
    tool_ok("umount", &[folder.to_str().unwrap()]);
    let (status, told, problems) = daemon.wait();
    assert!(status.success() && told.contains("everything is durable"), "{told}{problems}");
    let daemon = common::Daemon::spawn(&scratch, &serve);
    assert_eq!(sum(&file), before);
    daemon.stop_ok();
    assert!(!Path::new(&file).exists(), "a signal unmounts it");
}

#[test]
fn by_force_it_goes_also_if_somebody_uses_it() {
    let scratch = Scratch::new("attach-force");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "force", &[]);
    let user = attached.open();
    run_ok(&scratch, &["detach", &attached.name, "--force"]);
    let mut block = BufferMut::zeroed(BLOCK);
    assert!(user.read_exact_at(&mut block, 0).is_err(), "there is no disk any more");
    drop(user);
    attached.attach(&[]);
    attached.detach(&[]);
}

#[test]
fn in_the_foreground_it_tells_the_service_manager_and_a_signal_detaches_it_unless_it_is_used() {
    let scratch = Scratch::new("attach-unit");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "unit", &[]);
    attached.detach(&[]);
    let socket = scratch.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    std::fs::write(scratch.path("v.toml"), format!("target = {:?}\n", attached.target)).unwrap();
    let args = ["attach", "--foreground", "--as", &attached.name, "--config", "v.toml"];
    let stderr = scratch.path("stderr");
    let mut child = common::nearhead(&scratch, &args)
        .env("NOTIFY_SOCKET", &socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let mut word = [0; 64];
    let len = manager.recv(&mut word).unwrap();
    assert_eq!(word[..len].trim_ascii_end(), b"READY=1");
    let signal = |child: &Child| kill_process(Pid::from_child(child), Signal::TERM).unwrap();
    let user = attached.open();
    signal(&child);
    while !std::fs::read_to_string(&stderr).unwrap().contains("expected that nothing uses") {
        assert!(child.try_wait().unwrap().is_none(), "it ended under its user");
        std::thread::yield_now();
    }
    assert!(block_of(&user, 0) == vec![0; BLOCK]);
    drop(user);
    signal(&child);
    let status = child.wait().unwrap();
    let told = std::fs::read_to_string(&stderr).unwrap();
    assert!(status.success(), "{status}: {told}");
    assert!(!Path::new(&attached.device()).is_symlink(), "{told}");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let scratch = Scratch::new("attach-verify");
    if !tools(&["systemd-analyze"]) {
        return;
    }
    let unit =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd/nearhead-attach@.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let program = env!("CARGO_BIN_EXE_nearhead");
    let text = text.replace("/usr/local/bin/nearhead", program);
    let copy = scratch.path("nearhead-attach@.service");
    std::fs::write(&copy, &text).unwrap();
    let instance = scratch.text("nearhead-attach@backups.service");
    std::os::unix::fs::symlink(&copy, &instance).unwrap();
    let output = tool("systemd-analyze", &["verify", "--man=no", &instance]);
    let told = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<&str> = told.lines().filter(|line| line.contains("nearhead")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
    // What it runs is what this program knows.
    for command in ["ExecStart=", "ExecStop="] {
        let line = text.lines().find_map(|line| line.strip_prefix(command)).unwrap();
        let words: Vec<&str> = line.split(' ').skip(1).chain(["--help"]).collect();
        run_ok(&scratch, &words);
    }
}

#[test]
fn without_its_supervisor_it_is_still_there_and_is_detached_in_order() {
    let scratch = Scratch::new("attach-alone");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "alone", &[]);
    let device = attached.open();
    let worker = attached.answering_worker();
    let parent = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
    let parent: i32 = parent.rsplit(' ').nth(48).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(parent).unwrap(), Signal::KILL).unwrap();
    let mut data = BufferMut::zeroed(BLOCK);
    data.fill(9);
    device.write_all_at(&data, 0).unwrap();
    drop(device);
    attached.detach(&[]);
    attached.attach(&[]);
    let device = attached.open();
    assert!(block_of(&device, 0) == vec![9; BLOCK]);
    drop(device);
    attached.detach(&[]);
}

#[test]
fn a_worker_that_is_killed_while_it_ends_is_followed_by_one_that_does() {
    let scratch = Scratch::new("attach-ending");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "ending", &[]);
    let device = attached.open();
    let mut data = BufferMut::zeroed(BLOCK);
    data.fill(3);
    device.write_all_at(&data, 0).unwrap();
    drop(device);
    let worker = Pid::from_raw(attached.answering_worker().cast_signed()).unwrap();
    // It does not see that the device goes, and is killed as if in the middle of its end.
    kill_process(worker, Signal::STOP).unwrap();
    let number = std::fs::canonicalize(attached.device()).unwrap();
    if number.to_str().unwrap().contains("loop") {
        tool_ok("losetup", &["--detach", number.to_str().unwrap()]);
        // The program of that name would ask for what is there first, and wait.
        let file = Path::new("/run/nearhead/attached").join(&attached.name).join("file");
        nearhead_one_file::unmount(&file).unwrap();
        kill_process(worker, Signal::KILL).unwrap();
        attached.detach(&[]);
    } else {
        std::thread::scope(|scope| {
            scope.spawn(|| attached.detach(&[]));
            let is_there = || {
                let size = tool("blockdev", &["--getsize64", number.to_str().unwrap()]);
                size.status.success() && size.stdout.trim_ascii() != b"0"
            };
            while is_there() {}
            kill_process(worker, Signal::KILL).unwrap();
        });
    }
    attached.attach(&[]);
    let device = attached.open();
    assert!(block_of(&device, 0) == vec![3; BLOCK], "it was answered, and not flushed");
    drop(device);
    attached.detach(&[]);
}
