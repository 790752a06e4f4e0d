//! Parameters of Manylogs (section VI), and how much the mixes' load matters.
//!
//! The paper tried 1 MB of log in every 10 MB, 10 in 100, 100 in 1000 and 1 in 10 GB, and thresholds
//! of 32 and 256 KB. Here each size runs the five mixes (speed-up over no logging, averaged) and the
//! sequential reader of figure 2a at its highest rate; each threshold runs the mixes. The load is
//! swept too, because the paper does not say to which one it re-rated its mixes.

use crate::chart::BarChart;
use crate::contention::{self, FILES, Method};
use crate::error::FigureError;
use crate::fig2::{self, FIG2A, OURS};
use crate::fig6::{self, BUSY_SHARE, MixRuns, NO_LOGGING, QUEUES};
use crate::journal::Mode;
use crate::lab::Lab;
use crate::mix::Prepared;
use crate::paper::{PAPERS, Spread};
use crate::replayed::{mean_speed_up, replay};
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::{self, CHEETAH, CONSTELLATION, Queue, System};
use nearhead_basics::Histogram;
use nearhead_format::AckMode;

pub(crate) const MB: u64 = 1 << 20;
/// Group and log, in MiB (Manylogs VI, size of a group, in MB there).
pub(crate) const SIZES: [(&str, u64, u64); 4] = [
    ("1 MB in 10 MB", 10, 1),
    ("10 MB in 100 MB", 100, 10),
    ("100 MB in 1000 MB", 1000, 100),
    ("1 GB in 10 GB", 10_000, 1000),
];
/// Thresholds, in KiB.
const THRESHOLDS: [u32; 6] = [8, 16, 32, 64, 128, 256];
/// Shares of time that the bare disk is busy with a mix.
const LOADS: [f64; 5] = [0.3, 0.45, 0.6, 0.75, 0.9];

/// Requests that a drive may choose from; one is a queue in order.
const DEPTHS: [u16; 6] = [2, 4, 8, 16, 32, 128];

/// The sweeps.
pub(crate) fn sweep(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = fig6::runs(lab)?;
    let mut rows = Vec::new();
    let mut data = Data::new("speedups", &["parameter", "value", "disk_queue", "mean_speedup"]);
    let mut book = |rows: &mut Vec<Row>, parameter: &str, value: &str, factors: &[f64]| {
        for (queue, factor) in QUEUES.iter().zip(factors) {
            let (parameter, queue) = (parameter.to_owned(), queue.name());
            let case = format!("{parameter} {value}, disk {queue}, mean of W1 to W5");
            rows.push(Row::new(case, "x").baseline(1.0).ours(*factor));
            data.push([parameter, value.to_owned(), queue, format!("{factor:.4}")]);
        }
    };

    let steps = SIZES.iter().map(|size| (format!("W1 to W5, {}", size.0), *size)).collect();
    let by_size = lab.each("sizes", steps, |_, (_, group, log)| {
        let sizes = Some((group * MB, log * MB));
        let system = System { group_and_log_bytes: sizes, ..System::of_preset("mlb-256")? };
        mean_over(&runs, &system)
    })?;
    for ((name, _, _), factors) in SIZES.iter().zip(&by_size) {
        book(&mut rows, "log", name, factors);
    }
    let bandwidths = beside_a_reader(lab)?;
    for ((name, _, _), percent) in SIZES.iter().zip(&bandwidths) {
        let case = format!("bandwidth beside 320 writes/s, {name}");
        rows.push(Row::new(case, "% of alone").ours(percent.clone()).limit(100.0));
    }

    let steps = THRESHOLDS.iter().map(|kib| (format!("W1 to W5, {kib} KiB"), *kib)).collect();
    let by_threshold = lab.each("thresholds", steps, |_, kib| {
        let logged_write_bytes_max = Some(kib << 10);
        mean_over(&runs, &System { logged_write_bytes_max, ..System::of_preset("mlb-256")? })
    })?;
    for (kib, factors) in THRESHOLDS.iter().zip(&by_threshold) {
        book(&mut rows, "threshold", &format!("{kib} KiB"), factors);
    }

    let loads = lab.effort.pick(&LOADS[..], &LOADS[..], &LOADS[1..2]);
    let mut by_load = Vec::new();
    for load in loads {
        let speed_ups = at_load(lab, *load)?;
        book(&mut rows, "load", &format!("{:.0} % busy", 100.0 * load), &speed_ups);
        by_load.push(speed_ups);
    }

    let depths = lab.effort.pick(&DEPTHS[..], &DEPTHS[..], &DEPTHS[2..3]);
    let made: Vec<&Prepared> = runs.mixes.iter().map(|mix| &mix.prepared).collect();
    let queues: Vec<Queue> = depths.iter().map(|depth| Queue::SoonestOf(*depth)).collect();
    let by_depth = at_queues(lab, &made, &queues, "queue")?;
    for (queue, factor) in queues.iter().zip(&by_depth) {
        let case = format!("disk {}, mean of W1 to W5", queue.name());
        rows.push(Row::new(case, "x").baseline(1.0).ours(*factor));
        let cells = ["queue", "", &queue.name(), &format!("{factor:.4}")].map(str::to_owned);
        data.push(cells);
    }

    let best_of = |index: usize| {
        let all = SIZES.iter().zip(&by_size);
        let best = all.max_by(|a, b| a.1[index].total_cmp(&b.1[index]));
        best.map_or_else(String::new, |(size, factors)| {
            let queue = QUEUES[index].name();
            format!("{} on a disk {queue} ({:.2} times)", size.0, factors[index])
        })
    };
    let mut findings = vec![format!(
        "Of the sizes, best for the mixes are {} and {}; the paper chose 10 MB in 100 MB.",
        best_of(0),
        best_of(1)
    )];
    findings.extend(load_of_paper(loads, &by_load));
    findings.extend(load_against_others(&by_load, &[&by_size, &by_threshold]));
    findings.push(told_of_depths(depths, &by_depth));
    let names = SIZES.map(|size| size.0.replace(" MB", "").replace(" GB", "G"));
    let thresholds = THRESHOLDS.map(|kib| format!("{kib} KiB"));
    let load_names: Vec<String> =
        loads.iter().map(|load| format!("{:.0} %", 100.0 * load)).collect();
    let drawings = vec![
        drawing("sizes", &names, &by_size)?,
        drawing("thresholds", &thresholds, &by_threshold)?,
        drawing("load", &load_names, &by_load)?,
    ];
    Ok(Report {
        name: "sweep",
        title: "sizes of logs and groups, thresholds, and load".to_owned(),
        ran: format!(
            "The mixes of figure 6 on {CONSTELLATION} with preset mlb-256 and one parameter changed \
             (bare disk busy {:.0} % where load is not the parameter), and the reader of figure 2a \
             on {CHEETAH} beside 320 writes/s with other sizes of logs. Sizes are powers of two of \
             bytes: MB stands for MiB.",
            100.0 * BUSY_SHARE
        ),
        differs: fig6::differs(runs.prepared()),
        findings,
        rows,
        data: vec![data],
        drawings,
    })
}

/// What a drive's own choice leaves to gain.
fn told_of_depths(depths: &[u16], by_depth: &[f64]) -> String {
    let each =
        depths.iter().zip(by_depth).map(|(depth, factor)| format!("{factor:.2} among {depth}"));
    let verdict = if by_depth.is_sorted_by(|few, many| few >= many) {
        "The more requests a drive may choose from, the less is left to gain"
    } else {
        "What is left to gain does not simply fall with the requests that a drive may choose from"
    };
    format!("{verdict}, at this load: {}.", each.collect::<Vec<String>>().join(", "))
}

/// Between which loads the paper's speed-up lies, where it does.
fn load_of_paper(loads: &[f64], by_load: &[Vec<f64>]) -> Option<String> {
    let paper = PAPERS.mixes.mlb256_speedup.average;
    let in_order = QUEUES.iter().position(|queue| *queue == Queue::InOrder)?;
    let above = by_load.iter().position(|factors| factors[in_order] >= paper)?;
    let below = above.checked_sub(1)?;
    Some(format!(
        "On a disk that serves its queue in order the paper's {paper:.1} lies between {:.0} % ({:.2}) and \
         {:.0} % ({:.2}) of the bare disk's time.",
        100.0 * loads[below],
        by_load[below][in_order],
        100.0 * loads[above],
        by_load[above][in_order]
    ))
}

/// Whether the load matters more than any parameter, on a disk that serves its queue in order.
fn load_against_others(by_load: &[Vec<f64>], others: &[&Vec<Vec<f64>>]) -> Option<String> {
    let in_order = QUEUES.iter().position(|queue| *queue == Queue::InOrder)?;
    let factor = |all: &[Vec<f64>]| {
        let spread =
            Spread::of(&all.iter().map(|factors| factors[in_order]).collect::<Vec<f64>>())?;
        Some(spread.max / spread.min)
    };
    let (load, other) =
        (factor(by_load)?, others.iter().filter_map(|all| factor(all)).fold(1.0, f64::max));
    (by_load.len() > 1 && load > other).then(|| {
        format!(
            "On a disk that serves its queue in order the speed-up depends on the load ({load:.1} times \
             from least to most) more than on sizes or thresholds ({other:.1} times): logging keeps up where \
             writing in place begins to fall behind."
        )
    })
}

fn drawing(name: &str, groups: &[String], factors: &[Vec<f64>]) -> Result<Drawing, FigureError> {
    let of_queue = |(index, queue): (usize, &Queue)| {
        (format!("disk {}", queue.name()), factors.iter().map(|all| all[index]).collect())
    };
    let chart = BarChart {
        title: &format!("MLB-256 over no logging, by {name}"),
        unit: "times faster, mean of W1 to W5",
        groups: groups.to_vec(),
        series: QUEUES.iter().enumerate().map(of_queue).collect(),
        limit: None,
        decades: false,
    };
    Drawing::new(name, chart.render())
}

/// The speed-ups of `system`, averaged over the mixes, for each way to serve a queue.
pub(crate) fn mean_over(runs: &MixRuns, system: &System) -> Result<Vec<f64>, FigureError> {
    let of_queue = |queue: Queue| {
        let mut factors = Vec::new();
        for mix in &runs.mixes {
            let Some(baseline) = mix.of(NO_LOGGING, queue) else { continue };
            let made = &mix.prepared;
            let disk = rig::hard_disk(CONSTELLATION, queue)?;
            let done = replay(disk, system, made.requests.iter().copied(), made.name)?;
            factors.push(mean_speed_up(&baseline.latency, &done.latency));
        }
        Ok(mean(&factors))
    };
    QUEUES.into_iter().map(of_queue).collect()
}

/// The sequential reader's bandwidth beside 320 writes a second, for each size.
fn beside_a_reader(lab: &mut Lab<'_>) -> Result<Vec<Value>, FigureError> {
    let span = lab.contention_span();
    let alone = contention::alone(fig2::disk(FIG2A)?, FIG2A.client(), span)?;
    let steps = SIZES.iter().map(|size| (format!("beside a reader, {}", size.0), *size)).collect();
    lab.each("sizes", steps, |_, (_, group, log)| {
        let group_and_log_bytes = Some((group * MB, log * MB));
        let mlb = System::of_preset("mlb")?;
        let system = System { ack: AckMode::Flush, group_and_log_bytes, ..mlb };
        let method = Method { name: OURS, mode: Mode::Manylogs, system };
        let syncs_per_s = 320.0 / f64::from(FILES);
        let disk = fig2::disk(FIG2A)?;
        match contention::point(disk, &method, FIG2A.client(), syncs_per_s, span) {
            Ok(point) => Ok(Value::Number(100.0 * point.bytes_per_s / alone.bytes_per_s)),
            // A sync that does not fit into one record of a small log is refused, not split.
            Err(FigureError::RequestFailed { failure, .. }) => Ok(Value::NotRun(failure)),
            Err(error) => Err(error),
        }
    })
}

/// The speed-ups of MLB-256 with mixes that keep the bare disk busy for `share` of the time, for
/// each way to serve a queue.
fn at_load(lab: &mut Lab<'_>, share: f64) -> Result<Vec<f64>, FigureError> {
    let mixes = fig6::prepare(lab, share)?;
    let mixes: Vec<&Prepared> = mixes.iter().collect();
    at_queues(lab, &mixes, &QUEUES, &format!("{:.0} % busy", 100.0 * share))
}

/// The speed-ups of MLB-256, averaged over `mixes`, for each way to serve a queue.
fn at_queues(
    lab: &mut Lab<'_>,
    mixes: &[&Prepared],
    queues: &[Queue],
    what: &str,
) -> Result<Vec<f64>, FigureError> {
    let mut steps = Vec::new();
    for queue in queues {
        for mix in mixes {
            let step = format!("{}, {what}, {}", mix.name, queue.name());
            steps.push((step, (*mix, *queue)));
        }
    }
    let factors = lab.each("sweep", steps, |_, (mix, queue): (&Prepared, Queue)| {
        let run = |preset| -> Result<Histogram, FigureError> {
            let system = System::of_preset(preset)?;
            let disk = rig::hard_disk(CONSTELLATION, queue)?;
            Ok(replay(disk, &system, mix.requests.iter().copied(), mix.name)?.latency)
        };
        Ok(mean_speed_up(&run(NO_LOGGING)?, &run("mlb-256")?))
    })?;
    Ok(factors.chunks(mixes.len()).map(mean).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
