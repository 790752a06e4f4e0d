//! Described workloads, as the Python half writes them down: JSON objects with their kind.

use crate::requests::{Reading, Requests};
use nearhead_sim::replay::Tempo;
use nearhead_study::{BulkLoad, Load, PointsLoad, RandomLoad, ReplayLoad, VolumeChoices};
use pyo3::PyRef;
use serde::Deserialize;

/// A workload.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Described {
    Trace {
        /// Which of the traces that come along.
        trace: usize,
        reading: Reading,
        tempo: Option<String>,
        outstanding_max: u32,
    },
    DurablePoints(PointsLoad),
    Bulk(BulkLoad),
    RandomMix(RandomLoad),
}

/// The workloads that `text` describes, with these traces.
pub(crate) fn parse(text: &str, traces: &[PyRef<'_, Requests>]) -> Result<Vec<Load>, String> {
    let described: Vec<Described> = serde_json::from_str(text)
        .map_err(|error| format!("workload: {}", without_place(&error)))?;
    described.into_iter().map(|one| load(one, traces)).collect()
}

/// What is wrong; where in a text that nobody wrote says nothing.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn load(described: Described, traces: &[PyRef<'_, Requests>]) -> Result<Load, String> {
    Ok(match described {
        Described::Trace { trace, reading, tempo, outstanding_max } => {
            let requests = traces.get(trace).ok_or("workload: expected a trace, found none")?;
            Load::Replay(ReplayLoad {
                requests: requests.requests.clone(),
                options: reading.options()?,
                tempo: tempo.as_deref().map(tempo_of).transpose()?,
                outstanding_max,
            })
        }
        Described::DurablePoints(load) => Load::Points(load),
        Described::Bulk(load) => Load::Bulk(load),
        Described::RandomMix(load) => Load::Random(load),
    })
}

fn tempo_of(name: &str) -> Result<Tempo, String> {
    Ok(match name {
        "open" => Tempo::OpenLoop,
        "chained" => Tempo::Chained,
        "closed" => Tempo::ClosedLoop,
        "bursts" => Tempo::Bursts,
        found => {
            return Err(format!(
                "trace: expected tempo \"open\", \"chained\", \"closed\" or \"bursts\", found {found:?}"
            ));
        }
    })
}

/// The configuration that `text` describes.
pub(crate) fn choices(text: &str) -> Result<VolumeChoices, String> {
    serde_json::from_str(text).map_err(|error| format!("config: {}", without_place(&error)))
}
