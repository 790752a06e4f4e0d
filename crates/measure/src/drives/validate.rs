//! `nearhead disk validate`: a model against what was measured on the drive.
//!
//! Replays a trace of one request at a time in virtual time and compares the response times. With
//! `--fit` a few global constants of the profile are fitted to the first half of the trace first;
//! then the second half, which the fit has not seen, is what counts, and is shown apart.

use super::import::write_profile;
use super::{learned, validate_plot as plot};
use nearhead_models::measured::{Comparison, MeasuredRequest};
use nearhead_models::{HddOptions, Profile};
use nearhead_output::{note, say, say_json};
use nearhead_profiles::fit::{FitOptions, FittedConstant, fit};
use nearhead_study::measured::{
    Fit, compare_some, find_profile, model, read_predictions, read_trace,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What `nearhead disk validate` is told.
#[derive(clap::Args, Debug)]
pub struct DiskValidateArgs {
    /// The drive: a profile by name, a .toml file, or a package FOLDER/NAME
    pub profile: String,
    /// The measured trace: lines `R|W Hit|Miss sector sectors response_us think_us`
    pub trace: PathBuf,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
    /// Draw both distributions: as SVG into a file, or on the terminal with -
    #[arg(long, value_name = "FILE.svg|-")]
    pub plot: Option<String>,
    /// Fit facts of the whole drive to the first half of the trace: overheads; cache (what its memory does); angles (and
    /// the rotation period) for a trace that keeps the phase of the rotation. Seconds, at most a minute for 10,000 requests
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub fit: Vec<Fitting>,
    /// Write the fitted profile here
    #[arg(long, value_name = "FILE.toml", requires = "fit")]
    pub out: Option<PathBuf>,
    /// How the drive's write cache was set when it was measured, if not as in the profile
    #[arg(long, value_enum)]
    pub write_cache: Option<OnOff>,
    /// How its read cache was set
    #[arg(long, value_enum)]
    pub read_cache: Option<OnOff>,
    /// Requests past the end of the disk: an error, wrapped around, or the whole trace scaled
    #[arg(long, value_enum, default_value_t = Fit::Error, value_name = "HOW")]
    pub past_end: Fit,
    /// Also compare the requests on cylinders below this one apart
    #[arg(long, value_name = "CYLINDER")]
    pub below_cylinder: Option<u32>,
    /// Also compare another simulator's predictions: lines `rw,lbn,sectors,measured_ms,its_ms`
    #[arg(long, value_name = "FILE.csv")]
    pub against: Option<PathBuf>,
}

/// What can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fitting {
    /// Command overheads, transfer rate, settling, ends of the seek curve.
    Overheads,
    /// Segments, reading ahead, buffering of writes, and what they cost.
    Cache,
    /// Rotation period, angles of the layout.
    Angles,
}

/// A switch of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnOff {
    /// On.
    On,
    /// Off.
    Off,
}

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// Which requests; how many is in the comparison.
    pub(super) chosen: String,
    pub(super) model: String,
    #[serde(flatten)]
    pub(super) comparison: Comparison,
}

#[derive(Debug, Serialize)]
struct Report {
    profile: String,
    warnings: Vec<String>,
    fitted: Vec<Constant>,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Constant {
    name: String,
    before: f64,
    after: f64,
}

/// How the drive was set up.
pub(super) fn setup(write_cache: Option<OnOff>, read_cache: Option<OnOff>) -> HddOptions {
    let is_on = |switch: OnOff| switch == OnOff::On;
    HddOptions {
        write_cache: write_cache.map(is_on),
        read_cache: read_cache.map(is_on),
        ..HddOptions::default()
    }
}

/// Runs the command.
pub fn run(args: &DiskValidateArgs) -> Result<(), String> {
    let told = |problem: String| format!("disk validate: {problem}");
    let (mut profile, warnings) = find_profile(&args.profile).map_err(told)?;
    if !args.json {
        for warning in &warnings {
            note(&format!("warning: {warning}"));
        }
    }
    let capacity = profile.capacity_bytes();
    let requests =
        read_trace(&args.trace, capacity, profile.sector_bytes, args.past_end).map_err(told)?;
    let setup = setup(args.write_cache, args.read_cache);
    let mut constants = Vec::new();
    if !args.fit.is_empty() {
        let options = FitOptions {
            angles: args.fit.contains(&Fitting::Angles),
            overheads: args.fit.contains(&Fitting::Overheads),
            cache: args.fit.contains(&Fitting::Cache),
            setup,
        };
        let fitted = fit(&profile, &requests, options).map_err(told)?;
        (profile, constants) = (fitted.profile, fitted.constants);
    }
    let modelled = model(&profile, &requests, setup).map_err(told)?;
    if args.write_cache.is_none()
        && let Some(hint) = write_cache_hint(&profile, &requests, &modelled, setup).map_err(told)?
    {
        note(&hint);
    }
    let mut lines = compare(args, &profile, &requests, &modelled, "model")?;
    if let Some(path) = &args.against {
        let other = read_predictions(path, &requests).map_err(told)?;
        lines.extend(compare(args, &profile, &requests[..other.len()], &other, "against")?);
    }
    if let Some(out) = &args.out {
        let text = learned::text(&profile, &constants, &args.trace, BTreeMap::new());
        write_profile(Some(out), &text).map_err(told)?;
    }
    if args.json {
        let fitted = constants.into_iter();
        say_json(&Report {
            profile: profile.name.clone(),
            warnings,
            fitted: fitted
                .map(|FittedConstant { name, before, after }| Constant { name, before, after })
                .collect(),
            lines,
        })?;
    } else {
        show(&profile, &constants, &lines);
    }
    match args.plot.as_deref() {
        Some("-") => say(&plot::terminal(&requests, &modelled)),
        Some(file) => {
            let svg = plot::svg(&profile.name, &requests, &modelled).map_err(told)?;
            std::fs::write(file, svg)
                .map_err(|error| told(format!("cannot write {file}: {error}")))?;
        }
        None => {}
    }
    Ok(())
}

/// A write cache that was the other way when the drive was measured shows in its writes: they are nearer by so much.
const NEARER_BY: f64 = 3.0;

/// What to try where the trace looks as if the write cache had been set otherwise than in the profile.
fn write_cache_hint(
    profile: &Profile,
    requests: &[MeasuredRequest],
    modelled: &[f64],
    setup: HddOptions,
) -> Result<Option<String>, String> {
    let is_on = profile.cache.write_cache;
    if !requests.iter().any(|request| request.write) {
        return Ok(None);
    }
    let other = model(profile, requests, HddOptions { write_cache: Some(!is_on), ..setup })?;
    let writes = |times: &[f64]| compare_some(requests, times, |_, request| request.write);
    let (as_is, other) = (writes(modelled).demerit_percent, writes(&other).demerit_percent);
    if as_is < NEARER_BY * other {
        return Ok(None);
    }
    let word = |is_on: bool| if is_on { "on" } else { "off" };
    let (set, found) = (word(is_on), word(!is_on));
    Ok(Some(format!(
        "hint: the profile's write cache is {set}, and the trace looks as if it had been {found}: the demerit of its writes is \
         {as_is:.1} % so, {other:.1} % with --write-cache {found}"
    )))
}

fn compare(
    args: &DiskValidateArgs,
    profile: &Profile,
    requests: &[MeasuredRequest],
    modelled: &[f64],
    name: &str,
) -> Result<Vec<Line>, String> {
    let geometry = profile.geometry().map_err(|error| error.to_string())?;
    let half = requests.len() / 2;
    let fitted = !args.fit.is_empty() && name == "model";
    let mut lines = Vec::new();
    let mut add = |chosen: String, comparison: Comparison| {
        lines.push(Line { chosen, model: name.to_owned(), comparison });
    };
    let some =
        |chosen: &dyn Fn(usize, &MeasuredRequest) -> bool| compare_some(requests, modelled, chosen);
    add("all".to_owned(), some(&|_, _| true));
    add("reads".to_owned(), some(&|_, request| !request.write));
    add("writes".to_owned(), some(&|_, request| request.write));
    if fitted {
        add("all, half not fitted on".to_owned(), some(&|index, _| index >= half));
    }
    if let Some(limit) = args.below_cylinder {
        let per_sector = u64::from(profile.sector_bytes / 512);
        let below =
            |request: &MeasuredRequest| geometry.locate(request.lbn / per_sector).cylinder < limit;
        add(format!("cylinders below {limit}"), some(&|_, request| below(request)));
        if fitted {
            let unseen = some(&|index, request| index >= half && below(request));
            add(format!("cylinders below {limit}, half not fitted on"), unseen);
        }
    }
    Ok(lines)
}

fn show(profile: &Profile, constants: &[FittedConstant], lines: &[Line]) {
    say(&format!("{}: {}", profile.name, profile.description));
    learned::show(constants);
    table(lines);
}

/// The comparisons, a line each.
pub(super) fn table(lines: &[Line]) {
    say(&format!(
        "{:<44} {:>7} {:>9} {:>9} {:>7} {:>9} {:>8} {:>7} {:>7}",
        "requests", "n", "measured", "modelled", "error", "demerit", "demerit", "<0.3ms", "<0.5ms"
    ));
    for line in lines {
        let found = &line.comparison;
        let name = match line.model.as_str() {
            "model" => line.chosen.clone(),
            other => format!("{} ({other})", line.chosen),
        };
        say(&format!(
            "{name:<44} {:>7} {:>6.3} ms {:>6.3} ms {:>+6.2}% {:>6.3} ms {:>7.2}% {:>6.1}% {:>6.1}%",
            found.requests,
            found.measured_ms_mean,
            found.modelled_ms_mean,
            found.mean_error_percent,
            found.demerit_ms,
            found.demerit_percent,
            100.0 * found.within_300_us,
            100.0 * found.within_500_us
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    /// Writes all over the drive, measured with its write cache set so.
    fn measured(profile: &Profile, write_cache: bool) -> Vec<MeasuredRequest> {
        let place = |index: u64| index * 7919 * 64 % (profile.blocks - 64);
        let request = |index| MeasuredRequest {
            write: index % 2 == 0,
            lbn: place(index),
            sectors: 8,
            response_ms: 0.0,
            think: Nanos::from_millis(20),
        };
        let mut requests: Vec<MeasuredRequest> = (0..200).map(request).collect();
        let setup = HddOptions { write_cache: Some(write_cache), ..HddOptions::default() };
        let times = model(profile, &requests, setup).unwrap();
        for (request, ms) in requests.iter_mut().zip(times) {
            // As no model is: by a tenth.
            request.response_ms = 1.1 * ms;
        }
        requests
    }

    #[test]
    fn a_trace_of_the_other_write_cache_gets_a_hint_and_no_other_does() {
        let mut profile = Profile::named("st3146855fc").unwrap();
        for set in [false, true] {
            profile.cache.write_cache = set;
            for found in [false, true] {
                let requests = measured(&profile, found);
                let modelled = model(&profile, &requests, HddOptions::default()).unwrap();
                let hint = write_cache_hint(&profile, &requests, &modelled, HddOptions::default());
                let hint = hint.unwrap();
                assert_eq!(hint.is_some(), set != found, "{set} {found}: {hint:?}");
                let word = if found { "--write-cache on" } else { "--write-cache off" };
                assert!(hint.is_none_or(|hint| hint.contains(word)));
            }
        }
    }
}
