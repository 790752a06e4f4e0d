//! Described workloads, as the Python half writes them down: JSON objects with their kind.

use crate::requests::{Reading, Requests};
use nearhead_sim::replay::Tempo;
use nearhead_study::{
    BulkLoad, Load, PointsLoad, RandomLoad, ReplayLoad, SpanBytes, VolumeChoices,
};
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
    DurablePoints {
        points_per_s: f64,
        writes_per_point: u32,
        write_bytes: u32,
        outstanding_points_max: u32,
        fua: bool,
        points_max: Option<u64>,
        span: Option<(u64, Option<u64>)>,
        seed: u64,
    },
    Bulk {
        write: bool,
        fua: bool,
        request_bytes: u32,
        outstanding_max: u32,
        bytes_max: Option<u64>,
        span: Option<(u64, Option<u64>)>,
    },
    RandomMix {
        request_bytes: u32,
        reads: f64,
        fua: bool,
        outstanding_max: u32,
        requests_max: Option<u64>,
        span: Option<(u64, Option<u64>)>,
        seed: u64,
    },
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
        Described::DurablePoints {
            points_per_s,
            writes_per_point,
            write_bytes,
            outstanding_points_max,
            fua,
            points_max,
            span,
            seed,
        } => Load::Points(PointsLoad {
            span: span_of(span),
            points_per_s,
            writes_per_point,
            write_bytes,
            outstanding_points_max,
            fua,
            points_max,
            seed,
        }),
        Described::Bulk { write, fua, request_bytes, outstanding_max, bytes_max, span } => {
            let span = span_of(span);
            Load::Bulk(BulkLoad { span, write, fua, request_bytes, outstanding_max, bytes_max })
        }
        Described::RandomMix {
            request_bytes,
            reads,
            fua,
            outstanding_max,
            requests_max,
            span,
            seed,
        } => Load::Random(RandomLoad {
            span: span_of(span),
            request_bytes,
            reads,
            fua,
            outstanding_max,
            requests_max,
            seed,
        }),
    })
}

fn span_of(span: Option<(u64, Option<u64>)>) -> SpanBytes {
    span.map_or_else(SpanBytes::default, |(start, end)| SpanBytes { start, end })
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

/// What a configuration may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choices {
    logged_write_bytes_max: Option<u32>,
    group_bytes: Option<u64>,
    log_bytes: Option<u64>,
    fragments: Option<bool>,
}

/// The configuration that `text` describes.
pub(crate) fn choices(text: &str) -> Result<VolumeChoices, String> {
    let choices: Choices =
        serde_json::from_str(text).map_err(|error| format!("config: {}", without_place(&error)))?;
    Ok(VolumeChoices {
        logged_write_bytes_max: choices.logged_write_bytes_max,
        group_bytes: choices.group_bytes,
        log_bytes: choices.log_bytes,
        fragments: choices.fragments,
    })
}
