//! `nearhead replay`: a block trace against presets on a disk model, in virtual time.
//!
//! Each preset gets a fresh, data-less volume on a fresh disk; requests arrive when the trace says
//! (or, for traces of one request at a time, after their think time). Nothing is skipped silently:
//! lines that do not parse are counted and the first are shown, moved requests are counted, and a
//! disk that cannot follow shows as latency.

mod outcome;
mod table;

use nearhead_arrays::ArraySpec;
use nearhead_disk::{Disk, Nanos, Tracks};
use nearhead_measure::demo::dataless::{self, Answers};
use nearhead_models::{Content, Drive, Model, ModelSpec};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::replay::{ReplayError, ReplayOptions, replay};
use nearhead_sim::trace::{
    AddressFit, Format, LineProblem, SCALE_ZONES, TraceError, TraceOptions, TraceReader, summarize,
};
use nearhead_volume::{GatheredDisk, NamedPreset};
use outcome::Outcome;
use std::path::PathBuf;
use std::sync::Arc;

/// What `nearhead replay` is told.
#[derive(clap::Args, Debug)]
pub struct ReplayArgs {
    /// The trace file; compressed ones are read as they are.
    pub trace: PathBuf,
    /// Disk model: PROFILE[,cache=on|off][,ncq=fifo|clook|sptf][,depth=N].
    #[arg(long, default_value = "constellation-es3-1tb", value_name = "PROFILE")]
    pub disk: String,
    /// Presets to compare; speed-ups are against the first.
    #[arg(long, default_value = "nolog,mlb-32,mlb-256", value_delimiter = ',')]
    pub preset: Vec<String>,
    /// When writes are answered: when durable, or early.
    #[arg(long, value_enum, default_value_t = Answers::Durable)]
    pub ack: Answers,
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
    /// Only requests to this device of the trace.
    #[arg(long, value_name = "NUMBER")]
    pub device: Option<u32>,
    /// Multiply the times of the trace: 0.5 replays twice as fast.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub time_scale: f64,
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

/// Runs the replay; the error is what to tell the user.
pub fn run(args: &ReplayArgs) -> Result<(), String> {
    let presets = presets(&args.preset)?;
    let array = ArraySpec::is_array(&args.disk).then(|| ArraySpec::parse(&args.disk));
    let array = array.transpose().map_err(|error| error.to_string())?;
    let texts = array.as_ref().map_or(std::slice::from_ref(&args.disk), |array| &array.members);
    let specs: Result<Vec<_>, _> = texts.iter().map(|text| spec(args, text)).collect();
    let specs = specs?;
    let options = trace_options(args)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for preset in presets {
        let (outcome, problems) = match (&array, specs.as_slice()) {
            (Some(array), specs) => {
                let disks: Result<Vec<_>, _> = specs.iter().map(ModelSpec::build_any).collect();
                let disk = array.build_model(disks.map_err(told)?).map_err(told)?;
                replay_one(args, (preset, Vec::new()), disk, &options)?
            }
            // Most replays are on one hard disk: nothing stands between it and the engine.
            (None, [spec @ ModelSpec { drive: Drive::HardDisk(_), .. }]) => {
                let tracks = dataless::tracks(&preset, &mut spec.build().map_err(told)?)?;
                let disk = spec.build().map_err(told)?;
                replay_one(args, (preset, tracks), disk, &options)?
            }
            (None, specs) => {
                let disk: Box<dyn Model> = specs[0].build_any().map_err(told)?;
                if GatheredDisk::is_needed(&disk) {
                    let disk = GatheredDisk::new(disk).map_err(told)?;
                    replay_one(args, (preset, Vec::new()), disk, &options)?
                } else {
                    replay_one(args, (preset, Vec::new()), disk, &options)?
                }
            }
        };
        if outcomes.is_empty() {
            warn(&outcome, &problems);
        }
        let speed_up = outcomes.first().map_or(Some(1.0), |first| outcome.speed_up_over(first));
        outcomes.push(Outcome { speed_up, ..outcome });
    }
    if args.json {
        let text = serde_json::to_string_pretty(&outcomes).map_err(|error| error.to_string())?;
        println!("{text}");
    } else {
        print!("{}", table::render(&outcomes));
    }
    Ok(())
}

/// A disk of the replay, without content.
fn spec(args: &ReplayArgs, text: &str) -> Result<ModelSpec, String> {
    let mut spec = ModelSpec::parse(text).map_err(|error| error.to_string())?;
    if matches!(spec.content, Content::File(_)) {
        return Err("replay: a replay keeps no data; leave out file=PATH".to_owned());
    }
    spec.content = Content::None;
    // The papers' set-up: a reply means durable because nothing volatile is in between.
    if args.ack == Answers::Durable && spec.options.write_cache.is_none() {
        spec.options.write_cache = Some(false);
    }
    Ok(spec)
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
            eprintln!(
                "replay: --fit scale lays the {:.1} GB of the trace over the whole disk in {SCALE_ZONES} zones: distances within a \
                 zone stay, those between zones grow or shrink, and on a smaller disk zones lie over each other; locality is \
                 no longer the trace's (--fit wrap keeps it)",
                span_bytes as f64 / 1e9
            );
            AddressFit::Scale { span_bytes }
        }
    };
    options.requests_max = args.limit;
    Ok(options)
}

fn replay_one<D: Disk>(
    args: &ReplayArgs,
    (preset, tracks): (NamedPreset, Vec<Arc<Tracks>>),
    disk: D,
    options: &TraceOptions,
) -> Result<(Outcome, Vec<LineProblem>), String> {
    let mut volume = dataless::volume(disk, preset, args.ack, tracks)?;
    let options = options.clone().for_service(&volume.info());
    let mut trace = TraceReader::open(&args.trace, options).map_err(told)?;
    let mut time = VirtualTime::starting_at(Nanos::ZERO);
    let replay_options =
        ReplayOptions { durable_writes: args.ack == Answers::Durable, ..ReplayOptions::default() };
    let results =
        replay(&mut volume, &mut time, &mut trace, replay_options).map_err(told_with_fit)?;
    let problems = trace.problems().to_vec();
    Ok((Outcome::new(preset, &volume, results), problems))
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
fn warn(outcome: &Outcome, problems: &[LineProblem]) {
    let lines = &outcome.results.lines;
    if lines.skipped > 0 {
        let (skipped, all) = (lines.skipped, lines.lines);
        eprintln!("replay: {skipped} of {all} lines do not parse and were skipped; the first:");
        for problem in problems {
            eprintln!("  {problem}");
        }
    }
    if lines.moved > 0 {
        eprintln!("replay: {} requests were moved to fit the disk", lines.moved);
    }
    if let Some(failure) = &outcome.results.first_failure {
        eprintln!("replay: {} requests failed; the first: {failure}", outcome.results.failed);
    }
}
