//! A program that hears when sides of a mirror rest, run by the real daemon: what it is told, what is told of it, and that nothing it does
//! is noticed by clients.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, ask, nearhead, run, run_fails, run_ok, script};

const MIRROR: &str = "mirror:a.img,b.img";

fn made(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    for side in ["a.img", "b.img"] {
        std::fs::File::create(scratch.path(side)).unwrap().set_len(65 << 20).unwrap();
    }
    run_ok(&scratch, &["create", MIRROR]);
    scratch
}

/// A program that notes what it is told, and then does this.
fn program(scratch: &Scratch, then: &str) -> String {
    let path = scratch.text("program");
    let text = format!("#!/bin/sh\necho \"$1 $2\" >> {}\n{then}\n", scratch.text("told"));
    script(path.as_ref(), &text);
    path
}

fn told(scratch: &Scratch) -> Vec<String> {
    let text = std::fs::read_to_string(scratch.path("told")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn served(scratch: &Scratch, program: &str) -> Daemon {
    let flags = ["--rest-mirrors", "20ms", "--rest-command", program, "--control", "own.sock"];
    Daemon::serve(scratch, MIRROR, &flags)
}

/// The sides, once all of them are so.
fn awaited(
    scratch: &Scratch,
    are_so: impl Fn(&serde_json::Value) -> bool,
) -> Vec<serde_json::Value> {
    loop {
        let output = run(scratch, &["status", "--json", MIRROR]);
        let status: serde_json::Value = common::json::parse(&output.stdout).unwrap();
        let sides = status["devices"][0]["sides"].as_array().unwrap();
        if sides.iter().all(&are_so) {
            return sides.clone();
        }
    }
}

fn runs(side: &serde_json::Value) -> u64 {
    side["command"]["runs"].as_u64().unwrap_or(0)
}

#[test]
fn a_program_hears_when_a_side_rests_and_when_it_is_woken_and_is_told_of() {
    let scratch = made("rest-told");
    let program = program(&scratch, "");
    let daemon = served(&scratch, &program);
    awaited(&scratch, |side| runs(side) == 1);
    let sides = |event: &str| [format!("{event} a.img"), format!("{event} b.img")];
    let mut heard = told(&scratch);
    heard.sort_unstable();
    assert_eq!(heard, sides("rest"));
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(4096, &[7; 4096], true);
    assert_eq!(client.read(4096, 4096), [7; 4096]);
    // They may rest again before anybody looks: then that is all that is told.
    let found = awaited(&scratch, |side| runs(side) >= 2 && side["is_resting"] == true);
    for side in &found {
        assert!(side["resting_s"].as_f64().unwrap() <= side["rested_s"].as_f64().unwrap());
        assert!(side["woken_by"]["write"].as_u64().unwrap() > 0, "{side}");
        assert_eq!(
            side["woken_by"]["cleaning"].as_u64().unwrap()
                + side["woken_by"]["alike"].as_u64().unwrap(),
            0
        );
        assert_eq!(side["command"]["failed"], 0, "{side}");
    }
    let text = run_ok(&scratch, &["status", MIRROR]);
    assert_eq!(text.matches("resting for").count(), 2, "{text}");
    assert!(text.contains("times (write ") && !text.contains("its program"), "{text}");
    let metrics = ask(scratch.path("own.sock"), "metrics");
    let metrics = metrics["ok"].as_str().unwrap();
    for part in [
        "nearhead_side_rested_seconds_total{",
        "lane=\"0\",side=\"1\",disk=\"b.img\",by=\"write\"}",
        "nearhead_side_commands_total{",
        "nearhead_side_commands_failed_total{",
    ] {
        assert!(metrics.contains(part), "{part:?} is missing in {metrics}");
    }
    daemon.stop_ok();
}

#[test]
fn a_program_that_fails_hangs_or_is_not_there_is_told_once_and_costs_nobody_anything() {
    for (name, then, problem) in [
        ("rest-fails", Some("echo 'no such drive' >&2; exit 1"), "exit status: 1: no such drive"),
        ("rest-none", None, "it cannot be run: No such file or directory (os error 2)"),
    ] {
        let scratch = made(name);
        let program = then.map_or("/nowhere/at all".to_owned(), |then| program(&scratch, then));
        let daemon = served(&scratch, &program);
        let mut client = Client::connect(&daemon.socket).unwrap();
        for round in 1..4 {
            awaited(&scratch, |side| runs(side) >= round);
            client.write(4096, &[round as u8; 4096], true);
            assert_eq!(client.read(4096, 4096), [round as u8; 4096]);
        }
        let sides = awaited(&scratch, |side| side["command"]["problem"] == problem);
        assert!(
            sides.iter().all(|side| side["command"]["failed"].as_u64() >= Some(3)),
            "{sides:?}"
        );
        let text = run_ok(&scratch, &["status", MIRROR]);
        assert_eq!(text.matches(&format!("its program: {problem}")).count(), 2, "{text}");
        drop(client);
        let (status, _, journal) = daemon.stop();
        assert!(status.success(), "{journal}");
        assert_eq!(journal.matches(&format!("{problem}; it is served")).count(), 2, "{journal}");
        assert_eq!(journal.contains("expected a program that can be run"), then.is_none());
    }
}

#[test]
fn a_program_that_hangs_holds_nothing_up_and_ends_with_the_daemon() {
    let scratch = made("rest-hangs");
    let program = program(&scratch, "echo $$ > $0.$(basename $2); exec sleep 1000");
    let daemon = served(&scratch, &program);
    awaited(&scratch, |side| side["command"]["is_running"] == true);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for block in 0..100 {
        client.write(block * 4096, &[block as u8; 4096], true);
        assert_eq!(client.read(block * 4096, 4096), [block as u8; 4096]);
    }
    drop(client);
    let pid = |side: &str| std::fs::read_to_string(scratch.path(&format!("program.{side}")));
    let known = |side: &str| pid(side).is_ok_and(|pid| pid.ends_with('\n'));
    while !known("a.img") || !known("b.img") {
        std::thread::yield_now();
    }
    daemon.stop_ok();
    assert_eq!(told(&scratch).len(), 2, "one at a time for each");
    for side in ["a.img", "b.img"] {
        let stat = format!("/proc/{}/stat", pid(side).unwrap().trim());
        // Whoever took it over may not have waited for it yet.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_program_without_a_whole_path_is_refused_and_a_volume_file_may_name_one() {
    let scratch = made("rest-named");
    let command = ["serve", MIRROR, "--socket", "s.sock", "--rest-command", "hdparm -y"];
    let output = nearhead(&scratch, &command).output().unwrap();
    let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && refusal.contains("whole path"), "{refusal}");
    let text = |program: &str| {
        format!(
            "target = {MIRROR:?}\nsocket = \"nbd.sock\"\nrest_mirrors = \"20ms\"\nrest_command = {program:?}\n"
        )
    };
    std::fs::write(scratch.path("a.toml"), text("hdparm")).unwrap();
    run_fails(&scratch, &["serve", "--config", "a.toml"], &["line 4", "whole path", "\"hdparm\""]);
    std::fs::write(scratch.path("a.toml"), text(&program(&scratch, ""))).unwrap();
    let daemon = Daemon::spawn(&scratch, &["serve", "--config", "a.toml"]);
    awaited(&scratch, |side| runs(side) == 1);
    assert_eq!(told(&scratch).len(), 2);
    let set = ["set", MIRROR, "rest_command=/bin/true"];
    run_fails(&scratch, &set, &["rest_command"]);
    daemon.stop_ok();
}
