//! A volume whose map is on a map device: power cuts of both disks at once lose nothing that was
//! acknowledged, and what belongs together is told from what does not.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_disk::Nanos;
use nearhead_engine::Operation;
use nearhead_models::{CrashDisk, SplitMix};
use nearhead_volume::{JoinedDisk, SyncIo, Volume, create};
use support::{Run, Trial};

const BLOCKS: u64 = 512;
type Joined = JoinedDisk<CrashDisk, CrashDisk>;

fn disk(bytes: u64) -> CrashDisk {
    CrashDisk::new(bytes, 512).with_latency(Nanos::from_micros(50))
}

fn made(volume_id: u8) -> Joined {
    let mut joined = JoinedDisk::new(disk(64 << 20), disk(4 << 20)).unwrap();
    create(
        &mut SyncIo::in_virtual_time(&mut joined, Nanos::ZERO),
        &support::options("mlb-256", volume_id, 4 << 20),
    )
    .unwrap();
    joined
}

fn open(disk: Joined, now: Nanos) -> Run<Joined> {
    let run = Run::open(disk, now, |config| {
        config.snapshot_after_bytes = 2 << 20;
        config.cleaning.idle_after = None;
    });
    assert_eq!(run.volume.status().recovery_logs, 0, "no log is scanned");
    run
}

fn restart(run: Run<Joined>, random: &mut SplitMix) -> Run<Joined> {
    let now = run.now;
    let (mut main, mut map) = run.volume.into_disk().into_parts();
    main.power_cut(random);
    map.power_cut(random);
    open(JoinedDisk::new(main, map).unwrap(), now)
}

#[test]
fn power_cuts_of_both_disks_lose_nothing_acknowledged() {
    for seed in 0..30 {
        println!("repeat with seed {seed}");
        let name = format!("seed {seed}");
        let trial = Trial {
            name: &name,
            cuts: 30,
            writes_max: 40,
            blocks: BLOCKS,
            rest: None,
            cut_within_us: 80,
        };
        let mut random = SplitMix::new(seed);
        trial.run(open(made(7), Nanos::ZERO), &mut random, restart);
    }
}

#[test]
fn a_volume_refuses_to_open_without_its_map_device_or_with_another() {
    let (main, map) = made(7).into_parts();
    let (_, other) = made(9).into_parts();
    let problem = |disk: Joined| match Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| {}) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    let wrong = problem(JoinedDisk::new(main, other).unwrap());
    assert!(wrong.contains("expected the map device of volume 0707"), "{wrong}");
    let (main, _) = made(7).into_parts();
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
