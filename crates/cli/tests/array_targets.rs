//! Arrays as targets, with the real program on image files and emulated disks.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, ask, run_fails, run_json, run_ok};
use std::fs::File;

fn sparse(scratch: &Scratch, name: &str, bytes: u64) {
    File::create(scratch.path(name)).unwrap().set_len(bytes).unwrap();
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(37).wrapping_add(seed)).collect()
}

#[test]
fn a_volume_on_an_array_of_files_keeps_what_was_written_over_a_kill() {
    for array in ["raid0:a.img,b.img,c.img?chunk=16k", "mirror:a.img,b.img"] {
        let scratch = Scratch::new("array");
        for name in ["a.img", "b.img", "c.img"] {
            sparse(&scratch, name, 72 << 20);
        }
        let made = run_json(&scratch, &["create", array, "--group-size", "8MiB"]);
        // The last 8 KiB of each member are its label; a stripe uses whole chunks.
        let (disks, label) = if array.starts_with("raid0") { (3, 16 << 10) } else { (1, 8 << 10) };
        let (whole, used) = (disks * ((72 << 20) - label), made["device_bytes"].as_u64().unwrap());
        // A log that lies on one member whole may leave the ends of the others over.
        assert!((whole - (disks << 20)..=whole).contains(&used), "{array}: {used} of {whole}");
        let daemon = Daemon::serve(&scratch, array, &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        client.write(0, &pattern(1, 4096), true);
        client.write(1 << 20, &pattern(2, 1 << 20), true);
        let served = run_json(&scratch, &["status", array]);
        assert_eq!(served["state"]["phase"], "serving");
        daemon.kill();
        let daemon = Daemon::serve(&scratch, array, &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        assert_eq!(client.read(0, 4096), pattern(1, 4096), "{array}");
        assert_eq!(client.read(1 << 20, 1 << 20), pattern(2, 1 << 20), "{array}");
        daemon.stop_ok();
        run_ok(&scratch, &["check", array]);
        if array.starts_with("mirror") {
            let content = |name: &str| {
                let mut bytes = std::fs::read(scratch.path(name)).unwrap();
                bytes.truncate((72 << 20) - (8 << 10));
                bytes
            };
            assert!(content("a.img") == content("b.img"));
            // Either member is the whole volume.
            run_ok(&scratch, &["check", "b.img"]);
            run_ok(&scratch, &["check", "mirror:b.img,missing"]);
        }
    }
}

#[test]
fn a_volume_lives_on_emulated_and_real_members_together() {
    let scratch = Scratch::new("mixed");
    let array = "mirror:model:st3146855fc,file=disk.img,cache=off,real.img";
    sparse(&scratch, "real.img", 72 << 20);
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
    let mut daemon = Daemon::serve(&scratch, array, &[]);
    daemon.wait_for_notice("different sizes: 75497472 bytes of each are used");
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &pattern(5, 8192), true);
    daemon.stop_ok();
    let daemon = Daemon::serve(&scratch, "mirror:missing,real.img", &[]);
    assert_eq!(Client::connect(&daemon.socket).unwrap().read(0, 8192), pattern(5, 8192));
    daemon.stop_ok();
}

#[test]
fn a_member_of_a_mirror_that_was_away_never_serves_what_it_missed() {
    let scratch = Scratch::new("away");
    for name in ["a.img", "b.img", "c.img"] {
        sparse(&scratch, name, 72 << 20);
    }
    let array = "mirror:a.img,b.img";
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
    let write = |target: &str, seed: u8| {
        let daemon = Daemon::serve(&scratch, target, &[]);
        Client::connect(&daemon.socket).unwrap().write(0, &pattern(seed, 4096), true);
        daemon.stop_ok();
    };
    write(array, 1);
    // Alone a member may be looked at, and nothing else: the other one would not know.
    run_ok(&scratch, &["check", "b.img"]);
    let alone = ["is member 2 of 2 of a mirror", "mirror:b.img,missing"];
    run_fails(&scratch, &["serve", "b.img", "--socket", "x.sock"], &alone);
    write("mirror:missing,b.img", 2);
    let mut daemon = Daemon::serve(&scratch, array, &[]);
    daemon.wait_for_notice("a.img was away, and is older: it is copied to from byte 0 on");
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert_eq!(client.read(0, 4096), pattern(2, 4096));
    daemon.stop_ok();
    // Another disk in the place of a member is taken for what it is.
    let other = "mirror:b.img,c.img";
    let parts = ["c.img: expected the label of an array member", "?take=N"];
    run_fails(&scratch, &["serve", other, "--socket", "x.sock"], &parts);
    let mut daemon = Daemon::serve(&scratch, "mirror:b.img,c.img?take=1", &[]);
    daemon.wait_for_notice("c.img becomes a copy of b.img");
    daemon.stop_ok();
}

#[test]
fn a_member_of_a_mirror_that_was_away_for_little_is_copied_little() {
    let scratch = Scratch::new("missed");
    for name in ["a.img", "b.img"] {
        sparse(&scratch, name, 72 << 20);
    }
    let (array, alone) = ("mirror:a.img,b.img", "mirror:a.img,missing");
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
    let daemon = Daemon::serve(&scratch, array, &[]);
    Client::connect(&daemon.socket).unwrap().write(0, &pattern(1, 32 << 20), true);
    daemon.stop_ok();
    let mirror = |status: &serde_json::Value, name: &str| {
        status["devices"][0]["mirrors"][0][name].as_u64().unwrap()
    };
    let daemon = Daemon::serve(&scratch, alone, &[]);
    Client::connect(&daemon.socket).unwrap().write(9 << 20, &pattern(2, 1 << 20), true);
    let status = run_json(&scratch, &["status", alone]);
    let dirty_bytes = mirror(&status, "dirty_bytes");
    assert!((1 << 20..8 << 20).contains(&dirty_bytes), "{dirty_bytes} bytes");
    assert_eq!(mirror(&status, "left_bytes"), 0);
    // Also after a kill: the labels had it before the disk.
    daemon.kill();
    let mut daemon = Daemon::serve(&scratch, array, &[]);
    daemon.wait_for_notice("what changed while b.img was away is known: it is copied");
    while mirror(&run_json(&scratch, &["status", array]), "left_bytes") > 0 {}
    assert_eq!(mirror(&run_json(&scratch, &["status", array]), "dirty_bytes"), 0);
    daemon.stop_ok();
    let content = |name: &str| std::fs::read(scratch.path(name)).unwrap()[..71 << 20].to_vec();
    assert!(content("a.img") == content("b.img"));
}

/// Bytes that are nobody's: a kill would leave members different only where writes were under way.
#[test]
fn members_of_a_mirror_that_a_kill_left_different_are_alike_again() {
    let scratch = Scratch::new("unsure");
    sparse(&scratch, "a.img", 72 << 20);
    sparse(&scratch, "b.img", 72 << 20);
    let array = "mirror:a.img,b.img";
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
    let serve = || Daemon::serve(&scratch, array, &[]);
    let trouble = |of: &serde_json::Value| of["served"]["disk_trouble"].clone();
    let daemon = serve();
    Client::connect(&daemon.socket).unwrap().write(0, &pattern(1, 4096), true);
    assert_eq!(trouble(&run_json(&scratch, &["status", array])), serde_json::Value::Null);
    daemon.kill();
    let at = (48 << 20) + 4096;
    common::corrupt(&scratch.path("b.img"), at, 4096);
    let mut daemon = serve();
    daemon.wait_for_notice("the mirror was not left in order");
    daemon.wait_for_notice("made alike as");
    // It may be over before the daemon serves.
    while trouble(&run_json(&scratch, &["status", array])) != serde_json::Value::Null {}
    daemon.stop_ok();
    let content = |name: &str| std::fs::read(scratch.path(name)).unwrap()[..71 << 20].to_vec();
    assert!(content("a.img") == content("b.img"));
    // Left in order it is taken as it is.
    common::corrupt(&scratch.path("b.img"), at, 4096);
    let daemon = serve();
    assert_eq!(trouble(&run_json(&scratch, &["status", array])), serde_json::Value::Null);
    daemon.stop_ok();
    assert!(content("a.img") != content("b.img"));
}

#[test]
fn arrays_that_cannot_be_opened_say_why() {
    let scratch = Scratch::new("badarray");
    sparse(&scratch, "a.img", 64 << 20);
    sparse(&scratch, "b.img", 64 << 20);
    std::os::unix::fs::symlink(scratch.path("a.img"), scratch.path("link.img")).unwrap();
    for (array, parts) in [
        ("raid0:a.img", ["expected 2 to 32 members", "found 1"]),
        ("raid0:a.img,a.img", ["named twice", "a.img"]),
        ("raid0:a.img,link.img", ["a.img and link.img", "the same one"]),
        ("raid0:a.img,b.img?chunk=3k", ["power of two", "3k"]),
        ("raid0:a.img,missing.img", ["missing.img", "No such file"]),
        ("raid0:a.img,model:nosuch", ["nosuch", "st3146855fc"]),
        ("raid0:a.img,raid0:b.img", ["only a raid0 has arrays as members", "raid0:b.img"]),
    ] {
        run_fails(&scratch, &["create", array], &parts);
    }
    let array = "raid0:a.img,b.img";
    run_fails(&scratch, &["create", array, "--size", "64MiB"], &["leave --size out", "truncate"]);
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
}

/// As a part of the array a member shows little of what is on it, and its label goes to its end before anything else.
#[test]
fn create_takes_no_member_with_something_on_it_and_leaves_each_byte() {
    let scratch = Scratch::new("used-members");
    let set = |name: &str, bytes: &[(usize, u8)]| {
        let mut image = vec![0; 96 << 20];
        for (at, byte) in bytes {
            image[*at] = *byte;
        }
        std::fs::write(scratch.path(name), image).unwrap();
    };
    set("empty.img", &[]);
    // A file system that fills its device, and something at the very end alone.
    set("ext.img", &[(1080, 0x53), (1081, 0xef), ((96 << 20) - 5000, 7)]);
    set("end.img", &[((96 << 20) - 1, 9)]);
    run_ok(&scratch, &["create", "volume.img", "--size", "96MiB"]);
    for used in ["ext.img", "end.img", "volume.img"] {
        for array in ["mirror:A,B", "mirror:B,A", "raid0:A,B", "raid0:B,A", "mirror:B,missing"] {
            let array = array.replace('A', "empty.img").replace('B', used);
            let before = [used, "empty.img"].map(|name| std::fs::read(scratch.path(name)).unwrap());
            let parts =
                [used, "expected an empty device", &format!("a member of {array}"), "--force"];
            run_fails(&scratch, &["create", &array], &parts);
            let after = [used, "empty.img"].map(|name| std::fs::read(scratch.path(name)).unwrap());
            assert!(before == after, "{array}: a member was changed");
        }
    }
    run_ok(&scratch, &["check", "volume.img"]);
    // What only has a label is empty, in the array that it is of.
    let array = "mirror:empty.img,other.img";
    set("other.img", &[]);
    run_fails(&scratch, &["create", array, "--group-size", "1GiB"], &["--group-size"]);
    run_ok(&scratch, &["create", array]);
    run_ok(&scratch, &["create", "raid0:volume.img,ext.img", "--force"]);
}

#[test]
fn an_array_that_is_named_otherwise_than_when_it_was_made_is_not_served() {
    let scratch = Scratch::new("misnamed");
    for name in ["a.img", "b.img", "c.img", "d.img"] {
        sparse(&scratch, name, 64 << 20);
    }
    let made = "raid0:a.img,b.img,c.img,d.img?chunk=128k";
    run_ok(&scratch, &["create", made, "--group-size", "8MiB"]);
    let before: Vec<_> =
        ["a.img", "d.img"].map(|name| std::fs::read(scratch.path(name)).unwrap()).into();
    for (named, parts) in [
        (
            "raid0:b.img,a.img,c.img,d.img?chunk=128k",
            ["b.img is named as member 1, and is member 2 of 4", "in that order"],
        ),
        (
            "raid0:a.img,b.img,d.img,c.img?chunk=128k",
            ["d.img is named as member 3, and is member 4 of 4", "in that order"],
        ),
        ("raid0:a.img,b.img,c.img,d.img?chunk=256k", ["?chunk=128k", "chunks of 256 KiB"]),
        ("raid0:a.img,b.img,c.img?chunk=128k", ["an array of 3", "found one of 4"]),
    ] {
        run_fails(&scratch, &["serve", named, "--socket", "x.sock"], &parts);
        run_fails(&scratch, &["checkpoint", named], &parts);
    }
    // Who wants to make something of a member is told how, and nobody else.
    let alone = "a.img is member 1 of 4 of a stripe";
    for command in
        [&["serve", "a.img", "--socket", "x.sock"][..], &["repair", "a.img"], &["grow", "a.img"]]
    {
        let said = run_fails(&scratch, command, &[alone]);
        assert!(!said.contains("--force") && !said.contains("create"), "{said}");
    }
    run_fails(&scratch, &["create", "a.img"], &[alone, "with --force, which destroys"]);
    let after: Vec<_> =
        ["a.img", "d.img"].map(|name| std::fs::read(scratch.path(name)).unwrap()).into();
    assert!(before == after, "nothing was changed");
    Daemon::serve(&scratch, made, &[]).stop_ok();
}

#[test]
fn every_kind_of_disk_is_listed_and_served_bare_with_power_cuts() {
    let scratch = Scratch::new("kinds");
    let disks = run_json(&scratch, &["disk", "list"]);
    let kinds: Vec<&str> =
        disks.as_array().unwrap().iter().filter_map(|disk| disk["kind"].as_str()).collect();
    for (kind, least) in [("hdd", 3), ("smr", 3), ("flash", 1)] {
        assert!(kinds.iter().filter(|found| **found == kind).count() >= least, "{kind}: {disks}");
    }
    for disk in [
        "model:st8000as0002-mlsmr",
        "model:flash-8ch-550gb",
        "raid0:model:st3146855fc,model:flash-8ch-550gb",
    ] {
        let (socket, control) = (scratch.text("nbd.sock"), scratch.text("bare.control"));
        let args = ["disk", "serve", disk, "--json", "--socket", &socket, "--control", &control];
        let daemon = Daemon::spawn(&scratch, &args);
        let mut client = Client::connect(&daemon.socket).unwrap();
        client.write(1 << 20, &pattern(9, 65536), true);
        let cut = ask(&control, "power-cut 7");
        assert_eq!(cut["ok"]["power_cuts"], 1, "{disk}: {cut}");
        assert_eq!(client.read(1 << 20, 65536), pattern(9, 65536), "{disk}");
        let counters = ask(&control, "stats");
        assert!(counters["ok"].is_object(), "{disk}: {counters}");
        drop(client);
        let (status, told, problems) = daemon.stop();
        assert!(status.success(), "{disk}: {told} {problems}");
    }
}

/// As a service does that is started with it again and again.
#[test]
fn a_take_that_is_passed_again_never_brings_back_what_is_older() {
    let scratch = Scratch::new("take-again");
    for name in ["a.img", "b.img", "c.img"] {
        sparse(&scratch, name, 72 << 20);
    }
    run_ok(&scratch, &["create", "mirror:a.img,b.img", "--group-size", "8MiB"]);
    let write = |target: &str, seed: u8| {
        let daemon = Daemon::serve(&scratch, target, &[]);
        Client::connect(&daemon.socket).unwrap().write(0, &pattern(seed, 4096), true);
        daemon.stop_ok();
    };
    let is_whole = |target: &str| {
        let status = run_json(&scratch, &["status", target]);
        status["served"]["disk_trouble"].is_null()
    };
    let read = |target: &str| {
        let daemon = Daemon::serve(&scratch, target, &[]);
        let found = Client::connect(&daemon.socket).unwrap().read(0, 4096);
        while !is_whole(target) {}
        daemon.stop_ok();
        found
    };
    let taken = "mirror:a.img,b.img?take=1";
    write(taken, 1);
    write("mirror:missing,b.img", 2);
    assert_eq!(read(taken), pattern(2, 4096), "a.img is older");
    run_ok(&scratch, &["check", "mirror:a.img,b.img"]);
    // Each used without the other, long after the text was written down.
    write("mirror:a.img,missing", 3);
    write("mirror:missing,b.img", 4);
    let told = run_fails(&scratch, &["serve", taken, "--socket", "x.sock"], &["write `?take=1@"]);
    let now = told.split("write `?").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    assert_eq!(read(&format!("mirror:a.img,b.img?{now}")), pattern(3, 4096));
    // A newcomer is another decision, too.
    let older = "mirror:a.img,c.img?take=1";
    run_fails(&scratch, &["serve", older, "--socket", "x.sock"], &["is not carried out again"]);
}
