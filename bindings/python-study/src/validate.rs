//! A model against what was measured on its drive.

use crate::told;
use nearhead_models::HddOptions;
use nearhead_models::measured::MeasuredRequest;
use nearhead_study::measured::{Fit, compare_some, find_profile, model, read_trace};
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;

/// Replays a trace that was measured on a drive on its model; how both compare, as JSON.
#[pyfunction]
#[pyo3(signature = (profile, trace, past_end, write_cache, read_cache))]
#[expect(clippy::needless_pass_by_value, reason = "as the interpreter hands it over")]
pub(crate) fn validate(
    py: Python<'_>,
    profile: &str,
    trace: PathBuf,
    past_end: &str,
    write_cache: Option<bool>,
    read_cache: Option<bool>,
) -> PyResult<String> {
    let fit = match past_end {
        "error" => Fit::Error,
        "wrap" => Fit::Wrap,
        "scale" => Fit::Scale,
        found => {
            return Err(told(format!(
                "validate: expected past_end \"error\", \"wrap\" or \"scale\", found {found:?}"
            )));
        }
    };
    let setup = HddOptions { write_cache, read_cache, ..HddOptions::default() };
    py.detach(|| compared(profile, &trace, fit, setup))
        .map_err(|problem| told(format!("validate: {problem}")))
}

fn compared(
    profile: &str,
    trace: &std::path::Path,
    fit: Fit,
    setup: HddOptions,
) -> Result<String, String> {
    let (profile, warnings) = find_profile(profile)?;
    let requests = read_trace(trace, profile.capacity_bytes(), profile.sector_bytes, fit)?;
    let modelled = model(&profile, &requests, setup)?;
    let of = |chosen: &dyn Fn(&MeasuredRequest) -> bool| {
        compare_some(&requests, &modelled, |_, request| chosen(request))
    };
    let told = json!({
        "profile": profile.name,
        "warnings": warnings,
        "all": of(&|_| true),
        "reads": of(&|request| !request.write),
        "writes": of(&|request| request.write),
        "measured_ms": requests.iter().map(|request| request.response_ms).collect::<Vec<_>>(),
        "modelled_ms": modelled,
    });
    Ok(told.to_string())
}
