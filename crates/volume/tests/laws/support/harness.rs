//! A volume on a test disk, driven step by step in virtual time and watched by the oracle.
//!
//! Every request sent must be answered exactly once; every read must return what the oracle allows;
//! every restart must leave what it allows.

mod waiting;

use super::content::{SECTOR, payload, versions};
use super::disk::TestDisk;
use super::oracle::{Oracle, Read, Write};
use super::status::only_zeros_are_called_zeros;
use super::steps::{SPAN_SECTORS, Step};
use nearhead_disk::{Nanos, Properties, Region, RegionKind, Zones};
use nearhead_engine::{Config, ErrorKind, Hint, Occupancy, Operation, Reply, Request, RequestId};
use nearhead_format::{AckMode, Label, Preset};
use nearhead_models::{MemoryStore, SplitMix, plain_properties};
use nearhead_volume::create::create_with_regions;
use nearhead_volume::{CreateOptions, NamedPreset, Service, SyncIo, Volume};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) const DEVICE_BYTES: u64 = 64 << 20;
pub(crate) const VOLUME_ID: [u8; 16] = [7; 16];
/// Regions of the blank map, so small that a workload fills and zeroes many.
const REGION_BYTES: u64 = 4096;

/// What kind of volume on what kind of disk.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of a test, not a state")]
pub(crate) struct Options {
    pub(crate) preset: &'static str,
    pub(crate) ack: AckMode,
    pub(crate) sector_bytes: u32,
    /// What the disk calls its physical sector, if it is longer; a log is written in blocks of it.
    pub(crate) physical_sector_bytes: Option<u32>,
    pub(crate) volatile_cache: bool,
    /// Commands that the disk takes at once.
    pub(crate) queue_depth_max: u16,
    /// Checkpoints begin by themselves.
    pub(crate) idle_checkpoints: bool,
    /// Logs move when they are this full.
    pub(crate) swap_above_pct: Option<u8>,
    pub(crate) snapshot_after_bytes: u64,
    /// A snapshot after so long with changes.
    pub(crate) snapshot_period: Nanos,
    pub(crate) stage_bytes_max: usize,
    /// Writes up to this size are logged, if not the preset's.
    pub(crate) logged_write_bytes_max: Option<u32>,
    /// All logs together hold less than the workload writes over.
    pub(crate) logs_are_scarce: bool,
    /// A checkpoint begins when this share of the logs is in use.
    pub(crate) watermark_pct: Option<u8>,
    /// The disk was damaged on purpose, and opening may tell of it.
    pub(crate) is_damaged: bool,
    /// Small writes that wait alone go home.
    pub(crate) lone_writes_go_home: bool,
}

impl Options {
    pub(crate) fn new(preset: &'static str, ack: AckMode) -> Self {
        Self {
            preset,
            ack,
            sector_bytes: 512,
            physical_sector_bytes: None,
            volatile_cache: true,
            queue_depth_max: 1024,
            idle_checkpoints: false,
            swap_above_pct: Some(30),
            snapshot_after_bytes: 300 << 10,
            snapshot_period: Nanos::from_secs(600),
            stage_bytes_max: 256 << 10,
            logged_write_bytes_max: None,
            logs_are_scarce: false,
            watermark_pct: Some(70),
            is_damaged: false,
            lone_writes_go_home: false,
        }
    }

    /// A mixture that a seed chooses.
    pub(crate) fn random(preset: &'static str, ack: AckMode, random: &mut SplitMix) -> Self {
        Self {
            sector_bytes: if random.below(4) == 0 { 4096 } else { 512 },
            volatile_cache: random.below(4) > 0,
            idle_checkpoints: random.below(3) == 0,
            swap_above_pct: [None, Some(10), Some(30), Some(80)][random.below(4) as usize],
            snapshot_after_bytes: [60 << 10, 300 << 10, 8 << 20][random.below(3) as usize],
            stage_bytes_max: [64 << 10, 256 << 10, 2 << 20][random.below(3) as usize],
            // A preset that logs everything writes in place only if it is told to.
            logged_write_bytes_max: (preset == "slsmr" && random.coin()).then_some(32 << 10),
            ..Self::new(preset, ack)
        }
    }

    pub(crate) fn create_options(&self) -> CreateOptions {
        let named = NamedPreset::by_name(self.preset).unwrap();
        let (group_bytes, log_bytes) =
            (if self.logs_are_scarce { 28 << 20 } else { 4 << 20 }, 512 << 10);
        CreateOptions {
            volume_id: VOLUME_ID,
            created_unix_s: 0,
            preset: named.preset,
            logged_write_bytes_max: self
                .logged_write_bytes_max
                .unwrap_or(named.logged_write_bytes_max),
            group_bytes: (named.preset == Preset::Mlb).then_some(group_bytes),
            log_bytes: (named.preset != Preset::NoLog).then_some(log_bytes),
            ack: self.ack,
            label: Label::default(),
            device_bytes: None,
            force: true,
        }
    }

    pub(crate) fn configure(&self, config: &mut Config) {
        config.snapshot_after_bytes = self.snapshot_after_bytes;
        config.snapshot_period = self.snapshot_period;
        if self.logs_are_scarce {
            // Then releases of a checkpoint find no record either.
            config.log_reserve_bytes = 0;
        }
        config.cleaning.batch_bytes = 64 << 10;
        config.cleaning.window_bytes = 256 << 10;
        config.cleaning.idle_after = self.idle_checkpoints.then_some(Nanos::from_millis(3));
        config.cleaning.watermark_pct = self.watermark_pct;
        config.cleaning.swap_idle_after = Nanos::ZERO;
        config.cleaning.swap_above_pct = self.swap_above_pct;
        config.stage_bytes_max = self.stage_bytes_max;
        config.lone_writes_go_home = self.lone_writes_go_home;
    }

    pub(crate) fn disk_properties(&self) -> Properties {
        Properties {
            volatile_cache: self.volatile_cache,
            queue_depth_max: self.queue_depth_max,
            physical_sector_bytes: self.physical_sector_bytes.unwrap_or(self.sector_bytes),
            ..plain_properties(DEVICE_BYTES, self.sector_bytes)
        }
    }

    /// Where the disk is shingled, for the presets that need to know: bands of an odd number of
    /// sectors, small enough that a workload has homes in several.
    fn zones(&self) -> Option<Zones> {
        let preset = NamedPreset::by_name(self.preset).unwrap().preset;
        let free_bytes = if self.logs_are_scarce { 7 << 20 } else { 12 << 20 };
        let sector = u64::from(self.sector_bytes);
        let kind = RegionKind::Bands { band_bytes: 1201 * sector };
        preset.is_for_shingled().then(|| {
            let free = Region { offset: 0, len: free_bytes, kind: RegionKind::NonShingled };
            let bands = Region { offset: free_bytes, len: DEVICE_BYTES - free_bytes, kind };
            Zones::new(vec![free, bands], DEVICE_BYTES).unwrap()
        })
    }

    /// Such a disk, holding `image`.
    pub(crate) fn disk_with(&self, image: MemoryStore) -> TestDisk {
        TestDisk::with_image(self.disk_properties(), image).with_zones(self.zones())
    }

    /// A fresh volume on a fresh disk.
    pub(crate) fn disk(&self) -> TestDisk {
        let mut disk = self.disk_with(MemoryStore::new());
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        create_with_regions(&mut io, &self.create_options(), REGION_BYTES).unwrap();
        disk.with_latency(Nanos::from_micros(100))
    }
}

/// The harness.
pub(crate) struct Harness {
    pub(crate) options: Options,
    pub(crate) now: Nanos,
    volume: Option<Volume<TestDisk>>,
    pub(crate) oracle: Oracle,
    next: u64,
    reads: HashMap<u64, Read>,
    unanswered: HashSet<u64>,
    replies: DefaultHasher,
    /// Set once the disk has failed; then requests may fail too.
    pub(crate) faults_hit: u64,
    /// What an orderly stop left in use.
    left: Option<Occupancy>,
    /// Requests that were answered with an error.
    pub(crate) failed: Vec<(u64, ErrorKind)>,
}

impl Harness {
    pub(crate) fn new(options: Options) -> Self {
        let disk = options.disk();
        Self::start(options, disk)
    }

    /// Opens the volume on `disk`, on which nothing was written yet.
    pub(crate) fn start(options: Options, disk: TestDisk) -> Self {
        let mut harness = Self::on(options, Oracle::default());
        harness.open(disk);
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
    pub(crate) fn resume(options: Options, disk: TestDisk, oracle: Oracle) -> Self {
        let mut harness = Self::on(options, oracle);
        // Numbers of the earlier harness are not used again.
        harness.next = 1 << 30;
        harness.reopen(disk);
        harness
    }

    fn open(&mut self, disk: TestDisk) {
        let options = self.options.clone();
        let (mut volume, now) =
            Volume::open_in_virtual_time(disk, self.now, |_, config| options.configure(config))
                .unwrap_or_else(|error| panic!("{error}"));
        self.now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
        // A command that failed with effect may leave what looks like damage, and is told as such.
        if self.faults_hit == 0 && !self.options.is_damaged {
            assert_eq!(volume.status().damage, Vec::<String>::new(), "a sound disk has no damage");
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
    pub(crate) fn put(&mut self, volume: Volume<TestDisk>) {
        self.volume = Some(volume);
    }

    pub(crate) fn volume(&mut self) -> &mut Volume<TestDisk> {
        self.volume.as_mut().expect("the volume is open between steps")
    }

    /// The number that the next request gets.
    pub(crate) fn next_id(&self) -> u64 {
        self.next
    }

    /// A hash over every reply so far.
    pub(crate) fn replies_hash(&self) -> u64 {
        self.replies.finish()
    }

    fn durable_acks(&self) -> bool {
        self.options.ack == AckMode::Durable
    }

    pub(crate) fn send(&mut self, operation: Operation) -> u64 {
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

    pub(crate) fn apply(&mut self, step: &Step) {
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
                self.send(Operation::WriteZeroes { offset, len, fua, fast_only: false });
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
        let write = Write { atomic: true, ..self.sent(ranges, id, true) };
        self.oracle.sent(id, write);
        self.send(Operation::WriteAtomic { extents });
    }

    fn take_replies(&mut self) {
        while let Some(Reply { id, result }) = self.volume().poll_reply() {
            assert!(self.unanswered.remove(&id.0), "{id:?} was answered twice, or never asked");
            let success = result.is_ok();
            (id.0, success).hash(&mut self.replies);
            let excused = self.faults_hit > 0 || self.volume().disk().faults_hit > 0;
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

    fn take_disk(&mut self) -> TestDisk {
        self.reads.clear();
        self.unanswered.clear();
        let mut disk = self.volume.take().expect("the volume is open between steps").into_disk();
        self.faults_hit += disk.faults_hit;
        disk.faults_hit = 0;
        disk.mend();
        disk
    }

    fn cut(&mut self, seed: u64) {
        let mut disk = self.take_disk();
        disk.power_cut(&mut SplitMix::new(seed));
        self.reopen(disk);
    }

    fn kill(&mut self) {
        let mut disk = self.take_disk();
        disk.disown();
        self.reopen(disk);
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
        let mut disk = self.take_disk();
        // What a clean stop leaves does not need the power to stay on.
        disk.power_cut(&mut SplitMix::new(self.next));
        self.reopen(disk);
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
            let excused = self.faults_hit > 0 || self.volume().disk().faults_hit > 0;
            if let Err(error) = &result {
                assert!(excused, "request {id:?}: {error}");
            }
            self.reads.remove(&id.0);
            self.oracle.replied(id.0, result.is_ok());
        }
    }

    fn reopen(&mut self, disk: TestDisk) {
        self.open(disk);
        let read = self.read_all();
        if let Err(problem) = self.oracle.adopt(&read) {
            panic!("after the restart: {problem}\n{:#?}", self.volume().status());
        }
    }

    /// The versions of all sectors workloads touch.
    pub(crate) fn read_all(&mut self) -> BTreeMap<u64, u64> {
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
