//! Trail's figure 3 without its log disk: how long a small synchronous write takes on the very disk that holds the data.
//!
//! Trail gives a whole disk to the log and writes where its head will be. Here the log lies between the data of the same disk, so
//! the arm has to go there and the records must find a place; what is compared is the paper's own axis, the plain disk in place.

use crate::chart::BarChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::paced::Paced;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CONSTELLATION, Queue, System};
use crate::spent::Spent;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions, Workload};

/// The slowest of the disks that are part of the program.
const DISK: &str = CONSTELLATION;
/// Sizes of a write, in bytes.
const SIZES: [u32; 6] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const PROCESSES: [u32; 2] = [1, 5];
/// In place first: what the others are compared with.
const SYSTEMS: [&str; 4] = ["nolog", "singlelog", "mlb", "nearhead"];
const IN_PLACE: usize = 0;
const NEARHEAD: usize = 3;
/// Writes a second of each process in the sparse mode: a pause of several revolutions, in which Trail moves its head.
const SPARSE_PER_S: f64 = 10.0;
const DRAIN_LIMIT: Nanos = Nanos::from_secs(30);

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
    /// Waiting for a sector to come round, for each write.
    rotation_ms: f64,
}

fn cases() -> Vec<Case> {
    let modes = [Mode::Sparse, Mode::Clustered].into_iter();
    let crowds = modes.flat_map(|mode| PROCESSES.map(|processes| (mode, processes)));
    crowds
        .flat_map(|(mode, processes)| SIZES.map(|bytes| Case { mode, processes, bytes }))
        .collect()
}

fn outcome(case: Case, name: &str, measured: Nanos) -> Result<Outcome, FigureError> {
    let disk = rig::hard_disk(DISK, Queue::InOrder)?;
    let mut volume = rig::volume(disk, &System::of_preset(name)?)?;
    let stuck = |problem| FigureError::Stuck { what: format!("{case:?} on {name}"), problem };
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
    let mut writer = Paced::new(writer, rate);
    let mut time = VirtualTime::default();
    let warm_up = Nanos::from_secs(4);
    time.run(&mut volume, &mut [&mut writer], warm_up).map_err(stuck)?;
    writer.start_measuring(warm_up);
    let before = volume.disk().disk().spent();
    let ends = warm_up + measured;
    time.run(&mut volume, &mut [&mut writer], ends).map_err(stuck)?;
    let after = volume.disk().disk().spent();
    let summary = writer.inner.writes().summary(ends);
    time.drain(&mut volume, &mut [&mut writer], DRAIN_LIMIT).map_err(stuck)?;
    succeeded(name, &[&summary])?;
    let spent: Option<Spent> =
        before.zip(after).map(|(before, after)| after.since(&before, measured));
    let rotation_ms = spent.map_or(f64::NAN, |spent| spent.rotation_ms);
    Ok(Outcome {
        mean_ms: summary.latency.mean_ms,
        rotation_ms: rotation_ms / summary.requests.max(1) as f64,
    })
}

fn rows(case: Case, outcomes: &[Outcome]) -> Vec<Row> {
    let (in_place, ours) = (outcomes[IN_PLACE], outcomes[NEARHEAD]);
    let told = format!("{}, {} KiB, {}", case.mode.name(), case.bytes / 1024, crowd(case));
    let is_sector_row = case.processes == 1 && case.bytes == 4 << 10;
    let paper_ms = is_sector_row.then_some(PAPERS.trail.sync_write_ms_4k);
    let mut rows = vec![
        Row::new(format!("a synchronous write, {told}"), "ms")
            .paper(paper_ms)
            .baseline(in_place.mean_ms)
            .ours(ours.mean_ms),
    ];
    if case.processes == 1 {
        let rotational = Row::new(format!("waiting for the sector, {told}"), "ms")
            .paper(is_sector_row.then_some(PAPERS.trail.mean_rotational_ms))
            .baseline(in_place.rotation_ms)
            .ours(ours.rotation_ms);
        rows.push(rotational);
    }
    rows
}

fn crowd(case: Case) -> &'static str {
    if case.processes == 1 { "one process" } else { "five processes" }
}

/// The figure.
pub(crate) fn trail3(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let cases = cases();
    let steps = cases
        .iter()
        .map(|case| (format!("{} {} {}", case.mode.name(), case.processes, case.bytes), *case));
    let done = lab.each("trail3", steps.collect(), |_, case| {
        SYSTEMS.iter().map(|name| outcome(case, name, measured)).collect::<Result<Vec<_>, _>>()
    })?;
    let best = done.iter().map(|outcomes| outcomes[IN_PLACE].mean_ms / outcomes[NEARHEAD].mean_ms);
    let best = best.fold(0.0, f64::max);
    let mut all: Vec<Row> =
        cases.iter().zip(&done).flat_map(|(case, outcomes)| rows(*case, outcomes)).collect();
    all.push(
        Row::new("largest speed-up over in place", "x")
            .paper(PAPERS.trail.speedup_max)
            .baseline(1.0)
            .ours(best),
    );
    let columns = ["mode", "processes", "bytes", "system", "mean_ms", "rotation_ms"];
    let mut data = Data::new("latencies", &columns);
    for (case, outcomes) in cases.iter().zip(&done) {
        for (name, outcome) in SYSTEMS.iter().zip(outcomes) {
            data.push([
                case.mode.name().to_owned(),
                case.processes.to_string(),
                case.bytes.to_string(),
                (*name).to_owned(),
                format!("{:.4}", outcome.mean_ms),
                format!("{:.4}", outcome.rotation_ms),
            ]);
        }
    }
    Ok(Report {
        name: "trail3",
        title: "Trail 3 on one disk: synchronous writes without a disk for the log".to_owned(),
        ran: format!(
            "Synchronous writes to random places of one {DISK}, in order, its write cache off, {} s each after 4 s: \
             clustered, the next write of a process as soon as the last one is durable, and sparse, {SPARSE_PER_S} a second \
             of each process. Baseline: in place; ours: the preset nearhead, whose logs lie between the data of the same disk. \
             Nothing is brought home meanwhile.",
            measured.as_secs_f64()
        ),
        differs: vec![
            "The paper's numbers are those of a disk that nothing but the log uses: its head is never away, and a \
             write is answered before its data's own disk has moved. It compares with IDE disks of which nothing more \
             is known; here both sides are the same disk."
                .to_owned(),
            "Its log disk, an ST41601N, turns 5,400 times a minute (11.1 ms), this one 7,200 times (8.3 ms); its data lie on disks \
             of 10 GB, here all over a TB."
                .to_owned(),
            "Its figure shows 1 KiB and more; the 4 KiB that it gives in words stand beside one process.".to_owned(),
        ],
        findings: Vec::new(),
        rows: all,
        data: vec![data],
        drawings: vec![Drawing::new("clustered", chart(&cases, &done, Mode::Clustered).render())?],
    })
}

fn chart(cases: &[Case], done: &[Vec<Outcome>], mode: Mode) -> BarChart<'static> {
    let shown = |case: &Case| case.mode == mode && case.processes == 1;
    let of = |system: usize| {
        let chosen = cases.iter().zip(done).filter(|(case, _)| shown(case));
        chosen.map(|(_, outcomes)| outcomes[system].mean_ms).collect()
    };
    let groups = cases.iter().filter(|case| shown(case));
    BarChart {
        title: "A synchronous write of one process, clustered",
        unit: "ms, logarithmic",
        groups: groups.map(|case| format!("{} KiB", case.bytes / 1024)).collect(),
        series: SYSTEMS.iter().enumerate().map(|(at, name)| ((*name).to_owned(), of(at))).collect(),
        limit: None,
        decades: true,
    }
}
