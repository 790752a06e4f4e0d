//! The demo's experiment: bulk I/O beside durable points, and what a row of its result says.
//!
//! The same plan runs in virtual time and, over a socket, in real time. It never changes between
//! presets: the disk, the bulk client and the addresses of the small writes are the same for all.
//! Drive and outstanding bulk requests are the axes of a second experiment (`axes.rs`).

use crate::busy::{self, Machine};
use nearhead_disk::Nanos;
use nearhead_models::{HddModel, ModelSpec, Store};
use nearhead_sim::contention::{ContentionOptions, ContentionResults};
use nearhead_sim::workload::{BulkOptions, Content, DurablePointsOptions};
use serde::Serialize;

/// Profile of the emulated disk.
pub(crate) const DISK: &str = "st3146855fc";
/// Requests that the bulk client keeps outstanding: what the kernel's read-ahead does with a scan.
pub(crate) const OUTSTANDING: u32 = 2;
/// The presets compared, as users name them.
pub(crate) const PRESETS: [&str; 4] = ["nolog", "singlelog", "mlb", "nearhead"];
/// Durable points a second (Manylogs, MSST 2016, figure 2: 40 to 320 writes a second, 20 a point).
pub(crate) const POINTS_PER_S: [u32; 3] = [2, 8, 16];
/// Bytes that the bulk client goes over, again and again, at the start of the volume.
const BULK_SPAN_BYTES: u64 = 1 << 30;

/// What the bulk client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BulkKind {
    Read,
    Write,
}

impl BulkKind {
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Drive and bulk client of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Profile of the drive.
    pub(crate) drive: &'static str,
    pub(crate) kind: BulkKind,
    /// Requests that the bulk client keeps outstanding.
    pub(crate) outstanding: u32,
}

impl Setting {
    /// The demo's own drive and depth.
    pub(crate) fn usual(kind: BulkKind) -> Self {
        Self { drive: DISK, kind, outstanding: OUTSTANDING }
    }
}

/// How long each point takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm_up: Nanos,
    pub(crate) measured: Nanos,
}

impl Span {
    /// `seconds` in all, a seventh of it (at most 2 s) to warm up.
    pub(crate) fn of_seconds(seconds: f64) -> Self {
        let warm_up = (seconds / 7.0).min(2.0);
        let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
        Self { warm_up: nanos(warm_up), measured: nanos(seconds - warm_up) }
    }
}

/// One row of the result: a preset, a drive, a bulk client and a rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) preset: String,
    /// Profile of the drive.
    pub(crate) drive: String,
    pub(crate) bulk: BulkKind,
    /// Requests that the bulk client kept outstanding.
    pub(crate) outstanding: u32,
    pub(crate) writes_per_s: u32,
    pub(crate) bandwidth_pct: f64,
    pub(crate) durable_ms_mean: f64,
    pub(crate) durable_ms_p99: f64,
    pub(crate) limit_bandwidth_pct: f64,
    /// Durable points that were durable, a second; less than asked for if the disk cannot follow.
    pub(crate) durable_points_per_s: f64,
    /// The bulk client's bandwidth, in 10^6 bytes a second.
    pub(crate) bulk_mb_per_s: f64,
    /// Whether the machine did so much else meanwhile that the row says little; never in virtual time.
    pub(crate) machine_was_busy: bool,
    /// What was seen of the machine meanwhile; nothing in virtual time.
    pub(crate) machine: Option<Machine>,
}

impl Row {
    /// The row of `results`, with `alone_bytes_per_s` as the bandwidth of the bulk client alone on the bare disk. A failed request
    /// is an error: it was not measured.
    pub(crate) fn new(
        preset: &str,
        setting: Setting,
        points_per_s: u32,
        results: &ContentionResults,
        alone_bytes_per_s: f64,
    ) -> Result<Self, String> {
        let bulk_results = results.bulk.clone().unwrap_or_default();
        let points = results.points.clone().unwrap_or_default().points;
        if let Some(failure) = bulk_results.first_failure.or(points.first_failure) {
            return Err(format!("{preset}: expected every request to succeed, found: {failure}"));
        }
        let per_point = writes_per_point();
        Ok(Self {
            preset: preset.to_owned(),
            drive: setting.drive.to_owned(),
            bulk: setting.kind,
            outstanding: setting.outstanding,
            writes_per_s: points_per_s * per_point,
            bandwidth_pct: 100.0 * bulk_results.bytes_per_s / alone_bytes_per_s,
            durable_ms_mean: points.latency.mean_ms,
            durable_ms_p99: points.latency.p99_ms,
            limit_bandwidth_pct: limit_pct(points_per_s, alone_bytes_per_s),
            durable_points_per_s: points.requests_per_s,
            bulk_mb_per_s: bulk_results.bytes_per_s / 1e6,
            machine_was_busy: false,
            machine: None,
        })
    }

    /// The row, measured in real time on `machine`.
    pub(crate) fn on(self, machine: Machine) -> Self {
        let machine_was_busy = !busy::judge(&machine).is_empty();
        Self { machine_was_busy, machine: Some(machine), ..self }
    }
}

/// What the bulk client could keep if a durable point cost the disk the transfer of its bytes and
/// nothing else: no seek, no rotation, no header.
fn limit_pct(points_per_s: u32, alone_bytes_per_s: f64) -> f64 {
    let bytes_per_s = f64::from(points_per_s * writes_per_point()) * 4096.0;
    100.0 * (1.0 - bytes_per_s / alone_bytes_per_s).max(0.0)
}

fn writes_per_point() -> u32 {
    DurablePointsOptions::of_twenty(0..1, 1.0).writes_per_point
}

/// The clients: bulk at the start of the `size_bytes`, small writes scattered over all the rest.
pub(crate) fn clients(
    setting: Setting,
    points_per_s: Option<u32>,
    size_bytes: u64,
    content: &Content,
    span: Span,
) -> ContentionOptions {
    let bulk_end = BULK_SPAN_BYTES.min(size_bytes / 4);
    let bulk = match setting.kind {
        BulkKind::Read => BulkOptions::reader(0..bulk_end),
        BulkKind::Write => BulkOptions::writer(0..bulk_end, content.clone()),
    };
    let bulk = BulkOptions { outstanding_max: setting.outstanding, ..bulk };
    let points = points_per_s.map(|rate| {
        let options = DurablePointsOptions::of_twenty(bulk_end..size_bytes, f64::from(rate));
        DurablePointsOptions { content: content.clone(), ..options }
    });
    ContentionOptions { bulk: Some(bulk), points, warm_up: span.warm_up, duration: span.measured }
}

/// The demo's own disk, its write cache off, keeping its bytes in `store`.
pub(crate) fn disk(store: Box<dyn Store>) -> Result<HddModel, String> {
    disk_of(DISK, store)
}

/// A disk with the profile `drive`, its write cache off, keeping its bytes in `store`.
pub(crate) fn disk_of(drive: &str, store: Box<dyn Store>) -> Result<HddModel, String> {
    let mut spec = ModelSpec::parse(drive).map_err(|error| error.to_string())?;
    spec.options.write_cache = Some(false);
    let profile = spec.drive.parts().ok_or("a disk of the demo has no moving parts")?;
    HddModel::new(profile, store, spec.options).map_err(|error| error.to_string())
}
