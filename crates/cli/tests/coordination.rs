//! Two daemons whose volumes are replicas of each other, and a real ZooKeeper: a checkpoint that can wait waits while
//! somebody else has the only permit, one that is asked for does not, and a daemon that is killed is in nobody's way
//! for longer than its session.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
#[path = "../../coordinate/tests/support/mod.rs"]
mod zookeeper;

use common::nbd::Client;
use common::{Daemon, Scratch, run_json, run_ok};
use nearhead_coordinate::{Config, Identity, Lease};
use serde_json::Value;
use std::time::Duration;
use zookeeper::{Folder, Server, await_that};

const PATH: &str = "/nearhead/replicas";
const IDENTITY: &str = "digest replicas:s3cret";
const WRITES: u64 = 20;

/// A served volume that brings blocks home as soon as nobody asks for anything, if it has a permit.
fn replica(server: &Server) -> (Scratch, Daemon) {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let scratch = Scratch::new(&format!("replica-{number}"));
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB", "--group-size", "8MiB"]);
    let place = format!("zk://{}{PATH}", server.address());
    let identity = scratch.path("identity");
    std::fs::write(&identity, IDENTITY).unwrap();
    let identity = identity.to_str().unwrap();
    let options = [
        "--checkpoint-idle",
        "1ms",
        "--checkpoint-coordinate",
        &place,
        "--checkpoint-identity",
        identity,
    ];
    let daemon = Daemon::serve(&scratch, "a.img", &options);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for number in 0..WRITES {
        client.write(number << 16, &[number as u8; 4096], true);
    }
    (scratch, daemon)
}

fn status(scratch: &Scratch) -> Value {
    run_json(scratch, &["status", "a.img"])
}

/// How many pieces are in the volume's logs, and what it says of its turns.
fn logged_and_turns(scratch: &Scratch) -> (u64, Value) {
    let status = status(scratch);
    let entries = status["state"]["map_entries"].as_u64().unwrap();
    (entries, status["served"]["coordination"].clone())
}

fn is_waiting(scratch: &Scratch) -> bool {
    let (entries, turns) = logged_and_turns(scratch);
    assert_eq!(entries, WRITES, "nothing goes home without a permit: {turns}");
    turns["state"] == "waiting" && turns["ahead"].as_u64().unwrap() > 0
}

fn is_home(scratch: &Scratch) -> bool {
    logged_and_turns(scratch).0 == 0
}

#[test]
fn replicas_bring_blocks_home_one_after_the_other_and_a_killed_one_is_passed_over() {
    let folder = Folder::new("daemons");
    let Some(server) = Server::start(&folder.0) else { return };
    let config = Config {
        servers: server.address(),
        path: PATH.to_owned(),
        permits: 1,
        holder: "a test".to_owned(),
        session_timeout: Duration::from_secs(10),
        identity: Some(Identity::parse(IDENTITY).unwrap()),
    };
    let other = Lease::start(config, |_: &str| {}).unwrap();
    await_that("the only permit", || other.exchange(true));
    let (first, first_daemon) = replica(&server);
    await_that("the first replica to wait", || is_waiting(&first));
    let (second, _second_daemon) = replica(&server);
    let (third, _third_daemon) = replica(&server);
    await_that("the others to wait", || is_waiting(&second) && is_waiting(&third));
    // What somebody asks for is needed.
    run_ok(&third, &["checkpoint", "a.img"]);
    assert!(is_home(&third) && is_waiting(&second) && other.exchange(true));
    // The one that is before the second in the queue goes away without a word.
    first_daemon.kill();
    assert!(!other.exchange(false));
    await_that("the second replica's turn", || is_home(&second));
    let (_, turns) = logged_and_turns(&second);
    assert!(turns["permits_granted"].as_u64().unwrap() >= 1, "{turns}");
    await_that("its permit to be given back", || other.exchange(true));
    assert_eq!(status(&second)["state"]["phase"], "serving");
}
