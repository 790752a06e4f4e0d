//! An NBD export as a target, and the power switch of the emulated disk behind it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::{Client, Kind};
use common::{Daemon, Scratch, run_fails, run_ok};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

const SECTOR: u32 = 512;

/// A served emulated disk, its URI, and its control socket.
fn disk(scratch: &Scratch, more: &[&str]) -> (Daemon, String, BufReader<UnixStream>) {
    let (socket, control) = (scratch.text("disk.sock"), scratch.text("disk.control"));
    let model = "model:st3146855fc,cache=on";
    let mut args = vec!["disk", "serve", model, "--socket", &socket, "--control", &control];
    args.extend_from_slice(more);
    let daemon = Daemon::spawn(scratch, &args);
    let control = BufReader::new(UnixStream::connect(control).unwrap());
    (daemon, format!("nbd+unix:///?socket={socket}"), control)
}

fn ask(control: &mut BufReader<UnixStream>, command: &str) -> Value {
    writeln!(control.get_mut(), "{command}").unwrap();
    let mut line = String::new();
    control.read_line(&mut line).unwrap();
    common::json::parse(&line).unwrap()
}

#[test]
fn a_disk_without_power_promises_nothing_until_it_is_switched_on() {
    let scratch = Scratch::new("switch");
    let (_daemon, _, mut control) = disk(&scratch, &[]);
    let mut client = Client::connect(&scratch.path("disk.sock")).unwrap();
    client.write(0, &[1; 512], true);
    client.write(4096, &[2; 512], false);
    assert_eq!(ask(&mut control, "clients")["ok"]["connections_open"], 1);
    assert_eq!(ask(&mut control, "power-off 7")["ok"]["seed"], 7);
    for kind in [Kind::Flush, Kind::Write, Kind::WriteZeroes, Kind::Trim] {
        let len = if kind == Kind::Flush { 0 } else { SECTOR };
        let data: &[u8] = if kind == Kind::Write { &[3; 512] } else { &[] };
        assert_eq!(client.run(kind, false, 0, len, data).unwrap(), 5, "{kind:?}");
    }
    assert_eq!(client.try_read(0, SECTOR).unwrap_err(), 5);
    assert_eq!(ask(&mut control, "power-on")["ok"], "done");
    assert_eq!(client.read(0, SECTOR), [1; 512]);
    let unflushed = client.read(4096, SECTOR);
    assert!(unflushed == [2; 512] || unflushed == [0; 512]);
    client.flush();
    drop(client);
    while ask(&mut control, "clients")["ok"]["connections_open"] != 0 {
        std::thread::yield_now();
    }
    let told = ask(&mut control, "power-up");
    assert!(told["error"].as_str().unwrap().contains("power-off [SEED], power-on"), "{told}");
}

#[test]
fn a_daemon_whose_disk_went_answers_with_errors_and_says_why() {
    let scratch = Scratch::new("gone");
    let (server, uri, _control) = disk(&scratch, &[]);
    run_ok(&scratch, &["create", &uri, "--preset", "mlb", "--group-size", "1GiB"]);
    let daemon = Daemon::serve(&scratch, &uri, &["--shutdown-max", "5s"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(8192, &[5; 4096], true);
    server.kill();
    assert_ne!(client.run(Kind::Write, true, 0, 512, &[6; 512]).unwrap(), 0);
    assert!(client.try_read(1 << 30, 4096).is_err());
    let (status, _, problems) = daemon.stop();
    assert!(!status.success() && problems.contains("connection is lost"), "{status}: {problems}");
}

#[test]
fn what_is_no_export_for_a_volume_is_refused() {
    let scratch = Scratch::new("noexport");
    let (_daemon, uri, _control) = disk(&scratch, &["--read-only"]);
    let nobody = format!("nbd+unix:///?socket={}", scratch.text("nobody.sock"));
    let cases: [(&[&str], &[&str]); 5] = [
        (&["create", &uri], &["expected an export that may be written", "read-only"]),
        (&["create", &uri, "--size", "1GiB"], &["leave --size out"]),
        (&["create", &nobody], &["nobody.sock", "No such file"]),
        (&["check", "nbd+unix:///x"], &["expected nbd+unix:///EXPORT?socket=PATH", "no socket"]),
        (&["check", &uri], &["no sound superblock"]),
    ];
    for (args, expected) in cases {
        run_fails(&scratch, args, expected);
    }
}
