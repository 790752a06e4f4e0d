//! The documented commands as a user who is not root and did not log in: no `sudo`, no folder of the system's for sockets.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Scratch, nearhead, tool};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

/// Nobody in particular.
const USER: u32 = 65_534;

/// The program as that user (or as whoever runs the tests, if not root), with temporary files in `scratch` and nothing
/// of a session.
fn as_user(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = nearhead(scratch, args);
    command.env_remove("RUNTIME_DIRECTORY").env_remove("XDG_RUNTIME_DIR");
    command.env("TMPDIR", scratch.path("tmp")).stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(USER).gid(USER);
    }
    command
}

/// A folder that everybody may use; none where the user cannot reach it or the program, which is said.
fn scratch(name: &str) -> Option<Scratch> {
    let scratch = Scratch::new(name);
    for folder in ["", "tmp"] {
        std::fs::create_dir_all(scratch.path(folder)).unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(scratch.path(folder), open).unwrap();
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: becoming another user needs root");
        return None;
    }
    match as_user(&scratch, &["--version"]).output() {
        Ok(_) => Some(scratch),
        Err(error) => {
            println!("skipped: another user cannot run the program where it is: {error}");
            None
        }
    }
}

fn ok(scratch: &Scratch, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = as_user(scratch, args).output().unwrap();
    let problems = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "nearhead {args:?}: {status}: {problems}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// A daemon of that user's, ready.
fn serve(scratch: &Scratch, target: &str) -> Child {
    let args = ["serve", target, "--socket", "nbd.sock"];
    let mut child = as_user(scratch, &args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 7];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"serving");
    child
}

#[test]
fn a_user_who_did_not_log_in_finds_the_daemon_by_the_name_of_its_disk() {
    let Some(scratch) = scratch("nobody") else { return };
    ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let mut daemon = serve(&scratch, "a.img");
    assert!(ok(&scratch, &["status", "a.img"]).contains("serving"));
    ok(&scratch, &["checkpoint", "a.img"]);
    ok(&scratch, &["hint", "a.img", "--offset", "0", "--len", "4KiB", "--kind", "durability-only"]);
    ok(&scratch, &["backup-metadata", "a.img", "m.bak"]);
    ok(&scratch, &["drain", "a.img", "--stop"]);
    assert!(daemon.wait().unwrap().success());
    ok(&scratch, &["check", "a.img"]);
}

#[test]
fn a_folder_for_sockets_that_somebody_else_made_is_not_used() {
    let Some(scratch) = scratch("squatter") else { return };
    ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    // Root is somebody else.
    let folder = scratch.path("tmp").join(format!("nearhead-{USER}"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut daemon = serve(&scratch, "a.img");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_place_where_no_socket_can_be_is_refused_with_what_to_do() {
    let Some(scratch) = scratch("no-place") else { return };
    ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    std::fs::create_dir(scratch.path("closed")).unwrap();
    for (socket, advice) in [
        (
            "closed/nbd.sock",
            "this user may not make anything in closed: choose a folder of its own",
        ),
        ("none/nbd.sock", "expected a folder none, found none: make it first"),
    ] {
        for args in [
            ["serve", "a.img", "--socket", socket].as_slice(),
            &["disk", "serve", "model:st3146855fc", "--socket", socket],
        ] {
            let output = as_user(&scratch, args).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains(socket) && told.contains(advice), "{args:?}: {told}");
        }
    }
}

#[test]
fn a_disk_in_use_is_told_with_who_has_it_emulated_ones_too() {
    let Some(scratch) = scratch("who") else { return };
    let target = "model:st3146855fc,file=disk.img";
    ok(&scratch, &["create", target, "--group-size", "1GiB"]);
    let mut daemon = serve(&scratch, target);
    let output = as_user(&scratch, &["check", target]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let who = format!("found process {} (nearhead)", daemon.id());
    assert!(
        told.contains("disk.img is in use by another process") && told.contains(&who),
        "{told}"
    );
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
}

/// At a fresh start of the machine nobody has made the folder that the documentation puts sockets into.
#[test]
fn the_documented_socket_of_root_needs_no_folder_made_before() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: a mount of one's own needs root");
    }
    let probe = tool("unshare", &["--mount", "true"]);
    if !probe.status.success() {
        return println!("skipped: unshare: {}", String::from_utf8_lossy(&probe.stderr).trim());
    }
    let scratch = Scratch::new("fresh");
    common::run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let program = env!("CARGO_BIN_EXE_nearhead");
    let script = format!(
        "mount -t tmpfs none /run && exec {program} serve a.img --socket /run/nearhead/backups.sock"
    );
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(scratch.path(""))
        .env_remove("RUNTIME_DIRECTORY")
        .env_remove("XDG_RUNTIME_DIR")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(
        line.contains("serving a.img") && line.contains("/run/nearhead/backups.sock"),
        "{line}"
    );
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn whoever_is_in_the_group_of_the_socket_uses_it_without_root() {
    let Some(scratch) = scratch("group") else { return };
    common::run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let group = USER.to_string();
    let daemon = common::Daemon::serve(&scratch, "a.img", &["--socket-group", &group]);
    if !common::tools(&["nbdcopy"]) {
        return;
    }
    std::fs::write(scratch.path("x.img"), vec![7; 1 << 20]).unwrap();
    let copied = Command::new("nbdcopy")
        .args(["x.img", &daemon.uri()])
        .current_dir(scratch.path(""))
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    assert!(copied.status.success(), "{copied:?}");
    assert_eq!(Client::connect(&daemon.socket).unwrap().read(0, 4096), vec![7; 4096]);
    daemon.stop_ok();
}
