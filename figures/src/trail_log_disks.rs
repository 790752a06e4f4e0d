//! Trail with several log disks: whether the second and the third hide what the arm of the first has to do between two records.
//!
//! The same synchronous writes as in its figure 3, clustered, with one, two and three log disks in front of the same data disk. One record is
//! in flight at a time; what another disk can take over is the way to the next track.

use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::report::{Data, Report, Row};
use crate::rig::{self, CONSTELLATION, FigureDisk, Queue, System};
use crate::spent::Spent;
use crate::trail_writes::{Case, Mode, cases};
use nearhead_disk::Nanos;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::Workload;
use nearhead_volume::Volume;

/// The paper's log disk, and what holds the data.
const LOG_DISK: &str = "st41601n";
const DATA_DISK: &str = CONSTELLATION;
const SIZES: [u32; 4] = [512, 4 << 10, 8 << 10, 16 << 10];
/// Log disks.
const COUNTS: [u32; 3] = [1, 2, 3];
const WARM_UP: Nanos = Nanos::from_secs(60);
const DRAIN_LIMIT: Nanos = Nanos::from_secs(600);

/// What so many log disks made of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    mean_ms: f64,
    p99_ms: f64,
    writes_per_s: f64,
    /// Of all log disks, for each record: arm and head, waiting for sectors, sectors passing.
    seek_ms: f64,
    rotation_ms: f64,
    transfer_ms: f64,
    /// Client writes in a record.
    batch: f64,
    /// Reads that took an arm on, for each record.
    repositions: f64,
    /// Share of what the heads passed over, in hundredths, that records took.
    used_pct: f64,
}

fn volume(log_disks: u32) -> Result<Volume<FigureDisk>, FigureError> {
    let system = System { configure: |_| {}, ..System::of_preset("trail")? };
    let mut logs = rig::several(LOG_DISK, log_disks)?;
    let own = logs.remove(0);
    let data = vec![rig::hard_disk(DATA_DISK, Queue::InOrder)?];
    rig::volume_behind_several(own, (data, logs), &system)
}

/// Time of all log disks together.
fn spent(volume: &Volume<FigureDisk>) -> Spent {
    let further = &volume.lanes().data()[1..];
    let all = std::iter::once(volume.disk()).chain(further).filter_map(|log| log.disk().spent());
    all.fold(Spent::default(), |sum, one| Spent {
        seek_ms: sum.seek_ms + one.seek_ms,
        rotation_ms: sum.rotation_ms + one.rotation_ms,
        transfer_ms: sum.transfer_ms + one.transfer_ms,
        idle_ms: 0.0,
    })
}

/// The log in use of each log disk, and how many it has.
fn logs_in_use(volume: &Volume<FigureDisk>) -> Vec<(u32, u32)> {
    let status = volume.status();
    if status.log_disks.is_empty() {
        return vec![(volume.engine().newest_log(), status.logs)];
    }
    let disks = status.log_disks.iter();
    disks.map(|disk| (disk.log_in_use.unwrap_or(0), disk.logs)).collect()
}

fn outcome(case: Case, log_disks: u32, measured: Nanos) -> Result<Outcome, FigureError> {
    let mut volume = volume(log_disks)?;
    let what = format!("{case:?} with {log_disks} log disks");
    let stuck = |problem| FigureError::Stuck { what: what.clone(), problem };
    let mut writer = case.writer(&volume);
    let mut time = VirtualTime::default();
    time.run(&mut volume, &mut [&mut writer], WARM_UP).map_err(stuck)?;
    writer.start_measuring(WARM_UP);
    let before = (spent(&volume), volume.status().stats, logs_in_use(&volume));
    let ends = WARM_UP + measured;
    time.run(&mut volume, &mut [&mut writer], ends).map_err(stuck)?;
    let after = (spent(&volume), volume.status().stats, logs_in_use(&volume));
    let summary = writer.inner.writes().summary(ends);
    time.drain(&mut volume, &mut [&mut writer], DRAIN_LIMIT).map_err(stuck)?;
    succeeded(&what, &[&summary])?;
    let records = (after.1.records - before.1.records).max(1) as f64;
    let [seek_ms, rotation_ms, transfer_ms, _] =
        after.0.since(&before.0, measured).parts().map(|ms| ms / records);
    let passed: u64 = after
        .2
        .iter()
        .zip(&before.2)
        .map(|((now, logs), (then, _))| u64::from((now + logs - then) % logs))
        .sum();
    let log_bytes = volume.superblock().layout.log_bytes;
    let record_bytes = (after.1.record_bytes - before.1.record_bytes) as f64;
    Ok(Outcome {
        mean_ms: summary.latency.mean_ms,
        p99_ms: summary.latency.p99_ms,
        writes_per_s: summary.requests as f64 / measured.as_secs_f64(),
        seek_ms,
        rotation_ms,
        transfer_ms,
        batch: summary.requests as f64 / records,
        repositions: (after.1.repositions - before.1.repositions) as f64 / records,
        used_pct: 100.0 * record_bytes / (passed * log_bytes).max(1) as f64,
    })
}

/// The figure.
pub(crate) fn trail_log_disks(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let cases: Vec<Case> =
        cases(&SIZES).into_iter().filter(|case| case.mode == Mode::Clustered).collect();
    let steps = cases.iter().map(|case| (case.step(), *case));
    let done = lab.each("trail-log-disks", steps.collect(), |_, case| {
        COUNTS.iter().map(|count| outcome(case, *count, measured)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut rows = Vec::new();
    for (case, outcomes) in cases.iter().zip(&done) {
        let told = case.told();
        for (count, outcome) in COUNTS.iter().zip(outcomes).skip(1) {
            rows.push(
                Row::new(format!("a synchronous write, {told}, {count} log disks"), "ms")
                    .baseline(outcomes[0].mean_ms)
                    .ours(outcome.mean_ms),
            );
        }
    }
    Ok(Report {
        name: "trail-log-disks",
        title: "Trail with several log disks: clustered synchronous writes".to_owned(),
        ran: format!(
            "Synchronous writes to random places of one {DATA_DISK}, in order, its write cache off, {} s each after {} s, the next write of a process \
             as soon as the last one is durable. Preset trail with {LOG_DISK}s as log disks, whose tracks a calibration found, no two of which turn \
             alike. Baseline: one of them; ours: two and three. One record is in flight at a time.",
            measured.as_secs_f64(),
            WARM_UP.as_secs_f64()
        ),
        differs: vec![
            "The paper proposes several log disks and shows no figure of them.".to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data(&cases, &done)],
        drawings: Vec::new(),
    })
}

fn data(cases: &[Case], done: &[Vec<Outcome>]) -> Data {
    let columns = [
        "mode",
        "processes",
        "bytes",
        "log_disks",
        "mean_ms",
        "p99_ms",
        "writes_per_s",
        "seek_ms",
        "rotation_ms",
        "transfer_ms",
        "writes_per_record",
        "repositions_per_record",
        "used_pct",
    ];
    let mut data = Data::new("latencies", &columns);
    for (case, outcomes) in cases.iter().zip(done) {
        for (count, outcome) in COUNTS.iter().zip(outcomes) {
            let [mode, processes, bytes] = case.columns();
            data.push([
                mode,
                processes,
                bytes,
                count.to_string(),
                format!("{:.4}", outcome.mean_ms),
                format!("{:.4}", outcome.p99_ms),
                format!("{:.1}", outcome.writes_per_s),
                format!("{:.4}", outcome.seek_ms),
                format!("{:.4}", outcome.rotation_ms),
                format!("{:.4}", outcome.transfer_ms),
                format!("{:.2}", outcome.batch),
                format!("{:.2}", outcome.repositions),
                format!("{:.1}", outcome.used_pct),
            ]);
        }
    }
    data
}
