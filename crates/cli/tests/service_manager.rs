//! What a service manager hears: that a daemon is ready, lives and stops, in datagrams of `sd_notify(3)`; and what the journal reads: who came
//! and left, which passes there were, each with its priority.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::mounts::{can_mount, volume};
use common::nbd::Client;
use common::{Daemon, Scratch, nearhead, run_ok};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};

const SMALL: [&str; 4] = ["create", "a.img", "--size", "64MiB"];

/// A daemon, started as a service manager does that wants a sign of life twice a second.
fn started(scratch: &Scratch, args: &[&str]) -> (UnixDatagram, Child) {
    let path = scratch.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let child = nearhead(scratch, args)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "500000")
        .env_remove("WATCHDOG_PID")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (manager, child)
}

/// The lines of the next datagrams, up to one that begins with `last`.
fn heard_until(manager: &UnixDatagram, last: &str) -> Vec<String> {
    let mut heard: Vec<String> = Vec::new();
    while !heard.iter().any(|line| line.starts_with(last)) {
        let mut bytes = [0; 4096];
        let len = manager.recv(&mut bytes).unwrap();
        let text = std::str::from_utf8(&bytes[..len]).unwrap();
        heard.extend(text.lines().map(str::to_owned));
    }
    heard
}

fn lives_and_stops(manager: &UnixDatagram, mut child: Child) {
    // Who reads what it says of itself may hear that first.
    let mut heard = heard_until(manager, "READY=1");
    if !heard.iter().any(|line| line.starts_with("STATUS=")) {
        heard.extend(heard_until(manager, "STATUS="));
    }
    assert!(heard.iter().any(|line| line.starts_with("STATUS=serving: ")), "{heard:?}");
    for _ in 0..3 {
        heard_until(manager, "WATCHDOG=1");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    heard_until(manager, "STOPPING=1");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_served_volume_tells_its_service_manager_that_it_is_ready_lives_and_stops() {
    let scratch = Scratch::new("manager");
    run_ok(&scratch, &SMALL);
    let (manager, child) = started(&scratch, &["serve", "a.img", "--socket", "nbd.sock"]);
    lives_and_stops(&manager, child);
}

#[test]
fn a_mounted_volume_does_as_well() {
    let scratch = Scratch::new("manager-mount");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let (manager, child) = started(&scratch, &["mount", &image, folder.to_str().unwrap()]);
    lives_and_stops(&manager, child);
}

#[test]
fn the_unit_waits_for_what_the_daemon_says_and_gives_it_time_to_live() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd/nearhead@.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    for line in ["Type=notify", "TimeoutStartSec=infinity", "WatchdogSec=120s"] {
        assert!(unit.lines().any(|found| found == line), "{line:?} is missing");
    }
}

#[test]
fn each_client_has_a_line_when_it_comes_and_one_with_what_it_did_when_it_leaves() {
    let scratch = Scratch::new("visits");
    run_ok(&scratch, &SMALL);
    let mut daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &[7; 4096], true);
    client.read(0, 512);
    let pid = std::process::id();
    daemon.wait_for_notice(&format!("client 1 (process {pid}, user "));
    daemon.wait_for_notice("came to the default export");
    drop(client);
    daemon.wait_for_notice("left the default export after ");
    daemon.wait_for_notice(" s: 2 requests, 512 bytes read, 4096 written");
    // A pass that somebody asked for is told, with why and how much.
    run_ok(&scratch, &["checkpoint", "a.img"]);
    daemon.wait_for_notice("ended after ");
    daemon.wait_for_notice("4 KiB went home (it began as it was asked for)");
    daemon.stop_ok();
}

#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    let scratch = Scratch::new("priority");
    run_ok(&scratch, &SMALL);
    // The journal is whatever standard error is: here a pipe.
    let (reader, writer) = std::io::pipe().unwrap();
    let found = rustix::fs::fstat(&writer).unwrap();
    let mut child = nearhead(&scratch, &["serve", "a.img", "--socket", "nbd.sock"])
        .env("JOURNAL_STREAM", format!("{}:{}", found.st_dev, found.st_ino))
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let socket = scratch.path("nbd.sock");
    let client = loop {
        match Client::connect(&socket) {
            Ok(client) => break client,
            Err(_) => std::thread::yield_now(),
        }
    };
    let came = lines.find(|line| line.contains("came to the default export")).unwrap();
    assert!(came.starts_with("<6>client 1 ("), "{came}");
    drop(client);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let stopping = lines.find(|line| line.contains("stopping: making")).unwrap();
    assert!(stopping.starts_with("<5>stopping"), "{stopping}");
    drop(lines);
    assert!(child.wait().unwrap().success());
}
