//! File systems as a user has them: made, mounted, used by programs of all kinds, killed, looked at by e2fsck and the kernel.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::mounts::{assert_clean, can_mount, mount, unmount, volume};
use common::{Daemon, Scratch, run_fails, run_ok, tool, tool_ok, tools};
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_tree_of_files_is_the_same_after_it_was_unmounted_and_the_kernel_sees_it_too() {
    let scratch = Scratch::new("fs-tree");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "512M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    tool_ok("cp", &["-a", source.to_str().unwrap(), folder.to_str().unwrap()]);
    let link = folder.join("link");
    std::os::unix::fs::symlink("src/main.rs", &link).unwrap();
    std::fs::hard_link(folder.join("src/main.rs"), folder.join("same")).unwrap();
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
    let daemon = mount(&scratch, &image, &folder, &["-o", "ro"]);
    let copy = folder.join("src");
    tool_ok("diff", &["-r", source.to_str().unwrap(), copy.to_str().unwrap()]);
    assert!(File::create(folder.join("new")).is_err(), "it is read-only");
    unmount(&scratch, &folder, daemon);
    // The kernel's own ext4, on a copy of what the volume holds.
    let raw = scratch.text("raw.img");
    let served = Daemon::serve(&scratch, &image, &["--read-only"]);
    if !tools(&["nbdcopy", "losetup"]) {
        return;
    }
    tool_ok("nbdcopy", &[&served.uri(), &raw]);
    served.stop_ok();
    let done = tool("mount", &["-o", "loop,ro", &raw, folder.to_str().unwrap()]);
    if !done.status.success() {
        println!("skipped: the kernel's ext4 cannot be mounted here: {done:?}");
        return;
    }
    let same = tool("diff", &["-r", source.to_str().unwrap(), copy.to_str().unwrap()]);
    let target = std::fs::read_link(&link);
    tool_ok("umount", &[folder.to_str().unwrap()]);
    assert!(same.status.success(), "{same:?}");
    assert_eq!(target.unwrap(), Path::new("src/main.rs"));
}

#[test]
fn what_was_synced_is_there_after_the_daemon_was_killed() {
    let scratch = Scratch::new("fs-killed");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "512M");
    for mode in nearhead_journal::MODES.iter().map(|mode| mode.name()) {
        let daemon = mount(&scratch, &image, &folder, &["-o", &format!("mode={mode}")]);
        let path = folder.join(mode);
        std::fs::create_dir(&path).unwrap();
        let mut log = File::create(path.join("log")).unwrap();
        for number in 0..50_u32 {
            let mut file = File::create(path.join(format!("{number}"))).unwrap();
            file.write_all(&vec![number as u8; 3000 * number as usize]).unwrap();
            file.sync_all().unwrap();
            writeln!(log, "{number}").unwrap();
            log.sync_data().unwrap();
        }
        // Neither synced nor expected.
        std::fs::write(path.join("late"), vec![7; 100_000]).unwrap();
        daemon.into_daemon().kill();
        tool("umount", &["-l", folder.to_str().unwrap()]);
        drop(log);
        assert_clean(&scratch, &image);
        let daemon = mount(&scratch, &image, &folder, &[]);
        let told = std::fs::read_to_string(path.join("log")).unwrap();
        assert_eq!(told.lines().count(), 50, "{mode}");
        for number in 0..50_u32 {
            let bytes = std::fs::read(path.join(format!("{number}"))).unwrap();
            assert!(bytes == vec![number as u8; 3000 * number as usize], "{mode}: {number}");
        }
        unmount(&scratch, &folder, daemon);
    }
}

#[test]
fn a_signal_unmounts_with_everything_durable() {
    let scratch = Scratch::new("fs-signal");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    std::fs::write(folder.join("a"), "written").unwrap();
    daemon.daemon().signal(Signal::TERM);
    let (status, _, _) = daemon.into_daemon().wait();
    assert!(status.success(), "{status}");
    let daemon = mount(&scratch, &image, &folder, &[]);
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "written");
    unmount(&scratch, &folder, daemon);
}

#[test]
fn mappings_holes_and_files_without_a_name_are_as_anywhere() {
    let scratch = Scratch::new("fs-files");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &["-o", "durable=*.wal"]);
    let log = folder.join("a.wal");
    std::fs::write(&log, vec![1; 300_000]).unwrap();
    let value = if tools(&["getfattr"]) {
        Some(tool("getfattr", &["-n", "user.nearhead.durability", log.to_str().unwrap()]))
    } else {
        None
    };
    if let Some(value) = value {
        assert!(String::from_utf8_lossy(&value.stdout).contains("only"), "{value:?}");
    }
    std::fs::remove_file(&log).unwrap();
    let path = folder.join("sparse");
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(50 << 20)).unwrap();
    file.write_all(b"end").unwrap();
    file.sync_all().unwrap();
    let stored = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert_eq!(stored, 50 << 20);
    std::fs::remove_file(&path).unwrap();
    file.seek(SeekFrom::Start(50 << 20)).unwrap();
    let mut end = String::new();
    file.read_to_string(&mut end).unwrap();
    assert_eq!(end, "end");
    drop(file);
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_changed() {
    let scratch = Scratch::new("fs-wrong");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let place = folder.to_str().unwrap();
    run_fails(&scratch, &["mkfs", &image], &["found ext4 file system", "--force"]);
    run_fails(&scratch, &["mount", &image, place, "-o", "mode=fast"], &["\"fast\"", "manylogs"]);
    run_fails(&scratch, &["mount", &image, place, "-o", "nosuch"], &["expected ro, rw"]);
    run_fails(&scratch, &["mount", &image, place, "-o", "durable=a/b"], &["pg_wal/**"]);
    run_fails(&scratch, &["mount", &image, "/nosuch"], &["expected an empty folder"]);
    run_fails(&scratch, &["umount", place], &["expected a mounted file system"]);
    let empty = scratch.text("empty.img");
    run_ok(&scratch, &["create", &empty, "--size", "256M", "--preset", "mlb"]);
    run_fails(&scratch, &["mount", &empty, place], &["mount"]);
    let daemon = mount(&scratch, &image, &folder, &[]);
    run_fails(&scratch, &["mount", &image, place], &["already"]);
    run_fails(&scratch, &["mkfs", &image, "--force"], &["in use"]);
    let inside = File::create(folder.join("open")).unwrap();
    run_fails(&scratch, &["umount", place], &["busy"]);
    drop(inside);
    unmount(&scratch, &folder, daemon);
}

/// A program that `make test` builds beside us, or that is installed.
fn built(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = std::iter::once(root).chain(installed).find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: expected {name}: cargo install --locked --root target/tools {name}");
    }
    found
}

#[test]
fn pjdfstest_finds_nothing() {
    let scratch = Scratch::new("fs-pjdfstest");
    let Some(program) = built("pjdfstest").filter(|_| can_mount()) else { return };
    let (image, _) = volume(&scratch, "512M");
    // Names of sockets have 108 bytes at most, with all folders.
    let folder = std::env::temp_dir().join(format!("nh{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let daemon = mount(&scratch, &image, &folder, &[]);
    let settings = "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\nutime_now = {}\n\
        [settings]\nnaptime = 0.01\nallow_remount = false\n\
        [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";
    let path = scratch.path("pjdfstest.toml");
    std::fs::write(&path, settings).unwrap();
    let output =
        Command::new(program).arg("-c").arg(&path).arg("-p").arg(&folder).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let summary = told.lines().find(|line| line.starts_with("Summary:")).unwrap_or_default();
    assert!(summary.contains(" 0 failed") && summary.contains("passed"), "{told}");
    println!("{summary}");
    unmount(&scratch, &folder, daemon);
    std::fs::remove_dir(&folder).unwrap();
    assert_clean(&scratch, &image);
}

#[test]
fn fsx_finds_nothing() {
    let scratch = Scratch::new("fs-fsx");
    let Some(program) = built("fsx").filter(|_| can_mount()) else { return };
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let settings = "[weights]\nfsync = 0.5\nfdatasync = 0.5\ninvalidate = 0.5\npunch_hole = 1\n\
        posix_fallocate = 1\nmapread = 5\nmapwrite = 5\nclose_open = 0.5\n";
    let path = scratch.path("fsx.toml");
    std::fs::write(&path, settings).unwrap();
    // NEARHEAD_FSX=20x20000 is twenty seeds of 20,000 operations.
    let wanted = std::env::var("NEARHEAD_FSX").unwrap_or_else(|_| "3x3000".to_owned());
    let (seeds, operations) = wanted.split_once('x').unwrap();
    for seed in 1..=seeds.parse::<u32>().unwrap() {
        let seed = format!("{seed}");
        let file = folder.join(&seed);
        let output = Command::new(&program)
            .args(["-N", operations, "-S", &seed, "-f"])
            .arg(&path)
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "fsx -N {operations} -S {seed}: {output:?}");
    }
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}
