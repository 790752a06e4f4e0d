//! Both snapshots or all superblocks are lost: `repair` rebuilds the map from the logs and says what is doubtful before
//! anything is given up, `restore-metadata` brings a backup back, and `create` never takes such a disk for empty.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::blocks::{
    BLOCKS, content, expect_content, image, read, serve, volume, write_all, zero, zero_slots,
    zero_superblocks,
};
use common::nbd::Client;
use common::{Scratch, corrupt, run, run_fails, run_json, run_ok};
use serde_json::Value;
use std::process::Command;

/// Device byte of the record with this sequence, and the client byte that it writes.
fn record(scratch: &Scratch, sequence: u64) -> (u64, u64) {
    for log in 0..3 {
        let dump = run_json(scratch, &["dump", "a.img", "--log", &log.to_string()]);
        for record in dump["records"].as_array().unwrap() {
            if record["sequence"] == sequence {
                let client = record["writes"][0]["client_offset"].as_u64().unwrap();
                return (record["device_offset"].as_u64().unwrap(), client);
            }
        }
    }
    panic!("record {sequence} is in no log");
}

/// The command of the report that found it: zeros over the first MiB behind the superblocks, where both slots were.
#[test]
fn zeros_behind_the_superblocks_leave_a_snapshot_at_the_other_end() {
    let scratch = Scratch::new("dd");
    run_ok(&scratch, &["create", "a.img", "--size", "1GiB"]);
    let daemon = serve(&scratch);
    write_all(&daemon);
    daemon.stop_ok();
    let dd = ["if=/dev/zero", "of=a.img", "bs=1M", "seek=1", "count=4", "conv=notrunc"];
    let done = Command::new("dd").args(dd).current_dir(scratch.path("")).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    expect_content(&scratch);
    run_ok(&scratch, &["repair", "a.img"]);
    let report = run_json(&scratch, &["check", "a.img"]);
    assert_eq!(report["damage_count"], 0, "{report}");
    expect_content(&scratch);
}

#[test]
fn a_map_is_rebuilt_from_whole_logs_without_any_loss() {
    for in_order in [true, false] {
        let scratch = Scratch::new("rebuild");
        volume(&scratch, in_order);
        zero_slots(&scratch);
        run_fails(
            &scratch,
            &["serve", "a.img", "--socket", "s"],
            &["slot 0", "slot 1", "expected", "nearhead repair --dry-run"],
        );
        let output = run(&scratch, &["check", "a.img", "--json", "--repair-hint"]);
        let hint = String::from_utf8(output.stdout).unwrap();
        assert!(hint.contains("repair a.img --dry-run") && !hint.contains("sound copy"), "{hint}");
        let before = image(&scratch);
        let plan = run_json(&scratch, &["repair", "a.img", "--dry-run"]);
        assert_eq!(image(&scratch), before, "a dry run changes nothing");
        assert_eq!((&plan["map_rebuilt"], &plan["records"]), (&true.into(), &BLOCKS.into()));
        assert_eq!((&plan["consent"], &plan["rest_is_uncertain"]), (&Value::Null, &Value::Null));
        assert_eq!(plan["doubtful"], Value::Array(Vec::new()));
        run_ok(&scratch, &["repair", "a.img"]);
        let report = run_json(&scratch, &["check", "a.img"]);
        assert_eq!(report["damage_count"], 0, "{report}");
        expect_content(&scratch);
        // What is written now survives although old records lie about.
        let daemon = serve(&scratch);
        let mut client = Client::connect(&daemon.socket).unwrap();
        client.write(0, &content(77), true);
        drop(client);
        daemon.kill();
        assert_eq!(read(&scratch)[0], Some(content(77)));
    }
}

#[test]
fn what_is_doubtful_is_listed_before_it_is_given_up_and_reads_as_an_error_then() {
    let scratch = Scratch::new("doubtful");
    volume(&scratch, true);
    let (record_at, client_at) = record(&scratch, BLOCKS / 2);
    zero_slots(&scratch);
    corrupt(&scratch.path("a.img"), record_at + 30, 1);
    let before = image(&scratch);
    for args in [&["repair", "a.img", "--dry-run", "--json"][..], &["repair", "a.img", "--json"]] {
        let output = run(&scratch, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let report: Value = common::json::parse(&output.stdout).unwrap();
        let doubtful = &report["doubtful"][0];
        assert_eq!(report["doubtful"].as_array().unwrap().len(), 1, "{report}");
        assert_eq!(
            (&doubtful["client_offset"], &doubtful["len_bytes"]),
            (&client_at.into(), &4096.into())
        );
        assert_eq!((&doubtful["reason"], &doubtful["reads_as"]), (&"lost".into(), &"error".into()));
        assert_eq!(report["records_gone"][0]["first_sequence"], BLOCKS / 2);
        assert!(String::from_utf8(output.stderr).unwrap().contains("repair a.img --accept-loss"));
        assert_eq!(image(&scratch), before, "nothing is changed without consent");
    }
    let said = run_ok(&scratch, &["repair", "a.img", "--accept-loss"]);
    assert!(said.contains(&format!("doubtful: 4096 client bytes at {client_at}")), "{said}");
    for (block, found) in (0..).zip(read(&scratch)) {
        let expected = (block * 8192 != client_at).then(|| content(block));
        assert_eq!(found, expected, "block {block}");
    }
}

#[test]
fn a_sound_volume_needs_no_repair_and_is_left_as_it_is() {
    let scratch = Scratch::new("sound");
    volume(&scratch, true);
    let before = image(&scratch);
    let said = run_ok(&scratch, &["repair", "a.img"]);
    assert!(said.contains("nothing was to be done"), "{said}");
    assert_eq!(image(&scratch), before);
}

#[test]
fn create_recognises_what_is_left_of_a_volume_without_superblocks() {
    for what in ["superblocks", "superblocks and snapshots", "superblocks and records"] {
        let scratch = Scratch::new("remains");
        volume(&scratch, true);
        let (record_at, _) = record(&scratch, 1);
        if what.ends_with("snapshots") {
            zero_slots(&scratch);
        }
        if what.ends_with("records") {
            zero(&scratch, record_at, 1 << 20);
        }
        zero_superblocks(&scratch);
        let before = image(&scratch);
        let refused = run_fails(
            &scratch,
            &["create", "a.img"],
            &["a.img", "of a Nearhead volume", "nearhead repair --dry-run", "--force destroys it"],
        );
        assert_eq!(
            refused.contains("snapshot of the map"),
            !what.ends_with("snapshots"),
            "{refused}"
        );
        assert_eq!(image(&scratch), before, "{what}");
        for command in ["status", "check", "repair"] {
            let said = run_fails(
                &scratch,
                &[command, "a.img"],
                &["no sound superblock", "restore-metadata"],
            );
            assert!(!said.contains("nearhead create"), "{said}");
        }
        run_ok(&scratch, &["create", "a.img", "--force"]);
    }
}

#[test]
fn a_backup_brings_back_superblocks_and_map_with_everything_written_since() {
    let scratch = Scratch::new("backup");
    volume(&scratch, true);
    let told = run_json(&scratch, &["backup-metadata", "a.img", "m.bak"]);
    let file_bytes = std::fs::metadata(scratch.path("m.bak")).unwrap().len();
    assert_eq!(told["file_bytes"], file_bytes);
    run_fails(
        &scratch,
        &["backup-metadata", "a.img", "m.bak"],
        &["m.bak", "found something there"],
    );
    let refused = ["found snapshot", "nothing is to be restored"];
    run_fails(&scratch, &["restore-metadata", "a.img", "m.bak"], &refused);
    let daemon = serve(&scratch);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &content(99), true);
    drop(client);
    daemon.stop_ok();
    // Superblocks alone.
    zero_superblocks(&scratch);
    let before = image(&scratch);
    run_ok(&scratch, &["restore-metadata", "a.img", "m.bak", "--dry-run"]);
    assert_eq!(image(&scratch), before);
    run_ok(&scratch, &["restore-metadata", "a.img", "m.bak"]);
    assert_eq!(read(&scratch)[0], Some(content(99)));
    // All of it, and the first records, which the backup includes.
    let (record_at, _) = record(&scratch, 2);
    zero_slots(&scratch);
    zero_superblocks(&scratch);
    corrupt(&scratch.path("a.img"), record_at + 30, 1);
    let before = image(&scratch);
    let plan = run_json(&scratch, &["restore-metadata", "a.img", "m.bak", "--dry-run"]);
    assert_eq!(plan["consent"], Value::Null, "{plan}");
    assert_eq!(image(&scratch), before);
    run_ok(&scratch, &["restore-metadata", "a.img", "m.bak"]);
    let found = read(&scratch);
    assert_eq!(found[0], Some(content(99)), "written since the backup");
    for (block, found) in (1..).zip(&found[1..]) {
        assert_eq!(*found, Some(content(block)), "block {block}");
    }
    run_ok(&scratch, &["check", "a.img"]);
}

#[test]
fn a_backup_of_another_volume_or_one_that_was_changed_is_refused() {
    let scratch = Scratch::new("foreign");
    volume(&scratch, true);
    run_ok(&scratch, &["backup-metadata", "a.img", "m.bak"]);
    let backup = std::fs::read(scratch.path("m.bak")).unwrap();
    run_ok(&scratch, &["create", "b.img", "--size", "64MiB"]);
    run_fails(&scratch, &["restore-metadata", "b.img", "m.bak", "--force"], &["is not its backup"]);
    for (name, bytes) in [
        ("cut", backup[..backup.len() - 1].to_vec()),
        ("empty", Vec::new()),
        ("head", [&backup[..16], &[!backup[16]], &backup[17..]].concat()),
        ("superblock", [&backup[..5000], &[!backup[5000]], &backup[5001..]].concat()),
        ("body", [&backup[..12300], &[!backup[12300]], &backup[12301..]].concat()),
    ] {
        std::fs::write(scratch.path("x.bak"), bytes).unwrap();
        let said = run_fails(
            &scratch,
            &["restore-metadata", "a.img", "x.bak", "--force"],
            &["restore-metadata"],
        );
        assert!(!said.contains("panicked"), "{name}: {said}");
    }
    expect_content(&scratch);
}

#[test]
fn superblocks_without_a_backup_are_made_again_from_what_lies_on_the_device() {
    // Killed or stopped in order; by default values, and by what `create` was told.
    for (in_order, made) in [(true, ["--preset", "mlb"]), (false, ["--group-size", "16MiB"])] {
        let scratch = Scratch::new("lost-superblocks");
        let more = ["--label", "mail", "--ack", "durable"];
        let create = [["create", "a.img", "--size", "64MiB"].as_slice(), &made, &more].concat();
        run_ok(&scratch, &create);
        let daemon = serve(&scratch);
        write_all(&daemon);
        if in_order {
            daemon.stop_ok();
        } else {
            daemon.kill();
        }
        let before = run_json(&scratch, &["dump", "a.img"]);
        let repair = [["repair", "a.img", "--lost-superblocks"].as_slice(), &made, &more].concat();
        run_fails(&scratch, &repair, &["expected no superblock, found copy 0 to be sound"]);
        zero_superblocks(&scratch);
        run_fails(&scratch, &["repair", "a.img"], &["--lost-superblocks --dry-run"]);
        let left = image(&scratch);
        let plan = run_json(&scratch, &[repair.as_slice(), &["--dry-run"]].concat());
        assert_eq!(image(&scratch), left, "a dry run changes nothing");
        assert_eq!(plan["done"], false);
        assert_eq!(plan["volume_id"], before["volume"]["volume_id"], "{before}");
        assert!(plan["logs_confirmed"].as_u64() >= Some(1), "{plan}");
        run_ok(&scratch, &repair);
        let after = run_json(&scratch, &["dump", "a.img"]);
        assert_eq!(after["layout"], before["layout"]);
        for what in ["volume_id", "preset", "ack", "label", "logged_write_bytes_max"] {
            assert!(before["volume"].get(what).is_some(), "{before}");
            assert_eq!(after["volume"][what], before["volume"][what], "{what}");
        }
        let report = run_json(&scratch, &["check", "a.img"]);
        assert_eq!(report["damage_count"], 0, "{report}");
        expect_content(&scratch);
    }
}

#[test]
fn a_layout_that_does_not_fit_is_never_taken_for_the_one_that_is_lost() {
    let scratch = Scratch::new("wrong-layout");
    // Groups of 16 MiB, which is not the default.
    volume(&scratch, true);
    zero_superblocks(&scratch);
    let left = image(&scratch);
    for wrong in [
        [].as_slice(),
        &["--preset", "mlb"],
        &["--preset", "singlelog"],
        &["--preset", "nolog"],
        &["--preset", "mlb", "--group-size", "8MiB"],
        &["--preset", "mlb", "--group-size", "16MiB", "--log-size", "1MiB"],
        &["--preset", "mlb", "--group-size", "16MiB", "--grow-to", "8GiB"],
    ] {
        let args = [["repair", "a.img", "--lost-superblocks"].as_slice(), wrong].concat();
        run_fails(&scratch, &args, &["a.img", "expected", "found", "--group-size"]);
        assert_eq!(image(&scratch), left, "{wrong:?}");
    }
    run_ok(&scratch, &["repair", "a.img", "--lost-superblocks", "--group-size", "16MiB"]);
    expect_content(&scratch);
}

#[test]
fn an_empty_volume_without_superblocks_is_made_again_only_as_its_owner_says() {
    let scratch = Scratch::new("lost-empty");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    zero_superblocks(&scratch);
    run_fails(&scratch, &["repair", "a.img", "--lost-superblocks"], &["--preset"]);
    let known = ["repair", "a.img", "--lost-superblocks", "--preset", "nearhead"];
    run_fails(&scratch, &known, &["found 2", "--second-snapshot far"]);
    run_ok(&scratch, &[known.as_slice(), &["--second-snapshot", "far"]].concat());
    run_ok(&scratch, &["check", "a.img"]);
    // Of what was never a volume nothing is made.
    std::fs::write(scratch.path("b.img"), vec![0; 64 << 20]).unwrap();
    run_fails(
        &scratch,
        &["repair", "b.img", "--lost-superblocks", "--preset", "mlb"],
        &["expected a sound snapshot of the map", "found none"],
    );
}
