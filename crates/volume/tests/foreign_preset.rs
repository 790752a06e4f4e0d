//! A preset that is in nobody's table: to add one is one value and its policies, and no file of ours has to know.
//!
//! Its number, name, kind of layout and function are made here, of policies from outside the engine. Volumes with it are
//! created, opened, written, killed, opened again, checked and grown as any other; a program that does not know it says so.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test binary uses its part")]
mod support;

use nearhead_basics::SplitMix;
use nearhead_disk::{Disk, Nanos, Properties};
use nearhead_engine::Config;
use nearhead_example_policies::{FullestFirst, InTurn};
use nearhead_format::layout::Region;
use nearhead_format::{Entry, LayoutKind, Place, PresetNumber};
use nearhead_models::CrashDisk;
use nearhead_volume::check::check_with;
use nearhead_volume::{
    Clock, CreateOptions, Facts, NamedPreset, OpenError, Presets, SyncIo, Volume, create, grow,
};
use std::collections::BTreeSet;
use std::time::Instant;
use support::Run;

const MIB: u64 = 1 << 20;

/// The whole of a new system, but for its policies.
static MINE: [NamedPreset; 1] = [NamedPreset {
    name: "in-turn",
    number: PresetNumber(900),
    layout: LayoutKind::ManyLogs,
    logged_write_bytes_max: 32 << 10,
    fragments: false,
    summary: "one log after the other takes a record",
    configure: in_turn,
}];

fn in_turn(facts: &Facts<'_>) -> Config {
    Config { cleaner: Box::new(FullestFirst), ..facts.config(Box::new(InTurn::default())) }
}

fn presets() -> Presets {
    Presets::with(&MINE)
}

fn created() -> (CrashDisk, Nanos) {
    let mut disk = CrashDisk::new(64 * MIB, 512).with_latency(Nanos::from_micros(50));
    let options = CreateOptions {
        group_bytes: Some(4 * MIB),
        log_bytes: Some(512 << 10),
        ..CreateOptions::new([9; 16], presets().by_name("in-turn").unwrap())
    };
    let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
    create(&mut io, &options).unwrap();
    let now = io.now();
    (disk, now)
}

fn opened(disk: CrashDisk, now: Nanos) -> Run<CrashDisk> {
    let opened = Volume::open_with(presets(), disk, Clock::Virtual { now }, |_, _| ());
    let (volume, now) = opened.unwrap_or_else(|error| panic!("{error}"));
    Run::of(volume, now)
}

/// Versions of blocks, one durable write each.
fn write(run: &mut Run<CrashDisk>, blocks: u64, version: u64) {
    for block in 0..blocks {
        let id = run.write(2 * block..2 * block + 1, version);
        run.wait(id);
    }
}

/// The logs that hold anything.
fn logs_in_use(run: &Run<CrashDisk>) -> BTreeSet<u32> {
    let layout = &run.volume.superblock().layout;
    let log_of = |entry: Entry| match entry.place {
        Place::Log { chunk_sector, .. } => match layout.region(chunk_sector * 512) {
            Region::Log { log_index, .. } => Some(log_index),
            _ => None,
        },
        _ => None,
    };
    run.volume.engine().map().iter().filter_map(log_of).collect()
}

#[test]
fn a_volume_with_it_is_created_written_and_opened_again() {
    let (disk, now) = created();
    let mut run = opened(disk, now);
    write(&mut run, 40, 1);
    assert!(run.volume.status().stats.records >= 40);
    for version in 2..5 {
        let now = run.now;
        let mut disk = run.volume.into_disk();
        disk.power_cut(&mut SplitMix::new(version));
        run = opened(disk, now);
        let found: Vec<u64> = (0..40).map(|block| run.version(2 * block)).collect();
        assert_eq!(found, [version - 1; 40]);
        write(&mut run, 40, version);
    }
}

#[test]
fn its_own_policies_run_on_its_own_layout() {
    let (disk, now) = created();
    let mut run = opened(disk, now);
    let logs = run.volume.superblock().layout.log_count();
    write(&mut run, 40, 1);
    assert!(logs_in_use(&run).into_iter().eq(0..logs), "each log takes a record in its turn");
}

#[test]
fn it_is_opened_again_in_place_by_the_table_that_it_was_opened_with() {
    let (disk, now) = created();
    let mut run = opened(disk, now);
    write(&mut run, 10, 1);
    run.rest(Nanos::from_secs(1));
    let clock = Clock::Virtual { now: run.now };
    run.volume.open_again(clock, |_, _| ()).unwrap();
    let mut run = Run::of(run.volume, run.now);
    assert_eq!((0..10).map(|block| run.version(2 * block)).collect::<Vec<_>>(), [1; 10]);
}

#[test]
fn it_is_checked_and_grown_by_who_knows_it() {
    let (disk, now) = created();
    let mut run = opened(disk, now);
    write(&mut run, 10, 1);
    run.now = nearhead_laws::stop(&mut run.volume, run.now);
    let (small, now) = (run.volume.into_disk(), run.now);
    let properties = Properties { capacity_bytes: 96 * MIB, ..small.properties().clone() };
    let mut disk = CrashDisk::with_image(properties, small.image_after(&|_, _| true));
    let mut io = SyncIo::in_virtual_time(&mut disk, now).knowing(presets());
    let growth = grow::plan(&mut io).unwrap();
    grow::grow(&mut io, &growth).unwrap();
    let now = io.now();
    let mut run = opened(disk, now);
    assert!(run.volume.superblock().layout.device_bytes == 96 * MIB && run.version(0) == 1);
    let report = check_with(presets(), run.volume.into_disk(), Instant::now(), &mut |_| ());
    assert_eq!(report.unwrap().findings, []);
}

#[test]
fn who_does_not_know_it_says_so_and_what_to_do() {
    let (disk, now) = created();
    let refused = Volume::open_in_virtual_time(disk, now, |_, _| ()).err().unwrap();
    assert!(matches!(refused, OpenError::Newer { .. }), "{refused}");
    let end =
        "superblock preset: expected 0 to 7, found 900; use a version of the program that knows it";
    assert!(refused.to_string().ends_with(end), "{refused}");
}
