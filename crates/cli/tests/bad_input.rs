//! Every bad input gets exit code 1 and a message that says what, where, expected, found and what
//! to do; and nothing is lost by it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
#[path = "bad_input/overwriting.rs"]
mod overwriting;

use common::nbd::Client;
use common::{Daemon, Scratch, run, run_fails, run_ok, tool, tool_ok, tools};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

const SMALL: [&str; 4] = ["create", "a.img", "--size", "64MiB"];

fn sparse(scratch: &Scratch, name: &str, bytes: u64) {
    File::create(scratch.path(name)).unwrap().set_len(bytes).unwrap();
}

fn put(scratch: &Scratch, name: &str, offset: u64, bytes: &[u8]) {
    let mut file = File::options().write(true).open(scratch.path(name)).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn create_refuses_what_holds_something_and_names_it() {
    let scratch = Scratch::new("used");
    run_ok(&scratch, &SMALL);
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    run_fails(
        &scratch,
        &["create", "a.img"],
        &["a.img", "expected an empty device", "Nearhead volume", "--force"],
    );
    assert_eq!(std::fs::read(scratch.path("a.img")).unwrap(), before, "nothing was changed");
    run_ok(&scratch, &["create", "a.img", "--force"]);

    sparse(&scratch, "dos.img", 128 << 20);
    put(&scratch, "dos.img", 446, &[0x80, 1, 1, 0, 0x83, 254, 255, 255, 0, 8, 0, 0, 0, 0, 2, 0]);
    put(&scratch, "dos.img", 510, &[0x55, 0xaa]);
    run_fails(&scratch, &["create", "dos.img"], &["dos.img", "partition table", "--force"]);

    sparse(&scratch, "odd.img", 128 << 20);
    put(&scratch, "odd.img", 5000, b"somebody's data");
    run_fails(&scratch, &["create", "odd.img"], &["odd.img", "unknown kind", "5000", "--force"]);

    if tools(&["mkfs.ext4"]) {
        sparse(&scratch, "fs.img", 128 << 20);
        tool_ok("mkfs.ext4", &["-q", "-F", "-L", "mail", &scratch.text("fs.img")]);
        run_fails(&scratch, &["create", "fs.img"], &["fs.img", "ext4", "mail", "--force"]);
        tool_ok("e2fsck", &["-fn", &scratch.text("fs.img")]);
    }
}

#[test]
fn create_refuses_impossible_sizes_and_leaves_no_image_behind() {
    let scratch = Scratch::new("sizes");
    for (args, parts) in [
        (vec!["--size", "1MiB"], vec!["1048576", "expected"]),
        (vec!["--size", "1000000"], vec!["multiple of 512", "1000000"]),
        (vec!["--size", "1536"], vec!["from 64 MiB on", "found 1536 bytes", "nbdkit"]),
        (vec!["--size", "67109377"], vec!["multiple of 512", "next smaller one is 67109376"]),
        (vec!["--size", "100000TiB"], vec!["takes no file of that size", "smaller image"]),
        (vec!["--size", "128MiB", "--grow-to", "100MiB"], vec!["--grow-to", "134217728"]),
        (vec!["--size", "64MiB", "--group-size", "1GiB"], vec!["1073741824", "expected"]),
        (
            vec!["--size", "64MiB", "--group-size", "8MiB", "--log-size", "8MiB"],
            vec!["8388608", "expected"],
        ),
        (vec!["--size", "64MiB", "--log-size", "4KiB"], vec!["4096", "expected"]),
        (vec!["--size", "64MiB", "--preset", "nolog", "--log-size", "1MiB"], vec!["expected"]),
        (vec!["--size", "64MiB", "--preset", "best"], vec!["nolog", "mlb-256", "best"]),
        (vec!["--size", "64MiB", "--threshold", "3"], vec!["multiple of 512", "found 3"]),
        (vec!["--size", "64MiB", "--threshold", "1G"], vec!["1048576", "1073741824"]),
    ] {
        let mut all = vec!["create", "new.img"];
        all.extend(args);
        run_fails(&scratch, &all, &parts);
        assert!(!scratch.path("new.img").exists(), "{all:?} left an image behind");
    }
    run_fails(&scratch, &["create", "nowhere.img"], &["nowhere.img", "--size"]);
    run_fails(&scratch, &["create", ".", "--size", "64MiB"], &["something is there already"]);
    let long = "x".repeat(65);
    run_fails(
        &scratch,
        &["create", "b.img", "--size", "64MiB", "--label", &long],
        &["label", "64 bytes", "65"],
    );
}

#[test]
fn what_is_no_volume_is_not_opened() {
    let scratch = Scratch::new("novolume");
    sparse(&scratch, "empty.img", 64 << 20);
    for command in ["status", "check", "dump", "repair", "grow", "drain"] {
        run_fails(
            &scratch,
            &[command, "empty.img"],
            &["empty.img", "expected", "found", "restore-metadata"],
        );
    }
    run_fails(
        &scratch,
        &["serve", "empty.img", "--socket", "s"],
        &["empty.img", "no sound superblock", "restore-metadata"],
    );
    run_fails(&scratch, &["status", "missing.img"], &["missing.img", "check the path"]);
    run_fails(&scratch, &["status", "."], &["a directory"]);
    run_fails(&scratch, &["status", "model:no-such-disk,file=x"], &["no-such-disk", "st3146855fc"]);
    run_fails(
        &scratch,
        &["status", "model:st3146855fc,file=missing.img"],
        &["missing.img", "nearhead create"],
    );
    run_fails(
        &scratch,
        &["serve", "model:st3146855fc", "--socket", "s"],
        &["memory only", "file=PATH", "--create-if-missing"],
    );
}

#[test]
fn a_truncated_image_is_refused_with_both_sizes() {
    let scratch = Scratch::new("short");
    run_ok(&scratch, &SMALL);
    let image = File::options().write(true).open(scratch.path("a.img")).unwrap();
    image.set_len(40 << 20).unwrap();
    for command in ["status", "check", "repair"] {
        run_fails(&scratch, &[command, "a.img"], &["a.img", "67108864", "41943040", "cut short"]);
    }
    image.set_len(64 << 20).unwrap();
    drop(image);
    // Only the last superblock copy was in the part that was cut.
    run_fails(&scratch, &["check", "a.img"], &["1 damaged"]);
    run_ok(&scratch, &["repair", "a.img"]);
    run_ok(&scratch, &["check", "a.img"]);
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let scratch = Scratch::new("newer");
    run_ok(&scratch, &SMALL);
    let image = std::fs::read(scratch.path("a.img")).unwrap();
    // A sound copy of version 2: the checksum covers everything before it (docs/format.md).
    let mut copy = image[..4096].to_vec();
    copy[8] = 2;
    let crc = nearhead_format::crc::crc32c(&copy[..4092]);
    copy[4092..].copy_from_slice(&crc.to_le_bytes());
    put(&scratch, "a.img", 0, &copy);
    let after = std::fs::read(scratch.path("a.img")).unwrap();
    for command in ["status", "check", "repair", "grow"] {
        run_fails(&scratch, &[command, "a.img"], &["a.img", "reads 1", "found 2"]);
    }
    assert_eq!(std::fs::read(scratch.path("a.img")).unwrap(), after, "nothing was changed");
}

#[test]
fn a_volume_is_served_by_one_daemon_only() {
    let scratch = Scratch::new("two");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let pid = daemon.pid().to_string();
    run_fails(
        &scratch,
        &["serve", "a.img", "--socket", "other.sock"],
        &["a.img", "in use", &pid, "nearhead"],
    );
    for command in ["check", "repair", "dump"] {
        run_fails(&scratch, &[command, "a.img"], &["a.img", "in use", &pid]);
    }
    // It asks the daemon.
    run_fails(&scratch, &["grow", "a.img"], &["a.img", "expected a device larger"]);
    run_fails(&scratch, &["create", "a.img", "--force"], &["a.img", "in use", &pid]);
    Client::connect(&daemon.socket).unwrap().flush();
    daemon.stop_ok();
    let model = format!("model:st3146855fc,file={}", scratch.text("disk.img"));
    run_ok(&scratch, &["create", &model]);
    let _daemon = Daemon::serve(&scratch, &model, &[]);
    run_fails(
        &scratch,
        &["serve", &model, "--socket", "other.sock"],
        &["disk.img", "another process"],
    );
}

#[test]
fn a_socket_in_use_is_refused_and_a_stale_one_replaced() {
    let scratch = Scratch::new("socket");
    run_ok(&scratch, &SMALL);
    run_ok(&scratch, &["create", "b.img", "--size", "64MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    run_fails(
        &scratch,
        &["serve", "b.img", "--socket", "nbd.sock"],
        &["nbd.sock", "another server", "choose another path"],
    );
    daemon.kill();
    assert!(scratch.path("nbd.sock").exists(), "a killed daemon leaves its socket behind");
    Daemon::serve(&scratch, "b.img", &[]).stop_ok();
    std::fs::write(scratch.path("file"), "kept").unwrap();
    run_fails(&scratch, &["serve", "b.img", "--socket", "file"], &["file", "choose another path"]);
    assert_eq!(std::fs::read(scratch.path("file")).unwrap(), b"kept");
    run_fails(&scratch, &["serve", "b.img"], &["--socket", "--tcp", "LISTEN_FDS"]);
    run_fails(&scratch, &["serve", "b.img", "--tcp", "256.0.0.1:1"], &["256.0.0.1:1"]);
    run_fails(
        &scratch,
        &["serve", "b.img", "--socket", "s", "--tls-cert", "c.pem"],
        &["--tls-key"],
    );
    let tls = ["serve", "b.img", "--socket", "s", "--tls-cert", "c.pem", "--tls-key", "k.pem"];
    run_fails(&scratch, &tls, &["c.pem"]);
    let psk = ["serve", "b.img", "--socket", "s", "--tls-psk", "k.psk"];
    let both = [&psk[..], &["--tls-cert", "c.pem", "--tls-key", "k.pem"]].concat();
    run_fails(&scratch, &both, &["--tls-psk", "found both"]);
    run_fails(&scratch, &psk, &["k.psk"]);
    run_fails(
        &scratch,
        &["status", "b.img", "--control", "no.sock"],
        &["no.sock", "expected a running daemon"],
    );
}

#[test]
fn a_read_only_file_is_served_read_only_or_not_at_all() {
    let scratch = Scratch::new("readonly");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &["--read-only"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    let error = client.run(common::nbd::Kind::Write, false, 0, 512, &[1; 512]).unwrap();
    assert_eq!(error, 1, "EPERM");
    drop(client);
    daemon.stop_ok();
    assert_eq!(std::fs::read(scratch.path("a.img")).unwrap(), before);
}

/// Gives a loop device back, whatever happens.
struct Loop(String);

impl Loop {
    fn new(scratch: &Scratch, name: &str, more: &[&str]) -> Option<Self> {
        if !tools(&["losetup"]) {
            return None;
        }
        let path = scratch.text(name);
        let mut args = vec!["--find", "--show"];
        args.extend_from_slice(more);
        args.push(&path);
        let output = tool("losetup", &args);
        if !output.status.success() {
            println!(
                "skipped: no loop device here: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            return None;
        }
        Some(Self(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.0]);
    }
}

#[test]
fn block_devices_are_refused_when_write_protected_too_small_or_in_use() {
    let scratch = Scratch::new("device");
    sparse(&scratch, "disk.img", 64 << 20);
    sparse(&scratch, "tiny.img", 1 << 20);
    let Some(protected) = Loop::new(&scratch, "disk.img", &["--read-only"]) else { return };
    run_fails(&scratch, &["create", &protected.0], &[&protected.0, "write-protected"]);
    drop(protected);
    let Some(tiny) = Loop::new(&scratch, "tiny.img", &[]) else { return };
    run_fails(&scratch, &["create", &tiny.0], &["1048576", "expected"]);
    let Some(device) = Loop::new(&scratch, "disk.img", &[]) else { return };
    run_ok(&scratch, &["create", &device.0]);
    let daemon = Daemon::serve(&scratch, &device.0, &[]);
    run_fails(
        &scratch,
        &["serve", &device.0, "--socket", "o"],
        &[&device.0, "in use", &daemon.pid().to_string()],
    );
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(4096, &[7; 4096], true);
    drop(client);
    daemon.kill();
    let daemon = Daemon::serve(&scratch, &device.0, &[]);
    assert_eq!(Client::connect(&daemon.socket).unwrap().read(4096, 4096), [7; 4096]);
    daemon.stop_ok();
}

/// Takes a mount back, whatever happens.
struct Mount(String);

impl Drop for Mount {
    fn drop(&mut self) {
        // The kernel may hold files of a killed daemon for a moment.
        tool("umount", &["--lazy", &self.0]);
    }
}

#[test]
fn a_full_file_system_under_a_sparse_image_fails_writes_and_loses_nothing() {
    if !tools(&["mount", "umount"]) {
        return;
    }
    let scratch = Scratch::new("full");
    let folder = scratch.text("small");
    std::fs::create_dir(&folder).unwrap();
    let output = tool("mount", &["-t", "tmpfs", "-o", "size=24m", "none", &folder]);
    if !output.status.success() {
        println!(
            "skipped: tmpfs cannot be mounted: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        return;
    }
    let mount = Mount(folder.clone());
    let image = format!("{folder}/a.img");
    run_ok(&scratch, &["create", &image, "--size", "128MiB"]);
    let daemon = Daemon::serve(&scratch, &image, &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &[1; 4096], true);
    let block = vec![2; 1 << 20];
    let mut failed = None;
    for index in 1..64_u64 {
        let error =
            client.run(common::nbd::Kind::Write, true, index << 20, 1 << 20, &block).unwrap();
        if error != 0 {
            failed = Some((index, error));
            break;
        }
    }
    let (index, error) = failed.expect("64 MiB fit into 24 MiB");
    assert_eq!(error, 28, "ENOSPC at {index} MiB");
    assert_eq!(client.read(0, 4096), [1; 4096]);
    assert_eq!(client.read(1 << 20, 1 << 20), block);
    drop(client);
    daemon.kill();
    // Copied to where there is room, everything acknowledged is there.
    std::fs::copy(&image, scratch.path("b.img")).unwrap();
    drop(mount);
    let daemon = Daemon::serve(&scratch, "b.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert_eq!(client.read(0, 4096), [1; 4096]);
    for at in 1..index {
        assert_eq!(client.read(at << 20, 1 << 20), block, "MiB {at}");
    }
    daemon.stop_ok();
}

#[test]
fn a_device_that_goes_away_fails_requests_and_is_reported() {
    let scratch = Scratch::new("gone");
    sparse(&scratch, "disk.img", 64 << 20);
    let Some(device) = Loop::new(&scratch, "disk.img", &[]) else { return };
    run_ok(&scratch, &["create", &device.0]);
    let mut daemon = Daemon::serve(&scratch, &device.0, &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &[1; 4096], true);
    // To whoever has it open, a device of no size is one that left.
    std::fs::copy(scratch.path("disk.img"), scratch.path("kept.img")).unwrap();
    File::options().write(true).open(scratch.path("disk.img")).unwrap().set_len(0).unwrap();
    tool_ok("losetup", &["--set-capacity", &device.0]);
    assert!(client.try_read(4 << 20, 4096).is_err());
    let error = client.run(common::nbd::Kind::Write, true, 8192, 4096, &[2; 4096]).unwrap();
    assert_ne!(error, 0, "a write to a device that is gone was acknowledged");
    daemon.wait_for_notice("the volume failed");
    let output = run(&scratch, &["status", &device.0]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let status = String::from_utf8(output.stdout).unwrap();
    assert!(status.contains("failed:") && status.contains(&device.0), "{status}");
    run_fails(&scratch, &["drain", &device.0], &["failure"]);
    drop(client);
    let (status, _, problems) = daemon.stop();
    assert_eq!(status.code(), Some(1), "{problems}");
    assert!(problems.contains("after a failure"), "{problems}");
    // What was acknowledged is on the medium.
    drop(device);
    let daemon = Daemon::serve(&scratch, "kept.img", &["--read-only"]);
    assert_eq!(Client::connect(&daemon.socket).unwrap().read(0, 4096), [1; 4096]);
    daemon.stop_ok();
}

#[test]
fn of_two_who_make_one_image_at_once_neither_takes_it_from_the_other() {
    for round in 0..12 {
        let scratch = Scratch::new("two-creates");
        let make = || {
            common::nearhead(&scratch, &["create", "a.img", "--size", "64MiB"])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        };
        let both = [make(), make()];
        let ended = both.map(|mut child| child.wait().unwrap().success());
        assert!(ended.contains(&true), "round {round}: neither made it");
        run_ok(&scratch, &["check", "a.img"]);
    }
}

#[test]
fn a_create_that_is_refused_leaves_no_file_behind() {
    let scratch = Scratch::new("refused-create");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let refused = ["create", "a.img", "--map-device", "m.map"];
    run_fails(&scratch, &refused, &["expected an empty device"]);
    assert!(!scratch.path("m.map").exists());
}

/// `create` writes to both, so it looks at both.
#[test]
fn a_map_device_with_something_on_it_is_refused_as_the_disk_itself_is() {
    let scratch = Scratch::new("used-map");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB", "--map-device", "a.map"]);
    run_ok(&scratch, &["create", "c.img", "--size", "64MiB"]);
    let with_file_system = |name: &str| {
        let mut bytes = vec![0; 8 << 20];
        bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
        std::fs::write(scratch.path(name), bytes).unwrap();
    };
    with_file_system("ext.map");
    std::fs::write(scratch.path("odd.map"), [vec![0; 77], vec![1; 8 << 20]].concat()).unwrap();
    // Of a volume without superblocks nothing is left at the ends.
    let image = std::fs::read(scratch.path("c.img")).unwrap();
    let last = image.len() - (1 << 20);
    let bare = [vec![0; 1 << 20], image[1 << 20..last].to_vec(), vec![0; 1 << 20]].concat();
    std::fs::write(scratch.path("bare.map"), bare).unwrap();
    for (map, found) in [
        ("a.map", "map device of a Nearhead volume"),
        ("c.img", "superblock of a Nearhead volume"),
        ("bare.map", "snapshot of the map of a Nearhead volume"),
        ("ext.map", "nonzero byte at 1080"),
        ("odd.map", "expected an empty device"),
    ] {
        let before = std::fs::read(scratch.path(map)).unwrap();
        let args = ["create", "b.img", "--size", "64MiB", "--map-device", map];
        run_fails(&scratch, &args, &["the map device of b.img", found, "--force"]);
        assert!(std::fs::read(scratch.path(map)).unwrap() == before, "{map} was changed");
        assert!(!scratch.path("b.img").exists());
    }
    run_ok(&scratch, &["check", "a.img", "--map-device", "a.map"]);
    let forced = ["create", "b.img", "--size", "64MiB", "--map-device", "a.map", "--force"];
    run_ok(&scratch, &forced);
    run_ok(&scratch, &["check", "b.img", "--map-device", "a.map"]);
}

#[test]
fn what_is_no_backup_is_refused_at_once_in_plain_words() {
    let scratch = Scratch::new("no-backup");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    std::fs::write(scratch.path("short"), "x").unwrap();
    for (file, found) in [
        ("pipe", "found no regular file"),
        (".", "found no regular file"),
        ("/dev/null", "found no regular file"),
        ("short", "found 1 bytes"),
    ] {
        run_fails(&scratch, &["restore-metadata", "a.img", file], &[file, found]);
    }
    run_fails(&scratch, &["check", ""], &["expected the name of a device or image"]);
    let told = run_fails(&scratch, &["check", "a\nb.img"], &["a\\nb.img"]);
    assert_eq!(told.lines().count(), 1, "{told}");
}
