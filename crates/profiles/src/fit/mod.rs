//! Fitting global constants of a profile to a measured trace.
//!
//! What may be fitted are facts of the whole drive that a package states badly or not at all: the rotation period, angles of
//! the rows of a layout, a few overheads, and what its memory does. Nothing is ever fitted to one request. The first half of a
//! trace is fitted on; the second half, which the fit has not seen, says what the result is worth.

mod angles;
mod constants;
mod memory;
#[cfg(test)]
mod secret_tests;
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
    /// How often the half that is fitted on was replayed: at most [`REPLAYS_MAX`] times, whatever is in it.
    pub replays: usize,
}

/// What to fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct FitOptions {
    /// The period, and the angles of the layout: for traces that keep the phase of the rotation.
    pub angles: bool,
    /// Overheads, settling and transfer rates.
    pub overheads: bool,
    /// What the drive's memory does: segments, reading ahead, buffering of writes, and what they cost.
    pub cache: bool,
    /// How the drive was set up when it was measured.
    pub setup: HddOptions,
}

/// Times that memory and overheads are fitted, where both are: what is a hit shows better once a hit takes as long as it does.
const ROUNDS: usize = 2;

/// Most replays of one fit of memory and overheads.
pub const REPLAYS_MAX: usize = ROUNDS * (memory::REPLAYS_MAX + constants::REPLAYS_MAX);

/// Share of the requests that period and angles must tell better to be believed.
const TOLD_BETTER: f64 = 0.05;

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
    let mut fitted = Fitted { profile: profile.clone(), constants: Vec::new(), replays: 0 };
    let mut replays = Replays { setup: options.setup, count: 0 };
    if options.angles {
        angles::fit(&mut fitted, half)?;
    }
    let start = fitted.profile.clone();
    let both = options.cache && options.overheads;
    for _ in 0..if both { ROUNDS } else { 1 } {
        if options.cache {
            memory::fit(&mut fitted.profile, half, options, &mut replays)?;
        }
        if options.overheads {
            constants::fit(&mut fitted.profile, half, options, &mut replays)?;
        }
    }
    if options.overheads {
        fitted.constants.extend(constants::changes(&start, &fitted.profile));
    }
    if options.cache {
        let known = fitted.constants.clone();
        let is_new = |found: &FittedConstant| !known.iter().any(|known| known.name == found.name);
        let changes = memory::changes(&start, &fitted.profile);
        fitted.constants.extend(changes.into_iter().filter(is_new));
    }
    fitted.profile.validate()?;
    fitted.replays = replays.count;
    Ok(fitted)
}

/// Fits everything: memory and overheads always, period and angles where requests are told better by them, which
/// a trace without the phase of the rotation never shows.
pub fn fit_all(
    profile: &Profile,
    requests: &[MeasuredRequest],
    setup: HddOptions,
) -> Result<Fitted, String> {
    let half = fitting_half(requests);
    let told = |profile: &Profile| {
        Ok::<f64, String>(Comparison::of(&modelled(profile, half, setup)?).within_300_us)
    };
    let turned = FitOptions { angles: true, setup, ..FitOptions::default() };
    let turned = fit(profile, requests, turned)?.profile;
    let angles = told(&turned)? > told(profile)? + TOLD_BETTER;
    fit(profile, requests, FitOptions { angles, overheads: true, cache: true, setup })
}

/// Replays, counted.
struct Replays {
    setup: HddOptions,
    count: usize,
}

impl Replays {
    fn of(
        &mut self,
        profile: &Profile,
        requests: &[MeasuredRequest],
    ) -> Result<Vec<(f64, f64)>, String> {
        self.count += 1;
        modelled(profile, requests, self.setup)
    }
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
