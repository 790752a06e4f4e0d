//! The figures of a trace that need no memory of its addresses: one pass, constant memory.

use super::{Counts, Format, TraceError, TraceReader, TraceRequest};
use nearhead_disk::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// Devices told apart; requests to further ones are counted in the totals only.
const DEVICES_MAX: usize = 1 << 16;

/// What is in a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The format's name.
    pub format: String,
    /// What became of its lines.
    pub counts: Counts,
    /// Reads, writes, and flushes alone.
    pub requests: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, alone or before a write.
    pub flushes: u64,
    /// Writes with FUA.
    pub fua_writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Writes of at most 32 KiB.
    pub writes_to_32_kib: u64,
    /// Writes of at most 256 KiB.
    pub writes_to_256_kib: u64,
    /// Different devices, at most 65,536.
    pub devices: usize,
    /// From the first arrival to the last.
    pub duration_s: f64,
    /// End of the last byte touched on any device: what [`super::AddressFit::Scale`] needs.
    pub span_bytes: u64,
    /// Sum over all devices of the end of the last byte touched.
    pub span_bytes_all_devices: u64,
    /// Requests that start where the previous one to the same device ended.
    pub sequential: u64,
}

/// Reads `trace` to its end.
pub fn summarize(trace: &mut TraceReader) -> Result<Summary, TraceError> {
    let mut summary = Summary {
        format: Format::name(trace.format()).to_owned(),
        counts: Counts::default(),
        requests: 0,
        writes: 0,
        flushes: 0,
        fua_writes: 0,
        read_bytes: 0,
        write_bytes: 0,
        writes_to_32_kib: 0,
        writes_to_256_kib: 0,
        devices: 0,
        duration_s: 0.0,
        span_bytes: 0,
        span_bytes_all_devices: 0,
        sequential: 0,
    };
    let mut devices = BTreeMap::new();
    let mut latest = Nanos::ZERO;
    for request in &mut *trace {
        let request = request?;
        latest = request.at;
        count(&mut summary, &request);
        if request.len_bytes > 0
            && (devices.len() < DEVICES_MAX || devices.contains_key(&request.device))
        {
            let (end, previous) = devices.entry(request.device).or_insert((0, None));
            summary.sequential += u64::from(*previous == Some(request.offset_bytes));
            *previous = Some(request.end_bytes());
            *end = request.end_bytes().max(*end);
        }
    }
    summary.counts = trace.counts();
    summary.devices = devices.len();
    summary.duration_s = latest.as_secs_f64();
    summary.span_bytes_all_devices =
        devices.values().fold(0, |sum: u64, (end, _)| sum.saturating_add(*end));
    Ok(summary)
}

fn count(summary: &mut Summary, request: &TraceRequest) {
    let len = u64::from(request.len_bytes);
    summary.requests += 1;
    summary.span_bytes = summary.span_bytes.max(request.end_bytes());
    summary.flushes += u64::from(request.flush);
    summary.fua_writes += u64::from(request.fua);
    if len == 0 {
        return;
    }
    if request.write {
        summary.writes += 1;
        summary.write_bytes = summary.write_bytes.saturating_add(len);
        summary.writes_to_32_kib += u64::from(len <= 32 << 10);
        summary.writes_to_256_kib += u64::from(len <= 256 << 10);
    } else {
        summary.read_bytes = summary.read_bytes.saturating_add(len);
    }
}
