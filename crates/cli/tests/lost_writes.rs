//! A disk below the file system that loses writes: `serve` opens the volume again in place, and its clients stay.
//!
//! The image is a file of an ext4 on a loop device over a disk of ours (`crates/uring/tests/support/losing_disk.rs`) of which
//! one sector cannot be written. The kernel, which wrote it from its page cache, tells of that once.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
#[path = "../../uring/tests/support/losing_disk.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod losing;

use common::nbd::{Client, Kind};
use common::{Daemon, Scratch, run, run_json, run_ok, tool, tools};
use losing::{LosingDisk, serve_if_asked};
use std::path::PathBuf;
use std::time::Duration;

const SERVER: &str = "serve_a_losing_disk_for_the_other_tests";
const EIO: u32 = 5;

#[test]
fn serve_a_losing_disk_for_the_other_tests() {
    serve_if_asked();
}

/// An ext4 on such a disk.
struct Below {
    mounted: PathBuf,
    device: String,
    losing: LosingDisk,
}

impl Below {
    fn mount(scratch: &Scratch) -> Option<Self> {
        if !tools(&["losetup", "mkfs.ext4", "mount", "umount"]) {
            return None;
        }
        let losing = LosingDisk::start(scratch, 256 << 20, SERVER)?;
        let file = losing.path();
        let attached = tool("losetup", &["--find", "--show", "--direct-io=on", file.to_str()?]);
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        if !attached.status.success() {
            println!("skipped: losetup: {attached:?}");
            return None;
        }
        let mounted = scratch.path("ext4");
        std::fs::create_dir(&mounted).unwrap();
        let below = Self { mounted, device, losing };
        let folder = below.mounted.to_str()?;
        for (name, args) in [
            ("mkfs.ext4", vec!["-q", "-F", &below.device]),
            ("mount", vec![below.device.as_str(), folder]),
        ] {
            let output = tool(name, &args);
            if !output.status.success() {
                println!("skipped: {name}: {output:?}");
                return None;
            }
        }
        Some(below)
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        tool("umount", &["--lazy", self.mounted.to_str().unwrap()]);
        tool("losetup", &["--detach", &self.device]);
    }
}

fn block(number: u64, round: u8) -> Vec<u8> {
    let mut bytes = vec![round; 4096];
    for sector in bytes.chunks_mut(512) {
        sector[..8].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// What begins in no other sector.
const POISON: &[u8] = b"this sector is bad from now on; ";

#[test]
fn a_bad_sector_below_the_page_cache_costs_a_flush_and_neither_a_client_nor_what_was_durable() {
    let scratch = Scratch::new("lost-writes");
    let Some(below) = Below::mount(&scratch) else { return };
    let args = ["create", "ext4/a.img", "--size", "128MiB", "--preset", "mlb", "--preallocate"];
    run_ok(&scratch, &args);
    let serve = ["--rotational=false", "--control", "own.sock"];
    let mut daemon = Daemon::serve(&scratch, "ext4/a.img", &serve);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let mut other = Client::connect(&daemon.socket).unwrap();
    for connection in [&mut client, &mut other] {
        connection.answer_within(Duration::from_secs(120)).unwrap();
    }
    for number in 0..64 {
        client.write(number * 4096, &block(number, 1), number % 2 == 0);
    }
    client.flush();
    // Large enough to go home, and answered before anything is on the disk.
    let mut large = vec![7; 1 << 20];
    large[512 << 10..][..POISON.len()].copy_from_slice(POISON);
    below.losing.spoil_where(POISON);
    client.write(32 << 20, &large, false);
    let error = client.run(Kind::Flush, false, 0, 0, &[]).unwrap();
    assert!(below.losing.is_spoilt(), "the disk was not asked");
    assert_eq!(error, EIO, "nobody was told");
    assert_eq!(other.run(Kind::Flush, false, 0, 0, &[]).unwrap(), EIO, "it may rely on it, too");
    daemon.wait_for_notice("the volume is open again");
    // The same connections go on.
    for number in 0..64 {
        assert!(client.read(number * 4096, 4096) == block(number, 1), "{number} was durable");
    }
    for number in 32..96 {
        other.write(number * 4096, &block(number, 2), number % 2 == 0);
    }
    other.flush();
    client.flush();
    // The very place: whoever writes it in place is told, and nobody else.
    assert_eq!(client.run(Kind::Write, true, 32 << 20, 1 << 20, &large).unwrap(), EIO);
    let small = vec![9; 4096];
    client.write((32 << 20) + (512 << 10), &small, true);
    client.flush();
    let report = run_json(&scratch, &["status", "ext4/a.img", "--control", "own.sock"]);
    assert_eq!(report["state"]["phase"], "serving", "{report}");
    assert_eq!(report["health"]["state"], "degraded", "{report}");
    assert_eq!(report["served"]["losses"]["count"], 1, "{report}");
    let text = run(&scratch, &["status", "ext4/a.img", "--control", "own.sock"]);
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("the disk lost writes 1 time"),
        "{text:?}"
    );
    // A kill, and a start that writes past the page cache from the beginning: as after a power cut.
    daemon.kill();
    let past_cache = ["--rotational=false", "--page-cache=false", "--control", "own.sock"];
    let daemon = Daemon::serve(&scratch, "ext4/a.img", &past_cache);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for number in 0..96 {
        let round = if number < 32 { 1 } else { 2 };
        assert!(client.read(number * 4096, 4096) == block(number, round), "{number} was durable");
    }
    assert!(client.read((32 << 20) + (512 << 10), 4096) == small, "it was logged");
    daemon.kill();
}
