//! Measured drives: their packages as profiles, their traces, and what a model makes of those.
//!
//! A trace was measured with one request at a time, and so it is played. It must never be fitted here: what is compared is the model as it is.

use nearhead_models::measured::{Comparison, MeasuredRequest, replay};
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};
use nearhead_profiles::import::import;
use nearhead_sim::trace::{AddressFit, Format, TraceOptions, TraceReader, summarize};
use std::path::Path;

/// Most requests of a measured trace that are compared: what is sorted is kept in memory.
const REQUESTS_MAX: u64 = 20_000_000;

/// What happens to requests past the end of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Fit {
    /// They are an error that names the line.
    Error,
    /// Addresses modulo the size.
    Wrap,
    /// The span of the trace is stretched or shrunk to the disk.
    Scale,
}

/// A profile by name, from a `.toml` file, or from a package; and its warnings.
pub fn find_profile(text: &str) -> Result<(Profile, Vec<String>), String> {
    let is_known = Profile::known_names().any(|known| known == text);
    let is_profile = Path::new(text).extension().is_some_and(|extension| extension == "toml");
    if is_known || is_profile || !text.contains('/') {
        let profile = Profile::find(text).map_err(|error| error.to_string())?;
        let warnings = profile.warnings();
        return Ok((profile, warnings));
    }
    let imported = import(Path::new(text)).map_err(|error| error.to_string())?;
    Ok((imported.profile, imported.warnings))
}

/// The requests of a measured trace, placed on a disk of `capacity_bytes`.
pub fn read_trace(
    path: &Path,
    capacity_bytes: u64,
    sector_bytes: u32,
    fit: Fit,
) -> Result<Vec<MeasuredRequest>, String> {
    let told = |error: nearhead_sim::trace::TraceError| match fit {
        Fit::Error => {
            format!("{error}; a measured trace needs its own disk, or --past-end wrap|scale")
        }
        Fit::Wrap | Fit::Scale => error.to_string(),
    };
    let mut options = TraceOptions {
        format: Some(Format::DiskSimValidation),
        strict: true,
        requests_max: Some(REQUESTS_MAX),
        ..TraceOptions::default()
    };
    options.address.fit = match fit {
        Fit::Error => AddressFit::Error,
        Fit::Wrap => AddressFit::Wrap,
        Fit::Scale => {
            let mut trace = TraceReader::open(path, options.clone()).map_err(told)?;
            AddressFit::Scale { span_bytes: summarize(&mut trace).map_err(told)?.span_bytes }
        }
    };
    options.address.capacity_bytes = Some(capacity_bytes);
    options.address.align_bytes = sector_bytes;
    let mut requests = Vec::new();
    for request in TraceReader::open(path, options).map_err(told)? {
        let request = request.map_err(told)?;
        let (Some(response), Some(think)) = (request.response, request.think) else {
            return Err(format!("{}: a request without measured times", path.display()));
        };
        requests.push(MeasuredRequest {
            write: request.write,
            lbn: request.offset_bytes / 512,
            sectors: request.len_bytes / 512,
            response_ms: response.as_millis_f64(),
            think,
        });
    }
    if requests.is_empty() {
        return Err(format!("{}: expected measured requests, found none", path.display()));
    }
    Ok(requests)
}

/// Another simulator's prediction of each request, in ms, from a table with the columns `rw, lbn,
/// sectors, measured_ms` and its own; a line for each request or for the first ones.
pub fn read_predictions(path: &Path, requests: &[MeasuredRequest]) -> Result<Vec<f64>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(cannot)?;
    let input = nearhead_sim::trace::text(path.display().to_string(), bytes)
        .map_err(|error| error.to_string())?;
    let mut predictions = Vec::new();
    for (index, line) in input.lines().enumerate().skip(1) {
        let wrong = |expected: &str| {
            format!("{}: line {}: expected {expected}, found {line:?}", path.display(), index + 1)
        };
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let Some(request) = requests.get(predictions.len()) else {
            return Err(wrong("no more lines than the trace has requests"));
        };
        let lbn = fields.get(1).and_then(|lbn| lbn.parse().ok());
        if lbn != Some(request.lbn) {
            return Err(wrong(&format!("the request at sector {} of the trace", request.lbn)));
        }
        let predicted = fields.get(4).and_then(|ms| ms.parse().ok());
        predictions.push(predicted.ok_or_else(|| wrong("a predicted time in ms"))?);
    }
    Ok(predictions)
}

/// Modelled response times of `requests`, in ms.
pub fn model(
    profile: &Profile,
    requests: &[MeasuredRequest],
    setup: HddOptions,
) -> Result<Vec<f64>, String> {
    let mut disk =
        HddModel::new(profile, Box::new(Dataless), setup).map_err(|error| error.to_string())?;
    replay(&mut disk, requests.iter().copied())
        .map_err(|(index, problem)| format!("request {} of the trace: {problem}", index + 1))
}

/// The comparison of those requests for which `chosen(index, request)`.
pub fn compare_some(
    requests: &[MeasuredRequest],
    modelled: &[f64],
    chosen: impl Fn(usize, &MeasuredRequest) -> bool,
) -> Comparison {
    let pairs = requests.iter().zip(modelled).enumerate();
    let pairs = pairs.filter(|(index, (request, _))| chosen(*index, request));
    let pairs: Vec<(f64, f64)> =
        pairs.map(|(_, (request, ms))| (request.response_ms, *ms)).collect();
    Comparison::of(&pairs)
}
