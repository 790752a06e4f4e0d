//! A swap only moves what is logged to where there is more room. One that finds less room than it needs is given
//! up, and that is no reason to bring anything home: on a shingled disk it would rewrite bands.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::{Nanos, Payload};
use nearhead_engine::{Activities, Activity};
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label};
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, Volume, create};

const BLOCK: u64 = 4096;
const GROUP_BYTES: u64 = 28 << 20;

/// Two logs of 512 KiB, of which one that is 30 % full is moved.
fn volume() -> Volume<InstantDisk> {
    let properties = plain_properties(64 << 20, 512);
    let disk = InstantDisk::new(properties.clone(), Box::new(Dataless), Nanos::from_micros(100));
    let preset = NamedPreset::by_name("mlb").unwrap();
    let options = CreateOptions {
        volume_id: [1; 16],
        created_unix_s: 0,
        preset,
        logged_write_bytes_max: 64 << 10,
        group_bytes: Some(GROUP_BYTES),
        log_bytes: Some(512 << 10),
        ack: AckMode::Durable,
        label: Label::default(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: false,
        force: true,
    };
    let superblock = create::describe(&properties, None, &options).unwrap();
    assert_eq!(superblock.layout.log_count(), 2);
    Volume::start_empty(disk, superblock, preset, |_, config| {
        config.cleaning.idle_after = None;
        config.cleaning.watermark_pct = None;
        config.cleaning.swap_above_pct = Some(30);
        config.cleaning.swap_idle_after = Nanos::from_millis(10);
    })
}

/// Sends one request and lets the volume come to rest.
fn settle(volume: &mut Volume<InstantDisk>, now: &mut Nanos, id: u64, offset: u64, len: u64) {
    let data = Payload::Phantom(len as usize);
    let operation = Operation::Write { offset, data, fua: true };
    volume.submit(Request { id: RequestId(id), operation }, *now);
    volume.drive(*now);
    let until = *now + Nanos::from_millis(5);
    while let Some(wake) = volume.wake_at().filter(|wake| *wake <= until) {
        *now = wake.max(*now);
        volume.drive(*now);
    }
    let reply = volume.poll_reply().expect("a write is answered within 5 ms on this disk");
    assert!(reply.result.is_ok(), "{:?}", reply.result);
}

#[test]
fn a_swap_without_enough_room_for_it_brings_nothing_home() {
    let (mut volume, mut now, mut id) = (volume(), Nanos::ZERO, 0);
    let mut write = |volume: &mut _, now: &mut _, offset, len| {
        id += 1;
        settle(volume, now, id, offset, len);
    };
    // A large write in place takes the head to a group; what is small goes to the log there. The log of the
    // second group is still cold with these, the log of the first holds more than the rest of it takes.
    write(&mut volume, &mut now, GROUP_BYTES + (8 << 20), 1 << 20);
    for block in 0..18 {
        write(&mut volume, &mut now, GROUP_BYTES + (8 << 20) + 2 * block * BLOCK, BLOCK);
    }
    write(&mut volume, &mut now, 8 << 20, 1 << 20);
    for block in 0..50 {
        write(&mut volume, &mut now, 2 * block * 2 * BLOCK, 2 * BLOCK);
    }
    for _ in 0..10_000 {
        let Some(wake) = volume.wake_at().filter(|wake| *wake < Nanos::from_secs(30)) else {
            break;
        };
        now = wake.max(now);
        volume.drive(now);
    }
    let status = volume.status();
    let counts = &status.stats;
    assert!(counts.swaps > 0 && counts.swapped_bytes > 0, "{status:#?}");
    assert_eq!(counts.checkpointed_bytes, 0, "{status:#?}");
}

/// Whatever a swap had begun to move goes home or is overwritten meanwhile: there is nothing left to move then, and
/// nothing that anybody waits for.
#[test]
fn a_stop_ends_whenever_the_last_logged_block_goes_while_a_log_is_moved() {
    for events in 0..60 {
        println!("after {events} events");
        let mut harness = Harness::new(Options::new("mlb", AckMode::Durable));
        for start in (0..60 * 8).step_by(8) {
            harness.apply(&Step::Write { start, count: 8, fua: true });
            harness.drive();
        }
        for _ in 0..events {
            harness.jump();
        }
        harness.apply(&Step::Write { start: 0, count: 1024, fua: true });
        harness.apply(&Step::Restart);
    }
}

/// Bytes moved in a life in which a snapshot begins after so many events, if one does, and whether blocks were being
/// moved then.
fn moved_beside_a_snapshot(after_events: Option<u64>) -> (u64, bool) {
    let options = Options {
        swap_above_pct: Some(30),
        logged_write_bytes_max: Some(32 << 10),
        watermark_pct: None,
        ..Options::new("mlb", AckMode::Durable)
    };
    let mut harness = Harness::new(options);
    for start in (0..72 * 8).step_by(8) {
        harness.apply(&Step::Write { start, count: 8, fua: true });
        harness.drive();
    }
    let mut is_moving = false;
    for event in 0..60 {
        if after_events == Some(event) {
            let now = harness.volume().engine().activities();
            let shows = |activity| now.has_all(Activities::pair(activity, activity));
            is_moving = shows(Activity::SwapRead) || shows(Activity::SwapChunks);
            let now = harness.now;
            harness.volume().start_snapshot(now);
        }
        if !harness.jump() {
            break;
        }
    }
    harness.apply(&Step::Settle);
    (harness.volume().status().stats.swapped_bytes, is_moving)
}

/// A snapshot keeps the claim of the log that blocks are moved to; without it no more of them could be written there, and
/// the move would be given up and begun again.
#[test]
fn a_log_is_moved_whole_and_once_whenever_a_snapshot_begins_beside_it() {
    let (undisturbed, _) = moved_beside_a_snapshot(None);
    let mut met = 0;
    for events in 0..60 {
        let (moved, is_moving) = moved_beside_a_snapshot(Some(events));
        met += u32::from(is_moving);
        assert!(
            !is_moving || moved == undisturbed,
            "a snapshot after {events} events: {moved} bytes moved, {undisturbed} without it"
        );
    }
    assert!(undisturbed > 0 && met > 4, "only {met} snapshots began beside a move");
}
