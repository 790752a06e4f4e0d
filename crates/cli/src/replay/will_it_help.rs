//! The end of a replay: the same trace on the bare disk and on each preset, bulk at full speed, and what that means in a sentence.

use super::{ReplayArgs, Setup, told};
use nearhead_measure::will_it_help::{Answer, BARE, DiskFacts, Experiment, Side};
use nearhead_models::Drive;
use nearhead_output::quoted;
use nearhead_study::dataless;
use nearhead_study::{Answers, Disks, Made, Modelled, OnDisk};
use nearhead_volume::{BareDisk, NamedPreset};
use std::path::Path;

/// The answer; `None` of a trace of one request at a time, which says nothing of what happens beside.
pub(super) fn answer(setup: Setup<'_>, presets: &[NamedPreset]) -> Result<Option<Answer>, String> {
    let (args, makeup, disks) = (setup.args, setup.makeup, setup.disks);
    // Nor of several disks, which nobody uses as they are.
    if makeup.format.is_closed_loop() || disks.are_several() {
        return Ok(None);
    }
    let experiment = Experiment {
        trace: &args.trace,
        options: setup.options.clone(),
        makeup,
        durable_writes: setup.ack == Answers::Durable,
    };
    let experiment = &experiment;
    let alone_bytes_per_s = disks.with(None, BulkAlone(experiment))?;
    let (bare, write_cache) = disks.with(None, OnBareDisk(experiment))?;
    let mut disk = facts(disks, write_cache);
    if makeup.recorded.is_some() {
        disk.demerit_pct = disks.with(None, Demerit(setup))?;
    }
    let on = |preset: &NamedPreset| OnVolume { experiment, preset: *preset, ack: setup.ack };
    let presets: Result<Vec<Side>, String> =
        presets.iter().map(|preset| disks.with(Some(preset), on(preset))).collect();
    let trace = args.trace.display().to_string();
    Ok(Some(Answer {
        trace,
        makeup: makeup.clone(),
        disk,
        alone_bytes_per_s,
        bare,
        presets: presets?,
    }))
}

/// What is to be said of the disk; whether its cache is on, as one of its drives says.
fn facts(disks: &Disks, write_cache: bool) -> DiskFacts {
    let mut descriptions: Vec<&str> = disks.drives().map(Drive::description).collect();
    descriptions.dedup();
    DiskFacts {
        asked: disks.asked().to_owned(),
        description: descriptions.join(", "),
        is_built_in: disks.are_built_in(),
        write_cache,
        demerit_pct: None,
    }
}

/// The bulk alone on the bare disk.
struct BulkAlone<'a>(&'a Experiment<'a>);

impl OnDisk for BulkAlone<'_> {
    type Outcome = Option<f64>;

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String> {
        self.0.run_bulk_alone(&mut BareDisk::new(disks.only()?)).map_err(told)
    }
}

/// All of it on the bare disk, and whether that has a volatile cache.
struct OnBareDisk<'a>(&'a Experiment<'a>);

impl OnDisk for OnBareDisk<'_> {
    type Outcome = (Side, bool);

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String> {
        let disk = disks.only()?;
        let write_cache = disk.properties().volatile_cache;
        let side = self.0.run(BARE, &mut BareDisk::new(disk)).map_err(told)?;
        Ok((side, write_cache))
    }
}

/// All of it on a volume.
struct OnVolume<'a> {
    experiment: &'a Experiment<'a>,
    preset: NamedPreset,
    ack: Answers,
}

impl OnDisk for OnVolume<'_> {
    type Outcome = Side;

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Side, String> {
        let mut volume = dataless::volume(disks, self.preset, self.ack)?;
        self.experiment.run(self.preset.name, &mut volume).map_err(told)
    }
}

/// How far the bare disk's response times are from those that were recorded.
struct Demerit<'a>(Setup<'a>);

impl OnDisk for Demerit<'_> {
    type Outcome = Option<f64>;

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String> {
        Ok(self.0.play(&mut BareDisk::new(disks.only()?))?.0.demerit_pct)
    }
}

/// Writes the answer as a page.
pub(super) fn write_report(answer: &Answer, args: &ReplayArgs, path: &Path) -> Result<(), String> {
    let page = answer.page(&command(args)).map_err(|error| format!("replay --report: {error}"))?;
    std::fs::write(path, page)
        .map_err(|error| format!("replay --report: cannot write {}: {error}", path.display()))
}

/// What was typed, as far as it decides the result.
fn command(args: &ReplayArgs) -> String {
    let mut words = vec![format!("nearhead replay {}", quoted(&args.trace.display().to_string()))];
    words.push(format!("--disk {} --preset {}", quoted(&args.disk), args.preset.join(",")));
    words.extend(args.device.map(|device| format!("--device {device}")));
    words.extend(args.limit.map(|limit| format!("--limit {limit}")));
    words.join(" ")
}
