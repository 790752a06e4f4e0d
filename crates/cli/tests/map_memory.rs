//! The map of a chain in pages, with the real program: told of, right after a stop and after a kill, and the same volume without.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};
use serde_json::Value;

const PIECE: u64 = 64 << 10;
const PIECES: u64 = 400;
const CHAIN: [&str; 2] = ["--chain", "a.img,b.img"];

fn content(piece: u64, version: u64) -> Vec<u8> {
    (piece ^ version << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes()
        .repeat(PIECE as usize / 8)
}

fn served(scratch: &Scratch, memory: &[&str]) -> Daemon {
    let socket = scratch.text("nbd.sock");
    Daemon::spawn(scratch, &[&["serve", "--socket", &socket], &CHAIN[..], memory].concat())
}

fn status(scratch: &Scratch) -> Value {
    run_json(scratch, &[&["status"], &CHAIN[..]].concat())
}

/// Of every second piece the second version.
fn read_all(daemon: &Daemon) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for piece in 0..PIECES {
        let expected = content(piece, piece % 2);
        assert_eq!(client.read(piece * PIECE, PIECE as u32), expected, "piece {piece}");
    }
}

#[test]
fn a_map_that_does_not_fit_its_memory_is_paged_and_status_tells_of_it() {
    let scratch = Scratch::new("map-memory");
    let sizes = ["--size", "256MiB", "--data-size", "64MiB"];
    run_ok(&scratch, &[&["create"], &CHAIN[..], &sizes[..]].concat());
    let paged = ["--map-memory", "1MiB"];
    let daemon = served(&scratch, &paged);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for piece in 0..PIECES {
        client.write(piece * PIECE, &content(piece, 0), false);
    }
    client.flush();
    drop(client);
    daemon.stop_ok();

    let daemon = served(&scratch, &paged);
    let found = &status(&scratch)["state"]["paged_map"];
    assert_eq!(found["paged_entries"].as_u64(), Some(PIECES * PIECE / 4096), "{found}");
    let mut client = Client::connect(&daemon.socket).unwrap();
    for piece in (1..PIECES).step_by(2) {
        client.write(piece * PIECE, &content(piece, 1), false);
    }
    client.flush();
    drop(client);
    read_all(&daemon);
    let counters = &status(&scratch)["counters"];
    assert!(counters["map_pages_read"].as_u64() > Some(0), "{counters}");
    let text = run_ok(&scratch, &[&["status"], &CHAIN[..]].concat());
    assert!(text.contains("paged: 6400 in the newest snapshot"), "{text}");
    daemon.kill();

    // With all of it in memory, as it is without a word, it is the same volume.
    let daemon = served(&scratch, &[]);
    assert!(status(&scratch)["state"]["paged_map"].is_null());
    read_all(&daemon);
    daemon.stop_ok();
    let daemon = served(&scratch, &paged);
    read_all(&daemon);
    daemon.stop_ok();
    run_ok(&scratch, &[&["check"], &CHAIN[..]].concat());
}

#[test]
fn memory_for_the_map_of_what_is_no_chain_and_too_little_of_it_are_refused() {
    let scratch = Scratch::new("map-memory-refused");
    run_ok(&scratch, &["create", "plain.img", "--size", "64MiB"]);
    let sizes = ["--size", "64MiB", "--data-size", "20MiB"];
    run_ok(&scratch, &[&["create"], &CHAIN[..], &sizes[..]].concat());
    let socket = scratch.text("nbd.sock");
    let refused = |target: &[&str], memory: &str, part: &str| {
        let flags = ["--socket", &*socket, "--map-memory", memory];
        run_fails(&scratch, &[&["serve"], target, &flags[..]].concat(), &[part]);
    };
    refused(&["plain.img"], "2GiB", "--map-memory: expected a chain (preset gecko)");
    refused(&CHAIN, "64k", "expected 1 MiB to 1 TiB, found 65536 bytes");
}
