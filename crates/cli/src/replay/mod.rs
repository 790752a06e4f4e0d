//! `nearhead replay`: a block trace against presets on a disk model, in virtual time.
//!
//! Each preset gets a fresh, data-less volume on a fresh disk; requests arrive when the trace says
//! (or, for traces of one request at a time, after their think time). Nothing is skipped silently:
//! lines that do not parse are counted and the first are shown, moved requests are counted, and a
//! disk that cannot follow shows as latency. At the end stands what that means for whoever took the trace (`will_it_help.rs`).

mod outcome;
mod table;
mod will_it_help;

use nearhead_disk::Nanos;
use nearhead_output::{note, say, say_json, warn};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::replay::{Durability, Makeup, ReplayError, ReplayOptions, ReplayResults, replay};
use nearhead_sim::trace::{
    AddressFit, AddressOptions, Format, LineProblem, SCALE_ZONES, TraceError, TraceOptions,
    TraceReader, summarize,
};
use nearhead_study::dataless;
use nearhead_study::{Answers, Disks, Made, Modelled, OnDisk};
use nearhead_volume::NamedPreset;
use outcome::Outcome;
use serde::Serialize;
use std::path::PathBuf;

/// What `nearhead replay` is told.
#[derive(clap::Args, Debug)]
pub struct ReplayArgs {
    /// The trace file; compressed ones are read as they are, and those of blktrace by any of their files or by what they share.
    pub trace: PathBuf,
    /// Disk model: PROFILE[,cache=on|off][,ncq=fifo|clook|sptf][,depth=N], and behind it for `trail` and chains `;data=PROFILE...` each, `;log=PROFILE...`.
    #[arg(long, default_value = "constellation-es3-1tb", value_name = "PROFILE")]
    pub disk: String,
    /// Presets to compare; speed-ups are against the first.
    #[arg(long, default_value = "nolog,mlb-256,nearhead", value_delimiter = ',')]
    pub preset: Vec<String>,
    /// When writes are answered: when durable, or early with flushes and FUA as in the trace. Early if the trace has any of these, else when durable.
    #[arg(long, value_enum)]
    pub ack: Option<Answers>,
    /// The trace's format, instead of finding it out.
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Stop at the first line that does not parse.
    #[arg(long)]
    pub strict: bool,
    /// Requests past the end of the disk: an error, wrapped around, or the whole trace scaled.
    #[arg(long, value_enum, default_value_t = Fit::Error)]
    pub fit: Fit,
    /// Replay the first N requests only.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Only requests to this device of the trace, by its number there or as MAJOR:MINOR.
    #[arg(long, value_name = "NUMBER", value_parser = device_number)]
    pub device: Option<u32>,
    /// Multiply the times of the trace: 0.5 replays twice as fast.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub time_scale: f64,
    /// Write the answer as a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What happens to requests past the end of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fit {
    /// They end the replay.
    Error,
    /// Addresses modulo the size.
    Wrap,
    /// The span of the trace is stretched or shrunk to the disk.
    Scale,
}

/// The result for programs.
#[derive(Serialize)]
struct Report {
    outcomes: Vec<Outcome>,
    will_it_help: Option<nearhead_measure::will_it_help::Told>,
}

/// Runs the replay; the error is what to tell the user.
pub fn run(args: &ReplayArgs) -> Result<(), String> {
    let presets = presets(&args.preset)?;
    let mut disks = Disks::parse(&args.disk).map_err(told)?;
    if args.report.is_some() && disks.are_several() {
        return Err(
            "replay --report: expected one disk, which the charts show as it is beside volumes, found several devices; leave --report out"
                .to_owned(),
        );
    }
    let options = trace_options(args)?;
    // As it is in the trace: no disk is known yet that it is to fit.
    let as_traced = TraceOptions { address: AddressOptions::default(), ..options.clone() };
    let makeup = TraceReader::open(&args.trace, as_traced)
        .and_then(|mut trace| Makeup::of(&mut trace))
        .map_err(told)?;
    let ack = args.ack.unwrap_or(match makeup.durability {
        Durability::Asked => Answers::OnFlush,
        Durability::EveryWrite => Answers::Durable,
    });
    // Where a reply means durable nothing volatile is in between, as in the papers; where flushes decide there is something to flush.
    disks.set_write_cache(ack == Answers::OnFlush);
    let setup = Setup { args, disks: &disks, options: &options, makeup: &makeup, ack };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for preset in &presets {
        let (outcome, problems) =
            setup.disks.with(Some(preset), OnVolume { setup, preset: *preset })?;
        if outcomes.is_empty() {
            warn_of(&outcome.results, &problems);
        }
        let speed_up = outcomes.first().map_or(Some(1.0), |first| outcome.speed_up_over(first));
        outcomes.push(Outcome { speed_up, ..outcome });
    }
    let answer = will_it_help::answer(setup, &presets)?;
    if let Some(path) = &args.report {
        let answer = answer.as_ref().ok_or_else(|| {
            format!("replay --report: a trace in the form {} has one request at a time, so there is nothing to draw", makeup.format)
        })?;
        will_it_help::write_report(answer, args, path)?;
    }
    if args.json {
        let will_it_help = answer.as_ref().map(nearhead_measure::will_it_help::Answer::told);
        return say_json(&Report { outcomes, will_it_help });
    }
    say(table::render(&outcomes).trim_end());
    if let Some(answer) = answer {
        say(&format!("\n{}", answer.text().trim_end()));
    }
    if let Some(path) = &args.report {
        say(&format!("\nThe charts: {}", path.display()));
    }
    Ok(())
}

/// What all runs have in common.
#[derive(Clone, Copy)]
struct Setup<'a> {
    args: &'a ReplayArgs,
    disks: &'a Disks,
    options: &'a TraceOptions,
    makeup: &'a Makeup,
    ack: Answers,
}

impl Setup<'_> {
    /// Plays the whole trace on `service`, as its format suggests.
    fn play<S: Service>(
        &self,
        service: &mut S,
    ) -> Result<(ReplayResults, Vec<LineProblem>), String> {
        let options = self.options.clone().for_service(&service.info());
        let mut trace = TraceReader::open(&self.args.trace, options).map_err(told)?;
        let mut time = VirtualTime::starting_at(Nanos::ZERO);
        let options = ReplayOptions {
            durable_writes: self.ack == Answers::Durable,
            durability: self.makeup.durability,
            ..ReplayOptions::default()
        };
        let results = replay(service, &mut time, &mut trace, options).map_err(told_with_fit)?;
        Ok((results, trace.problems().to_vec()))
    }
}

/// Plays the trace on a volume.
struct OnVolume<'a> {
    setup: Setup<'a>,
    preset: NamedPreset,
}

impl OnDisk for OnVolume<'_> {
    type Outcome = (Outcome, Vec<LineProblem>);

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String> {
        let mut volume = dataless::volume(disks, self.preset, self.setup.ack)?;
        let (results, problems) = self.setup.play(&mut volume)?;
        Ok((Outcome::new(self.preset, &volume, results), problems))
    }
}

fn device_number(text: &str) -> Result<u32, String> {
    let number = text.split_once(':').map_or_else(
        || text.parse().ok(),
        |(major, minor)| {
            let major = major.parse::<u32>().ok().filter(|major| *major < 1 << 12)?;
            let minor = minor.parse::<u32>().ok().filter(|minor| *minor < 1 << 20)?;
            Some(major << 20 | minor)
        },
    );
    number.ok_or_else(|| {
        format!("expected a device's number in the trace, or MAJOR:MINOR, found {text:?}")
    })
}

fn presets(names: &[String]) -> Result<Vec<NamedPreset>, String> {
    let found: Result<Vec<_>, _> =
        names.iter().map(|name| NamedPreset::by_name(name.trim())).collect();
    found.map_err(|error| format!("replay: {error}"))
}

fn trace_options(args: &ReplayArgs) -> Result<TraceOptions, String> {
    let mut options =
        TraceOptions { strict: args.strict, device: args.device, ..TraceOptions::default() };
    if !(args.time_scale > 0.0 && args.time_scale.is_finite()) {
        let found = args.time_scale;
        return Err(format!("replay: expected --time-scale above 0, found {found}"));
    }
    options.time_scale = args.time_scale;
    if let Some(name) = &args.format {
        let format: Format = name.parse().map_err(|error| format!("replay: {error}"))?;
        options.format = Some(format);
    }
    options.address.fit = match args.fit {
        Fit::Error => AddressFit::Error,
        Fit::Wrap => AddressFit::Wrap,
        Fit::Scale => {
            let mut trace = TraceReader::open(&args.trace, options.clone()).map_err(told)?;
            let span_bytes = summarize(&mut trace).map_err(told)?.span_bytes;
            note(&format!(
                "replay: --fit scale lays the {:.1} GB of the trace over the whole disk in {SCALE_ZONES} zones: distances within a \
                 zone stay, those between zones grow or shrink, and on a smaller disk zones lie over each other; locality is \
                 no longer the trace's (--fit wrap keeps it)",
                span_bytes as f64 / 1e9
            ));
            AddressFit::Scale { span_bytes }
        }
    };
    options.requests_max = args.limit;
    Ok(options)
}

/// A request past the end of the disk can be helped.
fn told_with_fit(error: ReplayError) -> String {
    match &error {
        ReplayError::Trace(TraceError::Address { .. }) => told(format_args!(
            "{error}; name a larger disk (--disk, `nearhead disk list`), or say where such requests go: \
             --fit wrap or --fit scale"
        )),
        _ => told(error),
    }
}

fn told(error: impl std::fmt::Display) -> String {
    format!("replay: {error}")
}

/// What the user should know about the trace.
fn warn_of(results: &ReplayResults, problems: &[LineProblem]) {
    let lines = &results.lines;
    if lines.skipped > 0 {
        let (skipped, all) = (lines.skipped, lines.lines);
        warn(&format!(
            "replay: {skipped} of {all} lines do not parse and were skipped; the first:"
        ));
        for problem in problems {
            warn(&format!("  {problem}"));
        }
    }
    if lines.moved > 0 {
        warn(&format!("replay: {} requests were moved to fit the disk", lines.moved));
    }
    if let Some(failure) = &results.first_failure {
        warn(&format!("replay: {} requests failed; the first: {failure}", results.failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_its_number_or_by_major_and_minor() {
        assert_eq!(device_number("3"), Ok(3));
        assert_eq!(device_number("8:1"), Ok((8 << 20) + 1));
        for bad in ["", "sda", "8:", ":1", "4096:0", "8:1048576", "8:1:2", "-1"] {
            assert!(device_number(bad).is_err(), "{bad}");
        }
    }
}
