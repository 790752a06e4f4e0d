//! A volume on a test disk, driven step by step in virtual time and watched by the oracle.
//!
//! Every request sent must be answered exactly once; every read must return what the oracle allows;
//! every restart must leave what it allows.

mod waiting;

use crate::disk::TestDisk;
use crate::options::Options;
use crate::status::only_zeros_are_called_zeros;
use crate::steps::{SPAN_SECTORS, Step};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_engine::Occupancy;
use nearhead_format::AckMode;
use nearhead_service::{Changed, ErrorKind, Hint, Operation, Reply, Request, RequestId, Service};
use nearhead_swarm::content::{SECTOR, payload, versions};
use nearhead_swarm::oracle::{Oracle, Read, Write};
use nearhead_volume::{Clock, Lanes, Volume};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The harness.
pub struct Harness {
    pub options: Options,
    pub now: Nanos,
    volume: Option<Volume<TestDisk>>,
    pub oracle: Oracle,
    next: u64,
    reads: HashMap<u64, Read>,
    unanswered: HashSet<u64>,
    replies: DefaultHasher,
    /// Set once the disk has failed; then requests may fail too.
    pub faults_hit: u64,
    /// What an orderly stop left in use.
    left: Option<Occupancy>,
    /// Requests that were answered with an error.
    pub failed: Vec<(u64, ErrorKind)>,
}

impl Harness {
    pub fn new(options: Options) -> Self {
        let disk = options.disk();
        Self::start(options, disk)
    }

    /// Opens the volume on its disks, on which nothing was written yet.
    pub fn start(options: Options, disks: impl Into<Lanes<TestDisk>>) -> Self {
        let mut harness = Self::on(options, Oracle::default());
        harness.open(disks.into());
        harness
    }

    fn on(options: Options, oracle: Oracle) -> Self {
        Self {
            options,
            now: Nanos::ZERO,
            volume: None,
            oracle,
            next: 1,
            reads: HashMap::new(),
            unanswered: HashSet::new(),
            replies: DefaultHasher::new(),
            faults_hit: 0,
            left: None,
            failed: Vec::new(),
        }
    }

    /// Goes on with what a crash left: recovers, and checks it against what the oracle knew then.
    pub fn resume(options: Options, disks: impl Into<Lanes<TestDisk>>, oracle: Oracle) -> Self {
        let mut harness = Self::on(options, oracle);
        // Numbers of the earlier harness are not used again.
        harness.next = 1 << 30;
        harness.reopen(disks.into());
        harness
    }

    fn open(&mut self, disks: Lanes<TestDisk>) {
        let options = self.options.clone();
        let clock = Clock::Virtual { now: self.now };
        let (mut volume, now) =
            Volume::open_with(options.presets, disks, clock, |_, config| options.configure(config))
                .unwrap_or_else(|error| panic!("{error}"));
        self.now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
        // A command that failed with effect may leave what looks like damage, and is told as such.
        if self.faults_hit == 0 && !self.options.is_damaged {
            let damage = volume.status().damage;
            assert!(damage.is_empty(), "a sound disk has no damage: {damage:?}");
        }
        if let Some(left) = self.left.take() {
            assert_eq!(volume.engine().occupancy(), left, "in use after a stop, and before it");
        }
        self.volume = Some(volume);
        self.check_counts();
    }

    /// What is counted as it happens is what counting anew finds.
    fn check_counts(&mut self) {
        if let Err(problem) = self.volume().engine().check_counts() {
            panic!("the counts have drifted: {problem}");
        }
    }

    /// Goes on with this volume.
    pub fn put(&mut self, volume: Volume<TestDisk>) {
        self.volume = Some(volume);
    }

    pub fn volume(&mut self) -> &mut Volume<TestDisk> {
        self.volume.as_mut().expect("the volume is open between steps")
    }

    /// The number that the next request gets.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// A hash over every reply so far.
    pub fn replies_hash(&self) -> u64 {
        self.replies.finish()
    }

    fn durable_acks(&self) -> bool {
        self.options.ack == AckMode::Durable
    }

    pub fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        self.unanswered.insert(id);
        let now = self.now;
        self.volume().submit(Request { id: RequestId(id), operation }, now);
        id
    }

    fn sent(&mut self, ranges: Vec<(u64, u64)>, value: u64, fua: bool) -> Write {
        let durable_on_reply = fua || self.durable_acks();
        Write { ranges, value, atomic: false, optional: false, durable_on_reply }
    }

    /// The range on the volume's blocks.
    fn aligned(&self, start: u64, count: u64) -> (u64, u64) {
        let unit = u64::from(self.options.sector_bytes) / SECTOR;
        (start / unit * unit, count.next_multiple_of(unit))
    }

    pub fn apply(&mut self, step: &Step) {
        self.apply_unchecked(step);
        self.check_counts();
    }

    fn apply_unchecked(&mut self, step: &Step) {
        let id = self.next;
        match *step {
            Step::Write { start, count, fua } => {
                let (start, count) = self.aligned(start, count);
                let write = self.sent(vec![(start, count)], id, fua);
                self.oracle.sent(id, write);
                let data = payload(start, count, id);
                self.send(Operation::Write { offset: start * SECTOR, data, fua });
            }
            Step::Zeroes { start, count, fua } => {
                let (start, count) = self.aligned(start, count);
                let write = self.sent(vec![(start, count)], 0, fua);
                self.oracle.sent(id, write);
                let (offset, len) = (start * SECTOR, count * SECTOR);
                // Both kinds without a step of its own: which one it is follows from the place.
                let may_unmap = start % 16 < 8;
                let fast_only = false;
                self.send(Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap });
            }
            Step::Trim { start, count, fua } => {
                let (start, count) = self.aligned(start, count);
                let write = self.sent(vec![(start, count)], 0, fua);
                self.oracle.sent(id, Write { optional: true, ..write });
                self.send(Operation::Trim { offset: start * SECTOR, len: count * SECTOR, fua });
            }
            Step::Atomic { start, other, count } => self.atomic(start, other, count),
            Step::Read { start, count } => {
                let (start, count) = self.aligned(start, count);
                self.reads.insert(id, self.oracle.read_sent(start, count));
                let len = (count * SECTOR) as u32;
                self.send(Operation::Read { offset: start * SECTOR, len });
            }
            Step::Flush => {
                self.oracle.flush_sent(id);
                self.send(Operation::Flush);
            }
            Step::Hint { start, count, on } => {
                let (start, count) = self.aligned(start, count);
                let hint = if on { Hint::DurabilityOnly } else { Hint::Normal };
                self.send(Operation::Hint { offset: start * SECTOR, len: count * SECTOR, hint });
            }
            Step::Checkpoint { everything } => {
                let now = self.now;
                self.volume().start_checkpoint(everything, now);
            }
            Step::Turn { micros } => self.turn(Nanos::from_micros(micros)),
            Step::Settle => self.settle(),
            Step::Cut { seed } => self.cut(seed),
            Step::Kill => self.kill(),
            Step::Restart => self.stop_and_start(),
            Step::Fail(ref fault) => self.volume().disk_mut().add_fault(fault.clone()),
        }
    }

    fn atomic(&mut self, start: u64, other: u64, count: u64) {
        let (start, count) = self.aligned(start, count);
        let (other, _) = self.aligned(other, count);
        let meet = start < other + count && other < start + count && start != other;
        if meet || self.volume().engine().atomic_bytes_max() < 2 * count * SECTOR {
            return;
        }
        let id = self.next;
        let mut ranges = vec![(start, count), (other, count)];
        ranges.dedup();
        let extent = |(start, count)| (start * SECTOR, payload(start, count, id));
        let extents = ranges.iter().copied().map(extent).collect();
        let changed = self.changed(&ranges);
        let write = Write { atomic: true, ..self.sent(ranges, id, true) };
        self.oracle.sent(id, write);
        self.send(Operation::WriteAtomic { extents, changed });
    }

    /// All of it is new, as the oracle knows whole sectors; where records bring bytes it is said byte by byte.
    fn changed(&self, ranges: &[(u64, u64)]) -> Changed {
        if !self.options.fragments {
            return Changed::All;
        }
        let bytes = |(start, count): &(u64, u64)| start * SECTOR..(start + count) * SECTOR;
        let mut changed: Vec<_> = ranges.iter().map(bytes).collect();
        changed.sort_unstable_by_key(|range| range.start);
        Changed::Only(changed)
    }

    fn take_replies(&mut self) {
        while let Some(Reply { id, result }) = self.volume().poll_reply() {
            assert!(self.unanswered.remove(&id.0), "{id:?} was answered twice, or never asked");
            let success = result.is_ok();
            (id.0, success).hash(&mut self.replies);
            let excused = self.faults_hit > 0 || self.volume().disk().faults_hit() > 0;
            if let Err(error) = &result {
                assert!(excused, "request {id:?}: {error}");
                error.detail.hash(&mut self.replies);
                self.failed.push((id.0, error.kind));
            }
            let Some(read) = self.reads.remove(&id.0) else {
                self.oracle.replied(id.0, success);
                continue;
            };
            let Ok(parts) = result else { continue };
            let found = versions(read.start, &parts).unwrap_or_else(|problem| panic!("{problem}"));
            found.hash(&mut self.replies);
            if let Err(problem) = self.oracle.check_read(id.0, &read, &found) {
                panic!("{problem}");
            }
        }
    }

    /// The volume is gone; its disks are sound again, and named in another order now and then.
    fn take_disks(&mut self) -> Lanes<TestDisk> {
        self.reads.clear();
        self.unanswered.clear();
        let volume = self.volume.take().expect("the volume is open between steps");
        let (mut main, map, mut data) = volume.into_lanes().into_all();
        self.faults_hit += main.take_faults_hit();
        main.mend();
        if self.next.is_multiple_of(2) {
            data.reverse();
        }
        let all = match map {
            Some(map) => Lanes::with_map(main, map),
            None => Ok(Lanes::from(main)),
        };
        all.and_then(|all| all.with_data(data)).expect("there is nothing to watch")
    }

    fn cut(&mut self, seed: u64) {
        let mut disks = self.take_disks();
        disks.main_mut().power_cut(&mut SplitMix::new(seed));
        self.reopen(disks);
    }

    fn kill(&mut self) {
        let mut disks = self.take_disks();
        disks.main_mut().disown();
        self.reopen(disks);
    }

    fn stop_and_start(&mut self) {
        let now = self.now;
        self.volume().begin_shutdown(now);
        let late = self.send(Operation::Flush);
        for _ in 0..100_000 {
            let now = self.now;
            self.volume().drive(now);
            self.take_replies_while_stopping(late);
            if self.volume().is_shut_down() {
                break;
            }
            let Some(wake) = self.volume().wake_at() else {
                panic!("the shutdown never ends: {:#?}", self.volume().status());
            };
            self.now = wake.max(self.now);
        }
        let status = self.volume().status();
        assert!(self.volume().is_shut_down(), "the shutdown never ends: {status:#?}");
        assert!(self.unanswered.is_empty(), "{:?} were never answered", self.unanswered);
        if self.volume().engine().failure().is_none() {
            self.oracle.stopped();
            self.left = Some(self.volume().engine().occupancy());
        }
        let mut disks = self.take_disks();
        // What a clean stop leaves does not need the power to stay on.
        disks.main_mut().power_cut(&mut SplitMix::new(self.next));
        self.reopen(disks);
    }

    fn take_replies_while_stopping(&mut self, late: u64) {
        let mut others = Vec::new();
        while let Some(reply) = self.volume().poll_reply() {
            if reply.id.0 == late {
                assert!(self.unanswered.remove(&late), "answered twice");
                let kind = reply.result.map_err(|error| error.kind);
                assert_eq!(kind.unwrap_err(), ErrorKind::ShuttingDown);
            } else {
                others.push(reply);
            }
        }
        for Reply { id, result } in others {
            assert!(self.unanswered.remove(&id.0), "{id:?} was answered twice, or never asked");
            let excused = self.faults_hit > 0 || self.volume().disk().faults_hit() > 0;
            if let Err(error) = &result {
                assert!(excused, "request {id:?}: {error}");
            }
            self.reads.remove(&id.0);
            self.oracle.replied(id.0, result.is_ok());
        }
    }

    fn reopen(&mut self, disks: Lanes<TestDisk>) {
        self.open(disks);
        let read = self.read_all();
        if let Err(problem) = self.oracle.adopt(&read) {
            panic!("after the restart: {problem}\n{:#?}", self.volume().status());
        }
    }

    /// The versions of all sectors workloads touch.
    pub fn read_all(&mut self) -> BTreeMap<u64, u64> {
        let mut read = BTreeMap::new();
        for start in (0..SPAN_SECTORS + 512).step_by(512) {
            let id = self.send(Operation::Read { offset: start * SECTOR, len: 512 * 512 });
            let parts = loop {
                let now = self.now;
                self.volume().drive(now);
                if let Some(reply) = self.volume().poll_reply() {
                    assert_eq!(reply.id.0, id);
                    self.unanswered.remove(&id);
                    break reply.result.unwrap_or_else(|error| panic!("after a restart: {error}"));
                }
                let wake = self.volume().wake_at().expect("a read is answered");
                self.now = wake.max(self.now);
            };
            let found = versions(start, &parts).unwrap_or_else(|problem| panic!("{problem}"));
            let extents = self.volume().block_status(start * SECTOR, 512 * 512, usize::MAX);
            if let Err(problem) = only_zeros_are_called_zeros(start, &extents, &found) {
                panic!("{problem}");
            }
            read.extend((start..).zip(found));
        }
        read
    }
}
