//! What a report says of requests: how long they took, and how many of which kind and size there were.

use super::{Distribution, Sizes};
use nearhead_basics::Histogram;
use nearhead_sim::LatencySummary;
use serde::{Deserialize, Serialize};

/// Latencies since the start, from the whole request to its reply. Of a mounted file system those of the volume under it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Writes answered only when durable, and flushes.
    pub durable: Latency,
    /// Writes answered early.
    pub write: Latency,
    /// Reads.
    pub read: Latency,
}

impl Latencies {
    /// Each with the word for it.
    pub fn kinds(&self) -> [(&'static str, &Latency); 3] {
        [("durable", &self.durable), ("write", &self.write), ("read", &self.read)]
    }
}

/// Latencies of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// In few numbers.
    #[serde(flatten)]
    pub summary: LatencySummary,
    /// How they are spread, in nanoseconds.
    #[serde(default)]
    pub times_ns: Distribution,
}

impl Latency {
    /// Of latencies in nanoseconds.
    pub fn of(latencies: &Histogram) -> Self {
        Self { summary: LatencySummary::of(latencies), times_ns: Distribution::of_times(latencies) }
    }
}

/// Requests by kind since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCounts {
    /// Reads.
    pub reads: u64,
    /// Sizes of the reads, in bytes.
    pub read_bytes: Distribution,
    /// Writes.
    pub writes: u64,
    /// Sizes of the writes, in bytes.
    pub written_bytes: Distribution,
    /// Flushes.
    pub flushes: u64,
    /// Trims and writes of zeros.
    pub trims: u64,
}

impl RequestCounts {
    /// Of these sizes.
    pub fn of(read: &Sizes, written: &Sizes, flushes: u64, trims: u64) -> Self {
        Self {
            reads: read.count(),
            read_bytes: read.distribution(),
            writes: written.count(),
            written_bytes: written.distribution(),
            flushes,
            trims,
        }
    }
}
