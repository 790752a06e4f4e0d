//! Errors of the disk are told: in the log, by `status` for people and programs, in metrics, and by the
//! exit codes of `serve` and `status`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::{Client, Kind};
use common::{Daemon, Scratch, ask, run, run_fails, run_ok, tool, tools};
use serde_json::Value;
use std::path::PathBuf;

/// `status --json` and its exit code.
fn status(scratch: &Scratch, target: &str) -> (Value, Option<i32>) {
    let output = run(scratch, &["status", target, "--json"]);
    let report =
        common::json::parse(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (report, output.status.code())
}

#[test]
fn a_disk_that_fails_is_told_of_and_ends_with_an_exit_code() {
    let scratch = Scratch::new("eio");
    let (socket, control) = (scratch.text("disk.sock"), scratch.path("disk.control"));
    let model = "model:st3146855fc,cache=on";
    let shown = control.to_str().unwrap();
    let args = ["disk", "serve", model, "--socket", &socket, "--control", shown];
    let _disk = Daemon::spawn(&scratch, &args);
    let target = format!("nbd+unix:///?socket={socket}");
    run_ok(&scratch, &["create", &target, "--preset", "mlb", "--group-size", "1GiB"]);
    let mut daemon =
        Daemon::serve(&scratch, &target, &["--shutdown-max", "5s", "--control", "own.sock"]);
    let (report, code) = status(&scratch, &target);
    assert_eq!((report["health"]["state"].as_str(), code), (Some("well"), Some(0)), "{report}");

    ask(&control, "power-off 7");
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert!(client.try_read(1 << 30, 4096).is_err());
    daemon.wait_for_notice("disk error while reading 4096 bytes at device byte");
    let (report, code) = status(&scratch, &target);
    assert_eq!((report["health"]["state"].as_str(), code), (Some("degraded"), Some(2)), "{report}");
    let counts = report["disk_errors"]["counts"].as_array().unwrap();
    assert!(counts.iter().any(|one| one["work"] == "read" && one["kind"] == "io"), "{report}");
    assert_eq!(report["disk_errors"]["last"]["len_bytes"], 4096, "{report}");
    let text = run(&scratch, &["status", &target]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("health      degraded: disk errors") && text.contains("s ago"), "{text}");
    let metrics = ask(scratch.path("own.sock"), "metrics");
    let metrics = metrics["ok"].as_str().unwrap();
    let read_errors = ",work=\"read\",kind=\"io\"} ";
    assert!(metrics.contains(read_errors), "{metrics}");
    let health = format!("nearhead_health{{volume=\"{target}\"}} 1");
    assert!(metrics.contains(&health), "{metrics}");
    assert!(!metrics.contains(&format!("{read_errors}0")), "{metrics}");

    // What must be durable and cannot be made so ends all changes.
    assert_ne!(client.run(Kind::Write, true, 0, 512, &[6; 512]).unwrap(), 0);
    daemon.wait_for_notice("the volume failed");
    let (report, code) = status(&scratch, &target);
    assert_eq!((report["health"]["state"].as_str(), code), (Some("failed"), Some(2)), "{report}");
    drop(client);
    let (status, told, problems) = daemon.stop();
    assert_eq!(status.code(), Some(1), "{told} {problems}");

    // Nobody is told to make or mend something where nothing can be read.
    for args in [&["check", &target][..], &["status", &target], &["repair", &target]] {
        let said =
            run_fails(&scratch, args, &["no sound superblock", "cannot be read", "kernel log"]);
        assert!(!said.contains("--lost-superblocks") && !said.contains("create"), "{said}");
    }
    let lost = ["repair", &target, "--lost-superblocks", "--dry-run"];
    run_fails(&scratch, &lost, &["found none (", "copied or replaced first"]);
}

/// A small file system in memory; unmounted in the end.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        if !tools(&["mount"]) {
            return None;
        }
        let size = format!("size={bytes}");
        let output = tool("mount", &["-t", "tmpfs", "-o", &size, "none", path.to_str().unwrap()]);
        if !output.status.success() {
            println!("skipped: mount: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        tool("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

#[test]
fn a_full_file_system_under_an_image_is_told_of() {
    let scratch = Scratch::new("enospc");
    let Some(_small) = Small::mount(scratch.path("small"), 16 << 20) else { return };
    run_ok(&scratch, &["create", "small/a.img", "--size", "256MiB"]);
    let mut daemon = Daemon::serve(&scratch, "small/a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let piece = vec![7; 1 << 20];
    let is_refused =
        |number: u64| client.run(Kind::Write, false, number << 20, 1 << 20, &piece).unwrap() == 28;
    assert!((0..32).any(is_refused), "32 MiB fit into 16");
    daemon.wait_for_notice("No space left on device");
    let (report, code) = status(&scratch, "small/a.img");
    assert_eq!(code, Some(2), "{report}");
    let counts = report["disk_errors"]["counts"].as_array().unwrap();
    assert!(counts.iter().any(|one| one["kind"] == "no-space"), "{report}");
}

#[test]
fn a_full_file_system_under_a_bare_disk_is_told_of() {
    let scratch = Scratch::new("bare-enospc");
    let Some(_small) = Small::mount(scratch.path("small"), 8 << 20) else { return };
    let control = scratch.path("c.sock");
    let model = "model:st3146855fc,file=small/disk.img";
    let socket = scratch.text("nbd.sock");
    let shown = control.to_str().unwrap();
    let args = ["disk", "serve", model, "--socket", &socket, "--control", shown];
    let mut disk = Daemon::spawn(&scratch, &args);
    assert_eq!(ask(&control, "errors")["ok"]["total"], 0);
    let mut client = Client::connect(&disk.socket).unwrap();
    let piece = vec![7; 1 << 20];
    let is_refused =
        |number: u64| client.run(Kind::Write, false, number << 20, 1 << 20, &piece).unwrap() == 28;
    assert!((0..32).any(is_refused), "32 MiB fit into 8");
    disk.wait_for_notice("disk error while writing in place");
    let report = ask(&control, "errors");
    let counts = report["ok"]["counts"].as_array().unwrap();
    let is_it = |one: &Value| one["work"] == "home-write" && one["kind"] == "no-space";
    assert!(counts.iter().any(is_it), "{report}");
    assert!(report["ok"]["last"]["device_offset"].is_u64(), "{report}");
}

#[test]
fn an_image_that_may_outgrow_its_file_system_is_told_of_by_create_serve_and_status() {
    let scratch = Scratch::new("sparse");
    let Some(_small) = Small::mount(scratch.path("small"), 16 << 20) else { return };
    let expected = "small/a.img may grow by";
    let made = run(&scratch, &["create", "small/a.img", "--size", "256MiB"]);
    assert!(String::from_utf8_lossy(&made.stderr).contains(expected), "{made:?}");
    let mut daemon = Daemon::serve(&scratch, "small/a.img", &[]);
    daemon.wait_for_notice(expected);
    let told = |report: &Value| report["served"]["disk_notes"].to_string().contains(expected);
    let (report, code) = status(&scratch, "small/a.img");
    assert!(told(&report) && code == Some(0), "a warning is no trouble yet: {report}");
    daemon.stop_ok();
    run_ok(&scratch, &["create", "b.img", "--size", "64MiB"]);
    let _daemon = Daemon::serve(&scratch, "b.img", &[]);
    let (report, _) = status(&scratch, "b.img");
    assert!(!report["served"]["disk_notes"].to_string().contains("may grow"), "{report}");
}
