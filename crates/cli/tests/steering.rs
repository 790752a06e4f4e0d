//! An operator's commands to what runs: all volumes at a glance, what one does from moment to moment, settings that change while it is
//! served, and a stop that says how it ended.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::mounts::{can_mount, mount, volume};
use common::nbd::Client;
use common::{Daemon, Scratch, nearhead, run, run_fails, run_json, run_ok};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};

const SMALL: [&str; 4] = ["create", "a.img", "--size", "64MiB"];

fn told(output: &Output) -> String {
    let all = [output.stdout.as_slice(), b"\n", &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// A daemon that serves `b.img` beside the one of `a.img`.
fn another(scratch: &Scratch) -> Daemon {
    run_ok(scratch, &["create", "b.img", "--size", "64MiB", "--preset", "mlb"]);
    Daemon::spawn(scratch, &["serve", "b.img", "--socket", "b.sock", "--control", "own.sock"])
}

#[test]
fn status_without_a_target_lists_every_volume_once_and_a_socket_that_a_killed_daemon_left() {
    let scratch = Scratch::new("list");
    run_ok(&scratch, &SMALL);
    let first = Daemon::serve(&scratch, "a.img", &[]);
    let second = another(&scratch);
    let list = run(&scratch, &["status", "--json"]);
    let list: serde_json::Value = common::json::parse(&list.stdout).unwrap();
    // Others may serve volumes on this machine while this test runs.
    let volumes = list["volumes"].as_array().unwrap();
    let ours = |name: &str| {
        let found: Vec<_> = volumes.iter().filter(|one| one["target"] == name).collect();
        found
            .into_iter()
            .filter(|one| one["pid"] == first.pid() || one["pid"] == second.pid())
            .cloned()
            .collect::<Vec<_>>()
    };
    let (a, b) = (ours("a.img"), ours("b.img"));
    assert_eq!((a.len(), b.len()), (1, 1), "{list}");
    assert_eq!((&a[0]["preset"], &b[0]["preset"]), (&"nearhead".into(), &"mlb".into()));
    assert_eq!(a[0]["health"], "well");
    assert!(b[0]["control"].as_str().unwrap().ends_with("own.sock"), "{list}");
    let text = told(&run(&scratch, &["status"]));
    assert!(text.contains("TARGET") && text.contains("a.img") && text.contains("b.img"), "{text}");

    second.kill();
    let own = scratch.text("own.sock");
    assert_eq!(listed_as_stale(&scratch, &own), Some(true), "nobody listens there");
    let told = run(&scratch, &["status"]);
    let problems = String::from_utf8(told.stderr).unwrap();
    // Others may have left some, too.
    let is_named = problems.contains("own.sock") || problems.contains(" control sockets: ");
    assert!(is_named && problems.contains("nothing is served there any more"), "{problems}");
    assert!(scratch.path("own.sock").exists(), "who looks removes nothing");
    // The next one on that disk takes its place.
    let third = another_again(&scratch);
    assert_eq!(listed_as_stale(&scratch, &own), None);
    third.stop_ok();
    first.stop_ok();
}

/// Whether a control socket that gave no answer is one that nobody listens on; none if it is not among those. Such sockets do not count for the
/// exit code, whatever else is on this machine.
fn listed_as_stale(scratch: &Scratch, control: &str) -> Option<bool> {
    let output = run(scratch, &["status", "--json"]);
    let list: serde_json::Value = common::json::parse(&output.stdout).unwrap();
    let unanswered = list["unanswered"].as_array().unwrap();
    let silent = unanswered.iter().any(|one| one["is_stale"] == false);
    let is_well = list["volumes"].as_array().unwrap().iter().all(|one| one["health"] == "well")
        && list["attached"].as_array().unwrap().is_empty();
    let expected = match (is_well, silent) {
        (false, _) => 2,
        (true, true) => 1,
        (true, false) => 0,
    };
    assert_eq!(output.status.code(), Some(expected), "{list}");
    unanswered.iter().find(|one| one["control"] == control)?["is_stale"].as_bool()
}

#[test]
fn a_daemon_that_listens_and_does_not_answer_is_no_news_of_its_volume() {
    let scratch = Scratch::new("silent");
    std::fs::create_dir(scratch.path("run")).unwrap();
    let path = scratch.text("run/silent.control");
    let listener = UnixListener::bind(&path).unwrap();
    // It takes the connection, and hangs up.
    let hanging_up = std::thread::spawn(move || drop(listener.accept().unwrap()));
    assert_eq!(listed_as_stale(&scratch, &path), Some(false));
    hanging_up.join().unwrap();
    assert_eq!(listed_as_stale(&scratch, &path), Some(true), "nobody listens any more");
}

#[test]
fn a_list_that_may_lack_volumes_says_so() {
    let scratch = Scratch::new("cut");
    let folder = scratch.path("run");
    std::fs::create_dir(&folder).unwrap();
    let named = |number: usize| folder.join(format!("file-{number:x}-0.control"));
    (0..1024).for_each(|number| std::fs::write(named(number), "").unwrap());
    let is_cut_short = || {
        let output = run(&scratch, &["status", "--json"]);
        let list: serde_json::Value = common::json::parse(&output.stdout).unwrap();
        let folders = list["cut_short"].as_array().unwrap();
        let is_named = folders.iter().any(|one| one == folder.to_str().unwrap());
        assert!(!is_named || output.status.code() != Some(0), "{}", told(&output));
        is_named
    };
    assert!(!is_cut_short(), "all of them were looked at");
    std::fs::write(named(1024), "").unwrap();
    assert!(is_cut_short());
    let problems = told(&run(&scratch, &["status"]));
    let expected = format!("{}: expected at most 1024", folder.display());
    assert!(problems.contains(&expected) && problems.contains("name a volume"), "{problems}");
    let parts = ["status --watch: expected a TARGET", "at most 1024 control sockets"];
    run_fails(&scratch, &["status", "--watch"], &parts);
}

fn another_again(scratch: &Scratch) -> Daemon {
    Daemon::spawn(scratch, &["serve", "b.img", "--socket", "b.sock", "--control", "own.sock"])
}

#[test]
fn watching_gives_a_line_for_each_interval_of_what_happened_in_it_and_ends_well_at_ctrl_c() {
    let scratch = Scratch::new("watch");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let args = ["status", "a.img", "--json", "--watch", "0.1"];
    let child = nearhead(&scratch, &args).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || common::json::parse(lines.next().unwrap().unwrap());
    let first = next().unwrap();
    assert_eq!((&first["target"], &first["health"]), (&"a.img".into(), &"well".into()));
    assert_eq!(first["durable"]["p99_ms"], serde_json::Value::Null, "{first}");
    client.write(0, &[7; 4096], true);
    // One of the intervals that follow is that of the write, and no other.
    let (mut writes, mut logged) = (0.0, 0.0);
    while writes == 0.0 {
        let line = next().unwrap();
        let of = |name: &str| line[name].as_f64().unwrap() * line["interval_s"].as_f64().unwrap();
        (writes, logged) = (of("writes_per_s"), of("logged_bytes_per_s"));
        assert_eq!(line["durable"]["p99_ms"].is_null(), writes == 0.0, "{line}");
    }
    assert!((writes - 1.0).abs() < 1e-6 && (logged - 4096.0).abs() < 1e-3, "{writes} {logged}");
    let after = next().unwrap();
    assert_eq!(after["writes_per_s"], 0.0, "{after}");
    assert!(!after["log_map"]["cells"].as_array().unwrap().is_empty(), "{after}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(client);
    daemon.stop_ok();
}

#[test]
fn watching_needs_somebody_who_serves_and_says_so() {
    let scratch = Scratch::new("unwatched");
    run_ok(&scratch, &SMALL);
    run_fails(&scratch, &["status", "a.img", "--watch"], &["found none", "leave --watch out"]);
    let wrong = run(&scratch, &["status", "--watch", "a.img"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(told(&wrong).contains("a target goes before --watch"), "{}", told(&wrong));
}

#[test]
fn a_setting_is_changed_while_it_is_served_and_told_with_what_it_was() {
    let scratch = Scratch::new("set");
    run_ok(&scratch, &SMALL);
    run_fails(&scratch, &["set", "a.img", "watermark=50"], &["found nobody", "volume file"]);
    let mut daemon = Daemon::serve(&scratch, "a.img", &["--checkpoint-idle", "10m"]);
    let list = run_ok(&scratch, &["set", "a.img"]);
    assert!(list.contains("checkpoint_idle") && list.contains("10m"), "{list}");
    assert!(run_json(&scratch, &["status", "a.img"])["state"]["durable_target"].is_null());
    let said = run_ok(&scratch, &["set", "a.img", "durable_p99=15ms", "checkpoint-idle=20m"]);
    assert_eq!(said, "durable_p99: 15ms, was 0\ncheckpoint_idle: 20m, was 10m\n");
    let status = run_json(&scratch, &["status", "a.img"]);
    assert_eq!(status["state"]["durable_target"]["p99_ms"], 15.0, "{status}");
    daemon.wait_for_notice("set durable_p99: from 0 to 15ms");
    let refused = ["expected one of durable_p99", "found \"ack\"", "a stop and a start"];
    run_fails(&scratch, &["set", "a.img", "ack=durable"], &refused);
    run_fails(&scratch, &["set", "a.img", "bulk_share=50"], &["no --durable-p99 with it"]);
    // A pass when nobody asks anything is one that a setting can bring about.
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &[7; 4096], true);
    run_ok(&scratch, &["set", "a.img", "checkpoint_idle=1ms"]);
    let passes = || run_json(&scratch, &["status", "a.img"])["state"]["last_pass"].clone();
    let mut pass = passes();
    while pass["copied_bytes"] != 4096 {
        pass = passes();
    }
    assert_eq!(pass["reason"], "idle", "{pass}");
    drop(client);
    daemon.stop_ok();
}

#[test]
fn a_setting_of_a_mount_is_changed_as_that_of_a_served_volume_and_stop_ends_it() {
    let scratch = Scratch::new("set-mount");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let folder_name = folder.to_str().unwrap();
    let said = run_ok(&scratch, &["set", folder_name, "bulk_share=25"]);
    assert_eq!(said, "bulk_share: 25, was 0\n");
    let status = run_json(&scratch, &["status", &image]);
    assert_eq!(status["state"]["bulk_share_pct"], 25, "{status}");
    std::fs::write(folder.join("a"), "written").unwrap();
    run_ok(&scratch, &["stop", folder_name]);
    let (status, _, problems) = daemon.into_daemon().wait();
    assert!(status.success(), "{problems}");
    assert!(!folder.join("a").exists(), "it is mounted still");
}

#[test]
fn stop_waits_for_the_end_and_says_how_it_ended() {
    let scratch = Scratch::new("stop");
    run_ok(&scratch, &SMALL);
    run_fails(&scratch, &["stop", "a.img"], &["found nobody"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    Client::connect(&daemon.socket).unwrap().write(0, &[7; 4096], true);
    let said = run_ok(&scratch, &["stop", "a.img"]);
    assert_eq!(said, "stopped a.img: everything is durable\n");
    let (status, _, problems) = daemon.wait();
    assert!(status.success(), "{problems}");
    assert_eq!(run_json(&scratch, &["status", "a.img"])["state"]["phase"], "at rest");

    // An end that promises less is no success.
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    std::fs::remove_file(scratch.path("a.img")).unwrap();
    let target = ["stop", "a.img", "--control"];
    let control = run_json_list(&scratch, daemon.pid());
    let args = [&target[..], &[control.as_str()]].concat();
    run_fails(&scratch, &args, &["it stopped", "deleted"]);
    assert!(!daemon.wait().0.success());
}

/// The control socket of the daemon with this process number.
fn run_json_list(scratch: &Scratch, pid: u32) -> String {
    let list = run(scratch, &["status", "--json"]);
    let list: serde_json::Value = common::json::parse(&list.stdout).unwrap();
    let volumes = list["volumes"].as_array().unwrap();
    let ours = volumes.iter().find(|one| one["pid"] == pid).unwrap();
    ours["control"].as_str().unwrap().to_owned()
}
