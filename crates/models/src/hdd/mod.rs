//! A hard disk, in whatever time its caller lives.
//!
//! The model is told `now` with every call and does everything that would have happened until
//! then, in order and at its own times. So it does not matter whether the caller jumps from event
//! to event (virtual time) or comes late (real time): media work continues back to back in model
//! time either way, and only what a host submits starts at the host's `now`.
//!
//! What stays true:
//! - bytes reach the [`Store`] when the model says that they are on the medium, and only then;
//! - a completion is never handed out before its time, and exactly one per command;
//! - with the write cache off every completed write is on the medium; with it on, a completed
//!   write may be lost in [`HddModel::power_cut`] until a flush that covers it completes or unless
//!   it was `durable`;
//! - queue, write cache and segments have the bounds that the profile states.
//!
//! It must never tell the host where the head is: [`Properties`] hold datasheet facts only.

mod destage;
mod dirty;
mod exchange;
#[cfg(test)]
mod exchange_tests;
mod host;
mod known;
mod power;
mod queue;
mod schedule;
mod segments;
mod stats;
mod stream;

pub use stats::Stats;

use crate::mechanics::{ArmPosition, Mechanics};
use crate::profile::Profile;
use crate::profile_parts::QueuePolicy;
use crate::profile_text::ProfileError;
use crate::store::Store;
use dirty::{Extent, WriteCache};
use exchange::Exchange;
use nearhead_basics::SplitMix;
use nearhead_disk::check_command;
use nearhead_disk::{
    Class, Command, Completion, DiskError, DiskErrorKind, Nanos, Payload, Properties, Ticket,
    total_len,
};
use queue::{Chooser, MediaOperation, Pending};
use segments::Segments;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use stream::Stream;

/// Largest transfer accepted: enough for any host, small enough for a completion's buffer.
const TRANSFER_BYTES_MAX: u32 = 16 << 20;

/// Departures from a profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct HddOptions {
    /// Write cache on or off.
    pub write_cache: Option<bool>,
    /// Queue policy.
    pub policy: Option<QueuePolicy>,
    /// Most commands outstanding.
    pub queue_depth: Option<u16>,
    /// Whether what was read, or read ahead, is kept.
    pub read_cache: Option<bool>,
}

/// What the arm is doing.
#[derive(Debug)]
enum Work {
    Idle,
    /// Reading ahead; any command may interrupt it.
    Stream(Stream),
    /// On a command or a destage until `ends_at`.
    Busy {
        job: Job,
        started_at: Nanos,
        ends_at: Nanos,
    },
}

#[derive(Debug)]
enum Job {
    /// `out_at`: when all of it has crossed the interface, where the exchange is known in detail.
    Read {
        pending: Pending,
        segment: usize,
        out_at: Option<Nanos>,
    },
    Write(Pending),
    Destage(Vec<Extent>),
}

/// Something that completes at a time already known.
#[derive(Debug)]
struct Finish {
    at: Nanos,
    order: u64,
    ticket: Ticket,
    action: FinishAction,
}

#[derive(Debug)]
enum FinishAction {
    /// Fetch the bytes and complete.
    Read { lbn: u64, sectors: u64 },
    /// Take the bytes into the write cache and complete.
    CachedWrite { lbn: u64, parts: Vec<Payload> },
    /// Only complete; the counters take a write of so many bytes into account.
    Written { bytes: u64 },
    /// Only complete.
    Plain { flush: bool },
    /// Complete with an error.
    Failed(DiskError),
}

/// Who submitted a command.
struct Arrival {
    ticket: Ticket,
    class: Class,
}

/// A flush that waits for the medium.
#[derive(Debug)]
struct WaitingFlush {
    ticket: Ticket,
    /// Covers writes that completed before this.
    covers: u64,
}

/// A cached write that waits for room.
#[derive(Debug)]
struct WaitingWrite {
    ticket: Ticket,
    lbn: u64,
    parts: Vec<Payload>,
    bytes: u64,
}

/// Times of the electronics, ready for use.
struct Overheads {
    read: Nanos,
    write: Nanos,
    cached: Nanos,
    destage_idle: Nanos,
}

/// A modelled hard disk.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the drive")]
pub struct HddModel {
    properties: Properties,
    profile: Profile,
    mechanics: Mechanics,
    chooser: Chooser,
    overheads: Overheads,
    exchange: Option<Exchange>,
    /// The last command completed was a write.
    last_was_write: bool,
    /// The head wrote when it was on the medium last.
    head_wrote: bool,
    /// Block after the read that was served last.
    last_read_end: u64,
    /// The arm has been at rest since.
    arm_rests_since: Nanos,
    caches_reads: bool,
    store: Box<dyn Store>,
    keeps_content: bool,
    /// Everything up to here has happened.
    time: Nanos,
    /// Counts submissions and acknowledgements, so that either can be told older or newer.
    sequence: u64,
    arm: ArmPosition,
    work: Work,
    queue: Vec<Pending>,
    finishing: BinaryHeap<Reverse<Finish>>,
    done: VecDeque<Completion>,
    outstanding: usize,
    segments: Segments,
    /// What was written and is still in memory.
    written: Segments,
    dirty: WriteCache,
    /// Bytes of the write cache promised to writes under way.
    reserved_bytes: u64,
    waiting_writes: VecDeque<WaitingWrite>,
    waiting_flushes: Vec<WaitingFlush>,
    destage_error: Option<DiskError>,
    destage_next: bool,
    destage_cursor: u64,
    last_activity: Nanos,
    bus_free_at: Nanos,
    late_share_billionths: u64,
    /// Decides which accesses settle late; the same for every run, so that runs repeat.
    lateness: SplitMix,
    stats: Stats,
}

impl HddModel {
    /// The drive that `profile` describes, with its content in `store`.
    pub fn new(
        profile: &Profile,
        store: Box<dyn Store>,
        options: HddOptions,
    ) -> Result<Self, ProfileError> {
        let mut profile = profile.clone();
        profile.cache.write_cache = options.write_cache.unwrap_or(profile.cache.write_cache);
        profile.queue.policy = options.policy.unwrap_or(profile.queue.policy);
        profile.queue.depth = options.queue_depth.unwrap_or(profile.queue.depth).max(1);
        let mechanics = Mechanics::new(&profile)?;
        let properties = Properties {
            name: format!("model:{}", profile.name),
            capacity_bytes: profile.capacity_bytes(),
            sector_bytes: profile.sector_bytes,
            physical_sector_bytes: profile.physical_sector_bytes,
            rotational: true,
            rotation_period: Some(Nanos(profile.period_ns)),
            volatile_cache: profile.cache.write_cache,
            trim_reads_zero: false,
            fast_zero: false,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            queue_depth_max: profile.queue.depth,
            width: 1,
            striping: None,
        };
        properties.validate().map_err(|error| ProfileError {
            profile: profile.name.clone(),
            problem: error.problem,
        })?;
        Ok(Self {
            chooser: Chooser {
                policy: profile.queue.policy,
                aging: profile.queue.aging,
                age_limit: Nanos::from_millis_f64(profile.queue.age_limit_ms),
                honours_priority: profile.queue.honours_priority,
            },
            overheads: Overheads {
                read: Nanos::from_millis_f64(profile.command.read_ms),
                write: Nanos::from_millis_f64(profile.command.write_ms),
                cached: Nanos::from_millis_f64(profile.command.cached_ms),
                destage_idle: Nanos::from_millis_f64(profile.cache.destage_idle_ms),
            },
            exchange: Exchange::new(&profile),
            last_was_write: false,
            head_wrote: false,
            last_read_end: 0,
            arm_rests_since: Nanos::ZERO,
            caches_reads: options.read_cache.unwrap_or(true),
            keeps_content: store.keeps_content(),
            segments: Segments::new(profile.cache.segments, profile.cache.segment_sectors),
            written: Segments::new(profile.cache.written_segments, profile.cache.segment_sectors),
            dirty: WriteCache::new(profile.sector_bytes),
            arm: mechanics.arm_at(0),
            properties,
            mechanics,
            store,
            time: Nanos::ZERO,
            sequence: 0,
            work: Work::Idle,
            queue: Vec::new(),
            finishing: BinaryHeap::new(),
            done: VecDeque::new(),
            outstanding: 0,
            reserved_bytes: 0,
            waiting_writes: VecDeque::new(),
            waiting_flushes: Vec::new(),
            destage_error: None,
            destage_next: false,
            destage_cursor: 0,
            last_activity: Nanos::ZERO,
            bus_free_at: Nanos::ZERO,
            late_share_billionths: (profile.seek.late_share * 1e9) as u64,
            lateness: SplitMix::new(0),
            stats: Stats::default(),
            profile,
        })
    }

    /// The profile, with the options applied.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The moving parts, for physical limits; an engine must not look here.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// The moving parts, to complete them before the first command.
    pub(crate) fn mechanics_mut(&mut self) -> &mut Mechanics {
        &mut self.mechanics
    }

    /// What the disk did so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Starts counting anew.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn sector_bytes(&self) -> u64 {
        u64::from(self.properties.sector_bytes)
    }

    /// Time that `bytes` take over the interface.
    fn bus_time(&self, bytes: u64) -> Nanos {
        Nanos((bytes as f64 * 1e3 / self.profile.interface.megabytes_per_s) as u64)
    }

    /// Takes the interface for `bytes` from `at` on, at the earliest; says until when.
    fn use_bus(&mut self, at: Nanos, bytes: u64) -> Nanos {
        self.bus_free_at = self.bus_free_at.max(at) + self.bus_time(bytes);
        self.bus_free_at
    }

    fn cached_overhead(&self) -> Nanos {
        self.overheads.cached
    }

    fn finish_at(&mut self, at: Nanos, ticket: Ticket, action: FinishAction) {
        let order = self.next_sequence();
        self.finishing.push(Reverse(Finish { at, order, ticket, action }));
    }

    /// Why a command cannot be carried out, if so.
    fn refuse(&self, command: &Command) -> Option<DiskError> {
        check_command(&self.properties, command).err().or_else(|| self.refuse_depth())
    }

    fn refuse_depth(&self) -> Option<DiskError> {
        let depth = usize::from(self.properties.queue_depth_max);
        let name = &self.properties.name;
        (self.outstanding >= depth).then(|| DiskError {
            kind: DiskErrorKind::Invalid,
            detail: format!("{name}: more than {depth} commands outstanding: wait for some"),
        })
    }

    fn submit_read(&mut self, arrival: Arrival, offset: u64, len: u32) {
        let (lbn, sectors) = (offset / self.sector_bytes(), u64::from(len) / self.sector_bytes());
        if self.exchange.is_some() {
            self.exchange_read(arrival, lbn, sectors);
            return;
        }
        if self.read_hits(lbn, lbn + sectors) {
            self.stats.served.read_hits += 1;
            let at = self.use_bus(self.time + self.cached_overhead(), u64::from(len));
            self.finish_at(at, arrival.ticket, FinishAction::Read { lbn, sectors });
            return;
        }
        self.enqueue(arrival, lbn, sectors, MediaOperation::Read);
    }

    fn submit_write(&mut self, arrival: Arrival, offset: u64, parts: Vec<Payload>, durable: bool) {
        let bytes = total_len(&parts) as u64;
        let (lbn, sectors) = (offset / self.sector_bytes(), bytes / self.sector_bytes());
        let fits = bytes <= self.profile.cache.dirty_bytes_max;
        if durable || !self.properties.volatile_cache || !fits {
            self.enqueue(arrival, lbn, sectors, MediaOperation::Write { parts });
            return;
        }
        let waiting = WaitingWrite { ticket: arrival.ticket, lbn, parts, bytes };
        self.waiting_writes.push_back(waiting);
        let ready_at = self.cached_write_data_from();
        self.admit_cached_writes(ready_at);
    }

    fn enqueue(&mut self, arrival: Arrival, lbn: u64, sectors: u64, what: MediaOperation) {
        let overhead = match what {
            MediaOperation::Read => self.overheads.read,
            MediaOperation::Write { .. } | MediaOperation::Zero => self.overheads.write,
        };
        let bytes = sectors * self.sector_bytes();
        let with_data = matches!(what, MediaOperation::Write { .. });
        let (ready_at, data_from) = match &self.exchange {
            Some(_) => self.exchange_write(bytes, with_data),
            None => (self.time + overhead, Nanos::ZERO),
        };
        self.push(arrival, (lbn, sectors), what, ready_at, data_from);
    }

    fn push(
        &mut self,
        arrival: Arrival,
        (lbn, sectors): (u64, u64),
        what: MediaOperation,
        ready_at: Nanos,
        data_from: Nanos,
    ) {
        let sequence = self.next_sequence();
        self.queue.push(Pending {
            ticket: arrival.ticket,
            class: arrival.class,
            sequence,
            arrived_at: self.time,
            ready_at,
            data_from,
            lbn,
            target: self.mechanics.target(lbn),
            sectors,
            operation: what,
        });
    }

    fn submit_flush(&mut self, ticket: Ticket) {
        let covers = self.next_sequence();
        if self.dirty.oldest_debt().is_some_and(|oldest| oldest < covers) {
            self.waiting_flushes.push(WaitingFlush { ticket, covers });
        } else {
            self.finish_flush(self.time + self.cached_overhead(), ticket);
        }
    }

    /// Completes a flush, or fails it if the cache could not be written since the last one.
    fn finish_flush(&mut self, at: Nanos, ticket: Ticket) {
        let action = match self.destage_error.take() {
            Some(error) => FinishAction::Failed(error),
            None => FinishAction::Plain { flush: true },
        };
        self.finish_at(at, ticket, action);
    }
}

impl Drop for HddModel {
    fn drop(&mut self) {
        self.abandon_commands();
    }
}

impl PartialEq for Finish {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Finish {}

impl PartialOrd for Finish {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finish {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
