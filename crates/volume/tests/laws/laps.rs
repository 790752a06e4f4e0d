//! One small log that goes round and round, recovered on the way.
//!
//! Records of one size fill it, so that every lap ends at the same place, and what is left there is too short
//! for another one. There it is decided by chance whether a snapshot is taken, and whether a small record goes
//! into what is left. A recovery begins to scan where the snapshot ended; what a later lap may write there
//! matters only until the next snapshot, which is why workloads without laps as regular as these hardly ever
//! see it. A copy of the disk is recovered, so that no lap is cut short by trying; another copy lost one of the
//! records behind the snapshot, anywhere in the lap, and must say so.

use crate::support::content::{SECTOR, versions};
use crate::support::disk::TestDisk;
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::record::peek;
use nearhead_format::{AckMode, SnapshotHeader};
use nearhead_models::Store;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use std::collections::BTreeMap;

/// Writes go to so many places.
const PLACES: u64 = 4;
const SPAN_SECTORS: u64 = PLACES * SECTORS_MAX;
const SECTORS_MAX: u64 = 40;
const LOG_BYTES: u64 = 512 << 10;
const LAPS: u64 = 16;

/// Recovers a copy of the disk as a cut would leave it that loses nothing, and reads what was written. If the
/// headers of both snapshots rot meanwhile, their copies say as much.
fn recover(harness: &mut Harness, headers_rot: bool) -> Result<BTreeMap<u64, u64>, String> {
    let options = harness.options.clone();
    let mut image = harness.volume().disk().image();
    let slots = harness.volume().superblock().layout.slot_offsets;
    for slot in slots.into_iter().filter(|_| headers_rot) {
        image.zero(slot, 4096).map_err(|error| error.to_string())?;
    }
    let disk = TestDisk::with_image(options.disk_properties(), image);
    let opened = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| {
        options.configure(config);
    });
    let (mut volume, now) = opened.map_err(|error| error.to_string())?;
    let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    let damage = volume.status().damage;
    if damage.len() != usize::from(headers_rot) {
        return Err(format!("rot of headers: {headers_rot}, but recovery says: {damage:?}"));
    }
    let operation = Operation::Read { offset: 0, len: (SPAN_SECTORS * SECTOR) as u32 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    volume.drive(now);
    let reply = volume.poll_reply().ok_or("the read is not answered")?;
    let parts = reply.result.map_err(|error| error.to_string())?;
    Ok((0..).zip(versions(0, &parts)?).collect())
}

/// Sequences of the records behind the newest snapshot, and where they stand on the device.
fn records_to_scan(harness: &mut Harness) -> BTreeMap<u64, u64> {
    let image = harness.volume().disk().image();
    let superblock = harness.volume().superblock().clone();
    let layout = superblock.layout;
    let read = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        image.read(offset, &mut bytes).unwrap();
        bytes
    };
    let header = |slot: u32| {
        let bytes = read(layout.slot_offsets[slot as usize], 4096);
        SnapshotHeader::decode(&bytes, &superblock.volume_id, slot, u64::MAX).ok()
    };
    let newest = [0, 1].into_iter().filter_map(header).max_by_key(|header| header.snapshot_number);
    let included = newest.unwrap().record_sequence;
    let offsets = (0..layout.log_blocks()).filter_map(|block| layout.log_block_offset(0, block));
    let found = offsets.filter_map(|offset| Some((peek(&read(offset, 512)).ok()?, offset)));
    let all = found.map(|(peeked, offset)| (peeked.sequence, offset));
    all.filter(|(sequence, _)| *sequence > included).collect()
}

/// A record that is lost, and is not the last one, is missed wherever it stood.
fn lose_a_record(harness: &mut Harness, random: &mut SplitMix) -> Result<(), String> {
    let mut records: Vec<_> = records_to_scan(harness).into_iter().collect();
    records.pop();
    if records.is_empty() {
        return Ok(());
    }
    let (sequence, offset) = records[random.below(records.len() as u64) as usize];
    let options = harness.options.clone();
    let mut image = harness.volume().disk().image();
    image.zero(offset, 512).map_err(|error| error.to_string())?;
    let disk = TestDisk::with_image(options.disk_properties(), image);
    let opened = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| {
        options.configure(config);
    });
    let (mut volume, now) = opened.map_err(|error| error.to_string())?;
    if volume.run_until_open(now).is_ok() && volume.status().damage.is_empty() {
        let status = volume.status();
        return Err(format!("record {sequence} at byte {offset} is lost in silence: {status:?}"));
    }
    Ok(())
}

fn run(seed: u64) {
    let mut random = SplitMix::new(seed);
    let mut harness = Harness::new(Options {
        // None by itself before the log is full.
        snapshot_after_bytes: 8 << 20,
        swap_above_pct: None,
        // No reserve, so that data goes up to the last block of the ring.
        logs_are_scarce: true,
        ..Options::new("singlelog", AckMode::Durable)
    });
    let count = 8 + random.below(SECTORS_MAX - 8);
    // Of the record that was written last, and of what is left for the next one.
    let mut record_bytes = 0;
    let mut left_bytes = LOG_BYTES;
    let mut laps = 0;
    while laps < LAPS {
        let at_end = left_bytes < record_bytes;
        if at_end && random.coin() {
            let now = harness.now;
            harness.volume().start_snapshot(now);
            harness.apply(&Step::Settle);
        }
        let small = at_end && random.coin();
        let start = random.below(PLACES) * count;
        let before = harness.volume().status().stats.record_bytes;
        harness.apply(&Step::Write { start, count: if small { 1 } else { count }, fua: true });
        harness.apply(&Step::Settle);
        let written = harness.volume().status().stats.record_bytes - before;
        if !small {
            record_bytes = written;
        }
        if written > left_bytes {
            laps += 1;
            left_bytes = LOG_BYTES;
        }
        left_bytes -= written;
        if at_end || random.below(16) == 0 {
            check(&mut harness, seed);
            let told = lose_a_record(&mut harness, &mut random);
            told.unwrap_or_else(|problem| fail(seed, &problem));
        }
    }
}

fn check(harness: &mut Harness, seed: u64) {
    for headers_rot in [false, true] {
        let read = recover(harness, headers_rot);
        if let Err(problem) = read.and_then(|read| harness.oracle.check_restart(&read)) {
            fail(seed, &problem);
        }
    }
}

fn fail(seed: u64, problem: &str) -> ! {
    panic!("repeat with: SEED={seed} cargo test -p nearhead-volume --test laws laps::\n{problem}")
}

#[test]
fn a_log_that_goes_round_can_be_recovered_wherever_a_lap_ends() {
    let only = std::env::var("SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = only.map_or(0..24, |seed| seed..seed + 1);
    seeds.for_each(run);
}
