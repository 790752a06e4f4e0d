//! What a replay reports.

use crate::LatencySummary;
use crate::trace::Counts;
use serde::{Deserialize, Serialize};

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Requests that succeeded.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From arrival to reply.
    pub latency: LatencySummary,
}

/// The figures of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayResults {
    /// The trace's name.
    pub trace: String,
    /// Its format's name.
    pub format: String,
    /// What became of its lines.
    pub lines: Counts,
    /// Whether the next request waited for the last.
    pub closed_loop: bool,
    /// Requests issued.
    pub requests: u64,
    /// Requests that failed; they count in no share.
    pub failed: u64,
    /// What the first failure said.
    pub first_failure: Option<String>,
    /// Everything that succeeded.
    pub all: Share,
    /// Reads.
    pub reads: Share,
    /// Writes.
    pub writes: Share,
    /// Requests of at most this many bytes are small.
    pub small_bytes_max: u32,
    /// Small reads.
    pub small_reads: Share,
    /// Other reads.
    pub large_reads: Share,
    /// Small writes.
    pub small_writes: Share,
    /// Other writes.
    pub large_writes: Share,
    /// Most requests handed to the service at once.
    pub outstanding_max: u32,
    /// Arrivals that found that many outstanding and had to wait.
    pub delayed_requests: u64,
    /// Longest such wait.
    pub lag_max_ms: f64,
    /// Wait of the last request: near zero if the service kept up, about the length of the overload
    /// if it did not.
    pub lag_at_end_ms: f64,
    /// Response times in the trace, where it has them.
    pub measured: Option<LatencySummary>,
    /// Distance of the replay's latency distribution from the measured one, in percent of the
    /// measured mean ([`crate::latency::demerit_pct`]); for requests the trace has both of.
    pub demerit_pct: Option<f64>,
    /// From the first to the last arrival in the trace.
    pub trace_s: f64,
    /// From the start of the replay to the last reply.
    pub simulated_s: f64,
    /// Successful requests a simulated second.
    pub requests_per_s: f64,
    /// Bytes a simulated second.
    pub bytes_per_s: f64,
    /// Real time it took.
    pub wall_s: f64,
    /// Requests a second of real time: the speed of the simulation.
    pub requests_per_wall_s: f64,
}

/// The last reply may come so much later than the last arrival, ...
const LATE_S_MAX: f64 = 1.0;
/// ... or this share of the trace.
const LATE_SHARE_MAX: f64 = 0.01;

impl ReplayResults {
    /// Whether the service followed the trace: the last reply came soon after the last arrival. Latencies of one that did not
    /// are those of a backlog, which grows with the length of the trace.
    pub fn kept_up(&self) -> bool {
        let late_s = self.simulated_s - self.trace_s;
        self.closed_loop || late_s <= LATE_S_MAX.max(LATE_SHARE_MAX * self.trace_s)
    }
}
