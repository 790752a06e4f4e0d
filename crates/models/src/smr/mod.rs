//! A shingled disk, in whatever time its caller lives.
//!
//! The moving parts are a [`HddModel`] that keeps no content and is told where on the platters to
//! read and write; this module decides that, as the firmware of a shingled disk does:
//!
//! - [`SmrKind::DriveManaged`]: every write that a band cannot take in order goes to a persistent
//!   cache at the outer tracks, first in, first out; bands are cleaned (read, kept in a scratch
//!   band, written again) when the host is idle, or at once when the cache is full;
//! - [`SmrKind::Outer`] and [`SmrKind::Surface`]: the host knows the bands and the non-shingled
//!   ranges ([`Disk::zones`]); a write against a band's order costs a rewrite of the band, or is
//!   refused.
//!
//! What stays true, whatever the kind: a read sees the last write that was answered; a write that
//! was answered survives a power cut unless the write cache is on and no flush covered it; a band
//! that is being rewritten loses nothing in a power cut, because the scratch band has it. Content
//! is kept by the host's address, so that a process that is killed loses no answered write either;
//! after its restart the bands count as clean.
//!
//! Nobody above may see where the persistent cache of a drive-managed disk is or how full.

mod bands;
mod cache;
mod layout;
mod power;
mod profile;
mod stats;
#[cfg(test)]
mod tests;
mod work;
mod writes;

pub(crate) use profile::EMBEDDED;
pub use profile::{OutOfOrder, ShingledSpec, SmrKind, SmrProfile, SurfaceSpec};
pub use stats::SmrStats;

use crate::hdd::{HddModel, HddOptions};
use crate::mechanics::MisalignedSurface;
use crate::pending::{self, Flushes};
use crate::profile_text::ProfileError;
use crate::store::{Dataless, Store};
use bands::Job;
use cache::Cache;
use layout::Layout;
use nearhead_disk::Desk;
use nearhead_disk::{
    Class, Command, Completion, Disk, DiskError, Nanos, Payload, Properties, Run, Submission,
    Ticket, Zones,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use writes::{Append, Piece};

/// Largest transfer accepted, as for a hard disk.
const TRANSFER_BYTES_MAX: u32 = 16 << 20;

/// Most commands that the firmware gives the moving parts at once; further ones wait.
const PARTS_DEPTH: u16 = 128;

/// What a command of the host is.
#[derive(Debug)]
enum Kind {
    Read {
        range: Range<u64>,
    },
    /// A write of so many bytes; of a zeroing, the range not begun yet.
    Write {
        bytes: u64,
        class: Class,
        rest: Range<u64>,
    },
    Flush,
    Trim,
}

/// What a command of the moving parts is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Read { command: u64 },
    Direct { piece: u64 },
    Append { id: u64 },
    Band,
}

/// A modelled shingled disk.
pub struct SmrModel {
    properties: Properties,
    profile: SmrProfile,
    layout: Layout,
    zones: Option<Zones>,
    /// Times everything, keeps nothing.
    parts: HddModel,
    parts_waiting: VecDeque<(u64, Class, Command)>,
    purposes: BTreeMap<u64, Purpose>,
    store: Box<dyn Store>,
    /// Everything up to here has happened.
    time: Nanos,
    /// Last time that the host had something outstanding.
    last_activity: Nanos,
    /// Commands of the host; numbers them, pieces and versions in order of arrival.
    desk: Desk<Kind>,
    /// Answers whose time is known, by time.
    finishing: BTreeMap<(Nanos, u64), u64>,
    /// Writes that are not on the medium, in order of arrival.
    pieces: BTreeMap<u64, Piece>,
    /// Bytes of them that were answered or will be before they are on the medium.
    volatile_bytes: u64,
    flushes: Flushes,
    /// An answered write that could not be kept; the next flush fails.
    lost: Option<DiskError>,
    appends: VecDeque<Append>,
    cache: Cache,
    /// A write waits for room in the cache.
    starved: bool,
    /// Up to where bands were written, by first sector, where it is not what it was at the start.
    written: BTreeMap<u64, u64>,
    job: Option<Job>,
    stats: SmrStats,
}

impl SmrModel {
    /// The disk that `profile` describes, with its content in `store`.
    ///
    /// Of `options`, the write cache is that of the firmware; policy and depth go to the drive.
    pub fn new(
        profile: &SmrProfile,
        store: Box<dyn Store>,
        options: HddOptions,
    ) -> Result<Self, ProfileError> {
        let failed = |problem: String| ProfileError { profile: profile.name.clone(), problem };
        let drive = &profile.drive;
        let layout = Layout::new(profile).map_err(failed)?;
        let sector = u64::from(drive.sector_bytes);
        let properties = Properties {
            name: format!("model:{}", profile.name),
            capacity_bytes: layout.sectors() * sector,
            sector_bytes: drive.sector_bytes,
            physical_sector_bytes: drive.physical_sector_bytes,
            rotational: true,
            rotation_period: Some(Nanos(drive.period_ns)),
            volatile_cache: options.write_cache.unwrap_or(drive.cache.write_cache),
            trim_reads_zero: false,
            fast_zero: false,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            queue_depth_max: options.queue_depth.unwrap_or(drive.queue.depth).max(1),
            width: 1,
            striping: None,
        };
        properties.validate().map_err(|error| failed(error.problem))?;
        let of_parts =
            HddOptions { write_cache: Some(false), queue_depth: Some(PARTS_DEPTH), ..options };
        let mut parts = HddModel::new(drive, Box::new(Dataless), of_parts)?;
        if let Some(surface) = profile.shingled.surface {
            let ns = |us: f64| (us * 1e3) as u64;
            parts.mechanics_mut().set_misaligned_surface(MisalignedSurface {
                head: surface.head,
                find_ns: ns(surface.find_us_min)..=ns(surface.find_us_max),
                seed: surface.seed,
            });
        }
        let zones = match profile.shingled.kind {
            SmrKind::DriveManaged => None,
            SmrKind::Outer | SmrKind::Surface => {
                Some(layout.zones(sector).map_err(|error| failed(error.problem))?)
            }
        };
        let cache_sectors = layout.cache.end - layout.cache.start;
        Ok(Self {
            cache: Cache::new(cache_sectors, profile.shingled.cache_entries_max),
            properties,
            profile: profile.clone(),
            layout,
            zones,
            parts,
            parts_waiting: VecDeque::new(),
            purposes: BTreeMap::new(),
            store,
            time: Nanos::ZERO,
            last_activity: Nanos::ZERO,
            desk: Desk::new(),
            finishing: BTreeMap::new(),
            pieces: BTreeMap::new(),
            volatile_bytes: 0,
            flushes: Flushes::default(),
            lost: None,
            appends: VecDeque::new(),
            starved: false,
            written: BTreeMap::new(),
            job: None,
            stats: SmrStats::default(),
        })
    }

    /// The profile.
    pub fn profile(&self) -> &SmrProfile {
        &self.profile
    }

    /// The moving parts, for physical limits; an engine must not look here.
    pub fn drive(&self) -> &HddModel {
        &self.parts
    }

    /// What the disk did so far, and how full its cache is.
    pub fn stats(&self) -> SmrStats {
        SmrStats {
            served: self.stats.served.completed(self.desk.answered, self.desk.failed),
            cache_used_bytes: self.cache.used() * self.sector_bytes(),
            cache_entries: self.cache.entries() as u64,
            drive: self.parts.stats(),
            ..self.stats
        }
    }

    /// Starts counting anew.
    pub fn reset_stats(&mut self) {
        self.stats = SmrStats::default();
        (self.desk.answered, self.desk.failed) = (0, 0);
        self.parts.reset_stats();
    }

    /// Commands accepted and not completed.
    pub fn outstanding(&self) -> usize {
        self.desk.outstanding()
    }

    fn sector_bytes(&self) -> u64 {
        u64::from(self.properties.sector_bytes)
    }

    fn cached_overhead(&self) -> Nanos {
        Nanos::from_millis_f64(self.profile.drive.command.cached_ms)
    }

    fn is_drive_managed(&self) -> bool {
        self.profile.shingled.kind == SmrKind::DriveManaged
    }

    /// Answers command `id` at `at`.
    fn finish_at(&mut self, at: Nanos, id: u64) {
        let order = self.desk.number();
        self.finishing.insert((at, order), id);
    }

    fn sectors(&self, offset: u64, len: u64) -> Range<u64> {
        let sector = self.sector_bytes();
        offset / sector..(offset + len) / sector
    }

    fn submit_read(&mut self, ticket: Ticket, class: Class, range: Range<u64>) {
        let id = self.desk.book(ticket, 0, Kind::Read { range: range.clone() });
        if pending::holds_all(&self.pieces, &range) {
            self.stats.served.read_hits += 1;
            return self.finish_at(self.time + self.cached_overhead(), id);
        }
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut add = |start: u64, sectors: u64| match parts.last_mut() {
            Some(last) if last.end == start => last.end += sectors,
            _ => parts.push(start..start + sectors),
        };
        for found in self.cache.find(range) {
            if let Some(position) = found.position {
                self.stats.cached_reads += 1;
                add(self.layout.cache.start + position, found.sectors);
                continue;
            }
            for place in self.layout.places(found.host..found.host + found.sectors) {
                add(place.drive, place.sectors);
            }
        }
        let mut left = 0;
        for part in parts {
            left += self.read_parts(part, class, Purpose::Read { command: id });
        }
        if let Some(command) = self.desk.get_mut(id) {
            command.left = left;
        }
    }

    fn submit_trim(&mut self, ticket: Ticket, range: Range<u64>) {
        self.trim(range);
        let id = self.desk.book(ticket, 0, Kind::Trim);
        self.finish_at(self.time + self.cached_overhead(), id);
    }

    fn submit_flush(&mut self, ticket: Ticket) {
        let id = self.desk.book(ticket, 0, Kind::Flush);
        if !self.flushes.begin(id, &self.pieces) {
            self.finish_at(self.time + self.cached_overhead(), id);
        }
    }
}

impl Disk for SmrModel {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        if self.pieces.is_empty() { self.store.run_at(offset) } else { Run::UNKNOWN }
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.advance(now);
        self.last_activity = self.time;
        let Submission { ticket, class, command } = submission;
        let Some(ticket) = self.desk.admit(&self.properties, ticket, &command) else { return };
        if let Some(error) = self.out_of_order(&command) {
            return self.desk.answer(ticket, Err(error));
        }
        match command {
            Command::Read { offset, len } => {
                self.submit_read(ticket, class, self.sectors(offset, u64::from(len)));
            }
            Command::Write { offset, parts, durable } => {
                self.submit_write(ticket, class, (offset, parts), durable);
            }
            Command::WriteZeroes { offset, len, .. } => {
                self.submit_zeroes(ticket, class, self.sectors(offset, len));
            }
            Command::Trim { offset, len } => self.submit_trim(ticket, self.sectors(offset, len)),
            Command::Flush => self.submit_flush(ticket),
        }
        self.pump();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.advance(now);
        self.desk.fetch()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.desk.wake_at(self.time, self.next_event())
    }

    fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }
}

fn total_sectors(parts: &[Payload], sector_bytes: u64) -> u64 {
    nearhead_disk::total_len(parts) as u64 / sector_bytes
}
