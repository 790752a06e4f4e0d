//! What a log measures about itself: latencies, batch sizes, stalls. Fixed memory, whatever happens.

use nearhead_basics::Histogram;
use std::time::Duration;

/// A duration as a [`Histogram`] counts it.
pub(crate) fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a log has done since it was opened.
#[derive(Clone, Debug, Default)]
pub struct LogMetrics {
    /// Nanoseconds from append to durable, of each record.
    pub append_latency_ns: Histogram,
    /// Nanoseconds of each durable write.
    pub write_latency_ns: Histogram,
    /// Records of each durable write.
    pub batch_records: Histogram,
    /// Bytes of each durable write.
    pub batch_bytes: Histogram,
    /// Appends that waited for room in memory.
    pub stalls_for_memory: u64,
    /// Appends that waited for a segment to be made ready.
    pub stalls_for_segment: u64,
    /// How long appends waited in all.
    pub stalled: Duration,
}
