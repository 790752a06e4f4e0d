//! A map so large that a recovery reads its snapshot in several pieces: all of it is found after a clean stop.

#![allow(clippy::unwrap_used)]

use nearhead_disk::{Nanos, Payload};
use nearhead_format::{AckMode, ENTRY_BYTES};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, SyncIo, Volume, create};

const DEVICE_BYTES: u64 = 4 << 30;
/// Entries of a map whose snapshot is one and a half reads of 1 MiB.
const ENTRIES: u64 = 3 * (1 << 20) / 2 / ENTRY_BYTES as u64;
const OUTSTANDING: u64 = 512;

/// One sector in each block, so that nothing is joined in the map.
fn offset(number: u64) -> u64 {
    number * 4096 + 512 * (number % 7)
}

fn content(number: u64) -> Vec<u8> {
    (number ^ 0x5EED).to_le_bytes().repeat(64)
}

fn open(disk: InstantDisk, now: Nanos) -> (Volume<InstantDisk>, Nanos) {
    let (mut volume, now) = Volume::open_in_virtual_time(disk, now, |_, config| {
        config.cleaning.idle_after = None;
        config.cleaning.watermark_pct = None;
    })
    .unwrap();
    let now = volume.run_until_open(now).unwrap();
    assert!(volume.status().damage.is_empty(), "{:?}", volume.status().damage);
    (volume, now)
}

/// Sends `operation` for every number, some at a time; hands out the replies.
fn all(
    volume: &mut Volume<InstantDisk>,
    now: &mut Nanos,
    operation: impl Fn(u64) -> Operation,
    mut replied: impl FnMut(u64, Vec<Payload>),
) {
    let (mut sent, mut answered) = (0, 0);
    while answered < ENTRIES {
        while sent < ENTRIES && sent - answered < OUTSTANDING {
            let request = Request { id: RequestId(sent), operation: operation(sent) };
            volume.submit(request, *now);
            sent += 1;
        }
        volume.drive(*now);
        while let Some(reply) = volume.poll_reply() {
            answered += 1;
            replied(reply.id.0, reply.result.unwrap());
        }
        if sent > answered {
            *now = volume.wake_at().unwrap().max(*now);
        }
    }
}

#[test]
fn a_snapshot_longer_than_one_read_is_found_whole() {
    let properties = plain_properties(DEVICE_BYTES, 512);
    let store = Box::new(MemoryStore::new());
    let mut disk = InstantDisk::new(properties, store, Nanos::from_micros(10));
    let options = CreateOptions {
        log_bytes: Some(512 << 20),
        ack: AckMode::Durable,
        force: true,
        ..CreateOptions::new([7; 16], NamedPreset::by_name("singlelog").unwrap())
    };
    create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options).unwrap();
    let (mut volume, mut now) = open(disk, Nanos::from_secs(1));
    let write = |number| {
        let data = Payload::Bytes(nearhead_disk::BufferMut::copy_of(&content(number)).freeze());
        Operation::Write { offset: offset(number), data, fua: false }
    };
    all(&mut volume, &mut now, write, |_, _| {});
    volume.begin_shutdown(now);
    volume.drive(now);
    while !volume.is_shut_down() {
        now = volume.wake_at().unwrap().max(now);
        volume.drive(now);
    }

    let (mut volume, mut now) = open(volume.into_disk(), now);
    let status = volume.status();
    assert_eq!((status.recovery_records, status.map_entries), (0, ENTRIES));
    let read = |number| Operation::Read { offset: offset(number), len: 512 };
    all(&mut volume, &mut now, read, |number, parts| {
        let mut bytes = vec![0; 512];
        parts[0].copy_to(&mut bytes);
        assert!(bytes == content(number), "sector of block {number}");
    });
}
