//! The experiment in virtual time, data-less: the same engine and disk model, no socket, no clock.
//!
//! It gives within a moment the result of the real-time run, minus the machine's own delays.

use super::experiment::{self, BulkKind, Setting, Span};
use nearhead_disk::{Disk, Tracks};
use nearhead_models::Dataless;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::contention::{self, ContentionResults};
use nearhead_sim::workload::Content;
use nearhead_study::{Made, dataless};
use nearhead_volume::{BareDisk, NamedPreset, Volume};
use std::sync::Arc;

/// The bulk client's bandwidth on the bare disk, in bytes a second.
pub(crate) fn alone(kind: BulkKind, span: Span) -> Result<f64, String> {
    alone_on(Setting::usual(kind), span)
}

/// The same on any drive, with any number of requests outstanding.
pub(crate) fn alone_on(setting: Setting, span: Span) -> Result<f64, String> {
    let mut service = BareDisk::new(experiment::disk_of(setting.drive, Box::new(Dataless))?);
    let results = run(&mut service, setting, None, span)?;
    Ok(results.bulk.unwrap_or_default().bytes_per_s)
}

/// One point, on a fresh volume with `preset`.
pub(crate) fn point(
    preset: NamedPreset,
    kind: BulkKind,
    points_per_s: u32,
    span: Span,
) -> Result<ContentionResults, String> {
    let setting = Setting::usual(kind);
    point_on(setting, preset, &tracks(setting.drive, preset)?, points_per_s, span)
}

/// The same on any drive, with any number of bulk requests outstanding.
pub(crate) fn point_on(
    setting: Setting,
    preset: NamedPreset,
    tracks: &[Arc<Tracks>],
    points_per_s: u32,
    span: Span,
) -> Result<ContentionResults, String> {
    let disk = experiment::disk_of(setting.drive, Box::new(Dataless))?;
    run(&mut volume(preset, disk, tracks)?, setting, Some(points_per_s), span)
}

/// Where the tracks of `drive` are, as a calibration in virtual time finds them, if `preset` makes use of that.
pub(crate) fn tracks(drive: &str, preset: NamedPreset) -> Result<Vec<Arc<Tracks>>, String> {
    dataless::tracks(&preset, &mut experiment::disk_of(drive, Box::new(Dataless))?)
}

/// A fresh volume on `disk`, a drive with these `tracks` or a disk in front of one.
pub(crate) fn volume<D: Disk>(
    preset: NamedPreset,
    disk: D,
    tracks: &[Arc<Tracks>],
) -> Result<Volume<D>, String> {
    let disk = Made { tracks: tracks.to_vec(), ..Made::from(disk) };
    dataless::volume(disk, preset, dataless::Answers::OnFlush)
}

/// Lets the clients work on `service`.
pub(crate) fn run<S: Service>(
    service: &mut S,
    setting: Setting,
    points_per_s: Option<u32>,
    span: Span,
) -> Result<ContentionResults, String> {
    let size_bytes = service.info().size_bytes;
    let options = experiment::clients(setting, points_per_s, size_bytes, &Content::Phantom, span);
    contention::run(service, &mut VirtualTime::default(), &options)
        .map_err(|error| error.to_string())
}
