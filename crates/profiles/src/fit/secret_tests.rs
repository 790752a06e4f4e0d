//! Drives with a secret: a model plays the drive, the package says something else of its memory, and the fit must find out.
//!
//! Chance is in what is asked for and in the times between; counts of replays stand for time.

use super::{FitOptions, REPLAYS_MAX, fit, modelled};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_models::measured::{Comparison, MeasuredRequest, replay};
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};

/// A drive of one zone with a memory and the exchange stated.
const DRIVE: &str = r#"
name = "secretive"
description = "made up"
sector_bytes = 512
physical_sector_bytes = 512
blocks = 400000
heads = 4
cylinders = 1000
period_ns = 8000000
[layout]
kind = "cylinder"
[skew]
next_cylinder = 0.3
next_head = 0.15
[[zones]]
first_cylinder = 0
sectors_per_track = 100
[seek]
points_ms = [[1, 1.2], [100, 4.0], [999, 12.0]]
write_settle_ms = 0.5
settles_between_tracks = true
head_switch_ms = 0.8
[command]
read_ms = 0.6
write_ms = 0.8
cached_ms = 0.3
[command.exchange]
read_seek_ms = [0.6, 0.6]
read_hit_ms = [0.3, 0.3]
read_reconnect_ms = 0.0
read_enough = 0.0
read_keeps_interface = false
read_end_ms = 0.1
write_seek_ms = [0.8, 0.8]
write_data_ms = [0.8, 0.8]
write_seek_least_ms = 0.0
write_end_ms = 0.1
cached_write_data_ms = [0.4, 0.4]
cached_write_end_ms = 0.1
[interface]
megabytes_per_s = 10.0
[cache]
segments = 4
segment_sectors = 128
read_ahead_sectors = 64
joins_read_ahead = false
written_segments = 0
zero_latency_reads = false
write_cache = false
dirty_bytes_max = 1000000
destage_idle_ms = 0.0
[queue]
depth = 1
policy = "fifo"
aging = 0.0
age_limit_ms = 1000.0
honours_priority = false
"#;

const REQUESTS: usize = 2400;

/// Requests all over the drive, and some that go on, come back to, or lie near one of the last eight.
fn asked(seed: u64, blocks: u64) -> Vec<MeasuredRequest> {
    let mut random = SplitMix::new(seed);
    let mut last: Vec<(u64, u64)> = vec![(0, 8)];
    let mut requests = Vec::new();
    while requests.len() < REQUESTS {
        let recent = last.len().saturating_sub(1 + random.below(8) as usize);
        let (before, sectors_before) = last[recent.min(last.len() - 1)];
        let (newest, newest_sectors) = *last.last().unwrap();
        let sectors = 2 + random.below(14);
        let lbn = match random.below(10) {
            0..3 => newest + newest_sectors,
            3..5 => before,
            5 => before + sectors_before,
            6 => before + random.below(120),
            _ => random.below(blocks),
        };
        let lbn = lbn.min(blocks - sectors);
        last.push((lbn, sectors));
        requests.push(MeasuredRequest {
            write: random.below(3) == 0,
            lbn,
            sectors: sectors as u32,
            response_ms: 0.0,
            think: Nanos(1_000_000 + random.below(30_000_000)),
        });
    }
    requests
}

/// What `drive` does with them, as if measured.
fn measured(drive: &Profile, seed: u64) -> Vec<MeasuredRequest> {
    let mut requests = asked(seed, drive.blocks);
    let mut disk = HddModel::new(drive, Box::new(Dataless), HddOptions::default()).unwrap();
    let times = replay(&mut disk, requests.iter().copied()).unwrap();
    for (request, ms) in requests.iter_mut().zip(times) {
        request.response_ms = ms;
    }
    requests
}

fn unseen(profile: &Profile, requests: &[MeasuredRequest]) -> Comparison {
    let pairs = modelled(profile, requests, HddOptions::default()).unwrap();
    Comparison::of(&pairs[requests.len() / 2..])
}

/// The package is right but for what `secret` changes in the drive: the fit finds it, and the second half is told.
fn is_found_out(name: &str, secret: impl Fn(&mut Profile)) {
    let stated = Profile::parse("secretive", DRIVE).unwrap();
    let mut drive = stated.clone();
    secret(&mut drive);
    drive.validate().unwrap();
    let options = FitOptions { overheads: true, cache: true, ..FitOptions::default() };
    for seed in 1..=3 {
        let requests = measured(&drive, seed);
        let before = unseen(&stated, &requests);
        let fitted = fit(&stated, &requests, options).unwrap();
        let after = unseen(&fitted.profile, &requests);
        let learned = &fitted.constants;
        assert!(before.within_300_us < 0.96, "{name}, seed {seed}: nothing to learn: {before:?}");
        assert!(
            after.within_300_us > 0.97,
            "{name}, seed {seed}: {before:?} {after:?} {learned:#?}"
        );
        assert!(
            after.demerit_percent < 1.0,
            "{name}, seed {seed}: {before:?} {after:?} {learned:#?}"
        );
        assert!(fitted.replays <= REPLAYS_MAX, "{name}, seed {seed}: {}", fitted.replays);
    }
}

#[test]
fn other_segments_and_another_read_ahead_are_found() {
    is_found_out("segments", |drive| {
        drive.cache.segments = 1;
        drive.cache.read_ahead_sectors = 128;
        drive.cache.segment_sectors = 256;
    });
}

#[test]
fn a_memory_that_keeps_writes_is_found() {
    is_found_out("written", |drive| {
        drive.cache.written_segments = 2;
        drive.cache.segments = 8;
    });
}

#[test]
fn writes_that_are_answered_early_are_found() {
    is_found_out("buffered", |drive| {
        drive.cache.write_cache = true;
        drive.command.exchange.as_mut().unwrap().cached_write_data_ms = [0.4, 0.9];
    });
}

#[test]
fn another_write_settle_and_the_end_of_a_read_ahead_are_found() {
    is_found_out("settle", |drive| {
        drive.seek.write_settle_ms = 1.3;
        drive.command.exchange.as_mut().unwrap().read_ahead_end_ms = 1.1;
        drive.cache.read_ahead_when_sequential = true;
    });
}

#[test]
fn heads_that_must_turn_from_writing_to_reading_are_found() {
    is_found_out("turn", |drive| {
        drive.cache.write_cache = true;
        drive.seek.read_after_write_ms = 1.5;
    });
}

#[test]
fn where_the_package_is_right_nothing_is_learned() {
    let stated = Profile::parse("secretive", DRIVE).unwrap();
    let options = FitOptions { cache: true, ..FitOptions::default() };
    for seed in 1..=3 {
        let mut requests = measured(&stated, seed);
        let exact = fit(&stated, &requests, options).unwrap();
        assert!(exact.constants.is_empty(), "seed {seed}: {:?}", exact.constants);
        // The clock of the host is not exact, and now and then the drive retries.
        let mut random = SplitMix::new(seed);
        for request in &mut requests {
            request.response_ms += random.below(1000) as f64 * 2e-4;
            if random.below(50) == 0 {
                request.response_ms += 8.0;
            }
        }
        let noisy = fit(&stated, &requests, options).unwrap();
        let (before, after) = (unseen(&stated, &requests), unseen(&noisy.profile, &requests));
        assert!(
            after.demerit_percent < before.demerit_percent + 0.5,
            "{before:?} {after:?} {:?}",
            noisy.constants
        );
    }
}
