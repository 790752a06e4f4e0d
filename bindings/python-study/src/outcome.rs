//! What an experiment came to, for Python: figures as JSON, percentiles and buckets of each class, columns of requests and transfers.

use crate::told;
use nearhead_basics::Histogram;
use nearhead_sim::LatencySummary;
use nearhead_study::{ClassOutcome, LoadOutcome};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Map, Value, json};
use zerocopy::IntoBytes;

/// An outcome.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct Outcome {
    outcome: nearhead_study::Outcome,
    /// Which policy in Python never had a say, if one had none.
    unheard: Option<String>,
}

impl Outcome {
    pub(crate) fn new(outcome: nearhead_study::Outcome, unheard: Option<String>) -> Self {
        Self { outcome, unheard }
    }

    fn latency(&self, load: usize, class: &str) -> PyResult<&Histogram> {
        let found = self.outcome.loads.get(load).ok_or_else(|| {
            let count = self.outcome.loads.len();
            told(format!("result: expected one of {count} workloads, found number {load}"))
        })?;
        let found = found.classes.iter().find(|known| known.name == class).ok_or_else(|| {
            let names: Vec<_> = found.classes.iter().map(|known| known.name).collect();
            told(format!("result: expected a class of {}, found {class:?}", names.join(", ")))
        })?;
        Ok(&found.latency_ns)
    }
}

#[pymethods]
impl Outcome {
    /// All figures.
    fn json(&self) -> PyResult<String> {
        let outcome = &self.outcome;
        let times = &outcome.times;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let volume = outcome.volume.as_ref().map(|volume| {
            let counters =
                volume.counters.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
            json!({
                "preset": volume.preset,
                "logged_write_bytes_max": volume.logged_write_bytes_max,
                "counters": counters.collect::<Map<_, _>>(),
                "log_fill_pct": volume.log_fill_pct,
                "logs": volume.logs,
                "logs_claimed": volume.logs_claimed,
                "map_entries": volume.map_entries,
                "map_bytes": volume.map_bytes,
            })
        });
        let loads: Vec<Value> =
            outcome.loads.iter().map(|load| told_of(load, outcome.measured_s)).collect();
        let figures = json!({
            "disk": outcome.disk,
            "size_bytes": outcome.size_bytes,
            "ack": if outcome.every_reply_is_durable { "durable" } else { "flush" },
            "digest": format!("{:016x}", outcome.digest),
            "replies": outcome.replies,
            "simulated_s": outcome.simulated_s,
            "measured_s": outcome.measured_s,
            "wall_s": outcome.wall_s,
            "workloads": loads,
            "volume": volume,
            "disk_report": serde_json::to_value(&outcome.report).map_err(told)?,
            "commands": outcome.commands,
            "ablation": {
                "seek_s": seconds(times.seek),
                "rotation_s": seconds(times.rotation),
                "transfer_s": seconds(times.transfer),
                "queueing_s": seconds(times.queueing),
                "response_s": seconds(times.response),
            },
        });
        Ok(figures.to_string())
    }

    /// The latency that each of these percentages of a class do not exceed, in ms.
    fn percentiles(&self, load: usize, class: &str, percents: Vec<f64>) -> PyResult<Vec<f64>> {
        if let Some(wrong) = percents.iter().find(|percent| !(0.0..=100.0).contains(*percent)) {
            return Err(told(format!("result: expected percentages from 0 to 100, found {wrong}")));
        }
        let latency = self.latency(load, class)?;
        Ok(percents.into_iter().map(|percent| latency.percentile(percent) as f64 / 1e6).collect())
    }

    /// The histogram of a class: of each bucket that holds anything smallest and largest latency in ns, and how many.
    fn buckets(&self, load: usize, class: &str) -> PyResult<Vec<(u64, u64, u64)>> {
        Ok(self.latency(load, class)?.buckets().collect())
    }

    /// Every request, by columns; none if they were not written down.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(recorded) = &self.outcome.recorded else { return Ok(None) };
        let dict = PyDict::new(py);
        for (name, bytes) in [
            ("workload", recorded.load.as_bytes()),
            ("operation", recorded.operation.as_bytes()),
            ("fua", recorded.fua.as_bytes()),
            ("failed", recorded.failed.as_bytes()),
            ("offset_bytes", recorded.offset_bytes.as_bytes()),
            ("len_bytes", recorded.len_bytes.as_bytes()),
            ("due_ns", recorded.due_ns.as_bytes()),
            ("issued_ns", recorded.issued_ns.as_bytes()),
            ("answered_ns", recorded.answered_ns.as_bytes()),
        ] {
            dict.set_item(name, PyBytes::new(py, bytes))?;
        }
        Ok(Some(dict))
    }

    /// Every transfer of the disk, by columns; none if they were not written down.
    fn head_path<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(visits) = &self.outcome.visits else { return Ok(None) };
        let dict = PyDict::new(py);
        for (name, bytes) in [
            ("submitted_ns", visits.submitted_ns.as_bytes()),
            ("completed_ns", visits.completed_ns.as_bytes()),
            ("offset_bytes", visits.offset_bytes.as_bytes()),
            ("len_bytes", visits.len_bytes.as_bytes()),
            ("write", visits.write.as_bytes()),
            ("priority", visits.class.as_bytes()),
        ] {
            dict.set_item(name, PyBytes::new(py, bytes))?;
        }
        if let Some(device) = &visits.device {
            dict.set_item("device", PyBytes::new(py, device))?;
        }
        Ok(Some(dict))
    }

    /// Which policy in Python never had a say, if one had none.
    fn unheard(&self) -> Option<&str> {
        self.unheard.as_deref()
    }

    /// Requests and transfers that were not written down any more, as there were too many.
    fn left_out(&self) -> (u64, u64) {
        let requests = self.outcome.recorded.as_ref().map_or(0, |recorded| recorded.left_out);
        (requests, self.outcome.visits.as_ref().map_or(0, |visits| visits.left_out))
    }
}

pub(crate) fn told_of(load: &LoadOutcome, measured_s: f64) -> Value {
    let classes =
        load.classes.iter().map(|class| (class.name.to_owned(), class_told(class, measured_s)));
    json!({ "kind": load.kind, "classes": classes.collect::<Map<_, _>>(), "facts": load.facts })
}

fn class_told(class: &ClassOutcome, measured_s: f64) -> Value {
    let per_s = |amount: u64| if measured_s > 0.0 { amount as f64 / measured_s } else { 0.0 };
    json!({
        "requests": class.requests,
        "bytes": class.bytes,
        "failed": class.failed,
        "first_failure": class.first_failure,
        "requests_per_s": per_s(class.requests),
        "bytes_per_s": per_s(class.bytes),
        "latency": LatencySummary::of(&class.latency_ns),
    })
}
