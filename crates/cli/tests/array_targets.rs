//! Arrays as targets, with the real program on image files and emulated disks.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};
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
            sparse(&scratch, name, 64 << 20);
        }
        let made = run_json(&scratch, &["create", array, "--group-size", "8MiB"]);
        let disks = if array.starts_with("raid0") { 3 } else { 1 };
        assert_eq!(made["device_bytes"], disks * (64 << 20));
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
            assert_eq!(
                std::fs::read(scratch.path("a.img")).unwrap(),
                std::fs::read(scratch.path("b.img")).unwrap()
            );
            // Either member is the whole volume.
            run_ok(&scratch, &["check", "b.img"]);
        }
    }
}

#[test]
fn a_volume_lives_on_emulated_and_real_members_together() {
    let scratch = Scratch::new("mixed");
    let array = "mirror:model:st3146855fc,file=disk.img,cache=off,real.img";
    sparse(&scratch, "real.img", 64 << 20);
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
    let mut daemon = Daemon::serve(&scratch, array, &[]);
    daemon.wait_for_notice("different sizes: 67108864 bytes of each are used");
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &pattern(5, 8192), true);
    daemon.stop_ok();
    let daemon = Daemon::serve(&scratch, "real.img", &[]);
    assert_eq!(Client::connect(&daemon.socket).unwrap().read(0, 8192), pattern(5, 8192));
    daemon.stop_ok();
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
        ("raid0:a.img,raid0:b.img", ["array of arrays", "raid0:b.img"]),
    ] {
        run_fails(&scratch, &["create", array], &parts);
    }
    let array = "raid0:a.img,b.img";
    run_fails(&scratch, &["create", array, "--size", "64MiB"], &["leave --size out", "truncate"]);
    run_ok(&scratch, &["create", array, "--group-size", "8MiB"]);
    let swapped = "raid0:b.img,a.img";
    run_fails(&scratch, &["check", swapped], &["b.img"]);
}
