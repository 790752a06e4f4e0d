//! `--durable-p99` and `--bulk-share`: what a daemon says of a target for durable writes or a share for bulk, and of one that it cannot have.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};

#[test]
fn a_target_for_durable_writes_is_told_with_what_was_slower_and_how_far_bulk_gives_way() {
    let scratch = Scratch::new("target");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let report = run_json(&scratch, &["status", "a.img"]);
    assert!(report["state"]["durable_target"].is_null(), "nobody asked: {report}");
    daemon.stop_ok();
    // No disk is so fast, so that all are slower.
    let daemon = Daemon::serve(&scratch, "a.img", &["--durable-p99", "0.001ms"]);
    let mut client = Client::connect(&scratch.path("nbd.sock")).unwrap();
    for number in 0..8 {
        client.write(4096 * number, &[1; 4096], true);
    }
    let target = run_json(&scratch, &["status", "a.img"])["state"]["durable_target"].clone();
    assert_eq!((&target["slower"], &target["counted"]), (&8.into(), &8.into()), "{target}");
    assert_eq!(target["step"], target["step_max"], "{target}");
    let shown = run_ok(&scratch, &["status", "a.img"]);
    assert!(shown.contains("8 of 8 took longer; bulk gives way as far as it can"), "{shown}");
    daemon.stop_ok();
    let daemon = Daemon::serve(&scratch, "a.img", &["--durable-p99", "0"]);
    let report = run_json(&scratch, &["status", "a.img"]);
    assert!(report["state"]["durable_target"].is_null(), "0 is no target: {report}");
    daemon.stop_ok();
    run_ok(&scratch, &["create", "bare.img", "--size", "64MiB", "--preset", "nolog"]);
    for option in [["--durable-p99", "5ms"], ["--bulk-share", "90"]] {
        let args = [&["serve", "bare.img", "--socket", "s"], &option[..]].concat();
        run_fails(&scratch, &args, &[option[0], "a volume with logs"]);
    }
}

#[test]
fn a_share_for_bulk_is_told_and_is_no_target_at_the_same_time() {
    let scratch = Scratch::new("share");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &["--bulk-share", "90"]);
    let mut client = Client::connect(&scratch.path("nbd.sock")).unwrap();
    client.write(0, &[1; 4096], true);
    assert_eq!(run_json(&scratch, &["status", "a.img"])["state"]["bulk_share_pct"], 90);
    let shown = run_ok(&scratch, &["status", "a.img"]);
    assert!(shown.contains("90 % of the disk's time, while there is any"), "{shown}");
    daemon.stop_ok();
    let daemon = Daemon::serve(&scratch, "a.img", &["--bulk-share", "0"]);
    let report = run_json(&scratch, &["status", "a.img"]);
    assert!(report["state"]["bulk_share_pct"].is_null(), "0 is no share: {report}");
    daemon.stop_ok();
    let both = ["--bulk-share", "90", "--durable-p99", "5ms"];
    let args = [&["serve", "a.img", "--socket", "s"], &both[..]].concat();
    run_fails(&scratch, &args, &["--bulk-share", "found both"]);
    std::fs::write(scratch.path("v.toml"), "target = \"a.img\"\nbulk_share = 100\n").unwrap();
    run_fails(&scratch, &["serve", "--config", "v.toml"], &["bulk_share", "0 to 99", "100"]);
}
