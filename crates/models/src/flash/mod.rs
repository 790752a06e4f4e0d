//! A flash disk, in whatever time its caller lives.
//!
//! Channels of chips of dies of planes; a page-level translation layer that programs a page of the
//! host wherever its plane has one erased, and collects the block with the fewest valid pages when
//! free blocks run low; a mapping table that is in memory only in part. Every page of a command is a
//! task of its own, so commands spread over all dies they touch, and big writes hold buses and dies
//! that small ones wait for.
//!
//! What stays true: as for a hard disk, a completion comes once and not before its time; a read
//! sees the last write that was answered; an answered write survives a power cut unless the write
//! cache is on and not protected, and no flush covered it; changes of the same page take effect in order of arrival. Memory is
//! bounded: some MiB for an idle disk of hundreds of GB, and at most 8 bytes for each page written.
//!
//! Not modelled, so results are too good in these respects: translation pages have no blocks of
//! their own to be collected, moving a page by collecting changes the mapping at no cost, blocks do
//! not wear, and planes of a die never work together.

mod change;
mod dies;
mod mapping;
mod plane;
mod power;
mod profile;
mod stats;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use profile::EMBEDDED;
pub use profile::{FlashProfile, FlashSpec};
pub use stats::FlashStats;

use crate::hdd::HddOptions;
use crate::pending::{self, Flushes};
use crate::profile_text::ProfileError;
use crate::store::Store;
use change::{Change, ChangeKind};
use dies::{Die, Operation, Times};
use mapping::MappingCache;
use nearhead_disk::Desk;
use nearhead_disk::{
    Command, Completion, Disk, DiskError, Nanos, Payload, Properties, Run, Submission, Ticket,
};
use plane::Plane;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use tasks::{Owner, Task};

/// Largest transfer accepted, as for a hard disk.
const TRANSFER_BYTES_MAX: u32 = 16 << 20;

/// Bytes of an entry of the mapping table; assumed, as in most published designs.
const MAPPING_ENTRY_BYTES: u32 = 8;

/// What a command of the host is.
#[derive(Debug)]
enum Kind {
    Read { range: Range<u64> },
    Write { bytes: u64 },
    Flush,
    Trim,
}

/// Something that happens at a time already known.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A command is answered.
    Finish(u64),
    /// The bytes of a change came over the interface.
    Arrived(u64),
    /// A die has read its cells.
    Sensed(u32),
    /// A die is done.
    DieDone(u32),
}

/// A modelled flash disk.
pub struct FlashModel {
    properties: Properties,
    profile: FlashProfile,
    times: Times,
    collect_below: u32,
    collect_first_below: u32,
    store: Box<dyn Store>,
    /// Everything up to here has happened.
    time: Nanos,
    /// Commands of the host; numbers everything in order of arrival.
    desk: Desk<Kind>,
    events: BTreeMap<(Nanos, u64), Event>,
    changes: BTreeMap<u64, Change>,
    tasks: BTreeMap<u64, Task>,
    waiting_for_mapping: BTreeMap<u64, Vec<u64>>,
    mapping: MappingCache,
    dies: Vec<Die>,
    /// Until when each bus is in use.
    channels: Vec<Nanos>,
    link_free_at: Nanos,
    planes: Vec<Plane>,
    /// The block that each plane is collecting.
    collecting: Vec<Option<u32>>,
    /// Programs that wait for an erased block of their plane.
    blocked: Vec<VecDeque<Operation>>,
    volatile_bytes: u64,
    /// Writes are answered from memory that survives power cuts.
    protected_cache: bool,
    /// Writes that such memory has no room for, oldest first. Bounded by the queue depth.
    waiting_for_room: VecDeque<u64>,
    flushes: Flushes,
    lost: Option<DiskError>,
    stats: FlashStats,
}

impl FlashModel {
    /// The disk that `profile` describes, with its content in `store`. Of `options`, the policy has
    /// no meaning here.
    pub fn new(
        profile: &FlashProfile,
        store: Box<dyn Store>,
        options: HddOptions,
    ) -> Result<Self, ProfileError> {
        let flash = &profile.flash;
        let caches = options.write_cache.unwrap_or(flash.write_cache);
        let properties = Properties {
            name: format!("model:{}", profile.name),
            capacity_bytes: profile.capacity_bytes(),
            sector_bytes: flash.sector_bytes,
            physical_sector_bytes: flash.physical_sector_bytes,
            rotational: false,
            rotation_period: None,
            volatile_cache: caches && !flash.cache_protected,
            trim_reads_zero: true,
            fast_zero: true,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            queue_depth_max: options.queue_depth.unwrap_or(flash.queue_depth).max(1),
            width: 1,
            striping: None,
        };
        properties.validate().map_err(|error| ProfileError {
            profile: profile.name.clone(),
            problem: error.problem,
        })?;
        let ns = |us: f64| (us * 1e3).round() as u64;
        let transfer = |bytes: u32| (f64::from(bytes) * 1e3 / flash.channel_megabytes_per_s) as u64;
        let host_pages = flash.host_pages_per_plane();
        let plane =
            Plane::new(flash.blocks_per_plane, flash.pages_per_block, host_pages, flash.in_use);
        let planes = flash.planes() as usize;
        let blocks = f64::from(flash.blocks_per_plane);
        let mapping_pages = flash.mapping_cache_bytes / u64::from(flash.page_bytes);
        Ok(Self {
            times: Times {
                command: ns(flash.command_us),
                read: ns(flash.read_us),
                program: ns(flash.program_us),
                erase: ns(flash.erase_us),
                page_transfer: transfer(flash.page_bytes + flash.spare_bytes_per_page),
                mapping_transfer: transfer(flash.mapping_read_bytes),
                cached: ns(flash.cached_us),
            },
            collect_below: ((blocks * flash.collect_below) as u32).max(3),
            collect_first_below: ((blocks * flash.collect_first_below) as u32).max(2),
            mapping: MappingCache::new(usize::try_from(mapping_pages).unwrap_or(usize::MAX)),
            dies: std::iter::repeat_with(Die::default).take(flash.dies() as usize).collect(),
            channels: vec![Nanos::ZERO; flash.channels as usize],
            planes: vec![plane; planes],
            collecting: vec![None; planes],
            blocked: vec![VecDeque::new(); planes],
            properties,
            profile: profile.clone(),
            store,
            time: Nanos::ZERO,
            desk: Desk::new(),
            events: BTreeMap::new(),
            changes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            waiting_for_mapping: BTreeMap::new(),
            link_free_at: Nanos::ZERO,
            volatile_bytes: 0,
            protected_cache: caches && flash.cache_protected,
            waiting_for_room: VecDeque::new(),
            flushes: Flushes::default(),
            lost: None,
            stats: FlashStats::default(),
        })
    }

    /// The profile.
    pub fn profile(&self) -> &FlashProfile {
        &self.profile
    }

    /// What the disk did so far.
    pub fn stats(&self) -> FlashStats {
        FlashStats {
            served: self.stats.served.completed(self.desk.answered, self.desk.failed),
            ..self.stats
        }
    }

    /// Starts counting anew.
    pub fn reset_stats(&mut self) {
        self.stats = FlashStats::default();
        (self.desk.answered, self.desk.failed) = (0, 0);
    }

    /// Commands accepted and not completed.
    pub fn outstanding(&self) -> usize {
        self.desk.outstanding()
    }

    fn at(&mut self, at: Nanos, event: Event) {
        let order = self.desk.number();
        self.events.insert((at, order), event);
    }

    fn sector_bytes(&self) -> u64 {
        u64::from(self.properties.sector_bytes)
    }

    fn page_sectors(&self) -> u64 {
        u64::from(self.profile.flash.page_bytes / self.profile.flash.sector_bytes)
    }

    /// Takes the host's interface for `bytes`; says until when.
    fn use_link(&mut self, bytes: u64) -> Nanos {
        let span = Nanos((bytes as f64 * 1e3 / self.profile.flash.host_megabytes_per_s) as u64);
        self.link_free_at = self.link_free_at.max(self.time) + span;
        self.link_free_at
    }

    /// Does everything that happens until `now`. Time never goes back.
    fn advance(&mut self, now: Nanos) {
        while let Some(entry) = self.events.first_entry() {
            let at = entry.key().0;
            if at > now {
                break;
            }
            let event = entry.remove();
            self.time = self.time.max(at);
            match event {
                Event::Finish(id) => self.finish(id),
                Event::Arrived(id) => self.arrived(id),
                Event::Sensed(die) => self.sensed(die),
                Event::DieDone(die) => self.die_done(die),
            }
        }
        self.time = self.time.max(now);
    }

    fn submit_read(&mut self, ticket: Ticket, range: Range<u64>) {
        let pages = self.pages_of(&range);
        let left = (pages.end - pages.start) as usize;
        let id = self.desk.book(ticket, left, Kind::Read { range: range.clone() });
        if pending::holds_all(&self.changes, &range) {
            self.stats.served.read_hits += 1;
            let bytes = (range.end - range.start) * self.sector_bytes();
            let at = self.use_link(bytes) + Nanos(self.times.cached);
            return self.at(at, Event::Finish(id));
        }
        for page in pages {
            self.begin_task(Task { owner: Owner::Read { command: id }, page, partial: false });
        }
    }

    /// Pages that hold a part of a range of sectors.
    fn pages_of(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.page_sectors()..range.end.div_ceil(self.page_sectors())
    }

    /// A part of a host's command is done; the command is when it was the last.
    fn part_of_command_done(&mut self, id: u64, error: Option<DiskError>) {
        if !self.desk.part_done(id, error) {
            return;
        }
        let sector = self.sector_bytes();
        let bytes = match self.desk.get_mut(id).map(|command| &command.kind) {
            Some(Kind::Read { range }) => (range.end - range.start) * sector,
            _ => 0,
        };
        let at = if bytes > 0 { self.use_link(bytes) } else { self.time };
        self.at(at, Event::Finish(id));
    }

    fn finish(&mut self, id: u64) {
        let sector = self.sector_bytes();
        let Self { desk, stats, lost, changes, store, .. } = self;
        desk.finish(id, |kind| match kind {
            Kind::Read { range } => {
                stats.served.reads += 1;
                stats.served.read_bytes += (range.end - range.start) * sector;
                pending::content(changes, &**store, sector, &range)
            }
            Kind::Write { bytes } => {
                stats.served.writes += 1;
                stats.served.write_bytes += bytes;
                Ok(Payload::EMPTY)
            }
            Kind::Flush => {
                stats.served.flushes += 1;
                lost.take().map_or(Ok(Payload::EMPTY), Err)
            }
            Kind::Trim => Ok(Payload::EMPTY),
        });
    }
}

impl Disk for FlashModel {
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
        if self.changes.is_empty() { self.store.run_at(offset) } else { Run::UNKNOWN }
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.advance(now);
        let Submission { ticket, command, .. } = submission;
        let Some(ticket) = self.desk.admit(&self.properties, ticket, &command) else { return };
        let sector = self.sector_bytes();
        let range = |offset: u64, len: u64| offset / sector..(offset + len) / sector;
        match command {
            Command::Read { offset, len } => {
                self.submit_read(ticket, range(offset, u64::from(len)));
            }
            Command::Write { offset, parts, durable } => {
                let len = nearhead_disk::total_len(&parts) as u64;
                self.submit_change(ticket, ChangeKind::Write, range(offset, len), parts, durable);
            }
            Command::WriteZeroes { offset, len, durable } => {
                let range = range(offset, len);
                self.submit_change(ticket, ChangeKind::Zero, range, Vec::new(), durable);
            }
            Command::Trim { offset, len } => {
                self.submit_change(ticket, ChangeKind::Trim, range(offset, len), Vec::new(), true);
            }
            Command::Flush => self.submit_flush(ticket),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.advance(now);
        self.desk.fetch()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.desk.wake_at(self.time, self.events.first_key_value().map(|((at, _), _)| *at))
    }
}
