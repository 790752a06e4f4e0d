//! A volume whose map is on a map device: power cuts of both disks at once lose nothing that was
//! acknowledged, and what belongs together is told from what does not.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Disk, Nanos, Payload, Properties};
use nearhead_format::map_device::JOURNAL_BLOCK_BYTES;
use nearhead_models::CrashDisk;
use nearhead_service::Operation;
use nearhead_volume::{Lanes, Volume, create, grow};
use support::{Run, Trial};

const BLOCKS: u64 = 512;
type Both = Lanes<CrashDisk>;

fn parts(both: Both) -> (CrashDisk, CrashDisk) {
    let (main, map) = both.into_parts();
    (main, map.unwrap())
}

fn disk(bytes: u64) -> CrashDisk {
    disk_of(bytes, 50)
}

fn disk_of(bytes: u64, latency_us: u64) -> CrashDisk {
    CrashDisk::new(bytes, 512).with_latency(Nanos::from_micros(latency_us))
}

fn made(volume_id: u8) -> Both {
    made_with(volume_id, 4 << 20)
}

fn made_with(volume_id: u8, map_bytes: u64) -> Both {
    made_on(volume_id, disk(64 << 20), disk(map_bytes))
}

fn made_on(volume_id: u8, main: CrashDisk, map: CrashDisk) -> Both {
    let mut lanes = Lanes::with_map(main, map).unwrap();
    create(
        &mut lanes.in_virtual_time(Nanos::ZERO),
        &support::options("mlb-256", volume_id, 4 << 20),
    )
    .unwrap();
    lanes
}

fn open(disk: Both, now: Nanos) -> Run<CrashDisk> {
    open_with(disk, now, 2 << 20)
}

fn open_with(disk: Both, now: Nanos, snapshot_after_bytes: u64) -> Run<CrashDisk> {
    let run = Run::open(disk, now, |config| {
        config.snapshot_after_bytes = snapshot_after_bytes;
        config.cleaning.idle_after = None;
    });
    assert_eq!(run.volume.status().recovery_logs, 0, "no log is scanned");
    run
}

fn restart(run: Run<CrashDisk>, random: &mut SplitMix) -> Run<CrashDisk> {
    let now = run.now;
    let (mut main, mut map) = parts(run.volume.into_lanes());
    main.power_cut(random);
    map.power_cut(random);
    open(Lanes::with_map(main, map).unwrap(), now)
}

/// A record is durable once it is on both disks, whichever of them is the slower one.
#[test]
fn power_cuts_of_both_disks_lose_nothing_acknowledged() {
    for (seed, (main_us, map_us)) in (0..30).zip([(50, 50), (50, 400), (400, 50)].iter().cycle()) {
        let name = format!("seed {seed}, a disk of {main_us} us and a map device of {map_us} us");
        println!("{name}");
        let trial = Trial {
            name: &name,
            cuts: 30,
            writes_max: 40,
            blocks: BLOCKS,
            rest: None,
            cut_within_us: 30 + (*main_us).max(*map_us),
        };
        let mut random = SplitMix::new(seed);
        let made = made_on(7, disk_of(64 << 20, *main_us), disk_of(4 << 20, *map_us));
        trial.run(open(made, Nanos::ZERO), &mut random, restart);
    }
}

#[test]
fn a_volume_refuses_to_open_without_its_map_device_or_with_another() {
    let (main, map) = parts(made(7));
    let (_, other) = parts(made(9));
    let problem = |disk: Both| match Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| {}) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    let wrong = problem(Lanes::with_map(main, other).unwrap());
    assert!(wrong.contains("expected the map device of volume 0707"), "{wrong}");
    let (main, _) = parts(made(7));
    let Err(without) = Volume::open_in_virtual_time(main, Nanos::ZERO, |_, _| {}) else {
        panic!("it opened without its map device")
    };
    assert!(without.to_string().contains("--map-device"), "{without}");
    drop(map);
}

#[test]
fn the_near_log_is_used_at_once_because_no_log_needs_a_claim() {
    let mut run = open(made(7), Nanos::ZERO);
    for far in [0_u64, 40 << 20, 10 << 20, 45 << 20] {
        let id = run.send(Operation::Read { offset: far, len: 1 << 20 });
        run.wait(id);
        let id = run.write(1..2, 1);
        run.wait(id);
    }
    assert_eq!(run.volume.status().stats.records_far, 0);
}

/// What went home is on the volume's own disk, and a flush there is all that a client's flush needs.
#[test]
fn a_flush_for_a_client_does_not_wait_for_a_slow_map_device() {
    let slow_us = 500_000;
    let mut run = open(made_on(7, disk_of(64 << 20, 50), disk_of(4 << 20, slow_us)), Nanos::ZERO);
    // The first change raises the generation of every device, the map device among them.
    let first = run.write(400..401, 1);
    run.wait(first);
    let bytes = BufferMut::copy_of(&vec![7; 1 << 20]).freeze();
    let from = run.now;
    let data = Payload::Bytes(bytes);
    let write = run.send(Operation::Write { offset: 0, data, fua: false });
    run.wait(write);
    let flush = run.send(Operation::Flush);
    run.wait(flush);
    let status = run.volume.status();
    assert!(status.stats.device_flushes > 0, "the large write must need one: {status:?}");
    assert!(run.now.since(from) < Nanos::from_micros(slow_us), "{} after {from}", run.now);
}

#[test]
fn a_journal_longer_than_one_read_is_found_whole() {
    // A quarter of the map device is its journal, which is read in pieces of 1 MiB.
    let mut run = open_with(made_with(7, 16 << 20), Nanos::ZERO, 64 << 20);
    let writes = (2 << 20) / JOURNAL_BLOCK_BYTES;
    for version in 1..=writes {
        let id = run.write(version % BLOCKS..version % BLOCKS + 1, version);
        run.wait(id);
    }
    assert_eq!(run.volume.status().stats.snapshots, 0, "all of it must be in the journal");
    let mut run = restart(run, &mut SplitMix::new(1));
    assert_eq!(run.volume.status().recovery_records, writes);
    for version in writes - BLOCKS + 1..=writes {
        assert_eq!(run.version(version % BLOCKS), version);
    }
}

#[test]
fn a_volume_grows_only_as_far_as_its_map_device_has_room() {
    let groups_at_most = |map_bytes: u64| {
        let (main, map) = parts(made_with(7, map_bytes));
        let properties = Properties { capacity_bytes: 1 << 40, ..main.properties().clone() };
        let larger = CrashDisk::with_image(properties, main.image_after(&|_, _| true));
        let mut lanes = Lanes::with_map(larger, map).unwrap();
        let growth = grow::plan(&mut lanes.in_virtual_time(Nanos::ZERO)).unwrap();
        assert!(growth.groups_left_out > 0 && growth.map_room_pct >= 9, "{growth:?}");
        growth.after.layout.group_count
    };
    let (small, large) = (groups_at_most(4 << 20), groups_at_most(16 << 20));
    assert!(large > 3 * small, "{large} groups with four times the room for {small}");
}
