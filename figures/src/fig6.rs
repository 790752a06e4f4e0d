//! Manylogs' figure 6: mixes of five server traces on one disk, latency of every request.
//!
//! - 6a: the cumulative distribution of latencies in W1 without logs, with MLB-32 and with MLB-256;
//! - 6b: how many times faster MLB-256 is than no logging at each percentile, W1 to W5.
//!
//! Figure 6c, on shingled disks, is in `smr.rs`.
//!
//! All replays of a mix start with a fresh volume, meet the same requests at the same instants, and
//! answer writes when they are durable. Speed-ups are averaged over the percentiles 1 to 99.

use crate::chart::LineChart;
use crate::charted::speed_up_lines;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::log_limit::{self, LogLimits};
use crate::mix::{MIXES, Prepared};
use crate::paper::{PAPERS, Spread};
use crate::replayed::{mean_speed_up, replay, speed_ups};
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CONSTELLATION, Queue, SATA, System};
use crate::sources;
use crate::sweep::{MB, SIZES};
use nearhead_basics::Histogram;
use nearhead_engine::Status;
use nearhead_service::Service;
use nearhead_sim::latency::percentile_ms;
use std::rc::Rc;

/// Share of time that the bare disk is busy with a mix, one request at a time.
pub(crate) const BUSY_SHARE: f64 = 0.6;
/// The baseline.
pub(crate) const NO_LOGGING: &str = "nolog";
/// Disks compared: with the drive's own queue, and in order.
pub(crate) const QUEUES: [Queue; 2] = [SATA, Queue::InOrder];
/// What is compared with it.
pub(crate) const LOGGED: [&str; 3] = ["mlb-32", IN_THE_PAPER, "nearhead"];
/// The one of them that the paper has a number for.
const IN_THE_PAPER: &str = "mlb-256";
/// No arm moves, and hardly any disk turns far enough, for a request that takes less.
const QUICK_MS: f64 = 1.0;
/// Points of a drawn distribution.
const CDF_STEPS: u32 = 200;

/// What one system made of one mix.
pub(crate) struct MixRun {
    pub(crate) system: &'static str,
    pub(crate) queue: Queue,
    pub(crate) latency: Histogram,
    pub(crate) status: Status,
    /// What no log can beat; the baseline has none.
    pub(crate) limits: Option<LogLimits>,
}

/// Every replay of one mix.
pub(crate) struct MixOutcome {
    pub(crate) prepared: Prepared,
    pub(crate) runs: Vec<MixRun>,
}

/// Every replay.
pub(crate) struct MixRuns {
    pub(crate) mixes: Vec<MixOutcome>,
}

impl MixOutcome {
    /// What `system` made of it, on a disk that serves its queue as `queue` says.
    pub(crate) fn of(&self, system: &str, queue: Queue) -> Option<&MixRun> {
        self.runs.iter().find(|run| run.system == system && run.queue == queue)
    }

    /// How many times faster `system` is than no logging, on average over percentiles.
    pub(crate) fn speed_up(&self, system: &str, queue: Queue) -> Option<f64> {
        let baseline = &self.of(NO_LOGGING, queue)?.latency;
        Some(mean_speed_up(baseline, &self.of(system, queue)?.latency))
    }
}

impl MixOutcome {
    /// Adds what no log can beat.
    fn with_limits(mut self) -> Result<Self, FigureError> {
        for index in 0..self.runs.len() {
            let (system, queue) = (self.runs[index].system, self.runs[index].queue);
            let logged_bytes_max = rig::logged_bytes_max(system)?;
            let Some(baseline) = self.of(NO_LOGGING, queue).filter(|_| logged_bytes_max > 0) else {
                continue;
            };
            let limits =
                log_limit::limits(&self.prepared, queue, logged_bytes_max, &baseline.latency)?;
            self.runs[index].limits = Some(limits);
        }
        Ok(self)
    }
}

impl MixRuns {
    /// The mixes themselves.
    pub(crate) fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.mixes.iter().map(|mix| &mix.prepared)
    }

    /// Those in which half of all requests take less than `ms` without logs, by name.
    fn quick_without_logs(&self, ms: f64) -> Vec<&'static str> {
        let is_quick = |mix: &&MixOutcome| {
            let run = mix.of(NO_LOGGING, SATA);
            run.is_some_and(|run| percentile_ms(&run.latency, 50.0) < ms)
        };
        self.mixes.iter().filter(is_quick).map(|mix| mix.prepared.name).collect()
    }

    /// The speed-ups of `system` in W1 to W5.
    pub(crate) fn speed_ups(&self, system: &str, queue: Queue) -> Vec<f64> {
        self.mixes.iter().filter_map(|mix| mix.speed_up(system, queue)).collect()
    }

    /// One of the limits for logs like those of `system`, averaged over W1 to W5.
    fn mean_limit(&self, system: &str, queue: Queue, limit: fn(LogLimits) -> f64) -> Option<f64> {
        let limits = self.limits(system, queue).map(limit);
        Some(Spread::of(&limits.collect::<Vec<f64>>())?.average)
    }

    /// The limits for logs like those of `system`, mix by mix.
    fn limits(&self, system: &str, queue: Queue) -> impl Iterator<Item = LogLimits> {
        self.mixes.iter().filter_map(move |mix| mix.of(system, queue)?.limits)
    }
}

/// Bytes that a volume serves on the disk of these figures with any sizes of logs that are tried:
/// what every system can hold.
pub(crate) fn shared_bytes() -> Result<u64, FigureError> {
    let mut smallest = u64::MAX;
    for (_, group, log) in SIZES {
        let group_and_log_bytes = Some((group * MB, log * MB));
        let system = System { group_and_log_bytes, ..System::of_preset("mlb-256")? };
        let volume = rig::volume(rig::hard_disk(CONSTELLATION, SATA)?, &system)?;
        smallest = smallest.min(volume.info().size_bytes);
    }
    Ok(smallest)
}

/// The mixes, made once for all systems.
pub(crate) fn prepare(lab: &mut Lab<'_>, busy_share: f64) -> Result<Vec<Prepared>, FigureError> {
    let size_bytes = shared_bytes()?;
    let length = lab.mix_length();
    let steps = MIXES.iter().map(|mix| (format!("making {}", mix.name), mix)).collect();
    lab.each("mixes", steps, |lab, mix| {
        let disk = rig::hard_disk(CONSTELLATION, Queue::InOrder)?;
        mix.prepare(&lab.traces, disk, size_bytes, length, busy_share)
    })
}

/// Runs the replays, or returns what they came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>) -> Result<Rc<MixRuns>, FigureError> {
    if let Some(done) = &lab.mixes {
        return Ok(Rc::clone(done));
    }
    let prepared = prepare(lab, BUSY_SHARE)?;
    let systems: Vec<&str> = std::iter::once(NO_LOGGING).chain(LOGGED).collect();
    let mut steps = Vec::new();
    for mix in &prepared {
        for queue in QUEUES {
            for system in &systems {
                let what = format!("{} on {system}, {}", mix.name, queue.name());
                steps.push((what, (mix.clone(), *system, queue)));
            }
        }
    }
    let each = QUEUES.len() * systems.len();
    let done = lab.each("fig6", steps, |_, (mix, name, queue)| {
        let disk = rig::hard_disk(CONSTELLATION, queue)?;
        let system = System::of_preset(name)?;
        let done = replay(disk, &system, mix.requests.into_iter(), mix.name)?;
        Ok(MixRun {
            system: name,
            queue,
            latency: done.latency,
            status: done.volume.status(),
            limits: None,
        })
    })?;
    let mut done = done.into_iter();
    let mixes = prepared
        .into_iter()
        .map(|prepared| MixOutcome { prepared, runs: done.by_ref().take(each).collect() })
        .map(MixOutcome::with_limits);
    let done = Rc::new(MixRuns { mixes: mixes.collect::<Result<_, _>>()? });
    lab.mixes = Some(Rc::clone(&done));
    Ok(done)
}

fn ran(runs: &MixRuns, length_s: f64) -> String {
    let mixes = runs.mixes.iter().map(|mix| {
        let made = &mix.prepared;
        format!(
            "{} = {} ({} requests, {:.0} % writes, times stretched by {:.2})",
            made.name,
            made.sources.join(" + "),
            made.requests.len(),
            100.0 * made.write_share(),
            made.stretch
        )
    });
    format!(
        "Mixes of server traces, {length_s:.0} s each, on {CONSTELLATION} with the write cache off, \
         open loop, every write durable when answered: {}. Each mix is slowed down so that the bare \
         disk, one request at a time, would be busy {:.0} % of the time at most.",
        mixes.collect::<Vec<_>>().join("; "),
        100.0 * BUSY_SHARE
    )
}

/// What differs in every figure with these mixes.
pub(crate) fn differs<'a>(mixes: impl Iterator<Item = &'a Prepared>) -> Vec<String> {
    let sources = sources::told(mixes.flat_map(|mix| &mix.sources).map(String::as_str));
    let always = [
        "The paper does not say to which load it re-rated its mixes; speed-ups depend on it, see the \
         rows with other loads in sweep.",
        "A drive's cache is modelled with read-ahead, so sequential reads of large requests are \
         short in all systems.",
    ];
    std::iter::once(sources).chain(always.map(str::to_owned)).collect()
}

/// Figure 6a.
pub(crate) fn fig6a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = runs(lab)?;
    let first = &runs.mixes[0];
    let mut rows = Vec::new();
    let mut data = Data::new("cdf", &["system", "percentile", "latency_ms"]);
    let mut series = Vec::new();
    for run in first.runs.iter().filter(|run| run.queue == SATA) {
        let points: Vec<(f64, f64)> = (0..=CDF_STEPS)
            .map(|step| f64::from(step) * 100.0 / f64::from(CDF_STEPS))
            .map(|percent| (percentile_ms(&run.latency, percent), percent))
            .collect();
        for (latency_ms, percent) in &points {
            data.push([run.system.to_owned(), percent.to_string(), format!("{latency_ms:.4}")]);
        }
        series.push((run.system.to_owned(), points));
    }
    for system in LOGGED {
        for percent in [50.0, 90.0, 99.0] {
            let at = |name: &str| {
                let run = first.of(name, SATA)?;
                Some(percentile_ms(&run.latency, percent))
            };
            rows.push(
                Row::new(format!("W1, p{percent:.0}, {system} against {NO_LOGGING}"), "ms")
                    .baseline(at(NO_LOGGING))
                    .ours(at(system)),
            );
        }
    }
    let chart = LineChart {
        title: "Latency of every request in W1",
        x_label: "ms, logarithmic",
        y_label: "% of requests",
        x_decades: true,
        y_decades: false,
        series,
    };
    Ok(Report {
        name: "fig6a",
        title: "distribution of I/O latency in W1".to_owned(),
        ran: ran(&runs, lab.mix_length().as_secs_f64()),
        differs: differs(runs.prepared()),
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: vec![Drawing::new("cdf", chart.render())?],
    })
}

/// Figure 6b.
pub(crate) fn fig6b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = runs(lab)?;
    let mut rows = Vec::new();
    for queue in QUEUES {
        for system in ["mlb-256", "mlb-32", "nearhead"] {
            rows.extend(speed_up_rows(&runs, system, queue));
        }
    }
    let mut data = Data::new("speedups", &["mix", "percentile", "speedup"]);
    let mut series = Vec::new();
    for mix in &runs.mixes {
        let (Some(baseline), Some(ours)) = (mix.of(NO_LOGGING, SATA), mix.of(IN_THE_PAPER, SATA))
        else {
            continue;
        };
        let points = speed_ups(&baseline.latency, &ours.latency);
        for (percent, factor) in &points {
            let name = mix.prepared.name.to_owned();
            data.push([name, format!("{percent:.0}"), format!("{factor:.4}")]);
        }
        series.push((mix.prepared.name.to_owned(), points));
    }
    let chart = speed_up_lines("MLB-256 over no logging", series)?;
    Ok(Report {
        name: "fig6b",
        title: "speed-up of MLB-256 over no logging at every percentile".to_owned(),
        ran: ran(&runs, lab.mix_length().as_secs_f64()),
        differs: differs(runs.prepared()),
        findings: findings(&runs),
        rows,
        data: vec![data],
        drawings: vec![chart],
    })
}

fn speed_up_rows(runs: &MixRuns, system: &str, queue: Queue) -> Vec<Row> {
    let case = |of: &str| format!("{system} over {NO_LOGGING}, {}, {of}", queue.name());
    let each = runs.mixes.iter().map(|mix| {
        let speed_up = mix.speed_up(system, queue);
        let limits = mix.of(system, queue).and_then(|run| run.limits);
        Row::new(case(mix.prepared.name), "x")
            .baseline(1.0)
            .ours(speed_up)
            .limit(limits.map(|limits| limits.transfer_only))
    });
    let mut rows: Vec<Row> = each.collect();
    let limits: Vec<f64> = runs.limits(system, queue).map(|limits| limits.transfer_only).collect();
    for (name, middle) in [("geometric mean", geometric_mean as Middle), ("median", median)] {
        rows.push(
            Row::new(case(&format!("{name} of W1 to W5")), "x")
                .baseline(1.0)
                .ours(middle(&runs.speed_ups(system, queue)))
                .limit(middle(&limits)),
        );
    }
    let spread = Spread::of(&runs.speed_ups(system, queue));
    let mut mean = Row::new(case("mean of W1 to W5"), "x")
        .baseline(1.0)
        .ours(spread.map(|spread| spread.average))
        .limit(runs.mean_limit(system, queue, |limits| limits.transfer_only));
    if system == IN_THE_PAPER {
        mean = mean.paper(PAPERS.mixes.mlb256_speedup.average).goal(PAPERS.mixes.goal_speedup);
    }
    rows.push(mean);
    rows
}

/// What stands for several numbers.
type Middle = fn(&[f64]) -> Option<f64>;

/// Of one large and many small factors less is seen than in the arithmetic mean.
fn geometric_mean(factors: &[f64]) -> Option<f64> {
    let logs: f64 = factors.iter().map(|factor| factor.ln()).sum();
    (!factors.is_empty()).then(|| (logs / factors.len() as f64).exp())
}

fn median(factors: &[f64]) -> Option<f64> {
    let mut sorted = factors.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len().checked_sub(1)? / 2;
    Some(f64::midpoint(sorted[middle], sorted[sorted.len() / 2]))
}

fn findings(runs: &MixRuns) -> Vec<String> {
    let paper = PAPERS.mixes.mlb256_speedup;
    let of = |queue: Queue| {
        let spread = Spread::of(&runs.speed_ups(IN_THE_PAPER, queue))?;
        let verdict = if spread.average >= paper.average { "reaches" } else { "does not reach" };
        Some(format!(
            "On a disk that serves its queue {}, MLB-256 is {:.2} times faster than no logging, on \
             average over all percentiles and mixes ({:.2} to {:.2}); that {verdict} the paper's \
             {:.1}. If logged writes took no time from anybody, and each were answered as soon as the \
             next free block of a log comes round, it would be {:.2}; without that half \
             revolution {:.2} (the physical limit).",
            queue.name(),
            spread.average,
            spread.min,
            spread.max,
            paper.average,
            runs.mean_limit(IN_THE_PAPER, queue, |limits| limits.next_free)?,
            runs.mean_limit(IN_THE_PAPER, queue, |limits| limits.transfer_only)?,
        ))
    };
    let mut findings: Vec<String> = QUEUES.into_iter().filter_map(of).collect();
    findings.push(
        "What near-head logging saves is the arm's way to each small write; what it cannot save is the \
         half revolution until the log's next block comes round. A drive that may choose among many \
         queued requests saves some of the way by itself. In order, every write in place costs its full \
         way, and the queue behind it waits. docs/performance.md has what else was tried; other depths of \
         the queue are in sweep."
            .to_owned(),
    );
    findings.extend(reads(runs));
    findings
}

/// Requests with which nothing can be gained.
fn reads(runs: &MixRuns) -> Option<String> {
    let shares: Vec<f64> = runs.prepared().map(|mix| 100.0 * (1.0 - mix.write_share())).collect();
    let shares = Spread::of(&shares)?;
    let quick = runs.quick_without_logs(QUICK_MS);
    let quick = if quick.is_empty() {
        String::new()
    } else {
        format!(
            " In {} half of all requests take less than {QUICK_MS} ms without logs, because the drive's \
             memory answers them: at those percentiles nothing can be gained.",
            quick.join(", ")
        )
    };
    Some(format!(
        "{:.0} to {:.0} % of the requests of a mix are reads.{quick}",
        shares.min, shares.max
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_large_factor_does_not_carry_the_median_nor_all_of_the_geometric_mean() {
        let factors = [1.0, 16.0, 1.0, 2.0, 4.0];
        assert_eq!(median(&factors), Some(2.0));
        assert!((geometric_mean(&factors).unwrap() - 2.0_f64.powf(7.0 / 5.0)).abs() < 1e-9);
        assert_eq!(median(&[1.0, 3.0]), Some(2.0));
        assert_eq!((median(&[]), geometric_mean(&[])), (None, None));
    }
}
