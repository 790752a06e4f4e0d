//! `disk serve --file` as a user runs it: a file that other programs use as a disk, and its end.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Daemon, Scratch, run, run_fails};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A disk in a folder of `scratch`; none where nothing can be mounted, which is said.
fn serve(scratch: &Scratch) -> Option<(Daemon, PathBuf)> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting a file of a disk needs root and /dev/fuse");
        return None;
    }
    let folder = scratch.path("disk");
    std::fs::create_dir(&folder).unwrap();
    let args = ["disk", "serve", "model:sata-ssd-240gb", "--file", folder.to_str().unwrap()];
    Some((Daemon::spawn(scratch, &args), folder.join("disk")))
}

fn shell(script: &str, file: &Path) -> String {
    let script = script.replace("FILE", file.to_str().unwrap());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Holds the file open until its standard input is closed.
fn holder(file: &Path) -> Child {
    let script = format!("exec 3<{}; echo open; cat >/dev/null", file.display());
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    child
}

#[test]
fn a_file_of_a_disk_is_used_by_others_and_ends_with_its_unmounting() {
    let scratch = Scratch::new("disk-file");
    let Some((daemon, file)) = serve(&scratch) else { return };
    shell(
        "yes nearhead | head --bytes 1M | dd of=FILE bs=64k seek=7 conv=notrunc,fsync iflag=fullblock status=none",
        &file,
    );
    let sum = shell("dd if=FILE bs=64k skip=7 count=16 status=none | cksum", &file);
    assert_eq!(sum, shell("yes nearhead | head --bytes 1M | cksum", &file));
    shell("umount $(dirname FILE)", &file);
    let (status, told, problems) = daemon.wait();
    assert!(status.success() && problems.is_empty(), "{status}: {problems}");
    assert!(told.contains("what was written is on the medium"), "{told}");
}

#[test]
fn a_signal_unmounts_it_if_nobody_uses_it_and_says_so_otherwise() {
    let scratch = Scratch::new("disk-file-signal");
    let Some((mut daemon, file)) = serve(&scratch) else { return };
    let mut user = holder(&file);
    daemon.signal(Signal::TERM);
    daemon.wait_for_notice("losetup --detach");
    shell("dd if=FILE of=/dev/null bs=4096 count=1 status=none", &file);
    drop(user.stdin.take());
    user.wait().unwrap();
    let (status, told, _) = daemon.stop();
    assert!(status.success() && told.contains("stopped"), "{status}: {told}");
    assert!(!file.exists());
}

#[test]
fn a_second_signal_ends_it_whoever_uses_it() {
    let scratch = Scratch::new("disk-file-forced");
    let Some((mut daemon, file)) = serve(&scratch) else { return };
    let mut user = holder(&file);
    daemon.signal(Signal::TERM);
    daemon.wait_for_notice("losetup --detach");
    let (status, _, _) = daemon.stop();
    assert_eq!(status.code(), Some(1));
    drop(user.stdin.take());
    user.wait().unwrap();
    // What is left is a mount that answers nothing.
    shell("umount $(dirname FILE)", &file);
}

#[test]
fn a_file_and_a_socket_at_once_or_no_folder_are_refused() {
    let scratch = Scratch::new("disk-file-refused");
    let disk = "model:sata-ssd-240gb";
    let both = ["disk", "serve", disk, "--file", "here", "--socket", "there"];
    let out = run(&scratch, &both);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && told.contains("cannot be used with"), "{told}");
    let missing = ["disk", "serve", disk, "--file", "no-such-folder"];
    run_fails(&scratch, &missing, &["no-such-folder", "expected an empty folder"]);
}
