//! `nearhead calibrate` as a user runs it. How near it comes to the truth is tested where it is written.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Scratch, run};
use serde_json::Value;
use std::fs;

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_emulated_drive_is_told_at_once_on_the_terminal_as_json_and_as_a_file() {
    let scratch = Scratch::new("calibrate");
    let model = "model:st3146855fc";
    let out = run(&scratch, &["calibrate", model, "--scratch", "64MiB"]);
    assert!(out.status.success(), "{}", told(&out.stderr));
    let shown = told(&out.stdout);
    assert!(shown.contains("one revolution takes 3.9953 ms, 15017.5 a minute"), "{shown}");
    assert!(shown.contains("a write begins") && shown.contains("1200   0.1417"), "{shown}");
    assert!(told(&out.stderr).contains("100 %"), "{}", told(&out.stderr));
    let out = run(&scratch, &["calibrate", model, "--json", "--out", "drive.toml"]);
    let report: Value = common::json::parse(&out.stdout).unwrap();
    assert_eq!((&report["turns"], &report["why_not"]), (&true.into(), &Value::Null));
    assert!(report["zones"].as_array().unwrap().len() > 10, "{report}");
    let file = fs::read_to_string(scratch.path("drive.toml")).unwrap();
    assert!(file.contains("[turning]") && file.contains("sectors_per_track = 1200"), "{file}");
}

#[test]
fn of_flash_and_of_a_file_it_says_that_there_is_nothing_to_learn() {
    let scratch = Scratch::new("calibrate-nothing");
    fs::write(scratch.path("plain.img"), vec![1; 32 << 20]).unwrap();
    for target in ["model:flash-8ch-550gb", "plain.img"] {
        let out = run(&scratch, &["calibrate", target, "--json"]);
        assert!(out.status.success(), "{target}: {}", told(&out.stderr));
        let report: Value = common::json::parse(&out.stdout).unwrap();
        assert_eq!(report["turns"], false, "{target}: {report}");
        let why_not = report["why_not"].as_str().unwrap();
        // A file is read in real time: where others keep the machine busy, what is far may seem to be as near as memory.
        let is_told = why_not.contains("nothing turns here")
            || (target == "plain.img" && why_not.contains("comes from memory"));
        assert!(is_told, "{report}");
    }
}

#[test]
fn nothing_that_stands_on_a_device_is_overwritten_unless_it_is_said_to_be() {
    let scratch = Scratch::new("calibrate-scratch");
    let mut image = vec![0; 32 << 20];
    image[(20 << 20) + 7] = 1;
    fs::write(scratch.path("plain.img"), &image).unwrap();
    let out = run(&scratch, &["calibrate", "plain.img", "--scratch", "24MiB"]);
    assert!(!out.status.success());
    let problem = told(&out.stderr);
    assert!(problem.contains("found something else at byte 20971527"), "{problem}");
    assert_eq!(fs::read(scratch.path("plain.img")).unwrap(), image);
    let out = run(&scratch, &["calibrate", "plain.img", "--scratch", "33MiB", "--force"]);
    assert!(told(&out.stderr).contains("has 33554432 bytes, found 0 to 34603008"), "{out:?}");
}

#[test]
fn what_was_found_is_kept_in_a_volume_that_makes_use_of_it_and_shown_by_its_status() {
    let scratch = Scratch::new("calibrate-store");
    run(&scratch, &["calibrate", "model:constellation-es3-1tb", "--out", "drive.toml"]);
    for preset in ["nearhead", "mlb"] {
        let image = format!("{preset}.img");
        let out = run(&scratch, &["create", &image, "--size", "64MiB", "--preset", preset]);
        assert!(out.status.success(), "{}", told(&out.stderr));
        let out = run(&scratch, &["calibrate", &image, "--known", "drive.toml", "--store"]);
        let (shown, problem) = (told(&out.stdout), told(&out.stderr));
        assert_eq!(out.status.success(), preset == "nearhead", "{shown}{problem}");
        if preset == "nearhead" {
            assert!(shown.contains("kept in the volume"), "{shown}");
        } else {
            assert!(problem.contains("found mlb"), "{problem}");
        }
    }
    // An image is no disk that turns, unless somebody says so.
    let out = run(&scratch, &["status", "nearhead.img", "--json"]);
    let report: Value = common::json::parse(&out.stdout).unwrap();
    assert_eq!(report["state"]["tracks"], Value::Null, "{report}");
    let out = run(&scratch, &["status", "nearhead.img", "--json", "--rotational", "true"]);
    let report: Value = common::json::parse(&out.stdout).unwrap();
    assert_eq!(report["state"]["tracks"]["zones"], 16, "{report}");
    fs::write(scratch.path("other.toml"), "target = \"x\"").unwrap();
    let out = run(&scratch, &["calibrate", "nearhead.img", "--known", "other.toml", "--store"]);
    assert!(told(&out.stderr).contains("--known other.toml"), "{out:?}");
}

#[test]
fn members_of_an_array_are_calibrated_each_and_kept_together() {
    let scratch = Scratch::new("calibrate-array");
    for (name, model) in [("a", "constellation-es3-1tb"), ("b", "st3146855fc")] {
        let (model, out) = (format!("model:{model}"), format!("{name}.toml"));
        run(&scratch, &["calibrate", &model, "--out", &out]);
        let image = fs::File::create(scratch.path(&format!("{name}.img"))).unwrap();
        image.set_len(64 << 20).unwrap();
    }
    let array = "raid0:a.img,b.img";
    let out = run(&scratch, &["create", array]);
    assert!(out.status.success(), "{}", told(&out.stderr));
    let problem = |args: &[&str]| {
        let out = run(&scratch, args);
        assert!(!out.status.success(), "{args:?}");
        told(&out.stderr)
    };
    let whole = problem(&["calibrate", array]);
    assert!(whole.contains("calibrate each of them"), "{whole}");
    let one = problem(&["calibrate", array, "--known", "a.toml", "--store"]);
    assert!(one.contains("each of 2 drives, in their order, found 1"), "{one}");
    let socket = scratch.path("s.sock");
    let socket = socket.to_str().unwrap();
    let one = problem(&["serve", array, "--socket", socket, "--calibration", "a.toml"]);
    assert!(one.contains("expected a file for each drive, 2 in their order, found 1"), "{one}");
    let both = ["calibrate", array, "--known", "a.toml", "--known", "b.toml", "--store"];
    let out = run(&scratch, &both);
    assert!(told(&out.stdout).contains("kept in the volume"), "{}", told(&out.stderr));
    let out = run(&scratch, &["check", array]);
    assert!(out.status.success(), "{}{}", told(&out.stdout), told(&out.stderr));
}
