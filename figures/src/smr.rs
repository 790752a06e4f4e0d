//! Manylogs' figures 6c and 8: shingled disks.
//!
//! The baseline (SLSMR) is the shingled disk as it is sold: the drive puts every write that a band
//! cannot take in order into one persistent cache at its outer tracks and cleans when it is idle.
//! Manylogs' proposal (MLSMR) is a volume with the preset `mlsmr` on a disk with one surface that is
//! not shingled. Where a build has no such preset, the rows say so, and the baseline stands alone.

use crate::chart::LineChart;
use crate::error::FigureError;
use crate::fig6::{self, BUSY_SHARE};
use crate::fig7::seconds;
use crate::hours;
use crate::lab::Lab;
use crate::mix::{MIXES, Prepared};
use crate::paper::{PAPERS, Spread};
use crate::replayed::{mean_speed_up, replay, replay_on, speed_ups};
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::{self, SHINGLED, SHINGLED_PRESET};
use nearhead_disk::Disk;
use nearhead_sim::{Histogram, VirtualTime};
use nearhead_volume::Service;
use std::rc::Rc;

/// What Manylogs made of a mix on a shingled disk.
pub(crate) struct ShingledMix {
    latency: Histogram,
    pub(crate) swaps: u64,
}

/// The mixes on shingled disks.
pub(crate) struct SmrRuns {
    prepared: Vec<Prepared>,
    /// On the disk as it is sold.
    sold: Vec<Histogram>,
    /// With Manylogs, or why not.
    pub(crate) manylogs: Result<Vec<ShingledMix>, String>,
}

impl SmrRuns {
    /// Mean speed-ups of W1 to W5, or why there are none.
    pub(crate) fn speed_ups(&self) -> Result<Vec<f64>, String> {
        let ours = self.manylogs.as_ref().map_err(Clone::clone)?;
        let pairs = self.sold.iter().zip(ours);
        Ok(pairs.map(|(sold, ours)| mean_speed_up(sold, &ours.latency)).collect())
    }
}

/// Bytes that both systems can hold.
fn shared_bytes() -> Result<u64, FigureError> {
    let sold = rig::shingled_disk()?.properties().capacity_bytes;
    Ok(match rig::manylogs_on_shingled() {
        Ok((disk, system)) => sold.min(rig::volume(disk, &system)?.info().size_bytes),
        Err(_) => sold,
    })
}

/// Runs the mixes, or returns what they came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>) -> Result<Rc<SmrRuns>, FigureError> {
    if let Some(done) = &lab.shingled {
        return Ok(Rc::clone(done));
    }
    let (size_bytes, length) = (shared_bytes()?, lab.mix_length());
    let steps = MIXES.iter().map(|mix| (format!("making {}", mix.name), mix)).collect();
    let prepared = lab.each("mixes, shingled", steps, |lab, mix| {
        mix.prepare(&lab.traces, rig::shingled_disk()?, size_bytes, length, BUSY_SHARE)
    })?;
    let steps = || prepared.iter().map(|mix| (format!("{}, shingled", mix.name), mix)).collect();
    let sold = lab.each("fig6c", steps(), |_, mix: &Prepared| {
        let mut service = rig::bare(rig::shingled_disk()?);
        let requests = mix.requests.iter().copied();
        replay_on(&mut service, &mut VirtualTime::default(), requests, mix.name)
    })?;
    let manylogs = match rig::manylogs_on_shingled() {
        Err(why) => Err(why),
        Ok(_) => Ok(lab.each("fig6c", steps(), |_, mix: &Prepared| {
            let made = rig::manylogs_on_shingled();
            let (disk, system) = made.map_err(|why| FigureError::setup("MLSMR", &why))?;
            let done = replay(disk, &system, mix.requests.iter().copied(), mix.name)?;
            let swaps = done.volume.status().stats.swaps;
            Ok(ShingledMix { latency: done.latency, swaps })
        })?),
    };
    let done = Rc::new(SmrRuns { prepared, sold, manylogs });
    lab.shingled = Some(Rc::clone(&done));
    Ok(done)
}

fn ran(runs: &SmrRuns) -> String {
    let mixes = runs.prepared.iter().map(|mix| {
        format!("{} ({} requests, stretched by {:.2})", mix.name, mix.requests.len(), mix.stretch)
    });
    format!(
        "The mixes of figure 6, made anew for the size and speed of {SHINGLED}: {}. Baseline: the \
         bare drive-managed disk. Ours: preset {SHINGLED_PRESET} on the same drive with one surface \
         that is not shingled. Write caches off.",
        mixes.collect::<Vec<_>>().join("; ")
    )
}

fn differs() -> Vec<String> {
    let own = [
        "The paper does not say on which disk it emulated SLSMR and MLSMR; the model is the 8 TB \
         drive its reference 11 measured.",
        "Five minutes of a mix do not fill a persistent cache of 20 GB, so the baseline's figures \
         hold little cleaning.",
    ];
    own.map(str::to_owned).into_iter().chain(fig6::differs()).collect()
}

/// Figure 6c.
pub(crate) fn fig6c(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = runs(lab)?;
    let speed_up = runs.speed_ups();
    let mut rows = Vec::new();
    let mut data = Data::new("latencies", &["mix", "system", "percentile", "latency_ms"]);
    let mut series = Vec::new();
    for (index, mix) in runs.prepared.iter().enumerate() {
        let (name, sold) = (mix.name, &runs.sold[index]);
        let ours = runs.manylogs.as_ref().map(|all| &all[index].latency);
        let mean = ours.map_or_else(|why| Value::NotRun(why.clone()), |it| it.mean_ms().into());
        let case = format!("mean latency, slsmr and mlsmr, {name}");
        rows.push(Row::new(case, "ms").baseline(sold.mean_ms()).ours(mean));
        let systems = [("slsmr", Some(sold)), (SHINGLED_PRESET, ours.ok())];
        for (system, latency) in systems {
            let Some(latency) = latency else { continue };
            for percent in 1..=99 {
                let at_ms = latency.percentile(f64::from(percent)).as_millis_f64();
                let (name, system) = (name.to_owned(), system.to_owned());
                data.push([name, system, percent.to_string(), format!("{at_ms:.4}")]);
            }
        }
        if let Ok(ours) = ours {
            series.push((name.to_owned(), speed_ups(sold, ours)));
        }
    }
    let mean = match &speed_up {
        Ok(all) => Spread::of(all).map(|spread| spread.average).into(),
        Err(why) => Value::NotRun(why.clone()),
    };
    rows.push(
        Row::new("mlsmr over slsmr, mean of W1 to W5", "x")
            .paper(PAPERS.mixes.mlsmr_speedup.average)
            .goal(PAPERS.mixes.goal_smr_speedup)
            .baseline(1.0)
            .ours(mean),
    );
    let chart = LineChart {
        title: "MLSMR over SLSMR",
        x_label: "percentile",
        y_label: "times faster",
        x_decades: false,
        y_decades: false,
        series,
    };
    let drawings = match speed_up {
        Ok(_) => vec![Drawing::new("speedups", chart.render())?],
        Err(_) => Vec::new(),
    };
    Ok(Report {
        name: "fig6c",
        title: "speed-up of MLSMR over SLSMR at every percentile".to_owned(),
        ran: ran(&runs),
        differs: differs(),
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings,
    })
}

/// Figure 8.
pub(crate) fn fig8(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let conventional = hours::runs(lab)?;
    let shingled = hours::on_shingled(lab)?;
    let columns = ["trace", "conventional_s", "shingled_s"];
    let mut data = Data::new("duration", &columns);
    let mut rows = Vec::new();
    for (index, hour) in conventional.iter().filter(|hour| hour.of_paper).enumerate() {
        let ours = match &shingled {
            Ok(all) => Value::Number(seconds(&all[index])),
            Err(why) => Value::NotRun(why.clone()),
        };
        data.push([hour.name.clone(), format!("{:.3}", seconds(hour)), ours.shown()]);
        let case = format!("checkpoint on shingled after {}", hour.name);
        rows.push(Row::new(case, "s").baseline(seconds(hour)).ours(ours));
    }
    let factor = match &shingled {
        Ok(all) => {
            let pairs = conventional.iter().filter(|hour| hour.of_paper).zip(all);
            let factors: Vec<f64> =
                pairs.map(|(plain, ours)| seconds(ours) / seconds(plain).max(1e-9)).collect();
            Spread::of(&factors).map(|spread| spread.average).into()
        }
        Err(why) => Value::NotRun(why.clone()),
    };
    rows.push(
        Row::new("shingled over conventional, mean", "x")
            .paper(PAPERS.hours.smr_checkpoint_factor)
            .baseline(1.0)
            .ours(factor),
    );
    Ok(Report {
        name: "fig8",
        title: "duration of one checkpoint after an hour of logging, shingled disk".to_owned(),
        ran: "The hours of figure 7 with Manylogs on a shingled disk; 'baseline' is figure 7a's \
              duration on the conventional disk."
            .to_owned(),
        differs: differs(),
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
