//! Damage on the medium: what `check` names, what `repair` and `forget-log` do about it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::blocks::{BLOCKS, content, expect_content, volume};
use common::nbd::Client;
use common::{Daemon, Scratch, corrupt, run, run_fails, run_json, run_ok};
use serde_json::Value;

/// The check's report, which must have found damage; nothing may have been written by it.
fn damaged(scratch: &Scratch) -> Value {
    let path = scratch.path("a.img");
    let before = std::fs::read(&path).unwrap();
    let output = run(scratch, &["check", "a.img", "--json", "--repair-hint"]);
    assert_eq!(std::fs::read(&path).unwrap(), before, "a check writes nothing");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    common::json::parse(&output.stdout).unwrap()
}

fn places(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["place"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_damaged_superblock_copy_is_found_served_around_and_repaired() {
    for copy in 0..3_usize {
        let scratch = Scratch::new("copy");
        volume(&scratch, true);
        let offset = [0, 65536, (64 << 20) - 4096][copy];
        corrupt(&scratch.path("a.img"), offset + 100, 8);
        let report = damaged(&scratch);
        assert_eq!(places(&report), [format!("superblock copy {copy}")]);
        let finding = &report["findings"][0];
        assert_eq!(finding["device_offset"], offset);
        let problem = finding["problem"].as_str().unwrap();
        assert!(problem.contains("expected 0x") && problem.contains("found 0x"), "{problem}");
        assert!(finding["repair"].as_str().unwrap().contains("nearhead repair"), "{finding}");
        expect_content(&scratch);
        let repaired = run_ok(&scratch, &["repair", "a.img"]);
        assert!(repaired.contains(&format!("superblock copy {copy}")), "{repaired}");
        run_ok(&scratch, &["check", "a.img"]);
        expect_content(&scratch);
    }
}

#[test]
fn two_damaged_superblock_copies_are_survived_and_three_are_named() {
    let scratch = Scratch::new("copies");
    volume(&scratch, false);
    let path = scratch.path("a.img");
    corrupt(&path, 0, 4096);
    corrupt(&path, 65536 + 20, 1);
    let state = &run_json(&scratch, &["status", "a.img"])["state"];
    assert_eq!(state["damage_kinds"], serde_json::json!(["superblock", "superblock"]), "{state}");
    assert_eq!(state["damage"].as_array().unwrap().len(), 2, "{state}");
    expect_content(&scratch);
    corrupt(&path, (64 << 20) - 4096 + 500, 1);
    for command in ["status", "repair"] {
        let message = run_fails(&scratch, &[command, "a.img"], &["a.img", "no sound superblock"]);
        assert!(message.contains("copy 0") && message.contains("copy 2"), "{message}");
    }
}

#[test]
fn a_damaged_snapshot_is_found_served_around_and_repaired() {
    for part in ["header", "body"] {
        for newest in [false, true] {
            let scratch = Scratch::new("slot");
            volume(&scratch, true);
            expect_content(&scratch);
            run_ok(&scratch, &["repair", "a.img"]);
            let dump = run_json(&scratch, &["dump", "a.img"]);
            let slots = dump["snapshots"].as_array().unwrap();
            let number = |slot: &Value| slot["number"].as_u64().unwrap();
            let slot = if (number(&slots[0]) > number(&slots[1])) == newest {
                &slots[0]
            } else {
                &slots[1]
            };
            let offset = slot["device_offset"].as_u64().unwrap();
            corrupt(
                &scratch.path("a.img"),
                offset + if part == "header" { 40 } else { 4096 + 5 },
                1,
            );
            let output = run(&scratch, &["check", "a.img", "--json"]);
            let report: Value = common::json::parse(&output.stdout).unwrap();
            let place = format!("snapshot slot {}", slot["slot"]);
            assert!(places(&report).contains(&place), "{part}, newest {newest}: {report}");
            run_ok(&scratch, &["repair", "a.img"]);
            let report = run_json(&scratch, &["check", "a.img"]);
            assert_eq!(report["findings_total"], 0, "{part}, newest {newest}: {report}");
            expect_content(&scratch);
        }
    }
}

/// A snapshot's body is written over the older one, so a power cut leaves what rot would; after a clean stop
/// it can only be rot, until the volume was used again.
#[test]
fn a_torn_snapshot_is_no_damage_once_the_volume_was_used_after_a_clean_stop() {
    let scratch = Scratch::new("torn");
    volume(&scratch, true);
    expect_content(&scratch);
    let older = {
        let dump = run_json(&scratch, &["dump", "a.img"]);
        let slots = dump["snapshots"].as_array().unwrap().clone();
        slots.into_iter().min_by_key(|slot| slot["number"].as_u64()).unwrap()
    };
    corrupt(&scratch.path("a.img"), older["device_offset"].as_u64().unwrap() + 4096 + 5, 1);
    assert_eq!(places(&damaged(&scratch)), [format!("snapshot slot {}", older["slot"])]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    Client::connect(&daemon.socket).unwrap().write(0, &content(0), true);
    daemon.kill();
    let report = run_json(&scratch, &["check", "a.img"]);
    assert_eq!(report["damage_count"], 0, "{report}");
    assert!(report.to_string().contains("as a crash during a snapshot leaves it"), "{report}");
    expect_content(&scratch);
}

/// Where the newest copy of client byte 0 is.
fn logged_at(scratch: &Scratch) -> u64 {
    let dump = run_json(scratch, &["dump", "a.img", "--map"]);
    let map = dump["map"].as_array().unwrap();
    let first = map.iter().find(|entry| entry["client_offset"] == 0).unwrap();
    first["device_offset"].as_u64().unwrap()
}

#[test]
fn a_rotten_logged_block_is_named_read_as_an_error_and_can_be_forgotten() {
    let scratch = Scratch::new("rot");
    volume(&scratch, true);
    let offset = logged_at(&scratch);
    corrupt(&scratch.path("a.img"), offset + 17, 1);
    let report = damaged(&scratch);
    assert_eq!(places(&report), ["logged block"]);
    let finding = &report["findings"][0];
    assert_eq!(finding["device_offset"], offset);
    assert_eq!(finding["client_offset"], 0);
    assert!(finding["problem"].as_str().unwrap().contains("expected checksum"), "{finding}");
    let repair = finding["repair"].as_str().unwrap();
    let log = repair.rsplit(' ').next().unwrap().to_owned();
    assert!(repair.contains("forget-log"), "{repair}");
    // What a check counts and no repair can mend is listed, and the exit code says so.
    let listed = ["4096 client bytes in 1 ranges, listed above, cannot be read"];
    for args in [&["repair", "a.img", "--dry-run"][..], &["repair", "a.img"]] {
        run_fails(&scratch, args, &listed);
    }
    run_ok(&scratch, &["repair", "a.img", "--accept-loss"]);

    let daemon = Daemon::serve(&scratch, "a.img", &["--checkpoint-idle", "0"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert_eq!(client.try_read(0, 4096), Err(5), "EIO, never the older copy");
    assert_eq!(client.read(8192, 4096), content(1));
    drop(client);
    daemon.stop_ok();
    run_fails(&scratch, &["drain", "a.img"], &["pieces are not home"]);

    let plan = run_json(&scratch, &["forget-log", "a.img", &log, "--dry-run"]);
    assert_eq!(plan["lost_bytes"], 4096, "{plan}");
    let forgotten = run_json(&scratch, &["forget-log", "a.img", &log]);
    assert_eq!(forgotten["lost"][0]["client_offset"], 0);
    assert_eq!(forgotten["lost_bytes"], 4096);
    let report = damaged(&scratch);
    assert_eq!(places(&report), ["lost block"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert_eq!(client.try_read(0, 4096), Err(5), "lost, not older");
    client.write(0, &content(0), true);
    assert_eq!(client.read(0, 4096), content(0));
    daemon.stop_ok();
    run_ok(&scratch, &["check", "a.img"]);
    expect_content(&scratch);
}

#[test]
fn a_rotten_record_after_the_snapshot_is_named_and_its_blocks_read_as_errors() {
    let scratch = Scratch::new("record");
    volume(&scratch, false);
    // A record that is neither first nor last: header and payload.
    for log in 0..3 {
        let dump = run_json(&scratch, &["dump", "a.img", "--log", &log.to_string()]);
        let records = dump["records"].as_array().unwrap();
        let Some(record) = records.iter().find(|record| record["sequence"] == BLOCKS / 2) else {
            continue;
        };
        let write = record["writes"][0]["client_offset"].as_u64().unwrap();
        corrupt(&scratch.path("a.img"), record["device_offset"].as_u64().unwrap() + 30, 1);
        let report = damaged(&scratch);
        assert_eq!(report["opens"], true, "{report}");
        let daemon = Daemon::serve(&scratch, "a.img", &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        for block in 0..BLOCKS {
            let found = client.try_read(block * 8192, 4096);
            let expected = if block * 8192 == write { Err(5) } else { Ok(content(block)) };
            assert_eq!(found, expected, "block {block}");
        }
        drop(client);
        daemon.stop_ok();
        return;
    }
    panic!("record {} was in no log", BLOCKS / 2);
}

/// Corrupts the headers of these records, wherever they are.
fn corrupt_records(scratch: &Scratch, sequences: &[u64]) {
    let mut hit = 0;
    for log in 0..3 {
        let dump = run_json(scratch, &["dump", "a.img", "--log", &log.to_string()]);
        for record in dump["records"].as_array().unwrap() {
            if sequences.contains(&record["sequence"].as_u64().unwrap()) {
                let offset = record["device_offset"].as_u64().unwrap();
                corrupt(&scratch.path("a.img"), offset + 30, 1);
                hit += 1;
            }
        }
    }
    assert_eq!(hit, sequences.len(), "records {sequences:?}");
}

#[test]
fn two_lost_records_in_a_row_need_consent() {
    let scratch = Scratch::new("two");
    volume(&scratch, false);
    corrupt_records(&scratch, &[BLOCKS / 2, BLOCKS / 2 + 1]);
    let missing = format!("record {} is missing", BLOCKS / 2);
    let asked = ["a.img", &missing, "accept the loss"];
    run_fails(&scratch, &["serve", "a.img", "--socket", "s"], &asked);
    run_fails(&scratch, &["repair", "a.img"], &asked);
    let report = damaged(&scratch);
    assert_eq!(report["opens"], false);
    run_fails(&scratch, &["serve", "a.img", "--socket", "s"], &asked);
    let repaired = run_json(&scratch, &["repair", "a.img", "--accept-loss"]);
    assert!(repaired["damage"].to_string().contains(&missing), "{repaired}");
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let kept =
        (0..BLOCKS).filter(|block| client.try_read(block * 8192, 4096) == Ok(content(*block)));
    assert_eq!(kept.count() as u64, BLOCKS - 2);
    drop(client);
    daemon.stop_ok();
}
