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
use crate::fig6::{self, BUSY_SHARE, NO_LOGGING, QUEUES};
use crate::journal::Mode;
use crate::lab::Lab;
use crate::mix::Prepared;
use crate::replayed::{mean_speed_up, replay};
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::{self, CHEETAH, CONSTELLATION, Queue, System};
use nearhead_format::AckMode;
use nearhead_sim::Histogram;

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

/// The sweeps.
pub(crate) fn sweep(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = fig6::runs(lab)?;
    let baselines: Vec<(&Prepared, &Histogram)> = runs
        .mixes
        .iter()
        .filter_map(|mix| Some((&mix.prepared, &mix.of(NO_LOGGING, Queue::OfDrive)?.latency)))
        .collect();
    let mut rows = Vec::new();
    let mut data = Data::new("speedups", &["parameter", "value", "mean_speedup"]);
    let mut book = |rows: &mut Vec<Row>, parameter: &str, value: String, speed_up: f64| {
        data.push([parameter.to_owned(), value.clone(), format!("{speed_up:.4}")]);
        let case = format!("{parameter} {value}, mean of W1 to W5");
        rows.push(Row::new(case, "x").baseline(1.0).ours(speed_up));
    };

    let steps = SIZES.iter().map(|size| (format!("W1 to W5, {}", size.0), *size)).collect();
    let by_size = lab.each("sizes", steps, |_, (_, group, log)| {
        let sizes = Some((group * MB, log * MB));
        let system = System { group_and_log_bytes: sizes, ..System::of_preset("mlb-256")? };
        mean_over(&baselines, &system)
    })?;
    for ((name, _, _), speed_up) in SIZES.iter().zip(&by_size) {
        book(&mut rows, "log", (*name).to_owned(), *speed_up);
    }
    let bandwidths = beside_a_reader(lab)?;
    for ((name, _, _), percent) in SIZES.iter().zip(&bandwidths) {
        let case = format!("bandwidth beside 320 writes/s, {name}");
        rows.push(Row::new(case, "% of alone").ours(percent.clone()).limit(100.0));
    }

    let steps = THRESHOLDS.iter().map(|kib| (format!("W1 to W5, {kib} KiB"), *kib)).collect();
    let by_threshold = lab.each("thresholds", steps, |_, kib| {
        let logged_write_bytes_max = Some(kib << 10);
        mean_over(&baselines, &System { logged_write_bytes_max, ..System::of_preset("mlb-256")? })
    })?;
    for (kib, speed_up) in THRESHOLDS.iter().zip(&by_threshold) {
        book(&mut rows, "threshold", format!("{kib} KiB"), *speed_up);
    }

    let loads = lab.effort.pick(&LOADS[..], &LOADS[..], &LOADS[1..2]);
    let mut by_load = Vec::new();
    for load in loads {
        let speed_ups = at_load(lab, *load)?;
        for (queue, speed_up) in QUEUES.iter().zip(&speed_ups) {
            let value = format!("{:.0} % busy, disk {}", 100.0 * load, queue.name());
            book(&mut rows, "load", value, *speed_up);
        }
        by_load.push(speed_ups);
    }

    let best = SIZES.iter().zip(&by_size).max_by(|a, b| a.1.total_cmp(b.1));
    let findings = best.map(|((name, _, _), factor)| {
        format!(
            "Of the sizes, {name} is best for the mixes ({factor:.2} times); the paper chose 10 MB \
             in 100 MB."
        )
    });
    let names = SIZES.map(|size| size.0.replace(" MB", "").replace(" GB", "G"));
    let load_names: Vec<String> =
        loads.iter().map(|load| format!("{:.0} %", 100.0 * load)).collect();
    let of_queue = |index: usize| by_load.iter().map(|factors| factors[index]).collect();
    let load_series = QUEUES.iter().enumerate().map(|(i, q)| (q.name().to_owned(), of_queue(i)));
    let one = |values: &[f64]| vec![("speed-up".to_owned(), values.to_vec())];
    let drawings = vec![
        drawing("sizes", &names, one(&by_size))?,
        drawing("thresholds", &THRESHOLDS.map(|kib| format!("{kib} KiB")), one(&by_threshold))?,
        drawing("load", &load_names, load_series.collect())?,
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
        differs: fig6::differs(),
        findings: findings.into_iter().collect(),
        rows,
        data: vec![data],
        drawings,
    })
}

fn drawing(
    name: &str,
    groups: &[String],
    series: Vec<(String, Vec<f64>)>,
) -> Result<Drawing, FigureError> {
    let chart = BarChart {
        title: &format!("MLB-256 over no logging, by {name}"),
        unit: "times faster, mean of W1 to W5",
        groups: groups.to_vec(),
        series,
        limit: None,
        decades: false,
    };
    Drawing::new(name, chart.render())
}

/// The speed-up of `system`, averaged over the mixes.
fn mean_over(baselines: &[(&Prepared, &Histogram)], system: &System) -> Result<f64, FigureError> {
    let mut sum = 0.0;
    for (mix, baseline) in baselines {
        let disk = rig::hard_disk(CONSTELLATION, Queue::OfDrive)?;
        let done = replay(disk, system, mix.requests.iter().copied(), mix.name)?;
        sum += mean_speed_up(baseline, &done.latency);
    }
    Ok(sum / baselines.len().max(1) as f64)
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
            Ok(point) => Ok(Value::Number(100.0 * point.bytes_per_s / alone)),
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
    let mut steps = Vec::new();
    for queue in QUEUES {
        for mix in &mixes {
            let what = format!("{}, {:.0} % busy, {}", mix.name, 100.0 * share, queue.name());
            steps.push((what, (mix, queue)));
        }
    }
    let factors = lab.each("load", steps, |_, (mix, queue): (&Prepared, Queue)| {
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
