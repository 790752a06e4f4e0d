//! What a workload counts.

use crate::LatencySummary;
use nearhead_basics::Histogram;
use nearhead_disk::{Nanos, Payload};
use nearhead_service::RequestError;
use serde::{Deserialize, Serialize};

/// Requests, bytes and latencies since the measurement began.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that succeeded.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Requests that failed; they count nowhere else.
    pub failed: u64,
    /// What the first failure said.
    pub first_failure: Option<String>,
    /// From issue to reply, in nanoseconds.
    pub latency: Histogram,
    /// When the measurement began.
    pub since: Nanos,
}

impl Tally {
    /// Books the reply, at `now`, to a request of `bytes` issued at `issued`.
    pub fn book(
        &mut self,
        result: &Result<Vec<Payload>, RequestError>,
        bytes: u64,
        issued: Nanos,
        now: Nanos,
    ) {
        match result {
            Ok(_) => {
                self.requests += 1;
                self.bytes += bytes;
                self.latency.record((now - issued).0);
            }
            Err(error) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| error.detail.clone());
            }
        }
    }

    /// Starts again at `now`.
    pub fn restart(&mut self, now: Nanos) {
        *self = Self { since: now, ..Self::default() };
    }

    /// The figures at `now`.
    pub fn summary(&self, now: Nanos) -> TallySummary {
        let measured_s = (now - self.since).as_secs_f64();
        let per_second = |amount: u64| {
            if measured_s > 0.0 { amount as f64 / measured_s } else { 0.0 }
        };
        TallySummary {
            requests: self.requests,
            bytes: self.bytes,
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            measured_s,
            requests_per_s: per_second(self.requests),
            bytes_per_s: per_second(self.bytes),
            latency: LatencySummary::of(&self.latency),
        }
    }
}

/// The figures of one workload over a measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TallySummary {
    /// Requests that succeeded.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// What the first failure said.
    pub first_failure: Option<String>,
    /// Length of the measurement.
    pub measured_s: f64,
    /// Successful requests a second.
    pub requests_per_s: f64,
    /// Bandwidth.
    pub bytes_per_s: f64,
    /// From issue to reply, in nanoseconds.
    pub latency: LatencySummary,
}
