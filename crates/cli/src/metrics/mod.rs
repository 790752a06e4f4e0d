//! Metrics for Prometheus: the report of `nearhead status`, as text.
//!
//! Every sample has the label `volume`, the target as whoever serves it named it; what is of one device also `lane`, its number (the
//! volume's own 0), and `disk`, its path. Units are seconds, bytes and shares of 1.

mod devices;
mod exposition;
mod served;

use crate::report::StatusReport;
use exposition::{Exposition, Kind};
use nearhead_engine::{DiskErrorCounts, PassReason, disk_error_name};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// When this daemon began to count, in seconds since 1970 UTC: the first time that this is asked.
pub fn started_unix_s() -> f64 {
    static STARTED: OnceLock<f64> = OnceLock::new();
    // A clock before 1970 is no clock.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |at| at.as_secs_f64());
    *STARTED.get_or_init(now)
}

/// The report as metrics.
pub fn render(report: &StatusReport) -> String {
    let mut all = Exposition::of(&report.target);
    build(&mut all, report);
    state(&mut all, report);
    for counter in report.counters.0.counters() {
        if let Some((name, help)) = counter.metric {
            all.one(name, Kind::Counter, help, counter.value);
        }
    }
    pass(&mut all, report);
    durable_target(&mut all, report);
    devices::links(&mut all, report);
    devices::log_disks(&mut all, report);
    devices::sides(&mut all, report);
    devices::mirrors(&mut all, report);
    devices::sizes(&mut all, report);
    read_cache(&mut all, report);
    paged_map(&mut all, report);
    disk_errors(&mut all, report);
    file_system(&mut all, report);
    if let Some(told) = &report.served {
        served::render(&mut all, told);
    }
    all.text()
}

fn build(all: &mut Exposition, report: &StatusReport) {
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("preset", &report.volume.preset)];
    all.family("build_info", Kind::Gauge, "1, with the version that serves and the preset")
        .sample(&labels, 1);
    if let Some(served) = &report.served {
        let help = "When the daemon was started, since 1970 UTC";
        all.shared_family("process_start_time_seconds", Kind::Gauge, help)
            .sample(&[], served.started_unix_s);
    }
}

fn state(all: &mut Exposition, report: &StatusReport) {
    let state = &report.state;
    let is_data = |device: &&crate::report::DeviceReport| device.position.is_some();
    let data_devices = report.devices.iter().filter(is_data).count() as u64;
    for (name, help, value) in [
        ("serving", "1 while requests are served", u64::from(state.phase == "serving")),
        ("failed", "1 after a failure that ended all changes", u64::from(state.failure.is_some())),
        ("health", "0 well, 1 degraded, 2 failed", report.health.level()),
        ("damage_findings", "What was found damaged", state.damage.len() as u64),
        ("map_entries", "Pieces whose newest copy is in a log", state.map_entries),
        ("map_memory_bytes", "Memory of the map", state.map_bytes),
        ("staged_bytes", "Small writes waiting in memory", state.staged_bytes),
        ("logs", "Logs of the volume", u64::from(state.logs)),
        ("logs_claimed", "Logs that a recovery would scan", u64::from(state.logs_claimed)),
        ("checkpointing", "1 while logged blocks are copied home", u64::from(state.checkpointing)),
        ("client_size_bytes", "Size of the volume", report.volume.client_bytes),
        ("data_devices", "Devices that hold data and no logs", data_devices),
        (
            "snapshot_behind_bytes",
            "Bytes of records that the newest snapshot of the map lacks",
            state.snapshot_behind_bytes,
        ),
    ] {
        all.one(name, Kind::Gauge, help, value);
    }
    for (name, help, percent) in [
        ("log_fill_ratio", "Share of the log space in use", state.log_fill_pct),
        (
            "fragment_fill_ratio",
            "Share of a snapshot's room for fragments in use",
            state.fragment_fill_pct,
        ),
    ] {
        all.one(name, Kind::Gauge, help, f64::from(percent) / 100.0);
    }
    let help = "Age of the newest snapshot of the map, while it lacks records; else 0";
    all.one("snapshot_age_seconds", Kind::Gauge, help, state.snapshot_age_s.unwrap_or(0.0));
}

/// Which pass home runs: one sample for each reason, so that a change of reason ends the one before.
fn pass(all: &mut Exposition, report: &StatusReport) {
    let reason = report.state.pass.as_ref().map(|pass| pass.reason.as_str());
    let mut family =
        all.family("pass_running", Kind::Gauge, "1 of the reason for which blocks are taken home");
    for known in PassReason::ALL {
        let is_it = reason == Some(known.name());
        family.sample(&[("reason", known.name())], u64::from(is_it));
    }
}

fn durable_target(all: &mut Exposition, report: &StatusReport) {
    let Some(target) = &report.state.durable_target else { return };
    let help = "What 99 of 100 durable writes are to take at most";
    all.one("durable_target_seconds", Kind::Gauge, help, target.p99_ms / 1e3);
    let help = "Durable writes that took longer than that";
    all.one("durable_target_missed_total", Kind::Counter, help, target.slower);
    let help = "Durable writes that were held against it";
    all.one("durable_target_writes_total", Kind::Counter, help, target.counted);
}

/// A mounted file system.
fn file_system(all: &mut Exposition, report: &StatusReport) {
    let Some(files) = &report.file_system else { return };
    let (counter, gauge) = (Kind::Counter, Kind::Gauge);
    for (name, kind, help, value) in [
        ("fs_dirty_bytes", gauge, "Bytes of files that wait to be written", files.dirty_bytes),
        ("fs_files_held", gauge, "Files and directories that the kernel holds", files.files_held),
        ("fs_size_bytes", gauge, "Size of the file system", files.size_bytes),
        ("fs_free_bytes", gauge, "Bytes of it that are free", files.free_bytes),
        ("fs_commits_total", counter, "Commits", files.commits),
        ("fs_records_total", counter, "Records of commits", files.records),
        ("fs_record_bytes_total", counter, "Bytes in these records", files.record_bytes),
        ("fs_in_place_bytes_total", counter, "Bytes of files in place", files.in_place_bytes),
        ("fs_trimmed_bytes_total", counter, "Free bytes told", files.trimmed_bytes),
    ] {
        all.one(name, kind, help, value);
    }
}

fn read_cache(all: &mut Exposition, report: &StatusReport) {
    let Some(cache) = &report.state.read_cache else { return };
    for (name, help, value) in [
        ("read_cache_memory_bytes", "Memory in use for the read cache", cache.memory_bytes),
        ("read_cache_memory_bytes_max", "As much as that may become", cache.memory_bytes_max),
        ("read_cache_device_bytes", "Bytes in use on the read cache's device", cache.device_bytes),
        ("read_cache_device_bytes_max", "As many as there may be", cache.device_bytes_max),
        (
            "read_cache_device_failed",
            "1 after the read cache's device failed and was given up",
            u64::from(cache.dropped.is_some()),
        ),
    ] {
        all.one(name, Kind::Gauge, help, value);
    }
}

fn paged_map(all: &mut Exposition, report: &StatusReport) {
    let Some(paged) = &report.state.paged_map else { return };
    for (name, help, value) in [
        ("map_paged_entries", "Entries in the pages of the map", paged.paged_entries),
        ("map_frozen_bytes", "Memory of what is being merged into the map", paged.frozen_bytes),
        ("map_index_bytes", "Memory of the index of the pages of the map", paged.index_bytes),
        ("map_cached_bytes", "Memory of pages of the map", paged.cached_bytes),
        (
            "map_memory_bytes_max",
            "Memory that the map may take, but for its index",
            paged.memory_bytes_max,
        ),
    ] {
        all.one(name, Kind::Gauge, help, value);
    }
}

/// One count for each way in which a command of the disk can fail, zeros too: an alarm needs a beginning.
fn disk_errors(all: &mut Exposition, report: &StatusReport) {
    let errors = &report.disk_errors;
    let mut family =
        all.family("disk_errors_total", Kind::Counter, "Commands of the disk that failed");
    for (work, kind, _) in DiskErrorCounts::default().iter() {
        let (work, kind) = (work.name(), disk_error_name(kind));
        let found = errors.counts.iter().find(|one| one.work == work && one.kind == kind);
        let count = found.map_or(0, |one| one.count);
        family.sample(&[("work", work), ("kind", kind)], count);
    }
    for (name, kind, help, value) in [
        (
            "disk_stalled",
            Kind::Gauge,
            "1 while the disk does not answer",
            u64::from(errors.stalled.is_some()),
        ),
        ("disk_stalls_total", Kind::Counter, "How often the disk did not answer", errors.stalls),
        (
            "disk_no_space",
            Kind::Gauge,
            "1 while there is no space under the image",
            u64::from(errors.no_space_s.is_some()),
        ),
    ] {
        all.one(name, kind, help, value);
    }
}
