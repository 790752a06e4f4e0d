//! Workloads and traces on modelled hard disks with nothing on them: the baseline of everything.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_disk::Nanos;
use nearhead_models::{HddModel, ModelSpec};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::contention::{ContentionOptions, ContentionResults, run};
use nearhead_sim::replay::{ReplayOptions, ReplayResults, replay};
use nearhead_sim::trace::{TraceOptions, TraceReader};
use nearhead_sim::workload::{BulkOptions, DurablePointsOptions};
use nearhead_volume::BareDisk;
use std::path::PathBuf;

fn bare(disk: &str) -> BareDisk<HddModel> {
    BareDisk::new(ModelSpec::parse(disk).unwrap().build().unwrap())
}

fn contend(disk: &str, write: bool, points_per_s: Option<f64>) -> ContentionResults {
    let mut service = bare(disk);
    let size = service.info().size_bytes;
    let points = |rate| DurablePointsOptions::of_twenty(size / 4..size / 2, rate);
    let options = ContentionOptions {
        bulk: Some(BulkOptions { write, ..BulkOptions::reader(0..size / 8) }),
        points: points_per_s.map(points),
        warm_up: Nanos::from_secs(2),
        duration: Nanos::from_secs(20),
    };
    let mut time = VirtualTime::default();
    let results = run(&mut service, &mut time, &options).unwrap();
    time.shut_down(&mut service, Nanos::from_secs(60)).unwrap();
    results
}

/// Manylogs, figure 2: without a log, durable points take the bandwidth away from bulk I/O.
#[test]
fn on_a_bare_disk_durable_points_starve_bulk_and_are_slow_themselves() {
    for write in [false, true] {
        let alone = contend("st3146855fc,content=none", write, None).bulk.unwrap();
        let beside = contend("st3146855fc,content=none", write, Some(16.0));
        let (bulk, points) = (beside.bulk.unwrap(), beside.points.unwrap());
        let bandwidth_pct = 100.0 * bulk.bytes_per_s / alone.bytes_per_s;
        // Media rate of the outermost zone: 1200 sectors a revolution of 3.995 ms, less the skews.
        assert!((120e6..153.8e6).contains(&alone.bytes_per_s), "{alone:?}");
        assert!(bandwidth_pct < 10.0, "write {write}: {bandwidth_pct} %");
        assert!(points.points.latency.mean_ms > 100.0, "write {write}: {points:?}");
        assert_eq!((bulk.failed, points.points.failed), (0, 0));
    }
}

#[test]
fn a_modelled_disk_gives_the_same_figures_twice() {
    let once = || contend("st3146855fc,content=none", false, Some(8.0));
    assert_eq!(once(), once());
}

fn shared() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let folder = std::env::var_os("NEARHEAD_SHARED").map_or_else(|| beside.into(), PathBuf::from);
    folder.join("traces").is_dir().then_some(folder)
}

fn replay_on(disk: &str, file: PathBuf) -> ReplayResults {
    let mut service = bare(disk);
    let options = TraceOptions { strict: true, ..TraceOptions::default() };
    let mut trace = TraceReader::open(file, options.for_service(&service.info())).unwrap();
    let mut time = VirtualTime::default();
    let results = replay(&mut service, &mut time, &mut trace, ReplayOptions::default()).unwrap();
    println!("{disk}: {results:?}");
    results
}

/// The requests were measured on this very drive; DiskSim's own error on it is a few percent.
#[test]
fn the_measured_trace_of_a_drive_replays_close_to_what_was_measured() {
    let Some(shared) = shared() else {
        println!("skipped: no real traces in $NEARHEAD_SHARED or ../shared");
        return;
    };
    let file = shared.join("disks/st3146855fc/random.trace.zst");
    let results = replay_on("st3146855fc,content=none", file);
    assert_eq!((results.requests, results.failed, results.closed_loop), (10_000, 0, true));
    let measured = results.measured.unwrap();
    let mean_error_pct = 100.0 * (results.all.latency.mean_ms / measured.mean_ms - 1.0);
    assert!(mean_error_pct.abs() < 5.0, "{mean_error_pct} %");
    assert!(results.demerit_pct.unwrap() < 10.0, "{:?}", results.demerit_pct);
}

#[test]
fn a_real_server_s_trace_is_served_whole_by_a_bare_disk() {
    let Some(shared) = shared() else {
        println!("skipped: no real traces in $NEARHEAD_SHARED or ../shared");
        return;
    };
    let file = shared.join("traces/ms-prod-dtrs/DTRS1K.trace.zst");
    let results = replay_on("constellation-es3-1tb,content=none,cache=off", file);
    assert_eq!((results.requests, results.failed), (127_043, 0));
    assert_eq!(results.all.bytes, 6_437_011_456 + 760_849_408);
    assert!(results.simulated_s >= results.trace_s);
}
