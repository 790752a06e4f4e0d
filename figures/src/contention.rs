//! Big sequential I/O beside a file system's syncs: one point of Manylogs' figures 2 and 3.
//!
//! The sequential client takes what bandwidth it can get; the random writer syncs at a capped rate.
//! Both systems' clients are the same, on the same model; only how a sync is made durable differs.

use crate::double_writer::DoubleWriter;
use crate::error::FigureError;
use crate::journal::{Mode, journal_in, shares_of};
use crate::rig::{self, FigureDisk, System};
use crate::spent::Spent;
use crate::sync_writer::{SyncWriter, SyncWriterOptions};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Bulk, BulkOptions, Content, Tally, TallySummary, Workload};
use nearhead_volume::{BareDisk, Volume};
use std::ops::Range;

/// Bytes that the sequential client goes over (Manylogs V-A.1: "a span of 2 GB file").
const BULK_SPAN_BYTES: u64 = 2 << 30;
/// A read of the sequential client for each disk: the kernel's read-ahead, which keeps two windows
/// going.
pub(crate) const READ_AHEAD_BYTES: u32 = 128 << 10;
/// Windows of read-ahead that the kernel keeps going, and so outstanding requests.
pub(crate) const OUTSTANDING: u32 = 2;
/// Small files changed by a sync, and so its writes (the same section).
pub(crate) const FILES: u32 = 20;
/// Longest time for what is outstanding at the end.
const DRAIN_LIMIT: Nanos = Nanos::from_secs(3600);

/// What the sequential client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkKind {
    /// Figure 2a, 3a.
    Read,
    /// Figure 2b, 3b.
    Write,
}

/// The sequential client of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// What it does.
    pub(crate) kind: BulkKind,
    /// Disks it runs over: the kernel's read-ahead of an array grows with them.
    pub(crate) disks: u32,
    /// Its reads, for each disk.
    pub(crate) read_bytes: u32,
    /// Requests that it keeps outstanding.
    pub(crate) outstanding: u32,
}

/// How long a point takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Not counted.
    pub warm_up: Nanos,
    /// Counted.
    pub measured: Nanos,
}

/// How a sync is made durable, on what.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    /// As it is called in tables.
    pub name: &'static str,
    /// The pattern of its writes.
    pub mode: Mode,
    /// What it runs on.
    pub system: System,
}

/// What a point came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// The sequential client's.
    pub bytes_per_s: f64,
    /// From the begin of a sync until it is durable.
    pub sync_ms_mean: f64,
    /// The same, for the slowest of a hundred.
    pub sync_ms_p99: f64,
    /// Achieved; below the rate asked for if the disk cannot follow.
    pub syncs_per_s: f64,
    /// Syncs that began later than due.
    pub(crate) late: u64,
    /// Where the disk's time went, if it tells.
    pub(crate) spent: Option<Spent>,
}

/// The sequential client.
enum Sequential {
    Once(Bulk),
    Twice(DoubleWriter),
}

impl Sequential {
    fn new(client: Client, mode: Mode, span: Range<u64>, journal: Range<u64>) -> Self {
        let once = |options: BulkOptions| {
            Self::Once(Bulk::new(BulkOptions { outstanding_max: client.outstanding, ..options }))
        };
        match client.kind {
            BulkKind::Read => once(BulkOptions {
                request_bytes: client.read_bytes * client.disks,
                ..BulkOptions::reader(span)
            }),
            BulkKind::Write if mode.journals_bulk() => {
                Self::Twice(DoubleWriter::new(span, journal))
            }
            BulkKind::Write => once(BulkOptions::writer(span, Content::Phantom)),
        }
    }

    fn workload(&mut self) -> &mut dyn Workload {
        match self {
            Self::Once(bulk) => bulk,
            Self::Twice(writer) => writer,
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Self::Once(bulk) => bulk.tally(),
            Self::Twice(writer) => writer.tally(),
        }
    }
}

/// The sequential client's bandwidth on the bare disk, in bytes a second.
pub(crate) fn alone(disk: FigureDisk, client: Client, span: Span) -> Result<Point, FigureError> {
    let mut bare = Tested { service: rig::bare(disk), disk: BareDisk::disk };
    run(&mut bare, client, Mode::Ordered, None, span, "the disk alone")
}

/// One point, on a fresh `disk`.
pub(crate) fn point(
    disk: FigureDisk,
    method: &Method,
    client: Client,
    syncs_per_s: f64,
    span: Span,
) -> Result<Point, FigureError> {
    let (mode, name) = (method.mode, method.name);
    if method.system.preset.is_some() {
        let service = rig::volume(disk, &method.system)?;
        let mut volume = Tested { service, disk: Volume::disk };
        run(&mut volume, client, mode, Some(syncs_per_s), span, name)
    } else {
        let mut bare = Tested { service: rig::bare(disk), disk: BareDisk::disk };
        run(&mut bare, client, mode, Some(syncs_per_s), span, name)
    }
}

/// What is tested, and the disk below it.
struct Tested<S> {
    service: S,
    disk: fn(&S) -> &FigureDisk,
}

impl<S> Tested<S> {
    fn spent(&self) -> Option<Spent> {
        (self.disk)(&self.service).disk().spent()
    }
}

fn run<S: Service>(
    tested: &mut Tested<S>,
    client: Client,
    mode: Mode,
    syncs_per_s: Option<f64>,
    span: Span,
    what: &str,
) -> Result<Point, FigureError> {
    let stuck = |problem| FigureError::Stuck {
        what: format!("{what} beside bulk {:?}", client.kind),
        problem,
    };
    let size_bytes = tested.service.info().size_bytes;
    let bulk_end = BULK_SPAN_BYTES.min(size_bytes / 4);
    let (for_syncs, for_bulk) = shares_of(&journal_in(size_bytes));
    let mut sequential = Sequential::new(client, mode, 0..bulk_end, for_bulk);
    let mut writer = syncs_per_s.map(|syncs_per_s| {
        SyncWriter::new(SyncWriterOptions {
            mode,
            span: bulk_end..size_bytes,
            files: FILES,
            journal: for_syncs,
            syncs_per_s,
            first_at: Nanos::ZERO,
            seed: 1,
        })
    });
    let mut time = VirtualTime::default();
    let ends = span.warm_up + span.measured;
    time.run(&mut tested.service, &mut both(&mut sequential, &mut writer), span.warm_up)
        .map_err(stuck)?;
    for workload in both(&mut sequential, &mut writer) {
        workload.start_measuring(span.warm_up);
    }
    let before = tested.spent();
    time.run(&mut tested.service, &mut both(&mut sequential, &mut writer), ends).map_err(stuck)?;
    let spent = before.zip(tested.spent());
    let spent = spent.map(|(before, after)| after.since(&before, span.measured));
    let bulk = sequential.tally().summary(ends);
    let syncs = writer.as_ref().map(|writer| writer.syncs().summary(ends)).unwrap_or_default();
    let late = writer.as_ref().map_or(0, SyncWriter::late);
    time.drain(&mut tested.service, &mut both(&mut sequential, &mut writer), DRAIN_LIMIT)
        .map_err(stuck)?;
    succeeded(what, &[&bulk, &syncs])?;
    Ok(Point {
        bytes_per_s: bulk.bytes_per_s,
        sync_ms_mean: syncs.latency.mean_ms,
        sync_ms_p99: syncs.latency.p99_ms,
        syncs_per_s: syncs.requests_per_s,
        late,
        spent,
    })
}

fn both<'all>(
    sequential: &'all mut Sequential,
    writer: &'all mut Option<SyncWriter>,
) -> Vec<&'all mut dyn Workload> {
    let writer = writer.iter_mut().map(|writer| writer as &mut dyn Workload);
    std::iter::once(sequential.workload()).chain(writer).collect()
}

/// What failed was not measured.
pub(crate) fn succeeded(what: &str, tallies: &[&TallySummary]) -> Result<(), FigureError> {
    match tallies.iter().find_map(|tally| tally.first_failure.clone()) {
        None => Ok(()),
        Some(failure) => Err(FigureError::RequestFailed { what: what.to_owned(), failure }),
    }
}
