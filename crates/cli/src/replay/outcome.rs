//! What one preset made of a trace.

use nearhead_disk::Disk;
use nearhead_models::MODEL_PREFIX;
use nearhead_sim::LatencySummary;
use nearhead_sim::replay::ReplayResults;
use nearhead_volume::{NamedPreset, Volume};
use serde::Serialize;

/// The replay's figures with those of the engine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) preset: String,
    pub(super) disk: String,
    /// Over the first preset; `None` without latencies to compare.
    pub(super) speed_up: Option<f64>,
    /// Whether it followed the trace; else its latencies are those of a growing backlog.
    pub(super) kept_up: bool,
    pub(super) logged_bytes: u64,
    pub(super) in_place_bytes: u64,
    pub(super) records: u64,
    pub(super) record_bytes: u64,
    pub(super) swaps: u64,
    pub(super) spills: u64,
    pub(super) checkpointed_bytes: u64,
    pub(super) snapshots: u64,
    pub(super) log_fill_pct: u32,
    pub(super) logs_claimed: u32,
    pub(super) map_entries: u64,
    pub(super) map_memory_bytes: u64,
    /// Virtual seconds for each second of real time.
    pub(super) times_real_time: f64,
    #[serde(flatten)]
    pub(super) results: ReplayResults,
}

impl Outcome {
    pub(super) fn new<D: Disk>(
        preset: NamedPreset,
        volume: &Volume<D>,
        results: ReplayResults,
    ) -> Self {
        let status = volume.status();
        let name = volume.disk().properties().name.as_str();
        Self {
            preset: preset.name.to_owned(),
            disk: name.strip_prefix(MODEL_PREFIX).unwrap_or(name).to_owned(),
            speed_up: None,
            kept_up: results.kept_up(),
            logged_bytes: status.stats.logged_bytes,
            in_place_bytes: status.stats.in_place_bytes,
            records: status.stats.records,
            record_bytes: status.stats.record_bytes,
            swaps: status.stats.swaps,
            spills: status.stats.spills,
            checkpointed_bytes: status.stats.checkpointed_bytes,
            snapshots: status.stats.snapshots,
            log_fill_pct: status.log_fill_pct,
            logs_claimed: status.logs_claimed,
            map_entries: status.map_entries,
            map_memory_bytes: status.map_bytes,
            times_real_time: results.simulated_s / results.wall_s.max(1e-9),
            results,
        }
    }

    /// The mean, over the percentiles reported, of how many times faster this is than `first`: the
    /// measure of Manylogs (MSST 2016, figure 6), all requests of the trace taken together.
    pub(super) fn speed_up_over(&self, first: &Self) -> Option<f64> {
        let ratios: Vec<f64> = percentiles(&first.results.all.latency)
            .into_iter()
            .zip(percentiles(&self.results.all.latency))
            .filter(|(_, ours)| *ours > 0.0)
            .map(|(theirs, ours)| theirs / ours)
            .collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

fn percentiles(latency: &LatencySummary) -> [f64; 5] {
    [latency.p50_ms, latency.p90_ms, latency.p95_ms, latency.p99_ms, latency.p999_ms]
}
