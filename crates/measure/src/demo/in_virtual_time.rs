//! The experiment in virtual time, data-less: the same engine and disk model, no socket, no clock.
//!
//! It shows within a moment what the real-time run must come to, minus the machine's own delays.

use super::experiment::{self, BulkKind, Span};
use nearhead_disk::Disk;
use nearhead_models::Dataless;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::contention::{self, ContentionResults};
use nearhead_sim::workload::Content;
use nearhead_study::{Made, dataless};
use nearhead_volume::{BareDisk, NamedPreset, Volume};

/// The bulk client's bandwidth on the bare disk, in bytes a second.
pub(crate) fn alone(kind: BulkKind, span: Span) -> Result<f64, String> {
    let mut service = BareDisk::new(experiment::disk(Box::new(Dataless))?);
    let results = run(&mut service, kind, None, span)?;
    Ok(results.bulk.unwrap_or_default().bytes_per_s)
}

/// One point, on a fresh volume with `preset`.
pub(crate) fn point(
    preset: NamedPreset,
    kind: BulkKind,
    points_per_s: u32,
    span: Span,
) -> Result<ContentionResults, String> {
    let disk = experiment::disk(Box::new(Dataless))?;
    run(&mut volume(preset, disk)?, kind, Some(points_per_s), span)
}

/// A fresh volume on `disk`, the demo's or one that stands before it.
pub(crate) fn volume<D: Disk>(preset: NamedPreset, disk: D) -> Result<Volume<D>, String> {
    let tracks = dataless::tracks(&preset, &mut experiment::disk(Box::new(Dataless))?)?;
    let disk = Made { tracks, ..Made::from(disk) };
    dataless::volume(disk, preset, dataless::Answers::OnFlush)
}

/// Lets the clients work on `service`.
pub(crate) fn run<S: Service>(
    service: &mut S,
    kind: BulkKind,
    points_per_s: Option<u32>,
    span: Span,
) -> Result<ContentionResults, String> {
    let size_bytes = service.info().size_bytes;
    let options = experiment::clients(kind, points_per_s, size_bytes, &Content::Phantom, span);
    contention::run(service, &mut VirtualTime::default(), &options)
        .map_err(|error| error.to_string())
}
