//! Manylogs' figures 6c and 8: shingled disks.
//!
//! Three ways to keep the log of one and the same drive: by its firmware, as it is sold; by the preset
//! `slsmr`, which puts all writes into one log in the same place at the outer tracks; and by the
//! preset `mlsmr`, on a drive of which one surface is not shingled. The paper's comparison is that
//! of the last two, one policy exchanged for the other; what is sold is a harder baseline, because
//! its firmware need not ask the disk anything. And once more `mlsmr` where a calibration found the
//! disk's tracks, so that records go where the head arrives.

use crate::charted::speed_up_lines;
use crate::error::FigureError;
use crate::fig6::{self, BUSY_SHARE, QUEUES};
use crate::fig7::seconds;
use crate::hours;
use crate::lab::Lab;
use crate::mix::{MIXES, Prepared};
use crate::paper::{PAPERS, Spread};
use crate::replayed::{mean_speed_up, replay, replay_on, speed_ups};
use crate::report::{Data, Report, Row};
use crate::rig::{self, Queue, SHINGLED, Shingled};
use nearhead_basics::Histogram;
use nearhead_disk::Disk;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::latency::{mean_ms, percentile_ms};
use std::rc::Rc;

/// Manylogs as published, and with what this project knows besides.
const OURS: [Shingled; 2] = [Shingled::Manylogs, Shingled::TracksKnown];

/// What one system made of one mix.
struct ShingledRun {
    system: Shingled,
    queue: Queue,
    latency: Histogram,
    swaps: u64,
}

/// Every replay of one mix.
struct ShingledMix {
    prepared: Prepared,
    runs: Vec<ShingledRun>,
}

/// The mixes on shingled disks.
pub(crate) struct SmrRuns {
    mixes: Vec<ShingledMix>,
}

impl ShingledMix {
    fn of(&self, system: Shingled, queue: Queue) -> Option<&ShingledRun> {
        self.runs.iter().find(|run| run.system == system && run.queue == queue)
    }

    fn speed_up(&self, of: Shingled, over: Shingled, queue: Queue) -> Option<f64> {
        let baseline = &self.of(over, queue)?.latency;
        Some(mean_speed_up(baseline, &self.of(of, queue)?.latency))
    }
}

impl SmrRuns {
    /// Mean speed-ups of one system over another in W1 to W5.
    pub(crate) fn speed_ups(&self, of: Shingled, over: Shingled, queue: Queue) -> Vec<f64> {
        self.mixes.iter().filter_map(|mix| mix.speed_up(of, over, queue)).collect()
    }

    /// Log swaps of Manylogs in W1 to W5.
    pub(crate) fn swaps(&self, queue: Queue) -> Vec<u64> {
        let runs = self.mixes.iter().filter_map(|mix| mix.of(Shingled::Manylogs, queue));
        runs.map(|run| run.swaps).collect()
    }
}

/// Bytes that every system can hold.
fn shared_bytes() -> Result<u64, FigureError> {
    let mut smallest = u64::MAX;
    for system in Shingled::ALL {
        let disk = system.disk(Queue::InOrder)?;
        let bytes = match system {
            Shingled::AsSold => disk.properties().capacity_bytes,
            _ => rig::volume(disk, &system.system()?)?.info().size_bytes,
        };
        smallest = smallest.min(bytes);
    }
    Ok(smallest)
}

/// Runs the mixes, or returns what they came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>) -> Result<Rc<SmrRuns>, FigureError> {
    if let Some(done) = &lab.shingled {
        return Ok(Rc::clone(done));
    }
    let (size_bytes, length) = (shared_bytes()?, lab.mix_length());
    let steps = MIXES.iter().map(|mix| (format!("making {}", mix.name), mix)).collect();
    let prepared = lab.each("mixes, shingled", steps, |lab, mix| {
        let disk = Shingled::AsSold.disk(Queue::InOrder)?;
        mix.prepare(&lab.traces, disk, size_bytes, length, BUSY_SHARE)
    })?;
    let mut steps = Vec::new();
    for mix in &prepared {
        for queue in QUEUES {
            for system in Shingled::ALL {
                let what = format!("{} on {}, {}", mix.name, system.name(), queue.name());
                steps.push((what, (mix, system, queue)));
            }
        }
    }
    let each = QUEUES.len() * Shingled::ALL.len();
    let done = lab.each("fig6c", steps, |_, (mix, system, queue)| run(mix, system, queue))?;
    let mut done = done.into_iter();
    let mixes = prepared
        .into_iter()
        .map(|prepared| ShingledMix { prepared, runs: done.by_ref().take(each).collect() });
    let done = Rc::new(SmrRuns { mixes: mixes.collect() });
    lab.shingled = Some(Rc::clone(&done));
    Ok(done)
}

fn run(mix: &Prepared, system: Shingled, queue: Queue) -> Result<ShingledRun, FigureError> {
    let (disk, requests) = (system.disk(queue)?, mix.requests.iter().copied());
    let (latency, swaps) = if system == Shingled::AsSold {
        let mut service = rig::bare(disk);
        (replay_on(&mut service, &mut VirtualTime::default(), requests, mix.name)?, 0)
    } else {
        let done = replay(disk, &system.system()?, requests, mix.name)?;
        (done.latency, done.volume.status().stats.swaps)
    };
    Ok(ShingledRun { system, queue, latency, swaps })
}

impl SmrRuns {
    fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.mixes.iter().map(|mix| &mix.prepared)
    }
}

fn ran(runs: &SmrRuns) -> String {
    let mixes = runs.mixes.iter().map(|mix| {
        let made = &mix.prepared;
        format!(
            "{} ({} requests, stretched by {:.2})",
            made.name,
            made.requests.len(),
            made.stretch
        )
    });
    format!(
        "The mixes of figure 6, made anew for the size and speed of {SHINGLED}: {}. 'As sold': the \
         bare drive-managed disk. slsmr: all writes in one log at its outer tracks, kept by the engine. \
         mlsmr: all writes in the log nearest the head, on the same drive with one surface that is \
         not shingled; with tracks known: where the head arrives. Write caches off.",
        mixes.collect::<Vec<_>>().join("; ")
    )
}

/// The disk of both figures.
const WHICH_DISK: &str = "The paper does not say on which disk it emulated SLSMR and MLSMR; the model is the \
                          8 TB drive its reference 11 measured.";

fn differs(runs: &SmrRuns, length_s: f64) -> Vec<String> {
    let cleaning = format!(
        "{length_s:.0} s of a mix do not fill a persistent cache of 20 GB, so the baselines' figures hold \
         little cleaning."
    );
    let own = [WHICH_DISK.to_owned(), cleaning];
    own.into_iter().chain(fig6::differs(runs.prepared())).collect()
}

/// Figure 6c.
pub(crate) fn fig6c(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = runs(lab)?;
    let mut rows = Vec::new();
    let columns = ["mix", "queue", "system", "percentile", "latency_ms"];
    let mut data = Data::new("latencies", &columns);
    let mut series = Vec::new();
    for mix in &runs.mixes {
        let name = mix.prepared.name;
        for run in &mix.runs {
            for percent in 1..=99 {
                let at_ms = percentile_ms(&run.latency, f64::from(percent));
                data.push([
                    name.to_owned(),
                    run.queue.name(),
                    run.system.name().to_owned(),
                    percent.to_string(),
                    format!("{at_ms:.4}"),
                ]);
            }
        }
        for queue in QUEUES {
            let mean = |system| mix.of(system, queue).map(|run| mean_ms(&run.latency));
            for ours in OURS {
                let case =
                    format!("mean latency, slsmr and {}, {name}, {}", ours.name(), queue.name());
                let slsmr = mean(Shingled::SingleLog);
                rows.push(Row::new(case, "ms").baseline(slsmr).ours(mean(ours)));
            }
        }
        let of = |system| mix.of(system, QUEUES[0]).map(|run| &run.latency);
        if let (Some(single), Some(many)) = (of(Shingled::SingleLog), of(Shingled::Manylogs)) {
            series.push((name.to_owned(), speed_ups(single, many)));
        }
    }
    rows.extend(speed_up_rows(&runs));
    let chart = speed_up_lines("MLSMR over SLSMR", series)?;
    Ok(Report {
        name: "fig6c",
        title: "speed-up of MLSMR over SLSMR at every percentile".to_owned(),
        ran: ran(&runs),
        differs: differs(&runs, lab.mix_length().as_secs_f64()),
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: vec![chart],
    })
}

fn speed_up_rows(runs: &SmrRuns) -> Vec<Row> {
    let mut rows = Vec::new();
    for of in OURS {
        for over in [Shingled::SingleLog, Shingled::AsSold] {
            for queue in QUEUES {
                let names = format!("{} over {}", of.name(), over.name());
                let case = format!("{names}, mean of W1 to W5, {}", queue.name());
                let speed_ups = runs.speed_ups(of, over, queue);
                let mean = Spread::of(&speed_ups).map(|spread| spread.average);
                rows.push(
                    Row::new(case, "x")
                        .paper(PAPERS.mixes.mlsmr_speedup.average)
                        .goal(PAPERS.mixes.goal_smr_speedup)
                        .baseline(1.0)
                        .ours(mean),
                );
            }
        }
    }
    rows
}

/// Figure 8.
pub(crate) fn fig8(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let conventional = hours::runs(lab)?;
    let shingled = hours::on_shingled(lab)?;
    let columns = ["trace", "conventional_s", "shingled_s", "bands_written"];
    let mut data = Data::new("duration", &columns);
    let mut rows = Vec::new();
    let mut factors = Vec::new();
    for (plain, ours) in conventional.iter().filter(|hour| hour.of_paper).zip(&shingled) {
        let (plain_s, ours_s) = (seconds(plain), seconds(ours));
        factors.push(ours_s / plain_s.max(1e-9));
        data.push([
            plain.name.clone(),
            format!("{plain_s:.3}"),
            format!("{ours_s:.3}"),
            ours.bands_written.to_string(),
        ]);
        let case = format!("checkpoint on shingled after {}", plain.name);
        rows.push(Row::new(case, "s").baseline(plain_s).ours(ours_s));
    }
    rows.push(
        Row::new("shingled over conventional, mean", "x")
            .paper(PAPERS.hours.smr_checkpoint_factor)
            .baseline(1.0)
            .ours(Spread::of(&factors).map(|spread| spread.average)),
    );
    Ok(Report {
        name: "fig8",
        title: "duration of one checkpoint after an hour of logging, shingled disk".to_owned(),
        ran: "The hours of figure 7 with Manylogs on a shingled disk; 'baseline' is figure 7a's \
              duration on the conventional disk."
            .to_owned(),
        differs: std::iter::once(WHICH_DISK.to_owned())
            .chain(hours::differs(&conventional, true))
            .collect(),
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
