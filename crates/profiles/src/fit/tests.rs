//! Fits to traces that a model made itself, so that what should be found is known.

use super::{FitOptions, fit, fitting_half, modelled};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_models::measured::{Comparison, MeasuredRequest, replay};
use nearhead_models::{Dataless, HddModel, HddOptions, LayoutSpec, Profile};

/// A disk of four zones in runs of eight cylinders there and back, its true angles stated.
const DRIVE: &str = r#"
name = "snake"
description = "made up"
sector_bytes = 512
physical_sector_bytes = 512
blocks = 153600
heads = 2
cylinders = 768
period_ns = 6000000
[layout]
kind = "tree"
patterns = [[0, 99, 100]]
tables = [
    [[0, 0, 0.0, 100, 1, 0.2, 800, 8, "track", 0, 0], [800, 7, 0.7, 100, 1, 0.2, 800, -8, "track", 0, 1]],
    [[0, 0, 0.1, 100, 1, 0.2, 800, 8, "track", 0, 0], [800, 7, 0.3, 100, 1, 0.2, 800, -8, "track", 0, 1]],
    [[0, 0, 0.0, 1600, 8, 0.45, 76800, 384, "table", 0, 0], [76800, 384, 0.6, 1600, 8, 0.45, 76800, 384, "table", 1, 0]],
]
[seek]
points_ms = [[1, 0.8], [100, 2.0], [767, 5.0]]
write_settle_ms = 0.3
head_switch_ms = 0.5
[command]
read_ms = 0.2
write_ms = 0.3
cached_ms = 0.1
[interface]
megabytes_per_s = 100.0
[cache]
segments = 4
segment_sectors = 64
read_ahead_sectors = 0
zero_latency_reads = false
write_cache = false
dirty_bytes_max = 1000000
destage_idle_ms = 1.0
[queue]
depth = 4
policy = "fifo"
aging = 0.0
age_limit_ms = 1000.0
honours_priority = false
"#;

/// What `profile` does with random requests, as if it had been measured.
fn measured(profile: &Profile, count: usize) -> Vec<MeasuredRequest> {
    let mut random = SplitMix::new(9);
    let mut requests: Vec<MeasuredRequest> = (0..count)
        .map(|_| MeasuredRequest {
            write: random.below(3) == 0,
            lbn: random.below(profile.blocks - 8),
            sectors: 1 + random.below(8) as u32,
            response_ms: 0.0,
            think: Nanos(10_000_000 + random.below(9_000_000)),
        })
        .collect();
    let mut disk = HddModel::new(profile, Box::new(Dataless), HddOptions::default()).unwrap();
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

#[test]
fn wrong_angles_turns_and_period_are_found_again() {
    let truth = Profile::parse("snake", DRIVE).unwrap();
    let requests = measured(&truth, 4000);
    let mut stated = truth.clone();
    stated.period_ns = 5_999_000;
    let LayoutSpec::Tree(tree) = &mut stated.layout else { panic!("a tree") };
    tree.tables[1][0].2 = 0.85;
    tree.tables[1][1].5 = 0.0;
    tree.tables[2][1].5 = 0.455;
    let before = unseen(&stated, &requests);
    let options = FitOptions { angles: true, ..FitOptions::default() };
    let fitted = fit(&stated, &requests, options).unwrap();
    let after = unseen(&fitted.profile, &requests);
    assert!(fitted.profile.period_ns.abs_diff(6_000_000) <= 10, "{:?}", fitted.constants);
    assert!(before.within_300_us < 0.6, "{before:?}");
    assert!(after.within_300_us > 0.95, "{after:?} {:?}", fitted.constants);
}

#[test]
fn wrong_overheads_are_fitted_without_touching_the_layout() {
    let truth = Profile::parse("snake", DRIVE).unwrap();
    let requests = measured(&truth, 2000);
    let mut stated = truth.clone();
    stated.command.read_ms = 0.9;
    stated.command.write_ms = 0.0;
    let options = FitOptions { overheads: true, ..FitOptions::default() };
    let fitted = fit(&stated, &requests, options).unwrap();
    let (before, after) = (unseen(&stated, &requests), unseen(&fitted.profile, &requests));
    assert!(after.demerit_ms < before.demerit_ms / 2.0, "{before:?} {after:?}");
    assert_eq!(fitted.profile.period_ns, truth.period_ns);
    assert!(fitted.constants.iter().all(|constant| !constant.name.starts_with("layout")));
}

#[test]
fn a_fit_never_looks_at_the_second_half() {
    let truth = Profile::parse("snake", DRIVE).unwrap();
    let mut requests = measured(&truth, 1000);
    let mut stated = truth.clone();
    stated.command.read_ms = 0.5;
    let options = FitOptions { angles: true, overheads: true, ..FitOptions::default() };
    let first = fit(&stated, &requests, options).unwrap();
    let half = fitting_half(&requests).len();
    for request in &mut requests[half..] {
        request.response_ms *= 3.0;
    }
    let second = fit(&stated, &requests, options).unwrap();
    assert_eq!(first.constants, second.constants);
}

#[test]
fn too_short_a_trace_is_refused() {
    let truth = Profile::parse("snake", DRIVE).unwrap();
    let told = fit(&truth, &measured(&truth, 50), FitOptions::default()).unwrap_err();
    assert!(told.contains("200 requests"), "{told}");
}
