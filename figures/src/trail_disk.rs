//! Trail's figure 3 and table 1 as the paper has them: synchronous writes with a log disk in front of the disk that holds the data.
//!
//! What is compared is the plain disk, the same one that holds the data behind the log disk. The log disk is the paper's own; the data
//! disk is a newer one, because of the paper's nothing more is known than how fast it turns.

use crate::chart::BarChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::paced::Paced;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CONSTELLATION, FigureDisk, Queue, System};
use crate::spent::Spent;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions, Workload};
use nearhead_volume::Volume;

/// The log disk of the paper (section 4.1 and 5).
const LOG_DISK: &str = "st41601n";
/// What holds the data.
const DATA_DISK: &str = CONSTELLATION;
/// Sizes of a write, in bytes.
const SIZES: [u32; 7] = [512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const PROCESSES: [u32; 2] = [1, 5];
/// Writes a second of each process in the sparse mode: a pause of several revolutions, in which the head is moved on.
const SPARSE_PER_S: f64 = 10.0;
const WARM_UP: Nanos = Nanos::from_secs(60);
const DRAIN_LIMIT: Nanos = Nanos::from_secs(600);

/// When the next write comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Sparse,
    Clustered,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Sparse => "sparse",
            Self::Clustered => "clustered",
        }
    }
}

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

/// One bar of the paper's figure.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: Mode,
    processes: u32,
    bytes: u32,
}

/// What one system made of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    mean_ms: f64,
    p99_ms: f64,
    /// Of the disk that is waited for, for each of its records: waiting for a sector to come round, arm and head, sectors passing.
    rotation_ms: f64,
    seek_ms: f64,
    transfer_ms: f64,
    /// Client writes in a record.
    batch: f64,
    /// Reads that took the arm on, for each record.
    repositions: f64,
}

fn cases() -> Vec<Case> {
    let modes = [Mode::Sparse, Mode::Clustered].into_iter();
    let crowds = modes.flat_map(|mode| PROCESSES.map(|processes| (mode, processes)));
    crowds
        .flat_map(|(mode, processes)| SIZES.map(|bytes| Case { mode, processes, bytes }))
        .collect()
}

fn writer(volume: &Volume<FigureDisk>, case: Case) -> Paced<RandomMix> {
    let writer = RandomMix::new(RandomMixOptions {
        span: 0..volume.info().size_bytes,
        request_bytes: case.bytes,
        reads: 0.0,
        fua: true,
        outstanding_max: case.processes,
        requests_max: None,
        content: Content::Phantom,
        seed: 1,
    });
    let rate = (case.mode == Mode::Sparse).then_some(SPARSE_PER_S * f64::from(case.processes));
    Paced::new(writer, rate)
}

fn outcome(case: Case, disks: Disks, measured: Nanos) -> Result<Outcome, FigureError> {
    let mut volume = disks.volume()?;
    let name = disks.name();
    let stuck = |problem| FigureError::Stuck { what: format!("{case:?} on {name}"), problem };
    let mut writer = writer(&volume, case);
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
        mean_ms: summary.latency.mean_ms,
        p99_ms: summary.latency.p99_ms,
        rotation_ms,
        seek_ms,
        transfer_ms,
        batch: summary.requests as f64 / transfers,
        repositions: (after.1.repositions - before.1.repositions) as f64 / transfers,
    })
}

fn size(bytes: u32) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) }
}

fn crowd(case: Case) -> &'static str {
    if case.processes == 1 { "one process" } else { "five processes" }
}

fn rows(case: Case, outcomes: &[Outcome]) -> Vec<Row> {
    let (plain, ours) = (outcomes[0], outcomes[1]);
    let told = format!("{}, {}, {}", case.mode.name(), size(case.bytes), crowd(case));
    let is_told = case.processes == 1 && case.bytes == 4 << 10;
    let mut rows = vec![
        Row::new(format!("a synchronous write, {told}"), "ms")
            .paper(is_told.then_some(PAPERS.trail.sync_write_ms_4k))
            .baseline(plain.mean_ms)
            .ours(ours.mean_ms),
    ];
    if case.processes == 1 {
        rows.push(
            Row::new(format!("waiting for the sector, {told}"), "ms")
                .paper(is_told.then_some(PAPERS.trail.mean_rotational_ms))
                .baseline(plain.rotation_ms)
                .ours(ours.rotation_ms),
        );
    }
    rows
}

/// The figure.
pub(crate) fn trail_disk(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let cases = cases();
    let steps = cases
        .iter()
        .map(|case| (format!("{} {} {}", case.mode.name(), case.processes, case.bytes), *case));
    let done = lab.each("trail3-log-disk", steps.collect(), |_, case| {
        Disks::ALL
            .iter()
            .map(|disks| outcome(case, *disks, measured))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let best = done.iter().map(|outcomes| outcomes[0].mean_ms / outcomes[1].mean_ms);
    let best = best.fold(0.0, f64::max);
    let mut all: Vec<Row> =
        cases.iter().zip(&done).flat_map(|(case, outcomes)| rows(*case, outcomes)).collect();
    all.push(
        Row::new("largest speed-up over the plain disk", "x")
            .paper(PAPERS.trail.speedup_max)
            .baseline(1.0)
            .ours(best),
    );
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
            Drawing::new("sparse", chart(&cases, &done, Mode::Sparse).render())?,
            Drawing::new("clustered", chart(&cases, &done, Mode::Clustered).render())?,
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
            data.push([
                case.mode.name().to_owned(),
                case.processes.to_string(),
                case.bytes.to_string(),
                disks.name().to_owned(),
                format!("{:.4}", outcome.mean_ms),
                format!("{:.4}", outcome.p99_ms),
                format!("{:.4}", outcome.seek_ms),
                format!("{:.4}", outcome.rotation_ms),
                format!("{:.4}", outcome.transfer_ms),
                format!("{:.2}", outcome.batch),
                format!("{:.2}", outcome.repositions),
            ]);
        }
    }
    data
}

fn chart(cases: &[Case], done: &[Vec<Outcome>], mode: Mode) -> BarChart<'static> {
    let shown = |case: &Case| case.mode == mode && case.processes == 1;
    let of = |system: usize| {
        let chosen = cases.iter().zip(done).filter(|(case, _)| shown(case));
        chosen.map(|(_, outcomes)| outcomes[system].mean_ms).collect()
    };
    let groups = cases.iter().filter(|case| shown(case));
    let title = match mode {
        Mode::Sparse => "A synchronous write of one process, sparse",
        Mode::Clustered => "A synchronous write of one process, clustered",
    };
    BarChart {
        title,
        unit: "ms, logarithmic",
        groups: groups.map(|case| size(case.bytes)).collect(),
        series: Disks::ALL
            .iter()
            .enumerate()
            .map(|(at, disks)| (disks.name().to_owned(), of(at)))
            .collect(),
        limit: None,
        decades: true,
    }
}
