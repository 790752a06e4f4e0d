//! Running an experiment, with the interpreter free for others.

use crate::disk::Disk;
use crate::outcome::Outcome;
use crate::policies::Brought;
use crate::requests::Requests;
use crate::signals::Signals;
use crate::{loads, told};
use nearhead_disk::Nanos;
use nearhead_engine::Policies;
use nearhead_sim::measured::Span;
use nearhead_study::{Answers, Experiment, StudyError};
use nearhead_volume::NamedPreset;
use pyo3::prelude::*;
use std::sync::Arc;

/// Longest time that can be asked for, in seconds.
const SECONDS_MAX: f64 = 4e9;

/// Runs an experiment: workloads and the choices of a volume come as JSON, `traces` are those that workloads name by number, policies as what makes them.
#[pyfunction]
#[pyo3(signature = (disk, preset, choices, answers, loads, traces, warm_up_s, duration_s, record, placement=None, admission=None, cleaner=None))]
#[expect(clippy::too_many_arguments, reason = "the fields of an experiment")]
#[expect(clippy::needless_pass_by_value, reason = "as the interpreter hands it over")]
pub(crate) fn run(
    py: Python<'_>,
    disk: &Disk,
    preset: Option<&str>,
    choices: &str,
    answers: Option<&str>,
    loads: &str,
    traces: Vec<PyRef<'_, Requests>>,
    warm_up_s: f64,
    duration_s: Option<f64>,
    record: bool,
    placement: Option<Py<PyAny>>,
    admission: Option<Py<PyAny>>,
    cleaner: Option<Py<PyAny>>,
) -> PyResult<Outcome> {
    let brought = Brought::new(placement, admission, cleaner);
    let experiment = Experiment {
        disk: disk.disks.clone(),
        preset: preset.map(NamedPreset::by_name).transpose().map_err(told)?,
        choices: loads::choices(choices).map_err(told)?,
        policies: brought.clone().map(|brought| brought as Arc<dyn Policies>),
        answers: answers.map(answers_of).transpose().map_err(told)?,
        loads: loads::parse(loads, &traces).map_err(told)?,
        span: span_of(warm_up_s, duration_s).map_err(told)?,
        record,
    };
    let mut signals = Signals::new();
    let (ran, signals) = py.detach(|| {
        let ran = experiment.run(&mut || signals.go_on());
        (ran, signals)
    });
    let (outcome, unheard) = ended(ran, brought.as_deref(), signals)?;
    Ok(Outcome::new(outcome, unheard))
}

/// What a run came to, and which of its policies never had a say; or what a policy or a handler of signals raised.
pub(crate) fn ended<T>(
    ran: Result<T, StudyError>,
    brought: Option<&Brought>,
    signals: Signals,
) -> PyResult<(T, Option<String>)> {
    if let Some(failure) = brought.and_then(Brought::take_failure) {
        return Err(failure);
    }
    match ran {
        Ok(outcome) => Ok((outcome, brought.and_then(Brought::unheard))),
        Err(StudyError::Stopped) => {
            Err(signals.into_raised().unwrap_or_else(|| told(StudyError::Stopped)))
        }
        Err(error) => Err(told(error)),
    }
}

pub(crate) fn answers_of(name: &str) -> Result<Answers, String> {
    match name {
        "durable" => Ok(Answers::Durable),
        "flush" => Ok(Answers::OnFlush),
        found => Err(format!("experiment: expected ack \"durable\" or \"flush\", found {found:?}")),
    }
}

pub(crate) fn span_of(warm_up_s: f64, duration_s: Option<f64>) -> Result<Option<Span>, String> {
    let nanos = |what: &str, seconds: f64| {
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(format!(
                "experiment: expected {what} of 0 to {SECONDS_MAX:.0} s, found {seconds}"
            ));
        }
        Ok(Nanos((seconds * 1e9) as u64))
    };
    let warm_up = nanos("a warm-up", warm_up_s)?;
    match duration_s {
        None if warm_up > Nanos::ZERO => {
            Err("experiment: expected a duration beside the warm-up, found none".to_owned())
        }
        None => Ok(None),
        Some(seconds) => Ok(Some(Span { warm_up, duration: nanos("a duration", seconds)? })),
    }
}
