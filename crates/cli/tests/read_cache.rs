//! The read cache of a chain, with the real program: told of, forgotten at a restart, and nothing taken for it that is something else.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 600;

fn content(block: u64) -> Vec<u8> {
    block.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(BLOCK as usize / 8)
}

fn made(scratch: &Scratch) {
    let sizes = ["--size", "64MiB", "--data-size", "20MiB"];
    run_ok(scratch, &[&["create", "--chain", "a.img,b.img"], &sizes[..]].concat());
}

fn served(scratch: &Scratch, cache: &[&str]) -> Daemon {
    let socket = scratch.text("nbd.sock");
    let args = ["serve", "--chain", "a.img,b.img", "--socket", &socket];
    Daemon::spawn(scratch, &[&args[..], cache].concat())
}

fn read_all(daemon: &Daemon) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for block in 0..BLOCKS {
        assert_eq!(client.read(block * BLOCK, BLOCK as u32), content(block), "block {block}");
    }
}

#[test]
fn what_was_written_is_read_from_the_cache_and_status_tells_of_it() {
    let scratch = Scratch::new("read-cache");
    made(&scratch);
    for cache in [
        &["--read-cache", "16MiB"][..],
        &["--read-cache-device", "flash:8MiB"],
        &["--read-cache", "1MiB", "--read-cache-device", "flash"],
    ] {
        let daemon = served(&scratch, cache);
        let mut client = Client::connect(&daemon.socket).unwrap();
        for block in 0..BLOCKS {
            client.write(block * BLOCK, &content(block), false);
        }
        client.flush();
        read_all(&daemon);
        let status = run_json(&scratch, &["status", "--chain", "a.img,b.img"]);
        let (found, counters) = (&status["state"]["read_cache"], &status["counters"]);
        let hits = counters["read_cache_hits"].as_u64().unwrap();
        assert!(hits > BLOCKS / 2, "{cache:?}: {counters}");
        assert!(found["tail_hit_pct"].as_f64().unwrap() > 50.0, "{found}");
        let kept = ["memory_bytes", "device_bytes"].map(|name| found[name].as_u64().unwrap());
        assert!(kept.iter().sum::<u64>() > BLOCKS * BLOCK / 4, "{found}");
        daemon.stop_ok();

        // Nothing of it is believed after a restart.
        let daemon = served(&scratch, cache);
        let status = run_json(&scratch, &["status", "--chain", "a.img,b.img"]);
        assert_eq!(status["state"]["read_cache"]["device_bytes"], 0);
        read_all(&daemon);
        daemon.stop_ok();
    }
    run_ok(&scratch, &["check", "--chain", "a.img,b.img"]);
}

#[test]
fn nothing_is_taken_for_a_cache_that_is_something_else_or_makes_no_sense() {
    let scratch = Scratch::new("read-cache-refused");
    made(&scratch);
    run_ok(&scratch, &["create", "plain.img", "--size", "64MiB"]);
    std::fs::write(scratch.path("letters"), vec![b'x'; 2 << 20]).unwrap();
    let socket = scratch.text("nbd.sock");
    let refused = |target: &[&str], cache: &[&str], part: &str| {
        let args = [&["serve"], target, &["--socket", &socket], cache].concat();
        run_fails(&scratch, &args, &[part]);
    };
    let chain = ["--chain", "a.img,b.img"];
    for (cache, part) in [
        (["--read-cache", "4k"], "expected 0, or 1 MiB to 1 TiB, found 4096 bytes"),
        (["--read-cache", "1000T"], "expected less than the machine's memory"),
        (["--read-cache-device", "none"], "add a size to have the file made, such as none:8GiB"),
        (["--read-cache-device", "small:64k"], "expected at least 1048576 bytes, found 65536"),
        (["--read-cache-device", "plain.img"], "superblock of a Nearhead volume"),
        (["--read-cache-device", "letters"], "data of an unknown kind"),
        (["--read-cache-device", "a.img"], "name each disk once"),
        (
            ["--read-cache-device", "letters:1G"],
            "expected the 1073741824 bytes that were said, found 2097152",
        ),
    ] {
        refused(&chain, &cache, part);
    }
    assert!(!scratch.path("small").exists(), "nothing is made that is refused");
    assert!(std::fs::read(scratch.path("letters")).unwrap().iter().all(|byte| *byte == b'x'));
    refused(&["plain.img"], &["--read-cache", "2MiB"], "expected a chain (preset gecko)");
    run_ok(&scratch, &["check", "plain.img"]);
    served(&scratch, &["--read-cache", "0"]).stop_ok();
}
