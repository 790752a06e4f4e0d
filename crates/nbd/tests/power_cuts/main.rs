//! The laws of durability at the NBD boundary: whatever a client was told to be durable is there after
//! a power cut at any moment, for each service that is served, whatever the command, with clients that
//! come and go and share sectors; and each request gets its own reply.
//!
//! Which command the cut comes at and what it leaves is in the seed; which requests are under way then
//! also depends on how threads are scheduled, so a seed may have to be repeated.

#![allow(clippy::unwrap_used, reason = "tests")]

mod client;
mod doomed;
mod life;
mod oracle;

use doomed::Doomed;
use life::{AREA_BYTES, live};
use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, Payload, Properties};
use nearhead_engine::Ack;
use nearhead_models::{CrashDisk, MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{BareDisk, CreateOptions, NamedPreset, SyncIo, Volume, create};
use std::path::PathBuf;

const DEVICE_BYTES: u64 = 64 << 20;
/// Lives of each service, unless `SEEDS` says otherwise.
const LIVES: u64 = 120;

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..number("SEEDS").unwrap_or(LIVES)).collect(),
    }
}

/// A folder for the sockets of one life.
fn folder(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearhead-cuts-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn say(test: &str, seed: u64) {
    println!("repeat with: SEED={seed} cargo test -p nearhead-nbd --test power_cuts {test}");
}

#[test]
fn a_bare_disk_keeps_what_it_promised_to_clients() {
    let test = "a_bare_disk";
    let folder = folder(test);
    for seed in seeds() {
        say(test, seed);
        let open = |fate: SplitMix, _| {
            // So small that large writes are split, and FUA is no matter of one command.
            let properties =
                Properties { transfer_bytes_max: 16 << 10, ..doomed::properties(DEVICE_BYTES) };
            BareDisk::new(Doomed::new(properties, MemoryStore::new(), fate))
        };
        let (oracle, image) = live(&folder, seed, false, open);
        let mut bytes = vec![0; AREA_BYTES];
        image.read(0, &mut bytes).unwrap();
        oracle.check_restart(&bytes);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_volume_keeps_what_it_promised_to_clients() {
    volumes("a_volume_keeps", "mlb-32", Ack::Flush);
}

#[test]
fn a_volume_whose_every_answer_is_durable_keeps_what_it_answered() {
    volumes("a_volume_whose", "singlelog", Ack::Durable);
}

#[test]
fn a_volume_without_logs_keeps_what_it_promised_to_clients() {
    volumes("a_volume_without", "nolog", Ack::Flush);
}

fn volumes(test: &str, preset: &str, ack: Ack) {
    let folder = folder(test);
    let empty = empty_volume(preset);
    for seed in seeds() {
        say(test, seed);
        let image = empty.clone();
        let open = |mut fate: SplitMix, start| {
            let stage_bytes_max = [64 << 10, 2 << 20][fate.below(2) as usize];
            let disk = Doomed::new(doomed::properties(DEVICE_BYTES), image, fate);
            let mut volume = Volume::open(disk, start, |_, config| {
                config.ack = ack;
                config.stage_bytes_max = stage_bytes_max;
                config.snapshot_after_bytes = 200 << 10;
                config.cleaning.idle_after = Some(Nanos::from_millis(1));
            })
            .unwrap_or_else(|error| panic!("{error}"));
            volume.wait_until_open(start).unwrap_or_else(|error| panic!("{error}"));
            volume
        };
        let (oracle, image) = live(&folder, seed, ack == Ack::Durable, open);
        oracle.check_restart(&content_of(image));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A disk with a new volume.
fn empty_volume(preset: &str) -> MemoryStore {
    let properties = doomed::properties(DEVICE_BYTES);
    let mut disk = CrashDisk::with_image(properties, MemoryStore::new());
    let named = NamedPreset::by_name(preset).unwrap();
    let has_logs = preset != "nolog";
    let options = CreateOptions {
        group_bytes: preset.starts_with("mlb").then_some(4 << 20),
        log_bytes: has_logs.then_some(512 << 10),
        force: true,
        ..CreateOptions::new([7; 16], named)
    };
    create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options)
        .unwrap_or_else(|error| panic!("{error}"));
    disk.image_with(0)
}

/// What a volume shows after a restart.
fn content_of(image: MemoryStore) -> Vec<u8> {
    let disk = CrashDisk::with_image(doomed::properties(DEVICE_BYTES), image);
    let opened = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| ());
    let (mut volume, now) = opened.unwrap_or_else(|error| panic!("{error}"));
    let mut now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
    assert!(volume.status().damage.is_empty(), "{:?}", volume.status().damage);
    let operation = Operation::Read { offset: 0, len: AREA_BYTES as u32 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    let parts: Vec<Payload> = loop {
        volume.drive(now);
        if let Some(reply) = volume.poll_reply() {
            break reply.result.unwrap();
        }
        now = volume.wake_at().unwrap().max(now);
    };
    let mut bytes = vec![0; AREA_BYTES];
    let mut at = 0;
    for part in parts {
        part.copy_to(&mut bytes[at..at + part.len()]);
        at += part.len();
    }
    assert_eq!(at, AREA_BYTES);
    bytes
}
