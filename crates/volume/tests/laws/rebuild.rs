//! Both snapshots are lost, and the map is rebuilt from the logs: what was durable reads as it was, or is listed as
//! doubtful and reads as an error. Never older data without a word: where records are gone of which nothing says what
//! they wrote, that is said, and only then may what nobody listed be older.

use crate::support::content::{SECTOR, payload, versions};
use crate::support::disk::TestDisk;
use crate::support::harness::Harness;
use crate::support::options::{Options, VOLUME_ID};
use crate::support::raw::bytes_of;
use crate::support::steps::{SPAN_SECTORS, Step, random_step};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::record::{RecordHeader, peek};
use nearhead_format::superblock::FEATURE_LOGS_TELL_ALL;
use nearhead_format::{AckMode, Layout, Superblock};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use nearhead_volume::repair::{Weighed, clear_torn, weigh};
use std::collections::BTreeMap;

const PRESETS: [&str; 8] =
    ["nolog", "singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"];

/// What is lost beside both snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// Headers of a few records that are not the newest.
    Records,
    /// Bits of a few payloads.
    Payloads,
}

/// A repaired volume, and what was said of it before.
struct Repaired {
    volume: Volume<TestDisk>,
    now: Nanos,
    weighed: Weighed,
}

fn drive_until(
    volume: &mut Volume<TestDisk>,
    now: &mut Nanos,
    mut done: impl FnMut(&mut Volume<TestDisk>) -> bool,
) {
    for _ in 0..1_000_000 {
        volume.drive(*now);
        if done(volume) {
            return;
        }
        let wake = volume.wake_at();
        *now = wake.unwrap_or_else(|| panic!("nothing happens: {:#?}", volume.status())).max(*now);
    }
    panic!("it never ends: {:#?}", volume.status());
}

/// What `nearhead repair --accept-loss` does: rebuild, weigh, give up what is doubtful, two snapshots.
fn repair(options: &Options, image: &MemoryStore, keep_newest: bool) -> Repaired {
    let disk = options.disk_with(image.clone());
    let opened = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| {
        options.configure(config);
        config.rebuild = true;
    });
    let (mut volume, now) = opened.unwrap_or_else(|error| panic!("{error}"));
    let mut now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
    let weighed = weigh(&mut volume, |lanes| lanes.in_virtual_time(now)).expect("a rebuild");
    volume.drive(now);
    assert_eq!(volume.status().stats.snapshots, 0, "nothing is written before consent");
    let superblock = volume.superblock().clone();
    let torn = weighed.found.torn.clone();
    clear_torn(&mut volume.lanes_mut().in_virtual_time(now), &superblock, &torn).unwrap();
    volume.take_rebuilt(weighed.to_give_up(keep_newest));
    volume.start_snapshot(now);
    drive_until(&mut volume, &mut now, |volume| volume.status().stats.snapshots > 0);
    volume.begin_shutdown(now);
    drive_until(&mut volume, &mut now, |volume| volume.is_shut_down());
    // As anybody opens it.
    let disk = options.disk_with(volume.disk().image());
    let opened = Volume::open_in_virtual_time(disk, now, |_, config| options.configure(config));
    let (mut volume, now) = opened.unwrap_or_else(|error| panic!("{error}"));
    let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
    assert!(volume.status().damage.is_empty(), "{:?}", volume.status().damage);
    Repaired { volume, now, weighed }
}

impl Repaired {
    /// Versions of sectors, or `None` where they cannot be read.
    fn read(&mut self, start: u64, count: u64) -> Option<Vec<u64>> {
        let operation = Operation::Read { offset: start * SECTOR, len: (count * SECTOR) as u32 };
        self.volume.submit(Request { id: RequestId(1), operation }, self.now);
        let mut reply = None;
        drive_until(&mut self.volume, &mut self.now, |volume| {
            reply = volume.poll_reply();
            reply.is_some()
        });
        let parts = reply?.result.ok()?;
        Some(versions(start, &parts).unwrap_or_else(|problem| panic!("{problem}")))
    }

    fn read_all(&mut self) -> BTreeMap<u64, Option<u64>> {
        let mut read = BTreeMap::new();
        let unit = self.volume.engine().block_bytes() / SECTOR;
        for start in (0..SPAN_SECTORS).step_by(64) {
            if let Some(found) = self.read(start, 64) {
                read.extend((start..).zip(found.into_iter().map(Some)));
                continue;
            }
            for start in (start..start + 64).step_by(unit as usize) {
                match self.read(start, unit) {
                    Some(found) => read.extend((start..).zip(found.into_iter().map(Some))),
                    None => read.extend((start..start + unit).map(|sector| (sector, None))),
                }
            }
        }
        read
    }

    fn is_listed(&self, sector: u64) -> bool {
        self.weighed.doubtful.iter().any(|range| {
            let byte = sector * SECTOR;
            (range.client_offset..range.client_offset + range.len_bytes).contains(&byte)
        })
    }
}

/// Where records are: device byte by sequence.
fn records(image: &MemoryStore, layout: &Layout) -> BTreeMap<u64, (u64, RecordHeader)> {
    let mut found = BTreeMap::new();
    let block = u64::from(layout.log_block_bytes);
    for log in 0..layout.log_count() {
        for position in 0..layout.log_blocks() {
            let offset = layout.log_block_offset(log, position).unwrap();
            let mut bytes = vec![0; block as usize];
            image.read(offset, &mut bytes).unwrap();
            let Ok(peeked) = peek(&bytes) else { continue };
            if (peeked.log_index, peeked.position) != (log, position) {
                continue;
            }
            let mut bytes = vec![0; peeked.header_bytes as usize];
            image.read(offset, &mut bytes).unwrap();
            if let Ok(header) = RecordHeader::decode(&bytes)
                && header.volume_id == VOLUME_ID
            {
                found.insert(header.sequence, (offset, header));
            }
        }
    }
    found
}

fn destroy_slots(image: &mut MemoryStore, layout: &Layout) {
    for slot in 0..2 {
        image.zero(layout.slot_offsets[slot], layout.slot_bytes).unwrap();
    }
}

fn destroy_records(image: &mut MemoryStore, layout: &Layout, lost: Lost, random: &mut SplitMix) {
    let records = records(image, layout);
    // The newest one looks like a write that a cut tore.
    let newest = records.keys().max().copied().unwrap_or(0);
    let older: Vec<_> = records.iter().filter(|(at, _)| **at < newest).collect();
    for _ in 0..3 {
        if older.is_empty() {
            return;
        }
        let (_, (offset, header)) = older[random.below(older.len() as u64) as usize];
        let block = layout.log_block_bytes as usize;
        let at = match lost {
            Lost::Nothing => return,
            Lost::Records => offset + 24,
            Lost::Payloads if header.payload_sectors() == 0 => continue,
            Lost::Payloads => offset + header.encoded_bytes(block) as u64 + 100,
        };
        image.write(at, &[random.below(256) as u8; 3]).unwrap();
    }
}

#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    /// Of which everything that is not listed is certain.
    certain: u64,
    wrong_where_unknown: u64,
    listed: u64,
    right_of_records: u64,
}

fn run(seed: u64, preset: &'static str, ack: AckMode, lost: Lost, tally: &mut Tally) {
    let mut random = SplitMix::new(seed);
    let options = Options::random(preset, ack, &mut random);
    let options = if seed.is_multiple_of(2) { options } else { options.with_fragments() };
    let mut harness = Harness::new(options.clone());
    for _ in 0..[20, 80, 300][random.below(3) as usize] {
        harness.apply(&random_step(&mut random, true, false));
    }
    harness.apply(&Step::Settle);
    harness.apply(&Step::Flush);
    harness.apply(&Step::Settle);
    if random.coin() {
        harness.apply(&Step::Restart);
    }
    let layout = harness.volume().superblock().layout;
    let mut image = harness.volume().disk().image();
    destroy_slots(&mut image, &layout);
    destroy_records(&mut image, &layout, lost, &mut random);
    let mut repaired = repair(&options, &image, false);
    let is_unknown = repaired.weighed.found.is_rest_unknown;
    tally.runs += 1;
    tally.certain += u64::from(!is_unknown);
    for (sector, value) in repaired.read_all() {
        let is_listed = repaired.is_listed(sector);
        let Some(value) = value else {
            assert!(is_listed, "sector {sector} reads as an error and is not listed");
            tally.listed += 1;
            continue;
        };
        assert!(!is_listed, "sector {sector} is listed as doubtful and can be read");
        if let Err(problem) = harness.oracle.check_restart(&BTreeMap::from([(sector, value)])) {
            assert!(is_unknown, "{problem}, which nothing listed: {:#?}", repaired.weighed);
            tally.wrong_where_unknown += 1;
        } else {
            tally.right_of_records += u64::from(value != 0);
        }
    }
}

/// The seeds to run: `SEED` alone, or `SEEDS` of them from `FROM` on.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(only) = number("SEED") {
        return only..only + 1;
    }
    let from = number("FROM").unwrap_or(0);
    from..from + number("SEEDS").unwrap_or(default)
}

fn run_all(name: &str, default: u64, lost: Lost) -> Tally {
    let only = std::env::var("PRESET").ok();
    let mut tally = Tally::default();
    for seed in seeds(default) {
        for preset in PRESETS.into_iter().filter(|name| only.as_ref().is_none_or(|o| o == name)) {
            for ack in [AckMode::Durable, AckMode::Flush] {
                println!(
                    "repeat with: SEED={seed} PRESET={preset} cargo test -p nearhead-volume --test laws \
                     {name} -- --nocapture ({ack:?})"
                );
                run(seed, preset, ack, lost, &mut tally);
            }
        }
    }
    println!("{tally:?}");
    tally
}

#[test]
fn a_map_rebuilt_from_whole_logs_loses_and_revives_nothing_unlisted() {
    let tally = run_all("a_map_rebuilt_from_whole_logs", 16, Lost::Nothing);
    assert!(tally.certain > 0 && tally.right_of_records > 0, "nothing was tried: {tally:?}");
}

#[test]
fn a_map_rebuilt_without_some_records_says_what_they_wrote() {
    let tally = run_all("a_map_rebuilt_without_some_records", 8, Lost::Records);
    assert!(tally.listed > 0, "nothing was tried: {tally:?}");
}

#[test]
fn a_map_rebuilt_from_rotten_payloads_says_which_blocks_they_were() {
    let tally = run_all("a_map_rebuilt_from_rotten_payloads", 8, Lost::Payloads);
    assert!(tally.listed > 0, "nothing was tried: {tally:?}");
}

/// A block is logged, a longer write in place takes it back, and nobody asks for a flush before the stop: the
/// snapshots know it, and so must the logs.
#[test]
fn what_a_stop_makes_durable_does_not_come_back_from_the_logs() {
    for snapshots in 0..4 {
        let options = Options {
            swap_above_pct: None,
            snapshot_after_bytes: 64 << 20,
            ..Options::new("mlb", AckMode::Flush)
        };
        let mut harness = Harness::new(options.clone());
        harness.apply(&Step::Write { start: 64, count: 8, fua: true });
        harness.apply(&Step::Settle);
        harness.apply(&Step::Write { start: 0, count: 1024, fua: false });
        harness.apply(&Step::Settle);
        for number in 1..=snapshots {
            let now = harness.now;
            harness.volume().start_snapshot(now);
            while harness.volume().status().snapshot_number < number {
                assert!(harness.jump(), "no snapshot comes");
            }
        }
        harness.apply(&Step::Restart);
        let layout = harness.volume().superblock().layout;
        let mut image = harness.volume().disk().image();
        destroy_slots(&mut image, &layout);
        let mut repaired = repair(&options, &image, false);
        assert_eq!(repaired.weighed.doubtful, [], "{snapshots} snapshots");
        for (sector, value) in repaired.read_all() {
            let read = BTreeMap::from([(sector, value.expect("nothing is doubtful"))]);
            harness.oracle.check_restart(&read).unwrap();
        }
    }
}

/// Where logs do not tell all, what they say is in doubt unless home says the same, on whatever device it is.
#[test]
fn what_is_home_is_in_doubt_on_no_device() {
    for preset in ["singlelog", "trail"] {
        let options = Options::new(preset, AckMode::Durable);
        let mut harness = Harness::new(options.clone());
        let superblock = harness.volume().superblock().clone();
        let layout = superblock.layout;
        // The devices of `trail` meet at sector 2048.
        let (home, logged) = ([0, 2032, 2048, 3000], [8, 2040, 2056, 3008]);
        let mut homes = Vec::new();
        for start in home.into_iter().chain(logged) {
            let id = harness.next_id();
            harness.apply(&Step::Write { start, count: 8, fua: true });
            harness.apply(&Step::Settle);
            if home.contains(&start) {
                let at = layout.home(start * SECTOR).unwrap().device_offset;
                homes.push((at, bytes_of(&[payload(start, 8, id)])));
            }
        }
        let mut image = harness.volume().disk().image();
        for (at, bytes) in homes {
            image.write(at, &bytes).unwrap();
        }
        destroy_slots(&mut image, &layout);
        let feature_ro_compat = superblock.feature_ro_compat & !FEATURE_LOGS_TELL_ALL;
        let older = Superblock { feature_ro_compat, ..superblock };
        for (copy, offset) in (0..).zip(layout.superblock_offsets()) {
            image.write(offset, &older.encode(copy)).unwrap();
        }
        let weighed = repair(&options, &image, false).weighed;
        let doubtful = weighed.doubtful.iter();
        let found: Vec<(u64, u64)> =
            doubtful.map(|range| (range.client_offset / SECTOR, range.len_bytes)).collect();
        assert_eq!(found, logged.map(|start| (start, 4096)), "{preset}");
        assert_eq!(weighed.agreeing_bytes, 4 * 4096, "{preset}");
    }
}
