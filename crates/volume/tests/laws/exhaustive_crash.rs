//! Every outcome of a cut at every moment of a short workload, on one preset for each way records go.
//!
//! One in thirteen of the sequences of three is run: `EXHAUSTIVE_STRIDE=1` runs all, `EXHAUSTIVE_STRIDE=11` is a quick look.
//! `IMAGES=100000000` goes on, with more tears and sequences of four and five, until so many different images
//! were recovered (`make soak`); `EXHAUSTIVE_FROM=n` begins there at workload n, where an earlier run ended.

use nearhead_laws::exhaustive::{Extent, configurations, run};
use nearhead_laws::options::Options;
use nearhead_volume::Presets;

/// Of the sequences of three one in so many is run, if nobody says otherwise; a soak runs all.
const STRIDE: u64 = 13;
/// The same where there are several devices.
const STRIDE_ON_SEVERAL_DEVICES: u64 = 77;

/// As the environment has it; of the sequences of three one in `stride` if that does not say it.
fn extent(stride: u64) -> Extent {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let images = number("IMAGES");
    let default = if images.is_some() { 1 } else { stride };
    Extent {
        images,
        from: number("EXHAUSTIVE_FROM").unwrap_or(0),
        only: number("EXHAUSTIVE_CASE"),
        threads: number("EXHAUSTIVE_THREADS").map(|threads| threads as usize),
        ..Extent::one_in(number("EXHAUSTIVE_STRIDE").unwrap_or(default))
    }
}

/// Eighteen, in four of which records leave blocks out, and in two records bring bytes.
fn on_one_disk() -> Vec<Options> {
    let presets = Presets::default();
    let kinds = [("singlelog", false), ("mlb", false), ("nolog", false), ("mlb", true)];
    let of = |(name, wanders)| configurations(presets, presets.by_name(name).unwrap(), wanders);
    let bytes = of(("mlb", false)).into_iter().take(2).map(Options::with_fragments);
    kinds.into_iter().flat_map(of).chain(bytes).collect()
}

/// Four whose logs are on a device of their own, in front of two data devices.
fn on_several_devices() -> Vec<Options> {
    let presets = Presets::default();
    configurations(presets, presets.by_name("trail").unwrap(), false)
}

#[test]
fn every_outcome_of_a_cut_in_a_short_workload_keeps_the_laws() {
    let (extent, mut all) = (extent(STRIDE), on_one_disk());
    if extent.images.is_some() {
        all.extend(on_several_devices());
    }
    let images = if extent.images.is_some() { "IMAGES=1 " } else { "" };
    let stride = extent.stride;
    let repeat = move |number| {
        format!(
            "repeat with: {images}EXHAUSTIVE_STRIDE={stride} EXHAUSTIVE_CASE={number} cargo test -p nearhead-volume \
             --test laws every_outcome -- --nocapture"
        )
    };
    let ran = run(&all, &extent, &repeat);
    println!("{} (stride {stride})", ran.tally);
    if extent.images.is_some() {
        let (from, next) = (extent.from, ran.next);
        println!("workloads {from} to {next}; go on with EXHAUSTIVE_FROM={next}");
    }
    let distinct = ran.tally.distinct();
    assert!(!ran.is_whole || distinct > 1_000_000, "only {distinct} distinct images");
}

#[test]
fn every_outcome_of_a_cut_that_hits_a_log_device_and_its_data_devices_keeps_the_laws() {
    let extent = extent(STRIDE_ON_SEVERAL_DEVICES);
    if extent.images.is_some() {
        return println!("skipped: a soak has them among the others");
    }
    let stride = extent.stride;
    let repeat = move |number| {
        format!(
            "repeat with: EXHAUSTIVE_STRIDE={stride} EXHAUSTIVE_CASE={number} cargo test -p nearhead-volume --test laws \
             every_outcome_of_a_cut_that_hits -- --nocapture"
        )
    };
    let ran = run(&on_several_devices(), &extent, &repeat);
    println!("{} (stride {stride})", ran.tally);
    assert!(extent.only.is_some() || ran.tally.distinct() > 1000, "{}", ran.tally);
}
