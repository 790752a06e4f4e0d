//! Fitting global constants of a profile to a measured trace.
//!
//! What may be fitted are physical constants of the drive that a package states badly or not at all:
//! the rotation period, angles of the rows of a layout, and a few overheads. Nothing is ever fitted
//! to one request. The first half of a trace is fitted on; the second half, which the fit has not
//! seen, says what the result is worth.

mod angles;
mod constants;
#[cfg(test)]
mod tests;

use nearhead_models::Dataless;
use nearhead_models::Profile;
use nearhead_models::measured::{Comparison, MeasuredRequest, replay};
use nearhead_models::{HddModel, HddOptions};

/// A constant that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedConstant {
    /// Its place in the profile.
    pub name: String,
    /// As the profile had it.
    pub before: f64,
    /// As it was fitted.
    pub after: f64,
}

/// A profile with fitted constants.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// What was changed.
    pub constants: Vec<FittedConstant>,
}

/// What to fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct FitOptions {
    /// The period, and the angles of the layout: for traces that keep the phase of the rotation.
    pub angles: bool,
    /// Overheads, settling and transfer rates.
    pub overheads: bool,
    /// How the drive was set up when it was measured.
    pub setup: HddOptions,
}

/// Requests to fit on: the first half.
pub fn fitting_half(requests: &[MeasuredRequest]) -> &[MeasuredRequest] {
    &requests[..requests.len() / 2]
}

/// Fits `profile` to the first half of `requests`. Errors tell what cannot be replayed.
pub fn fit(
    profile: &Profile,
    requests: &[MeasuredRequest],
    options: FitOptions,
) -> Result<Fitted, String> {
    let half = fitting_half(requests);
    if half.len() < 100 {
        return Err(format!("expected at least 200 requests to fit on, found {}", requests.len()));
    }
    let mut fitted = Fitted { profile: profile.clone(), constants: Vec::new() };
    if options.angles {
        angles::fit(&mut fitted, half)?;
    }
    if options.overheads {
        constants::fit(&mut fitted, half, options)?;
    }
    fitted.profile.validate()?;
    Ok(fitted)
}

/// Pairs of measured and modelled response times of `requests`.
pub(crate) fn modelled(
    profile: &Profile,
    requests: &[MeasuredRequest],
    setup: HddOptions,
) -> Result<Vec<(f64, f64)>, String> {
    let mut disk =
        HddModel::new(profile, Box::new(Dataless), setup).map_err(|error| error.problem)?;
    let responses = replay(&mut disk, requests.iter().copied())
        .map_err(|(index, problem)| format!("request {index}: {problem}"))?;
    Ok(requests.iter().zip(responses).map(|(request, ms)| (request.response_ms, ms)).collect())
}

/// How far a model is from the drive, in ms: the demerits of reads and of writes, each by its share
/// of the requests, and, where the trace keeps the phase, the share of requests that are told wrongly.
fn distance_ms(requests: &[MeasuredRequest], pairs: &[(f64, f64)], keeps_phase: bool) -> f64 {
    let mut squares = 0.0;
    for write in [false, true] {
        let chosen = requests.iter().zip(pairs).filter(|(request, _)| request.write == write);
        let chosen: Vec<(f64, f64)> = chosen.map(|(_, pair)| *pair).collect();
        squares += Comparison::of(&chosen).demerit_ms.powi(2) * chosen.len() as f64;
    }
    let all = Comparison::of(pairs);
    let wrong = if keeps_phase { 3.0 * (1.0 - all.within_300_us) } else { 0.0 };
    (squares / pairs.len() as f64).sqrt() + all.demerit_ms + wrong
}
