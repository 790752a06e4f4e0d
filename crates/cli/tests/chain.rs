//! A chain of devices, with the real program on image files: made, served, killed, named in another order, one of them missing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};
use std::collections::BTreeMap;

const CHAIN: &str = "a.img,b.img,c.img";
/// The same in another order.
const TURNED: &str = "c.img,a.img,b.img";
const BLOCK: u64 = 4096;

fn made(scratch: &Scratch) -> serde_json::Value {
    let sizes = ["--size", "64MiB", "--data-size", "20MiB"];
    run_json(scratch, &[&["create", "--chain", CHAIN], &sizes[..]].concat())
}

fn served(scratch: &Scratch, chain: &str) -> Daemon {
    let socket = scratch.text("nbd.sock");
    Daemon::spawn(scratch, &["serve", "--chain", chain, "--socket", &socket])
}

fn content(block: u64, version: u64) -> Vec<u8> {
    let words = [block, version, 0x6765_636b_6f21_2121, block ^ version];
    words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect::<Vec<u8>>()
        .repeat(BLOCK as usize / 32)
}

/// Writes blocks all over the volume several times, all durable at the end; says what is where.
fn written_over(daemon: &Daemon, size: u64, rounds: u64) -> BTreeMap<u64, u64> {
    let mut client = Client::connect(&daemon.socket).unwrap();
    let (mut newest, mut number) = (BTreeMap::new(), 1_u64);
    for version in 1..=rounds {
        for _ in 0..size / BLOCK / 2 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (number >> 33) % (size / BLOCK);
            client.write(block * BLOCK, &content(block, version), false);
            newest.insert(block, version);
        }
    }
    client.flush();
    newest
}

fn expect(daemon: &Daemon, newest: &BTreeMap<u64, u64>) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for (block, version) in newest {
        let found = client.read(block * BLOCK, BLOCK as u32);
        assert_eq!(found, content(*block, *version), "block {block}, version {version}");
    }
}

#[test]
fn a_chain_that_is_cleaned_loses_nothing_when_it_is_killed_and_named_in_another_order() {
    let scratch = Scratch::new("chain-order");
    let report = made(&scratch);
    assert_eq!(report["preset"], "gecko", "by its flag");
    let size = report["client_bytes"].as_u64().unwrap();
    let daemon = served(&scratch, CHAIN);
    let newest = written_over(&daemon, size, 4);
    let status = run_json(&scratch, &["status", "--chain", CHAIN]);
    assert!(status["counters"]["compactions"].as_u64().unwrap() > 3, "{status}");
    let links = status["state"]["links"].as_array().unwrap();
    let roles: Vec<_> = links.iter().map(|link| link["role"].as_str().unwrap()).collect();
    assert_eq!(
        (links.len(), roles.iter().filter(|role| **role == "tail").count()),
        (3, 1),
        "{links:?}"
    );
    daemon.kill();
    let daemon = served(&scratch, TURNED);
    expect(&daemon, &newest);
    daemon.stop_ok();
    run_ok(&scratch, &["check", "--chain", TURNED]);
    let daemon = served(&scratch, CHAIN);
    expect(&daemon, &newest);
    daemon.stop_ok();
}

#[test]
fn what_was_never_written_is_zeros_and_requests_of_any_sector_are_put_together() {
    let scratch = Scratch::new("chain-zeros");
    made(&scratch);
    let daemon = served(&scratch, CHAIN);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(5 * 512, &[7; 512], true);
    let mut expected = vec![0; 8192];
    expected[5 * 512..6 * 512].fill(7);
    assert_eq!(client.read(0, 8192), expected);
    daemon.stop_ok();
}

const PAIRS: [&str; 4] = ["--chain", "mirror:a.img,b.img", "--chain", "mirror:c.img,d.img"];

fn made_of_pairs(scratch: &Scratch) -> u64 {
    for (name, mib) in [("a.img", 65), ("b.img", 65), ("c.img", 21), ("d.img", 21)] {
        std::fs::File::create(scratch.path(name)).unwrap().set_len(mib << 20).unwrap();
    }
    run_json(scratch, &[&["create"], &PAIRS[..]].concat())["client_bytes"].as_u64().unwrap()
}

fn serve_pairs(scratch: &Scratch, pairs: &[&str], more: &[&str]) -> Daemon {
    let socket = scratch.text("nbd.sock");
    Daemon::spawn(scratch, &[&["serve", "--socket", &socket], pairs, more].concat())
}

/// What the status says once `is_so`.
fn awaited(
    scratch: &Scratch,
    pairs: &[&str],
    is_so: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    loop {
        // Whether all is well is what is asked, so it may say that it is not.
        let output = common::run(scratch, &[&["status", "--json"], pairs].concat());
        let status: serde_json::Value = common::json::parse(&output.stdout).unwrap();
        if is_so(&status) {
            return status;
        }
    }
}

fn sides(status: &serde_json::Value) -> Vec<serde_json::Value> {
    let devices = status["devices"].as_array().unwrap().iter();
    let sides = devices.filter_map(|device| device["sides"].as_array().cloned());
    sides.flatten().collect()
}

#[test]
fn sides_of_mirrored_links_rest_where_that_is_asked_for_and_are_woken_by_what_is_written() {
    let scratch = Scratch::new("chain-rest");
    let size = made_of_pairs(&scratch);
    let daemon = serve_pairs(&scratch, &PAIRS, &["--rest-mirrors", "20ms"]);
    let newest = written_over(&daemon, size, 1);
    let rest =
        |status: &serde_json::Value| sides(status).iter().all(|side| side["is_resting"] == true);
    let status = awaited(&scratch, &PAIRS, rest);
    let found = sides(&status);
    assert_eq!(found.len(), 4, "{status}");
    assert!(found.iter().all(|side| side["idle_s"].as_f64().unwrap() > 0.01), "{found:?}");
    let text = run_ok(&scratch, &[&["status"], &PAIRS[..]].concat());
    assert_eq!(text.matches("nothing to do for").count(), 4, "{text}");
    expect(&daemon, &newest);
    let woken =
        |status: &serde_json::Value, side: usize| sides(status)[side]["woken"].as_u64().unwrap();
    let status = awaited(&scratch, &PAIRS, rest);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &content(0, 9), true);
    let after = awaited(&scratch, &PAIRS, |_| true);
    let more = |side: &usize| woken(&after, *side) > woken(&status, *side);
    assert!((0..4).filter(more).count() >= 2, "both sides of the tail: {after}");
    daemon.stop_ok();
    let daemon = serve_pairs(&scratch, &PAIRS, &[]);
    assert_eq!(sides(&awaited(&scratch, &PAIRS, |_| true)), Vec::<serde_json::Value>::new());
    daemon.stop_ok();
}

#[test]
fn a_side_of_a_link_that_was_away_is_copied_to_and_stands_in_for_the_other_one() {
    let scratch = Scratch::new("chain-away");
    let size = made_of_pairs(&scratch);
    let daemon = serve_pairs(&scratch, &PAIRS, &[]);
    written_over(&daemon, size, 1);
    daemon.stop_ok();
    let without_b = ["--chain", "mirror:a.img,missing", "--chain", "mirror:c.img,d.img"];
    let daemon = serve_pairs(&scratch, &without_b, &[]);
    let newest = written_over(&daemon, size, 4);
    daemon.stop_ok();
    let daemon = serve_pairs(&scratch, &PAIRS, &[]);
    awaited(&scratch, &PAIRS, |status| status["served"]["disk_trouble"].is_null());
    daemon.stop_ok();
    let without_a = ["--chain", "mirror:missing,b.img", "--chain", "mirror:missing,d.img"];
    let daemon = serve_pairs(&scratch, &without_a, &[]);
    expect(&daemon, &newest);
    daemon.stop_ok();
}

#[test]
fn links_are_striped_over_as_many_devices_as_are_said() {
    let scratch = Scratch::new("chain-stripe");
    let names: Vec<String> = (0..8).map(|number| format!("{number}.img")).collect();
    for name in &names {
        std::fs::File::create(scratch.path(name)).unwrap().set_len(33 << 20).unwrap();
    }
    let four = names[..4].join(",");
    let striped = ["--chain", &four, "--stripe", "2"];
    run_fails(
        &scratch,
        &["create", "--chain", "0.img,1.img,2.img", "--stripe", "2"],
        &["--stripe 2", "found 3 devices"],
    );
    let size =
        run_json(&scratch, &[&["create"], &striped[..]].concat())["client_bytes"].as_u64().unwrap();
    let daemon = serve_pairs(&scratch, &striped, &[]);
    let newest = written_over(&daemon, size, 3);
    let status = awaited(&scratch, &striped, |_| true);
    assert_eq!(status["state"]["links"].as_array().unwrap().len(), 2, "{status}");
    daemon.kill();
    let daemon = serve_pairs(&scratch, &striped, &[]);
    expect(&daemon, &newest);
    daemon.stop_ok();
    run_ok(&scratch, &[&["check"], &striped[..]].concat());
    let pairs = names[..8].chunks(2).map(|pair| format!("mirror:{}", pair.join(",")));
    let of_pairs: Vec<String> = pairs
        .flat_map(|pair| ["--chain".to_owned(), pair])
        .chain(["--stripe=2".to_owned()])
        .collect();
    let of_pairs: Vec<&str> = of_pairs.iter().map(String::as_str).collect();
    let size =
        run_json(&scratch, &[&["create", "--force"], &of_pairs[..]].concat())["client_bytes"]
            .as_u64()
            .unwrap();
    let daemon = serve_pairs(&scratch, &of_pairs, &[]);
    let newest = written_over(&daemon, size, 1);
    daemon.stop_ok();
    let away: Vec<String> =
        of_pairs.iter().map(|word| word.replace("mirror:2.img", "mirror:missing")).collect();
    let away: Vec<&str> = away.iter().map(String::as_str).collect();
    let daemon = serve_pairs(&scratch, &away, &[]);
    expect(&daemon, &newest);
    daemon.stop_ok();
}

#[test]
fn a_link_that_is_missing_is_named_and_one_too_small_is_refused() {
    let scratch = Scratch::new("chain-missing");
    made(&scratch);
    let missing = ["found 1", "link 2 was not named", "--chain"];
    run_fails(&scratch, &["status", "--chain", "a.img,b.img"], &missing);
    run_fails(
        &scratch,
        &["status", "--chain", "missing,b.img,c.img"],
        &["said to be missing", "superblocks"],
    );
    let small = [
        "create",
        "--chain",
        "d.img,e.img",
        "--size",
        "64MiB",
        "--data-size",
        "8MiB",
        "--log-size",
        "2MiB",
    ];
    run_fails(&scratch, &small, &["each device holds more than 6", "larger devices"]);
}

#[test]
fn without_a_link_the_others_are_served_and_it_comes_back_with_what_it_had() {
    let scratch = Scratch::new("chain-without");
    let size = made(&scratch)["client_bytes"].as_u64().unwrap();
    let daemon = served(&scratch, CHAIN);
    let mut newest = written_over(&daemon, size, 4);
    daemon.stop_ok();
    let links = run_json(&scratch, &["status", "--chain", CHAIN])["state"]["links"].take();
    let role = |number: usize| links[number]["role"].as_str().unwrap();
    // The one that has no tail and something to lose.
    let away = if role(1) == "tail" { 2 } else { 1 };
    assert!(links[away]["needed_bytes"].as_u64().unwrap() > 0, "{links}");
    let without = CHAIN.split(',').enumerate();
    let without: Vec<_> =
        without.map(|(at, name)| if at == away { "missing" } else { name }).collect();
    let without = without.join(",");

    let daemon = served(&scratch, &without);
    let status = run_json(&scratch, &["status", "--chain", &without]);
    assert_eq!(status["state"]["links"][away]["role"], "lost", "{status}");
    let mut client = Client::connect(&daemon.socket).unwrap();
    let (mut there, mut refused) = (0, Vec::new());
    for (block, version) in &newest {
        match client.try_read(block * BLOCK, BLOCK as u32) {
            Ok(found) => {
                assert_eq!(found, content(*block, *version), "block {block}");
                there += 1;
            }
            Err(_) => refused.push(*block),
        }
    }
    assert!(there > 0 && !refused.is_empty(), "{there} there, {} refused", refused.len());
    for block in refused.iter().take(10) {
        client.write(block * BLOCK, &content(*block, 99), true);
        assert_eq!(client.read(block * BLOCK, BLOCK as u32), content(*block, 99));
        newest.insert(*block, 99);
    }
    drop(client);
    daemon.kill();
    let daemon = served(&scratch, CHAIN);
    expect(&daemon, &newest);
    daemon.stop_ok();
    run_ok(&scratch, &["check", "--chain", CHAIN]);
}
