//! `serve --durable-p99`: what a daemon says of a target for durable writes, and of one that it cannot have.

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
    let args = ["serve", "bare.img", "--socket", "s", "--durable-p99", "5ms"];
    run_fails(&scratch, &args, &["--durable-p99", "a volume with logs", "nolog"]);
}
