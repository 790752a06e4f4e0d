//! A volume whose logs are on one device and whose data is on others, with the real program on image files: made, served,
//! named in another order, looked at by every command, and each misuse refused in one line.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, corrupt, nearhead, run, run_fails, run_json, run_ok};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

const DATA: &str = "data-0.img,data-1.img";
/// The same in the other order.
const TURNED: &str = "data-1.img,data-0.img";

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(37).wrapping_add(seed)).collect()
}

fn sparse(scratch: &Scratch, name: &str, bytes: u64) {
    File::create(scratch.path(name)).unwrap().set_len(bytes).unwrap();
}

/// Makes `log.img` in front of the two of `DATA`.
fn made(scratch: &Scratch) -> serde_json::Value {
    let data = ["--data-devices", DATA, "--data-size", "96MiB"];
    run_json(scratch, &[&["create", "log.img", "--size", "64MiB"], &data[..]].concat())
}

fn with<'a>(words: &[&'a str], data: &'a str) -> Vec<&'a str> {
    [words, &["--data-devices", data]].concat()
}

/// Client bytes on the first device, near and on both sides of where they meet, and on the second.
fn places(made: &serde_json::Value) -> Vec<u64> {
    let size = made["client_bytes"].as_u64().unwrap();
    vec![0, size / 4, size / 2, size / 2 + (4 << 20), size - 8192]
}

fn write_all(daemon: &Daemon, places: &[u64]) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for (seed, place) in (1..).zip(places) {
        client.write(*place, &pattern(seed, 8192), true);
    }
}

fn expect_all(daemon: &Daemon, places: &[u64]) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for (seed, place) in (1..).zip(places) {
        assert_eq!(client.read(*place, 8192), pattern(seed, 8192), "at {place}");
    }
}

#[test]
fn what_was_written_is_there_after_a_kill_whatever_the_order_in_which_devices_are_named() {
    let scratch = Scratch::new("data-order");
    let report = made(&scratch);
    assert_eq!(report["preset"], "trail", "by its data devices");
    let places = places(&report);
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    write_all(&daemon, &places);
    daemon.kill();
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", TURNED]);
    expect_all(&daemon, &places);
    run_ok(&scratch, &["drain", "log.img"]);
    expect_all(&daemon, &places);
    daemon.stop_ok();
    // All of it is at home now, which is not the log device.
    let each = ["--data-devices", "data-1.img", "--data-devices", "data-0.img"];
    let daemon = Daemon::serve(&scratch, "log.img", &each);
    expect_all(&daemon, &places);
    daemon.stop_ok();
}

#[test]
fn create_says_the_devices_and_the_whole_command_that_serves() {
    let scratch = Scratch::new("data-line");
    sparse(&scratch, "my disk.img", 80 << 20);
    let words = ["create", "--log-device", "log.img", "--size", "64MiB", "--preset", "trail"];
    let more = ["--data-devices", "my disk.img,b.img", "--data-size", "96MiB"];
    let said = run_ok(&scratch, &[&words[..], &more].concat());
    for part in [
        "created a volume of",
        "log device: log.img, 64 MiB",
        "data device 0: my disk.img, 80 MiB",
        "data device 1: b.img, 96 MiB",
        "nearhead serve log.img --data-devices 'my disk.img,b.img' --socket",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    assert_eq!(std::fs::metadata(scratch.path("b.img")).unwrap().len(), 96 << 20);
}

#[test]
fn reports_name_each_device_by_what_it_is_for_by_its_position_and_by_its_size() {
    let scratch = Scratch::new("data-told");
    made(&scratch);
    let expect = |report: &serde_json::Value, of: &str| {
        let devices = report["devices"].as_array().unwrap();
        assert_eq!(devices.len(), 3, "{of}: {devices:?}");
        let expected = [
            ("log", None, "log.img"),
            ("data", Some(0), "data-0.img"),
            ("data", Some(1), "data-1.img"),
        ];
        for (device, (role, position, path)) in devices.iter().zip(expected) {
            assert_eq!(device["role"], role, "{of}");
            assert_eq!(device["position"].as_u64(), position, "{of}");
            assert_eq!(device["path"], path, "{of}");
        }
        assert_eq!(devices[0]["size_bytes"], 64 << 20);
        assert_eq!(
            (&devices[1]["size_bytes"], &devices[1]["first_address"]),
            (&(96 << 20).into(), &(64 << 20).into())
        );
    };
    expect(&run_json(&scratch, &with(&["status", "log.img"], TURNED)), "at rest");
    expect(&run_json(&scratch, &with(&["dump", "log.img"], TURNED)), "dump");
    let text = run_ok(&scratch, &with(&["dump", "log.img"], TURNED));
    assert!(
        text.contains("data device 1: data-1.img, 96 MiB, device bytes from 167772160 on"),
        "{text}"
    );
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", TURNED]);
    // Its daemon is found by the log device.
    expect(&run_json(&scratch, &["status", "log.img"]), "served");
    let text = run_ok(&scratch, &["status", "log.img"]);
    assert!(text.contains("data device 0: data-0.img"), "{text}");
    assert!(text.contains("for clients, 64 MiB of the log device"), "{text}");
    daemon.stop_ok();
    // One that lies on one disk has that one.
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let report = run_json(&scratch, &["status", "a.img"]);
    assert_eq!(report["devices"].as_array().unwrap().len(), 1);
    assert_eq!(report["devices"][0]["role"], "disk");
}

#[test]
fn every_command_on_a_volume_works_with_its_data_devices_named() {
    let scratch = Scratch::new("data-all");
    let report = made(&scratch);
    let places = places(&report);
    let serve = || Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    let daemon = serve();
    write_all(&daemon, &places);
    let beside = with(&["backup-metadata", "log.img", "beside.backup"], DATA);
    run_ok(&scratch, &beside);
    daemon.kill();
    let check = |found: u64| {
        let args = with(&["check", "log.img"], TURNED);
        let report = run_json(&scratch, &args);
        assert_eq!(report["findings_total"], found, "{report}");
    };
    check(0);
    run_ok(&scratch, &with(&["repair", "log.img", "--dry-run"], TURNED));
    run_ok(&scratch, &with(&["repair", "log.img"], TURNED));
    run_ok(&scratch, &with(&["forget-log", "log.img", "0"], TURNED));
    run_ok(&scratch, &with(&["checkpoint", "log.img"], TURNED));
    let daemon = serve();
    expect_all(&daemon, &places);
    daemon.stop_ok();
    run_ok(&scratch, &with(&["backup-metadata", "log.img", "rest.backup"], TURNED));
    run_ok(&scratch, &with(&["drain", "log.img"], TURNED));
    check(0);
    let args = with(&["grow", "log.img"], DATA);
    run_fails(&scratch, &args, &["found trail", "copy to a new volume instead"]);
}

#[test]
fn superblocks_and_snapshots_that_are_gone_come_back_from_a_backup() {
    let scratch = Scratch::new("data-backup");
    let report = made(&scratch);
    let places = places(&report);
    let serve = || {
        Daemon::serve(&scratch, "log.img", &["--data-devices", TURNED, "--checkpoint-idle", "0"])
    };
    let daemon = serve();
    write_all(&daemon, &places);
    daemon.stop_ok();
    run_ok(&scratch, &with(&["backup-metadata", "log.img", "a.backup"], TURNED));
    let lose_superblocks = || {
        for offset in [0, 65536, (64 << 20) - 4096] {
            corrupt(&scratch.path("log.img"), offset, 4096);
        }
    };
    let restore = with(&["restore-metadata", "log.img", "a.backup"], TURNED);
    lose_superblocks();
    let refused = ["restore-metadata", "log.img", "a.backup"];
    run_fails(&scratch, &refused, &["data device 0 and 1 was not named", "--data-devices"]);
    let said = run_ok(&scratch, &restore);
    assert!(said.contains("the map needs no backup"), "{said}");
    let daemon = serve();
    expect_all(&daemon, &places);
    daemon.stop_ok();
    // Both snapshots are on the first data device.
    let dump = run_json(&scratch, &with(&["dump", "log.img"], TURNED));
    let first = dump["devices"][1]["first_address"].as_u64().unwrap();
    for slot in dump["layout"]["slot_offsets"].as_array().unwrap() {
        let at = slot.as_u64().unwrap().checked_sub(first).expect("a slot on a data device");
        corrupt(&scratch.path("data-0.img"), at, 8192);
    }
    lose_superblocks();
    run_ok(&scratch, &restore);
    let daemon = serve();
    expect_all(&daemon, &places);
    daemon.stop_ok();
    let lost = with(&["repair", "log.img", "--lost-superblocks"], TURNED);
    run_fails(
        &scratch,
        &lost,
        &["expected a volume on one device", "restore-metadata log.img FILE"],
    );
}

#[test]
fn a_map_device_beside_data_devices_keeps_the_map() {
    let scratch = Scratch::new("data-map");
    let devices = ["--map-device", "a.map", "--data-devices", DATA];
    let create = ["create", "log.img", "--size", "64MiB", "--data-size", "96MiB"];
    let report = run_json(&scratch, &[&create[..], &devices].concat());
    assert_eq!(report["devices"][3]["role"], "map", "{report}");
    let places = places(&report);
    for in_order in [false, true] {
        let daemon = Daemon::serve(&scratch, "log.img", &devices);
        write_all(&daemon, &places);
        if in_order {
            daemon.stop_ok();
        } else {
            daemon.kill();
        }
        let daemon = Daemon::serve(&scratch, "log.img", &devices);
        expect_all(&daemon, &places);
        daemon.stop_ok();
    }
    run_ok(&scratch, &[&["check", "log.img"], &devices[..]].concat());
}

#[test]
fn a_data_device_may_be_a_mirror_and_lives_on_without_a_member() {
    let scratch = Scratch::new("data-mirror");
    for name in ["a.img", "b.img", "c.img"] {
        sparse(&scratch, name, 96 << 20);
    }
    let both = ["--data-devices", "mirror:a.img,b.img", "--data-devices", "c.img"];
    let create = [&["create", "log.img", "--size", "64MiB"], &both[..]].concat();
    let places = places(&run_json(&scratch, &create));
    let daemon = Daemon::serve(&scratch, "log.img", &both);
    write_all(&daemon, &places);
    run_ok(&scratch, &["drain", "log.img"]);
    daemon.stop_ok();
    let one = ["--data-devices", "c.img", "--data-devices", "mirror:missing,b.img"];
    let daemon = Daemon::serve(&scratch, "log.img", &one);
    expect_all(&daemon, &places);
    daemon.stop_ok();
}

#[test]
fn what_a_volume_file_says_is_served() {
    let scratch = Scratch::new("data-file");
    let places = places(&made(&scratch));
    let socket = scratch.text("nbd.sock");
    let text = format!(
        "target = \"log.img\"\nsocket = \"{socket}\"\ndata_devices = [\"data-1.img\", \"data-0.img\"]\n"
    );
    std::fs::write(scratch.path("volume.toml"), text).unwrap();
    let daemon = Daemon::spawn(&scratch, &["serve", "--config", "volume.toml"]);
    let mut client = Client::connect(socket.as_ref()).unwrap();
    client.write(places[1], &pattern(3, 4096), true);
    assert_eq!(client.read(places[1], 4096), pattern(3, 4096));
    drop(client);
    daemon.stop_ok();
}

#[test]
fn a_volume_whose_second_data_device_is_missing_is_served_without_it_and_has_all_when_it_is_back() {
    let scratch = Scratch::new("data-missing");
    let places = places(&made(&scratch));
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    write_all(&daemon, &places);
    daemon.stop_ok();
    run_ok(&scratch, &with(&["drain", "log.img"], DATA));
    std::fs::rename(scratch.path("data-1.img"), scratch.path("away.img")).unwrap();

    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", "missing,data-0.img"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for (seed, place) in (1..).zip(&places[..2]) {
        assert_eq!(client.read(*place, 8192), pattern(seed, 8192), "at {place}");
    }
    client.write(0, &pattern(1, 8192), true);
    assert!(client.try_read(places[4], 8192).is_err(), "nobody has that");
    let status = run_json_whatever(&scratch, &["status", "log.img"]);
    assert_eq!(status["devices"][2]["path"], "missing", "{}", status["devices"]);
    let damage = status["state"]["damage"].to_string();
    assert!(damage.contains("data device 1 was given up: it was missing"), "{damage}");
    daemon.stop_ok();

    std::fs::rename(scratch.path("away.img"), scratch.path("data-1.img")).unwrap();
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    expect_all(&daemon, &places);
    daemon.stop_ok();
    // The first one has the map.
    let serve = ["serve", "log.img", "--socket", "x.sock", "--data-devices", "missing,data-1.img"];
    run_fails(&scratch, &serve, &["data device 0 is missing, which has the snapshots of the map"]);
}

#[test]
fn a_create_that_cannot_be_is_refused_in_one_line_and_leaves_no_file_behind() {
    let scratch = Scratch::new("data-misuse");
    sparse(&scratch, "there.img", 96 << 20);
    std::os::unix::fs::symlink(scratch.path("there.img"), scratch.path("link.img")).unwrap();
    let create = |more: &[&'static str], parts: &[&str]| {
        let args = [&["create", "log.img", "--size", "64MiB"], more].concat();
        let told = run_fails(&scratch, &args, parts);
        // Before it stand notes on the disks at most.
        let error = told.lines().last().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{told}");
        for name in ["log.img", "new.img"] {
            assert!(!scratch.path(name).exists(), "{more:?}: {name}");
        }
    };
    let new = ["--data-devices", "new.img"];
    create(&new, &["data device new.img", "`create --data-size SIZE`"]);
    create(&["--preset", "trail"], &["--preset trail", "--data-devices D1,D2,...", "found none"]);
    let other = [&new[..], &["--preset", "mlb", "--data-size", "96MiB"]].concat();
    create(&other, &["--data-devices: expected preset trail", "found mlb", "leave --preset out"]);
    let same = "to be the same one; name each device once";
    create(&["--data-devices", "there.img,link.img"], &["there.img and link.img", same]);
    create(&["--data-devices", "there.img,there.img"], &["there.img and there.img", same]);
    create(&["--data-devices", "there.img,log.img"], &["log.img and log.img", same]);
    let twice = ["--data-devices", "new.img,./new.img", "--data-size", "96MiB"];
    create(&twice, &["new.img and ./new.img", same]);
    create(&["--data-devices", "there.img,,new.img"], &["leave no name empty"]);
    let missing = ["--data-devices", "there.img,missing", "--data-size", "96MiB"];
    create(&missing, &["found \"missing\"", "write ./missing for a file"]);
    assert!(!scratch.path("missing").exists());
    let small = [&new[..], &["--data-size", "1MiB"]].concat();
    create(&small, &["--data-size: expected at least 8 MiB"]);
    create(&["--data-size", "96MiB"], &["--data-size: expected --data-devices with it"]);
    sparse(&scratch, "tiny.img", 1 << 20);
    let tiny = ["--data-devices", "there.img,tiny.img"];
    create(&tiny, &["data device tiny.img: expected at least 2097152 bytes, found 1048576"]);
    let grow = [&new[..], &["--data-size", "96MiB", "--grow-to", "1GiB"]].concat();
    create(&grow, &["--grow-to", "leave it out"]);
    let used = scratch.path("there.img");
    corrupt(&used, 1080, 2);
    let there = ["--data-devices", "there.img,new.img", "--data-size", "96MiB"];
    create(&there, &["there.img", "expected an empty device", "--force"]);
}

#[test]
fn a_volume_does_not_open_without_its_data_devices_or_with_others() {
    let scratch = Scratch::new("data-open");
    made(&scratch);
    let serve = |data: &[&'static str], parts: &[&str]| {
        let args = [&["serve", "log.img", "--socket", "x.sock"], data].concat();
        let told = run_fails(&scratch, &args, parts);
        // Before it stand notes on the disks at most.
        let error = told.lines().last().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{told}");
    };
    serve(
        &[],
        &[
            "expected 2 data devices",
            "found 0",
            "data device 0 and 1 was not named",
            "--data-devices",
        ],
    );
    serve(&["--data-devices", "data-1.img"], &["found 1; data device 0 was not named"]);
    serve(&["--data-devices", "data-1.img,data-1.img"], &["name each device once"]);
    serve(&["--data-devices", "data-1.img,no.img"], &["no.img", "No such file"]);
    sparse(&scratch, "blank.img", 96 << 20);
    serve(
        &["--data-devices", "data-1.img,blank.img"],
        &["blank.img: expected a data device", "found none"],
    );
    for command in ["check", "status", "dump"] {
        let output = run(&scratch, &[command, "log.img"]);
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("data device 0 and 1 was not named"), "{command}: {told}");
    }
    // A data device by itself is no volume, and one disk needs no other.
    run_fails(&scratch, &["check", "data-0.img"], &["data-0.img is data device 0 of volume"]);
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let one = with(&["check", "a.img"], "blank.img");
    run_fails(&scratch, &one, &["lies on one device; leave --data-devices out"]);
}

#[test]
fn what_is_known_of_the_log_device_is_kept_with_its_data_devices_named_or_not() {
    let scratch = Scratch::new("data-tracks");
    let log = "model:st3146855fc,file=log.disk,cache=off";
    sparse(&scratch, "data-0.img", 96 << 20);
    run_ok(&scratch, &["create", log, "--data-devices", "data-0.img"]);
    run_ok(&scratch, &["calibrate", "model:st3146855fc,cache=off", "--out", "found.toml"]);
    for more in [&[][..], &["--data-devices", "data-0.img"]] {
        let args = [&["calibrate", log, "--known", "found.toml", "--store"], more].concat();
        let said = run_ok(&scratch, &args);
        assert!(said.contains("kept in the volume"), "{said}");
        let report = run_json(&scratch, &["status", log, "--data-devices", "data-0.img"]);
        assert!(report["state"]["tracks"]["zones"].as_u64() > Some(0), "{report}");
    }
}

#[test]
fn a_data_device_that_was_cut_short_is_told_of_while_it_is_served() {
    let scratch = Scratch::new("data-cut");
    let places = places(&made(&scratch));
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    write_all(&daemon, &places);
    File::options().write(true).open(scratch.path("data-1.img")).unwrap().set_len(1 << 20).unwrap();
    let report = run_json_whatever(&scratch, &["status", "log.img"]);
    let trouble = report["served"]["disk_trouble"].as_str().unwrap_or_default();
    assert!(trouble.starts_with("data-1.img was cut short"), "{report}");
    daemon.kill();
}

#[test]
fn an_error_of_a_data_device_names_it() {
    let scratch = Scratch::new("data-error");
    let (socket, control) = (scratch.text("disk.sock"), scratch.text("disk.control"));
    let args = [
        "disk",
        "serve",
        "model:st3146855fc,cache=off",
        "--socket",
        &socket,
        "--control",
        &control,
    ];
    let _disk = Daemon::spawn(&scratch, &args);
    let data = format!("nbd+unix:///?socket={socket}");
    run_ok(&scratch, &["create", "log.img", "--size", "64MiB", "--data-devices", &data]);
    let mut daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", &data]);
    let mut power = BufReader::new(UnixStream::connect(&control).unwrap());
    writeln!(power.get_mut(), "power-off 7").unwrap();
    power.read_line(&mut String::new()).unwrap();
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert!(client.try_read(1 << 30, 4096).is_err());
    daemon.wait_for_notice("of data device 0: ");
    let report = run_json_whatever(&scratch, &["status", "log.img"]);
    assert_eq!(report["disk_errors"]["last"]["data_device"], 0, "{report}");
    assert_eq!(report["devices"][1]["path"], data, "{report}");
    // The log device is well, so what comes now is durable there.
    client.write(0, &pattern(1, 4096), true);
    assert_eq!(client.read(0, 4096), pattern(1, 4096), "from memory");
    daemon.kill();
}

/// The report of a volume that need not be well.
fn run_json_whatever(scratch: &Scratch, args: &[&str]) -> serde_json::Value {
    let output = nearhead(scratch, args).arg("--json").output().unwrap();
    common::json::parse(&output.stdout).unwrap()
}

#[test]
fn a_drained_volume_is_read_without_its_lost_log_device() {
    let scratch = Scratch::new("data-lost-log");
    let places = places(&made(&scratch));
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    write_all(&daemon, &places);
    daemon.kill();
    std::fs::rename(scratch.path("log.img"), scratch.path("old.img")).unwrap();
    let without = ["serve", "missing", "--without-log", "--socket", "x.sock"];
    let newest = ["log device has what is newest", "attach it"];
    run_fails(&scratch, &with(&without, DATA), &newest);
    std::fs::rename(scratch.path("old.img"), scratch.path("log.img")).unwrap();
    let daemon = Daemon::serve(&scratch, "log.img", &["--data-devices", DATA]);
    run_ok(&scratch, &["drain", "log.img", "--stop"]);
    let (status, _, told) = daemon.wait();
    assert!(status.success(), "{told}");
    std::fs::rename(scratch.path("log.img"), scratch.path("old.img")).unwrap();
    // A data device says what it is, to whichever command.
    let parts = ["data-1.img is data device 1 of volume", "drained", "--without-log", "--new-log"];
    for command in [["check"].as_slice(), &["serve", "--socket", "x.sock"], &["repair"]] {
        run_fails(&scratch, &[command, &["data-1.img"]].concat(), &parts);
    }
    run_fails(&scratch, &["repair", "data-1.img", "--lost-superblocks"], &parts);
    let daemon = Daemon::serve(&scratch, "missing", &with(&["--without-log"], TURNED));
    expect_all(&daemon, &places);
    daemon.stop_ok();
    run_ok(&scratch, &with(&["check", "missing", "--without-log"], DATA));
    let one = ["expected all 2 data devices"];
    run_fails(&scratch, &with(&["check", "missing", "--without-log"], "data-0.img"), &one);
    run_ok(&scratch, &with(&["repair", "new.img", "--new-log"], DATA));
    let daemon = Daemon::serve(&scratch, "new.img", &["--data-devices", DATA]);
    expect_all(&daemon, &places);
    Client::connect(&daemon.socket).unwrap().write(places[0], &pattern(9, 8192), true);
    daemon.kill();
    let stale = ["old.img: expected generation"];
    run_fails(&scratch, &with(&["check", "old.img"], DATA), &stale);
    let daemon = Daemon::serve(&scratch, "new.img", &["--data-devices", DATA]);
    assert_eq!(Client::connect(&daemon.socket).unwrap().read(places[0], 8192), pattern(9, 8192));
    daemon.stop_ok();
    run_ok(&scratch, &with(&["check", "new.img"], DATA));
}
