//! Law 6 where the slots take no snapshot any more: whoever waits for the room that only one would free is answered all
//! the same. Also where nothing can be brought home and both are tried for ever, each always under way when the
//! other has just ended.

use crate::support::content::payload;
use crate::support::disk::{Fault, FaultKind, TestDisk, Trouble};
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::Nanos;
use nearhead_format::{AckMode, MapDevice};
use nearhead_models::{MemoryStore, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{Lanes, Volume, create};
use std::ops::Range;

/// A volume with one log. The disk works on one command at a time, and the next snapshot is due before it has
/// answered one.
fn volume(preset: &'static str, logs_are_scarce: bool) -> Harness {
    Harness::new(Options {
        logs_are_scarce,
        queue_depth_max: 1,
        snapshot_period: Nanos::from_micros(50),
        ..Options::new(preset, AckMode::Durable)
    })
}

/// From now on these bytes cannot be read, or written.
fn fail(harness: &mut Harness, kind: FaultKind, start: u64, bytes: u64) {
    let range = Some(start..start + bytes);
    harness.apply(&Step::Fail(Fault { kind, range, after: 0, sticky: true, has_effect: false }));
}

fn fail_slots(harness: &mut Harness) {
    let layout = harness.volume().superblock().layout;
    for slot in layout.slot_offsets {
        fail(harness, FaultKind::Writes, slot, layout.slot_bytes);
    }
}

/// No checkpoint brings anything home.
fn fail_log(harness: &mut Harness) {
    let layout = harness.volume().superblock().layout;
    fail(harness, FaultKind::Reads, layout.log_offset(0).unwrap(), layout.log_bytes);
}

/// Hints are in snapshots alone, and this one is not in the one that failed.
#[test]
fn a_hint_is_kept_by_a_stop_after_a_snapshot_that_failed() {
    let options = Options::new("nolog", AckMode::Durable);
    let mut harness = Harness::new(options);
    // Now a clean snapshot includes all there is.
    harness.apply(&Step::Restart);
    harness.apply(&Step::Hint { start: 8, count: 8, on: true });
    fail_slots(&mut harness);
    let now = harness.now;
    harness.volume().start_snapshot(now);
    harness.pass(Nanos::from_secs(1));
    harness.volume().disk_mut().mend();
    harness.apply(&Step::Restart);
    assert_eq!(harness.volume().engine().hints().collect::<Vec<_>>(), [8..16]);
}

/// One after the other, each of two blocks.
fn atomic_writes(harness: &mut Harness, numbers: Range<u64>) {
    for start in numbers.map(|number| 16 * number) {
        harness.apply(&Step::Atomic { start, other: start + 8, count: 8 });
        harness.apply(&Step::Settle);
    }
}

#[test]
fn an_atomic_write_without_room_is_answered_while_every_snapshot_fails() {
    let mut harness = volume("singlelog", true);
    fail_slots(&mut harness);
    fail_log(&mut harness);
    atomic_writes(&mut harness, 0..100);
    let failure = harness.volume().engine().failure().map(ToString::to_string).unwrap_or_default();
    assert!(failure.contains("could not be written"), "{failure:?}");
}

#[test]
fn a_write_without_room_goes_home_while_every_snapshot_fails() {
    let mut harness = volume("slsmr", true);
    fail_slots(&mut harness);
    fail_log(&mut harness);
    for start in (0..1192).step_by(8) {
        harness.apply(&Step::Write { start, count: 8, fua: true });
        harness.apply(&Step::Settle);
    }
    assert_eq!(harness.volume().engine().failure(), None);
    assert!(harness.volume().status().stats.spills > 0);
}

#[test]
fn an_atomic_write_gets_the_room_that_a_checkpoint_makes_while_every_snapshot_fails() {
    let mut harness = volume("singlelog", false);
    // Finds nothing; what is logged later another one will find.
    harness.apply(&Step::Checkpoint { everything: true });
    atomic_writes(&mut harness, 0..40);
    while harness.jump() {}
    assert!(harness.volume().status().stats.snapshots > 0);
    fail_slots(&mut harness);
    atomic_writes(&mut harness, 40..70);
    assert_eq!(harness.volume().engine().failure(), None);
    assert!(harness.volume().status().stats.checkpointed_bytes > 0);
}

type WithMap = Volume<TestDisk>;

fn map_device(volume: &mut WithMap) -> &mut TestDisk {
    volume.lanes_mut().map_mut().unwrap()
}

/// A volume whose map device takes no snapshot, so that its journal, of 1,024 blocks, is never given back.
fn with_a_bad_map_device() -> (WithMap, Nanos) {
    let (mut volume, now) = with_a_map_device(Nanos::from_micros(100));
    let plan = map_plan();
    for start in plan.slot_offsets {
        let range = Some(start..start + plan.slot_bytes);
        let kind = FaultKind::Writes;
        let fault = Fault { kind, range, after: 0, sticky: true, has_effect: false };
        map_device(&mut volume).add_fault(fault);
    }
    (volume, now)
}

/// How its map device of 4 MiB is divided.
fn map_plan() -> MapDevice {
    MapDevice::plan(4 << 20, [0; 16], [0; 16]).unwrap()
}

/// A volume with a map device that takes `map_latency` for everything.
fn with_a_map_device(map_latency: Nanos) -> (WithMap, Nanos) {
    let options = Options::new("mlb-256", AckMode::Durable);
    let image = MemoryStore::new;
    let map = TestDisk::with_image(plain_properties(4 << 20, 512), image());
    let mut lanes =
        Lanes::with_map(TestDisk::with_image(options.disk_properties(), image()), map).unwrap();
    create(&mut lanes.in_virtual_time(Nanos::ZERO), &options.create_options()).unwrap();
    let (main, map) = lanes.into_parts();
    let latency = Nanos::from_micros(100);
    let map = map.unwrap().with_latency(map_latency);
    let lanes = Lanes::with_map(main.with_latency(latency), map).unwrap();
    let (mut volume, now) =
        Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, config| options.configure(config))
            .unwrap();
    let now = volume.run_until_open(now).unwrap();
    (volume, now)
}

fn write_and_wait(volume: &mut WithMap, now: &mut Nanos, number: u64) {
    let data = payload(number % 64 * 8, 8, number);
    let operation = Operation::Write { offset: number % 64 * 4096, data, fua: true };
    volume.submit(Request { id: RequestId(number), operation }, *now);
    let answered = (0..10_000).any(|_| {
        volume.drive(*now);
        *now = volume.wake_at().map_or(*now, |wake| wake.max(*now));
        volume.poll_reply().is_some()
    });
    assert!(answered, "write {number} is never answered: {:#?}", volume.status());
}

#[test]
fn a_write_is_answered_when_the_journal_is_full_and_every_snapshot_fails() {
    let (mut volume, mut now) = with_a_bad_map_device();
    (0..2048).for_each(|number| write_and_wait(&mut volume, &mut now, number));
    let failure = volume.engine().failure().map(ToString::to_string).unwrap_or_default();
    assert!(failure.contains("could not be written"), "{failure:?}");
}

#[test]
fn an_idle_volume_whose_snapshots_fail_rests_between_them() {
    let (mut volume, mut now) = with_a_bad_map_device();
    // The journal is more than half full, and a snapshot is wished for.
    (0..200).for_each(|number| write_and_wait(&mut volume, &mut now, number));
    assert_eq!(volume.engine().failure(), None);
    let (mut wakes, until) = (0, now + Nanos::from_secs(60));
    while let Some(wake) = volume.wake_at().filter(|wake| *wake <= until) {
        now = wake.max(now);
        volume.drive(now);
        wakes += 1;
        assert!(wakes < 600, "{wakes} wake-ups until {now}");
    }
}

/// The log does not take the record, and neither copy of its header finds space: of the one that was written first
/// nobody needs to know, so it must not count as one to be waited for.
#[test]
fn a_record_that_went_to_another_log_waits_for_one_copy_of_its_header() {
    let (mut volume, mut now) = with_a_map_device(Nanos::from_micros(150));
    let layout = volume.superblock().layout;
    let start = layout.log_offset(0).unwrap();
    let range = Some(start..start + layout.log_bytes);
    let kind = FaultKind::Writes;
    let journal = map_plan();
    let full = journal.journal_offset..journal.journal_offset + journal.journal_bytes;
    let fault = Fault { kind, range, after: 0, sticky: false, has_effect: false };
    volume.disk_mut().add_fault(fault);
    map_device(&mut volume).set_trouble(Trouble { full: vec![full], ..Trouble::default() });
    let operation = Operation::Write { offset: 0, data: payload(0, 8, 1), fua: true };
    volume.submit(Request { id: RequestId(1), operation }, now);
    let mended_at = now + Nanos::from_secs(1);
    let end = now + Nanos::from_secs(10);
    let mut reply = None;
    while reply.is_none() && now < end {
        volume.drive(now);
        reply = volume.poll_reply();
        now = volume.wake_at().map_or(end, |wake| wake.max(now));
        if now >= mended_at {
            map_device(&mut volume).mend();
        }
    }
    let status = volume.status();
    assert!(status.disk_errors.total() > 2, "{status:#?}");
    assert!(reply.is_some_and(|reply| reply.result.is_ok()), "{status:#?}");
}
