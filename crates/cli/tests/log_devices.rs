//! A volume with several log devices, with the real program on image files: made, served, named in another order, told of, and used without one.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};

const BESIDE: [&str; 4] =
    ["--data-devices", "data-0.img,data-1.img", "--log-devices", "log-1.img,log-2.img"];
/// The same in another order.
const TURNED: [&str; 4] =
    ["--data-devices", "data-1.img,data-0.img", "--log-devices", "log-2.img,log-1.img"];

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(37).wrapping_add(seed)).collect()
}

fn made(scratch: &Scratch) -> serde_json::Value {
    let words = ["create", "log.img", "--size", "64MiB", "--data-size", "96MiB"];
    run_json(scratch, &[&words[..], &BESIDE].concat())
}

fn write_all(daemon: &Daemon, count: u8) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for seed in 1..=count {
        client.write(u64::from(seed) << 16, &pattern(seed, 8192), true);
    }
}

fn expect_all(daemon: &Daemon, count: u8) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for seed in 1..=count {
        assert_eq!(client.read(u64::from(seed) << 16, 8192), pattern(seed, 8192), "{seed}");
    }
}

#[test]
fn what_was_written_is_there_after_a_kill_whatever_the_order_in_which_devices_are_named() {
    let scratch = Scratch::new("logs-order");
    let report = made(&scratch);
    assert_eq!(report["preset"], "trail", "by its devices");
    let daemon = Daemon::serve(&scratch, "log.img", &BESIDE);
    write_all(&daemon, 40);
    daemon.kill();
    let daemon = Daemon::serve(&scratch, "log.img", &TURNED);
    expect_all(&daemon, 40);
    run_ok(&scratch, &["drain", "log.img"]);
    daemon.stop_ok();
    let check = run_json(&scratch, &[&["check", "log.img"][..], &TURNED].concat());
    assert_eq!(check["findings_total"], 0, "{check}");
    let daemon = Daemon::serve(&scratch, "log.img", &BESIDE);
    expect_all(&daemon, 40);
    daemon.stop_ok();
}

#[test]
fn reports_say_of_each_device_what_it_is_for_and_of_each_log_disk_whether_it_takes_records() {
    let scratch = Scratch::new("logs-told");
    let said = run_ok(
        &scratch,
        &[&["create", "log.img", "--size", "64MiB", "--data-size", "96MiB"][..], &BESIDE].concat(),
    );
    for part in [
        "log device: log.img, 64 MiB",
        "data device 1: data-1.img, 96 MiB",
        "log device 1: log-1.img, 64 MiB",
        "log device 2: log-2.img, 64 MiB",
        "--data-devices data-0.img,data-1.img --log-devices log-1.img,log-2.img --socket",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    let daemon = Daemon::serve(&scratch, "log.img", &TURNED);
    write_all(&daemon, 10);
    let report = run_json(&scratch, &["status", "log.img"]);
    let roles: Vec<_> =
        report["devices"].as_array().unwrap().iter().map(|device| &device["role"]).collect();
    assert_eq!(roles, ["log", "data", "data", "log", "log"]);
    let disks = report["state"]["log_disks"].as_array().unwrap();
    assert!(disks.len() == 3 && disks.iter().all(|disk| disk["state"] == "in use"), "{disks:?}");
    let text = run_ok(&scratch, &["status", "log.img"]);
    assert!(text.contains("log disk    2: in use"), "{text}");
    daemon.stop_ok();
}

#[test]
fn one_that_is_missing_after_an_orderly_stop_is_done_without_and_told_of() {
    let scratch = Scratch::new("logs-missing");
    made(&scratch);
    let daemon = Daemon::serve(&scratch, "log.img", &BESIDE);
    write_all(&daemon, 40);
    run_ok(&scratch, &["drain", "log.img"]);
    daemon.stop_ok();
    let without = |one: &'static str| {
        let logs = if one == "log-1.img" { "missing,log-2.img" } else { "log-1.img,missing" };
        vec!["--data-devices", "data-0.img,data-1.img", "--log-devices", logs]
    };
    // The one of the newest record is needed, of the others none.
    let opens = |one: &&'static str| {
        let mut words = vec!["drain", "log.img"];
        words.extend(without(one));
        common::run(&scratch, &words).status.success()
    };
    let served = ["log-1.img", "log-2.img"].into_iter().find(opens);
    let one = served.expect("one of two holds no newest record");
    let daemon = Daemon::serve(&scratch, "log.img", &without(one));
    expect_all(&daemon, 40);
    let text = String::from_utf8(common::run(&scratch, &["status", "log.img"]).stdout).unwrap();
    assert!(text.contains("lost") && text.contains("degraded"), "{text}");
    write_all(&daemon, 40);
    daemon.stop_ok();
    let daemon = Daemon::serve(&scratch, "log.img", &BESIDE);
    expect_all(&daemon, 40);
    daemon.stop_ok();
}

#[test]
fn devices_that_are_not_named_and_what_does_not_go_together_is_refused() {
    let scratch = Scratch::new("logs-misuse");
    made(&scratch);
    let some = [
        "check",
        "log.img",
        "--data-devices",
        "data-0.img,data-1.img",
        "--log-devices",
        "log-1.img",
    ];
    run_fails(&scratch, &some, &["log device 2 was not named", "--log-devices"]);
    let gecko =
        ["create", "a.img", "--size", "64MiB", "--preset", "gecko", "--log-devices", "b.img"];
    run_fails(&scratch, &gecko, &["--log-devices: expected preset trail", "found gecko"]);
    let no_data = ["create", "a.img", "--size", "64MiB", "--log-devices", "b.img"];
    run_fails(&scratch, &no_data, &["expected --data-devices"]);
    let twice = [
        "check",
        "log.img",
        "--data-devices",
        "data-0.img,data-1.img",
        "--log-devices",
        "log-1.img,data-1.img",
    ];
    run_fails(&scratch, &twice, &["to be the same one"]);
}

#[test]
fn what_is_known_of_each_log_device_is_kept_on_it() {
    let scratch = Scratch::new("logs-tracks");
    let own = "model:st3146855fc,file=log.disk,cache=off";
    let further = "model:st3146855fc,file=more.disk,cache=off";
    let beside = ["--data-devices", "data-0.img", "--log-devices", further];
    let words = ["create", own, "--data-size", "96MiB"];
    run_ok(&scratch, &[&words[..], &beside].concat());
    run_ok(&scratch, &["calibrate", "model:st3146855fc,cache=off", "--out", "found.toml"]);
    run_ok(&scratch, &["calibrate", own, "--known", "found.toml", "--store"]);
    let said = run_ok(&scratch, &["calibrate", further, "--known", "found.toml", "--store"]);
    assert!(said.contains("kept on this device of its volume"), "{said}");
    let report = run_json(&scratch, &[&["status", own][..], &beside].concat());
    for disk in report["state"]["log_disks"].as_array().unwrap() {
        assert!(disk["tracks"]["zones"].as_u64() > Some(0), "{report}");
    }
}
