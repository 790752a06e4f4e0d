//! Running a set of replicas, with the interpreter free for others.

use crate::disk::Disk;
use crate::experiment::{answers_of, ended, span_of};
use crate::outcome::told_of;
use crate::policies::Brought;
use crate::requests::Requests;
use crate::signals::Signals;
use crate::{loads, told};
use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use nearhead_engine::Policies;
use nearhead_sim::LatencySummary;
use nearhead_study::{Begins, Checkpoints, Experiment, QuorumOutcome, Replicas};
use nearhead_volume::NamedPreset;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// What makes a set of an experiment, as Python describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    count: u32,
    period_s: Option<f64>,
    window: Option<(u32, u32)>,
    spread_s: f64,
    permits: Option<u32>,
    second_of_day: u32,
    seed: u64,
}

/// Runs a set of replicas, and gives what came of it as JSON. But for `replicas` all is as an experiment has it.
#[pyfunction]
#[pyo3(signature = (disk, preset, choices, answers, loads, traces, warm_up_s, duration_s, replicas, placement=None, admission=None, cleaner=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "the fields of an experiment, and what makes a set of it"
)]
#[expect(clippy::needless_pass_by_value, reason = "as the interpreter hands it over")]
pub(crate) fn run_replicas(
    py: Python<'_>,
    disk: &Disk,
    preset: &str,
    choices: &str,
    answers: Option<&str>,
    loads: &str,
    traces: Vec<PyRef<'_, Requests>>,
    warm_up_s: f64,
    duration_s: f64,
    replicas: &str,
    placement: Option<Py<PyAny>>,
    admission: Option<Py<PyAny>>,
    cleaner: Option<Py<PyAny>>,
) -> PyResult<String> {
    let brought = Brought::new(placement, admission, cleaner);
    let experiment = Experiment {
        disk: disk.disks.clone(),
        preset: Some(NamedPreset::by_name(preset).map_err(told)?),
        choices: loads::choices(choices).map_err(told)?,
        policies: brought.clone().map(|brought| brought as Arc<dyn Policies>),
        answers: answers.map(answers_of).transpose().map_err(told)?,
        loads: loads::parse(loads, &traces).map_err(told)?,
        span: span_of(warm_up_s, Some(duration_s)).map_err(told)?,
        record: false,
    };
    let set = set_of(experiment, replicas).map_err(told)?;
    let mut signals = Signals::new();
    let (ran, signals) = py.detach(|| {
        let ran = set.run(&mut || signals.go_on());
        (ran, signals)
    });
    let (outcome, unheard) = ended(ran, brought.as_deref(), signals)?;
    Ok(json_of(&outcome, unheard.as_deref()).to_string())
}

fn set_of(experiment: Experiment, replicas: &str) -> Result<Replicas, String> {
    let described: Described =
        serde_json::from_str(replicas).map_err(|error| format!("replicas: {error}"))?;
    let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
    let begins = match (described.period_s, described.window) {
        (Some(period_s), None) => Begins::Period(nanos(period_s)),
        (None, Some((start, end))) => Begins::Window(start, end),
        _ => return Err("replicas: expected a period or a window of checkpoints".to_owned()),
    };
    let Described { count, spread_s, permits, second_of_day, seed, .. } = described;
    let checkpoints = Checkpoints { begins, spread: nanos(spread_s), permits };
    Ok(Replicas { experiment, count, checkpoints, second_of_day, seed })
}

fn json_of(outcome: &QuorumOutcome, unheard: Option<&str>) -> Value {
    let counted = &outcome.counted;
    let loads: Vec<Value> =
        outcome.loads.iter().map(|load| told_of(load, outcome.measured_s)).collect();
    json!({
        "digest": format!("{:016x}", outcome.digest),
        "replies": outcome.replies,
        "measured_s": outcome.measured_s,
        "wall_s": outcome.wall_s,
        "workloads": loads,
        "quorum": counted.quorum_ns.iter().map(latencies).collect::<Vec<_>>(),
        "replica": counted.replica_ns.iter().map(latencies).collect::<Vec<_>>(),
        "at_once_s": counted.at_once.iter().map(|time| time.as_secs_f64()).collect::<Vec<_>>(),
        "passes": counted.passes,
        "logged_bytes": counted.logged_bytes,
        "checkpointed_bytes": counted.checkpointed_bytes,
        "unheard": unheard,
    })
}

/// A summary, and the histogram: of each bucket smallest and largest in ns, and how many.
fn latencies(histogram: &Histogram) -> Value {
    json!({
        "latency": LatencySummary::of(histogram),
        "buckets": histogram.buckets().collect::<Vec<_>>(),
    })
}
