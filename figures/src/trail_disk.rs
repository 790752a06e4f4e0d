//! Trail's figure 3 as the paper has it: synchronous writes with a log disk in front of the disk that holds the data.
//!
//! What is compared is the plain disk, the same one that holds the data behind the log disk. The log disk is the paper's own; the data
//! disk is a newer one, because of the paper's nothing more is known than how fast it turns.

use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CONSTELLATION, FigureDisk, Queue, System};
use crate::spent::Spent;
use crate::trail_writes::{Case, Mode, SPARSE_PER_S, Times, cases, chart, speedup_row};
use nearhead_disk::Nanos;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::Workload;
use nearhead_volume::Volume;

/// The log disk of the paper (section 4.1 and 5).
const LOG_DISK: &str = "st41601n";
/// What holds the data.
const DATA_DISK: &str = CONSTELLATION;
/// Sizes of a write, in bytes.
const SIZES: [u32; 7] = [512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const WARM_UP: Nanos = Nanos::from_secs(60);
const DRAIN_LIMIT: Nanos = Nanos::from_secs(600);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disks {
    /// The data disk alone, in place.
    Plain,
    /// The log disk before it.
    Trail,
    /// The same, where nobody knows where its tracks are.
    Unknown,
}

impl Disks {
    const ALL: [Self; 3] = [Self::Plain, Self::Trail, Self::Unknown];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain disk",
            Self::Trail => "trail",
            Self::Unknown => "trail, tracks unknown",
        }
    }

    fn volume(self) -> Result<Volume<FigureDisk>, FigureError> {
        let data = rig::hard_disk(DATA_DISK, Queue::InOrder)?;
        if self == Self::Plain {
            return rig::volume(data, &System::of_preset("nolog")?);
        }
        let configure = if self == Self::Unknown { tracks_unknown } else { as_it_is };
        let system = System { configure, ..System::of_preset("trail")? };
        rig::volume_behind(rig::hard_disk(LOG_DISK, Queue::InOrder)?, vec![data], &system)
    }
}

fn as_it_is(_: &mut nearhead_engine::Config) {}

fn tracks_unknown(config: &mut nearhead_engine::Config) {
    config.tracks = Vec::new();
}

/// What one system made of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    times: Times,
    p99_ms: f64,
    /// Of the disk that is waited for, for each of its records: arm and head, sectors passing.
    seek_ms: f64,
    transfer_ms: f64,
    /// Client writes in a record.
    batch: f64,
    /// Reads that took the arm on, for each record.
    repositions: f64,
}

fn outcome(case: Case, disks: Disks, measured: Nanos) -> Result<Outcome, FigureError> {
    let mut volume = disks.volume()?;
    let name = disks.name();
    let stuck = |problem| FigureError::Stuck { what: format!("{case:?} on {name}"), problem };
    let mut writer = case.writer(&volume);
    let mut time = VirtualTime::default();
    time.run(&mut volume, &mut [&mut writer], WARM_UP).map_err(stuck)?;
    writer.start_measuring(WARM_UP);
    let before = (volume.disk().disk().spent(), volume.status().stats);
    let ends = WARM_UP + measured;
    time.run(&mut volume, &mut [&mut writer], ends).map_err(stuck)?;
    let after = (volume.disk().disk().spent(), volume.status().stats);
    let summary = writer.inner.writes().summary(ends);
    time.drain(&mut volume, &mut [&mut writer], DRAIN_LIMIT).map_err(stuck)?;
    succeeded(name, &[&summary])?;
    let spent: Option<Spent> =
        before.0.zip(after.0).map(|(before, after)| after.since(&before, measured));
    let records = after.1.records - before.1.records;
    let transfers = if records > 0 { records } else { summary.requests }.max(1) as f64;
    let each = |ms: f64| ms / transfers;
    let [seek_ms, rotation_ms, transfer_ms, _] =
        spent.map_or([f64::NAN; 4], |spent| spent.parts()).map(each);
    Ok(Outcome {
        times: Times { mean_ms: summary.latency.mean_ms, rotation_ms },
        p99_ms: summary.latency.p99_ms,
        seek_ms,
        transfer_ms,
        batch: summary.requests as f64 / transfers,
        repositions: (after.1.repositions - before.1.repositions) as f64 / transfers,
    })
}

/// The figure.
pub(crate) fn trail_disk(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let cases = cases(&SIZES);
    let steps = cases.iter().map(|case| (case.step(), *case));
    let done = lab.each("trail3-log-disk", steps.collect(), |_, case| {
        Disks::ALL
            .iter()
            .map(|disks| outcome(case, *disks, measured))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let pairs: Vec<_> = done.iter().map(|all| (all[0].times, all[1].times)).collect();
    let told = cases.iter().zip(&pairs);
    let mut all: Vec<Row> =
        told.flat_map(|(case, (plain, ours))| case.rows(*plain, *ours)).collect();
    all.push(speedup_row("the plain disk", pairs.into_iter()));
    let names = Disks::ALL.map(Disks::name);
    let drawn =
        |mode| chart(&cases, mode, &names, |case, disks| done[case][disks].times.mean_ms).render();
    Ok(Report {
        name: "trail3-log-disk",
        title: "Trail 3: synchronous writes with a log disk".to_owned(),
        ran: format!(
            "Synchronous writes to random places of one {DATA_DISK}, in order, its write cache off, {} s each after {} s: \
             clustered, the next write of a process as soon as the last one is durable, and sparse, {SPARSE_PER_S} a second \
             of each process. Baseline: in place; ours: the preset trail with an {LOG_DISK} as log device, whose tracks a calibration found, \
             in front of the same disk. What is logged is written behind to the data disk meanwhile.",
            measured.as_secs_f64(), WARM_UP.as_secs_f64()
        ),
        differs: vec![
            "The paper's data disks are IDE disks of 1998 of which nothing more is known than that they turn 5,400 times a minute; this one \
             turns 7,200 times."
                .to_owned(),
            "The log disk is modelled after what others measured on one of its kind: its electronics take 1.4 ms for a write behind a \
             write, and 2.1 ms behind a read. The paper's writes of one sector take 1.4 ms together."
                .to_owned(),
        ],
        findings: Vec::new(),
        rows: all,
        data: vec![data(&cases, &done)],
        drawings: vec![
            Drawing::new("sparse", drawn(Mode::Sparse))?,
            Drawing::new("clustered", drawn(Mode::Clustered))?,
        ],
    })
}

fn data(cases: &[Case], done: &[Vec<Outcome>]) -> Data {
    let columns = [
        "mode",
        "processes",
        "bytes",
        "system",
        "mean_ms",
        "p99_ms",
        "seek_ms",
        "rotation_ms",
        "transfer_ms",
        "writes_per_record",
        "repositions_per_record",
    ];
    let mut data = Data::new("latencies", &columns);
    for (case, outcomes) in cases.iter().zip(done) {
        for (disks, outcome) in Disks::ALL.iter().zip(outcomes) {
            let [mode, processes, bytes] = case.columns();
            data.push([
                mode,
                processes,
                bytes,
                disks.name().to_owned(),
                format!("{:.4}", outcome.times.mean_ms),
                format!("{:.4}", outcome.p99_ms),
                format!("{:.4}", outcome.seek_ms),
                format!("{:.4}", outcome.times.rotation_ms),
                format!("{:.4}", outcome.transfer_ms),
                format!("{:.2}", outcome.batch),
                format!("{:.2}", outcome.repositions),
            ]);
        }
    }
    data
}
