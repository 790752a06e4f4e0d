//! Workloads as they are described, before it is known on how large a disk they run.
//!
//! What cannot be meant is refused here, with what was expected and found: a generator with impossible options would just do nothing.

use crate::requests::Requests;
use nearhead_disk::Nanos;
use nearhead_service::ServiceInfo;
use nearhead_sim::replay::Tempo;
use nearhead_sim::trace::TraceOptions;
use nearhead_sim::workload::{
    BulkOptions, Content, DurableBy, DurablePointsOptions, RandomMixOptions,
};
use serde::Deserialize;
use std::ops::Range;

/// Requests of a workload under way at once, at most.
const OUTSTANDING_MAX: u32 = 1 << 16;

/// Bytes of a volume or disk: from one to another, or to its end. Written down as that pair, or as nothing for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<(u64, Option<u64>)>")]
pub struct SpanBytes {
    /// The first.
    pub start: u64,
    /// Behind the last; `None` at the end.
    pub end: Option<u64>,
}

impl From<Option<(u64, Option<u64>)>> for SpanBytes {
    fn from(written: Option<(u64, Option<u64>)>) -> Self {
        written.map_or_else(Self::default, |(start, end)| Self { start, end })
    }
}

/// A workload, described.
#[derive(Clone, Debug)]
pub enum Load {
    /// A trace.
    Replay(ReplayLoad),
    /// Small scattered writes made durable at a rate.
    Points(PointsLoad),
    /// A sequential stream.
    Bulk(BulkLoad),
    /// Random reads and writes, a number of them under way.
    Random(RandomLoad),
}

/// A trace, played.
#[derive(Clone, Debug)]
pub struct ReplayLoad {
    /// Its requests.
    pub requests: Requests,
    /// How it is read; of the address only what happens to requests past the end.
    pub options: TraceOptions,
    /// When requests are issued; `None` as its form suggests.
    pub tempo: Option<Tempo>,
    /// Most requests under way at once.
    pub outstanding_max: u32,
}

/// [`DurablePointsOptions`] on some of a disk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointsLoad {
    /// Where writes go.
    pub span: SpanBytes,
    /// Points a second.
    pub points_per_s: f64,
    /// Writes of a point.
    pub writes_per_point: u32,
    /// Size of a write.
    pub write_bytes: u32,
    /// Most points under way at once.
    pub outstanding_points_max: u32,
    /// Whether each write carries FUA; else a flush follows them.
    pub fua: bool,
    /// Stop after that many.
    pub points_max: Option<u64>,
    /// Of the addresses.
    pub seed: u64,
}

/// [`BulkOptions`] on some of a disk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkLoad {
    /// Bytes it goes over.
    pub span: SpanBytes,
    /// Write or read.
    pub write: bool,
    /// Whether each write must be durable before its reply.
    pub fua: bool,
    /// Size of a request.
    pub request_bytes: u32,
    /// Requests kept outstanding.
    pub outstanding_max: u32,
    /// Stop after that many bytes.
    pub bytes_max: Option<u64>,
}

/// [`RandomMixOptions`] on some of a disk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomLoad {
    /// Where requests go.
    pub span: SpanBytes,
    /// Size of a request.
    pub request_bytes: u32,
    /// Share of reads, 0 to 1.
    pub reads: f64,
    /// Whether each write must be durable before its reply.
    pub fua: bool,
    /// Requests kept outstanding.
    pub outstanding_max: u32,
    /// Stop after that many.
    pub requests_max: Option<u64>,
    /// Of addresses and of which are reads.
    pub seed: u64,
}

impl Load {
    /// What it is called in results.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Replay(_) => "trace",
            Self::Points(_) => "durable_points",
            Self::Bulk(_) => "bulk",
            Self::Random(_) => "random_mix",
        }
    }

    /// Whether it comes to an end by itself.
    pub fn ends(&self) -> bool {
        match self {
            Self::Replay(_) => true,
            Self::Points(load) => load.points_max.is_some(),
            Self::Bulk(load) => load.bytes_max.is_some(),
            Self::Random(load) => load.requests_max.is_some(),
        }
    }
}

impl SpanBytes {
    /// On what `info` tells of, with room for a request of `request_bytes`.
    fn on(self, info: &ServiceInfo, request_bytes: u32, what: &str) -> Result<Range<u64>, String> {
        let block_bytes = u64::from(info.block_bytes_min);
        let span = self.start..self.end.unwrap_or(info.size_bytes);
        let has_room =
            span.start.checked_add(request_bytes.into()).is_some_and(|to| to <= span.end);
        if !has_room || span.end > info.size_bytes {
            return Err(format!(
                "{what}: expected a span within the {} bytes there are, and with room for {request_bytes} of them, found {} to {}",
                info.size_bytes, span.start, span.end
            ));
        }
        if span.start % block_bytes != 0 || span.end % block_bytes != 0 {
            return Err(format!(
                "{what}: expected a span in steps of {block_bytes} bytes, found {} to {}",
                span.start, span.end
            ));
        }
        Ok(span)
    }
}

impl PointsLoad {
    pub(crate) fn on(&self, info: &ServiceInfo) -> Result<DurablePointsOptions, String> {
        let what = "durable points";
        let is_rate = self.points_per_s.is_finite() && self.points_per_s > 0.0;
        if !is_rate {
            let found = self.points_per_s;
            return Err(format!("{what}: expected points a second above 0, found {found}"));
        }
        check_bytes(what, self.write_bytes, info)?;
        check_count(what, "writes of a point", self.writes_per_point)?;
        check_count(what, "points under way", self.outstanding_points_max)?;
        let writes_under_way = self.writes_per_point.saturating_mul(self.outstanding_points_max);
        check_count(what, "writes under way", writes_under_way)?;
        Ok(DurablePointsOptions {
            span: self.span.on(info, self.write_bytes, what)?,
            writes_per_point: self.writes_per_point,
            write_bytes: self.write_bytes,
            points_per_s: self.points_per_s,
            outstanding_points_max: self.outstanding_points_max,
            durable_by: if self.fua { DurableBy::Fua } else { DurableBy::Flush },
            first_at: Nanos::ZERO,
            points_max: self.points_max,
            content: Content::Phantom,
            seed: self.seed,
        })
    }
}

impl BulkLoad {
    pub(crate) fn on(&self, info: &ServiceInfo) -> Result<BulkOptions, String> {
        let block_bytes = u64::from(info.block_bytes_min);
        check_bytes("bulk", self.request_bytes, info)?;
        check_count("bulk", "requests under way", self.outstanding_max)?;
        if let Some(bytes) = self.bytes_max.filter(|bytes| bytes % block_bytes != 0) {
            return Err(format!(
                "bulk: expected bytes in all in steps of {block_bytes}, found {bytes}"
            ));
        }
        Ok(BulkOptions {
            write: self.write,
            fua: self.fua,
            span: self.span.on(info, self.request_bytes, "bulk")?,
            request_bytes: self.request_bytes,
            outstanding_max: self.outstanding_max,
            bytes_max: self.bytes_max,
            content: Content::Phantom,
        })
    }
}

impl RandomLoad {
    pub(crate) fn on(&self, info: &ServiceInfo) -> Result<RandomMixOptions, String> {
        let what = "random mix";
        check_bytes(what, self.request_bytes, info)?;
        check_count(what, "requests under way", self.outstanding_max)?;
        if !(0.0..=1.0).contains(&self.reads) {
            let found = self.reads;
            return Err(format!("{what}: expected a share of reads from 0 to 1, found {found}"));
        }
        Ok(RandomMixOptions {
            span: self.span.on(info, self.request_bytes, what)?,
            request_bytes: self.request_bytes,
            reads: self.reads,
            fua: self.fua,
            outstanding_max: self.outstanding_max,
            requests_max: self.requests_max,
            content: Content::Phantom,
            seed: self.seed,
        })
    }
}

impl ReplayLoad {
    pub(crate) fn check(&self) -> Result<(), String> {
        check_count("trace", "requests under way", self.outstanding_max)
    }
}

fn check_bytes(what: &str, bytes: u32, info: &ServiceInfo) -> Result<(), String> {
    let (min, max) = (info.block_bytes_min, info.request_bytes_max);
    if bytes == 0 || !bytes.is_multiple_of(min) || bytes > max {
        return Err(format!(
            "{what}: expected requests of {min} to {max} bytes in steps of {min}, found {bytes}"
        ));
    }
    Ok(())
}

fn check_count(what: &str, of: &str, count: u32) -> Result<(), String> {
    if count == 0 || count > OUTSTANDING_MAX {
        return Err(format!("{what}: expected 1 to {OUTSTANDING_MAX} {of}, found {count}"));
    }
    Ok(())
}
