//! The experiment in real time: the emulated disk takes the time it says, clients use a socket.
//!
//! Each point gets a fresh volume on a fresh disk, whose bytes are kept in memory. Disk, engine and
//! server share one thread; each client has its own thread and connection.

use super::client::Client;
use super::drive::{self, drive};
use super::experiment::{self, BulkKind, Setting, Span};
use super::server::Served;
use nearhead_disk::Nanos;
use nearhead_models::{Dataless, HddModel, MemoryStore};
use nearhead_nbd::Limits;
use nearhead_sim::contention::ContentionResults;
use nearhead_sim::workload::{Bulk, Content, DurablePoints, DurablePointsOptions};
use nearhead_study::dataless::{self, Answers, create_options};
use nearhead_volume::create::create_with_regions;
use nearhead_volume::{BareDisk, NamedPreset, SyncIo, Volume, tracks};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bulk client's bandwidth on the bare disk, in bytes a second.
pub(crate) fn alone(folder: &Path, kind: BulkKind, span: Span) -> Result<f64, String> {
    let served = Served::start(folder, "bare", Limits::default(), |_| {
        Ok(BareDisk::new(experiment::disk(Box::new(MemoryStore::new()))?))
    })?;
    let results = clients(served.socket(), kind, None, span);
    served.stop()?;
    let bulk = results?.bulk.unwrap_or_default();
    match bulk.first_failure {
        Some(failure) => Err(format!("the bare disk: {failure}")),
        None => Ok(bulk.bytes_per_s),
    }
}

/// One point, on a fresh volume with `preset`.
pub(crate) fn point(
    folder: &Path,
    preset: NamedPreset,
    kind: BulkKind,
    points_per_s: u32,
    span: Span,
) -> Result<ContentionResults, String> {
    let served =
        Served::start(folder, preset.name, Limits::default(), move |start| volume(start, preset))?;
    let results = clients(served.socket(), kind, Some(points_per_s), span);
    served.stop()?;
    results
}

/// A volume that is new knows that it is blank, in regions of some MiB. The first write in place to each costs one write more, and what is
/// blank is read without the disk: no preset's steady state, and the one in place is slowed down by it for hours. So a region is half the
/// disk here, and written at once.
const BLANK_REGION_BYTES: u64 = 1 << 36;

/// Creates the volume on a disk in memory, and opens it, as `create` and `serve` do.
fn volume(start: Instant, preset: NamedPreset) -> Result<Volume<HddModel>, String> {
    let mut disk = experiment::disk(Box::new(MemoryStore::new()))?;
    let options = create_options(preset, Answers::OnFlush);
    let tracks = dataless::tracks(&preset, &mut experiment::disk(Box::new(Dataless))?)?;
    let io = &mut SyncIo::in_real_time(&mut disk, start);
    let superblock =
        create_with_regions(io, &options, BLANK_REGION_BYTES).map_err(|error| error.to_string())?;
    if !tracks.is_empty() {
        tracks::write(io, &superblock, &tracks).map_err(|error| error.to_string())?;
    }
    let mut volume = Volume::open(disk, start, |_, _| {}).map_err(|error| error.to_string())?;
    volume.wait_until_open(start).map_err(|error| error.to_string())?;
    Ok(volume)
}

/// Runs the clients and gathers what they got.
fn clients(
    socket: &Path,
    kind: BulkKind,
    points_per_s: Option<u32>,
    span: Span,
) -> Result<ContentionResults, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut bulk_client = Client::connect(socket, PATIENCE).map_err(told)?;
    let mut points_client = Client::connect(socket, PATIENCE).map_err(told)?;
    let content = Content::random(1, 1 << 20);
    let size_bytes = bulk_client.size_bytes();
    let setting = Setting::usual(kind);
    let options = experiment::clients(setting, points_per_s, size_bytes, &content, span);
    let span = drive::Span {
        start: Instant::now(),
        measured_from: span.warm_up,
        ends: span.warm_up + span.measured,
    };
    let points = thread::spawn(move || {
        let Some(options) = options.points else { return Ok(None) };
        let options = DurablePointsOptions { first_at: Nanos::ZERO, ..options };
        let mut points = DurablePoints::new(options);
        drive(&mut points_client, &mut points, span, |points, now| Some(points.summary(now)))
    });
    let bulk = match options.bulk {
        None => Ok(None),
        Some(options) => {
            let mut bulk = Bulk::new(options);
            let summary = |bulk: &Bulk, now| Some(bulk.tally().summary(now));
            drive(&mut bulk_client, &mut bulk, span, summary)
        }
    };
    let points = points.join().map_err(|_| "a client panicked (internal error)".to_owned())?;
    Ok(ContentionResults {
        bulk: bulk.map_err(told)?,
        points: points.map_err(told)?,
        measured_s: (span.ends - span.measured_from).as_secs_f64(),
        digest: 0,
    })
}
