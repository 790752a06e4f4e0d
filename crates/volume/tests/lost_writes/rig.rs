//! A volume over such a file, in virtual time, watched by the oracle.
//!
//! Whatever is answered in the drive that notices a loss was answered before it. What was acknowledged until then and is not
//! durable may be old or new once, and stays what it is found to be.

use crate::disk::CachedFile;
use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, Properties};
use nearhead_engine::Config;
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestId, Service};
use nearhead_swarm::content::{SECTOR, payload, versions};
use nearhead_swarm::oracle::{Oracle, Read, Write};
use nearhead_volume::{
    CreateOptions, LossEvent, NamedPreset, ReopeningVolume, SyncIo, Volume, create,
};
use std::collections::{BTreeMap, HashMap, HashSet};

const DEVICE_BYTES: u64 = 64 << 20;
/// Workloads touch so many sectors of the volume.
pub(crate) const SPAN_SECTORS: u64 = 2048;
pub(crate) const LATENCY: Nanos = Nanos::from_micros(100);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) preset: &'static str,
    pub(crate) ack: AckMode,
    pub(crate) lone_writes_go_home: bool,
}

pub(crate) struct Rig {
    kind: Kind,
    pub(crate) now: Nanos,
    volume: Option<ReopeningVolume<CachedFile>>,
    pub(crate) oracle: Oracle,
    next: u64,
    reads: HashMap<u64, Read>,
    pub(crate) unanswered: HashSet<u64>,
    losses: u64,
    /// What failed, and how.
    pub(crate) failed: Vec<(u64, ErrorKind)>,
    pub(crate) told: Vec<LossEvent>,
}

fn configure(kind: Kind) -> impl Fn(&Superblock, &mut Config) + 'static {
    move |_, config| {
        config.snapshot_after_bytes = 200 << 10;
        config.cleaning.batch_bytes = 64 << 10;
        config.cleaning.window_bytes = 256 << 10;
        config.cleaning.idle_after = Some(Nanos::from_millis(3));
        config.stage_bytes_max = 128 << 10;
        config.lone_writes_go_home = kind.lone_writes_go_home;
    }
}

impl Rig {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let properties = Properties { volatile_cache: true, ..plain_properties(DEVICE_BYTES, 512) };
        let inner = CrashDisk::with_image(properties, MemoryStore::new());
        let mut disk = CachedFile::new(inner, LATENCY, seed);
        let named = NamedPreset::by_name(kind.preset).unwrap();
        let options = CreateOptions {
            volume_id: [7; 16],
            created_unix_s: 0,
            preset: named,
            logged_write_bytes_max: named.logged_write_bytes_max,
            group_bytes: named.layout.has_groups_of_any_size().then_some(4 << 20),
            log_bytes: named.layout.has_logs().then_some(512 << 10),
            ack: kind.ack,
            label: Label::default(),
            device_bytes: None,
            data_parts: DataParts::NONE,
            fragments: false,
            force: true,
        };
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        create(&mut io, &options).unwrap();
        let now = io.now();
        let mut rig = Self {
            kind,
            now,
            volume: None,
            oracle: Oracle::default(),
            next: 1,
            reads: HashMap::new(),
            unanswered: HashSet::new(),
            losses: 0,
            failed: Vec::new(),
            told: Vec::new(),
        };
        rig.open(disk);
        rig
    }

    fn open(&mut self, disk: CachedFile) {
        let configure = configure(self.kind);
        let (mut volume, now) = Volume::open_in_virtual_time(disk, self.now, &configure).unwrap();
        self.now = volume.run_until_open(now).unwrap();
        self.volume = Some(ReopeningVolume::new(volume, None, configure));
        self.losses = 0;
    }

    pub(crate) fn volume(&mut self) -> &mut ReopeningVolume<CachedFile> {
        self.volume.as_mut().unwrap()
    }

    pub(crate) fn disk(&mut self) -> &mut CachedFile {
        self.volume().volume_mut().disk_mut()
    }

    pub(crate) fn phase(&mut self) -> &'static str {
        self.volume().volume().status().phase.name()
    }

    fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        self.unanswered.insert(id);
        let now = self.now;
        self.volume().submit(Request { id: RequestId(id), operation }, now);
        id
    }

    pub(crate) fn write(&mut self, start: u64, count: u64, fua: bool) -> u64 {
        let durable_on_reply = fua || self.kind.ack == AckMode::Durable;
        let id = self.next;
        let ranges = vec![(start, count)];
        let write = Write { ranges, value: id, atomic: false, optional: false, durable_on_reply };
        self.oracle.sent(id, write);
        self.send(Operation::Write { offset: start * SECTOR, data: payload(start, count, id), fua })
    }

    pub(crate) fn zeroes(&mut self, start: u64, count: u64) {
        let id = self.next;
        let durable_on_reply = self.kind.ack == AckMode::Durable;
        let ranges = vec![(start, count)];
        self.oracle
            .sent(id, Write { ranges, value: 0, atomic: false, optional: false, durable_on_reply });
        let (offset, len) = (start * SECTOR, count * SECTOR);
        self.send(Operation::WriteZeroes {
            offset,
            len,
            fua: false,
            fast_only: false,
            may_unmap: false,
        });
    }

    pub(crate) fn read(&mut self, start: u64, count: u64) {
        self.reads.insert(self.next, self.oracle.read_sent(start, count));
        self.send(Operation::Read { offset: start * SECTOR, len: (count * SECTOR) as u32 });
    }

    pub(crate) fn flush(&mut self) -> u64 {
        self.oracle.flush_sent(self.next);
        self.send(Operation::Flush)
    }

    /// A random step of a mixture.
    pub(crate) fn step(&mut self, random: &mut SplitMix) {
        let start = random.below(SPAN_SECTORS);
        let count_max = if random.below(6) == 0 { 300 } else { 24 };
        let count = 1 + random.below(count_max);
        let count = count.min(SPAN_SECTORS - start);
        match random.below(32) {
            0..=15 => drop(self.write(start, count, random.below(3) == 0)),
            16 | 17 => drop(self.flush()),
            18 => self.zeroes(start, count),
            19..=22 => self.read(start, count),
            23 if !self.volume().is_reopening() => {
                let (now, everything) = (self.now, random.coin());
                self.volume().volume_mut().start_checkpoint(everything, now);
            }
            24 => self.settle(),
            _ => self.turn(Nanos::from_micros(random.below(300))),
        }
    }

    pub(crate) fn drive(&mut self) {
        let now = self.now;
        self.volume().drive(now);
        self.take_replies();
        while let Some(event) = self.volume().poll_loss_event() {
            self.told.push(event);
        }
        let losses = Service::losses(self.volume());
        if losses != self.losses {
            self.losses = losses;
            self.oracle.lost();
            // Either side of the loss may have answered them.
            self.reads.clear();
        }
    }

    fn take_replies(&mut self) {
        while let Some(Reply { id, result }) = self.volume().poll_reply() {
            assert!(self.unanswered.remove(&id.0), "{id:?} was answered twice, or never asked");
            if let Err(error) = &result {
                self.failed.push((id.0, error.kind));
            }
            let Some(read) = self.reads.remove(&id.0) else {
                self.oracle.replied(id.0, result.is_ok());
                continue;
            };
            let Ok(parts) = result else { continue };
            let found = versions(read.start, &parts).unwrap();
            self.oracle.check_read(id.0, &read, &found).unwrap();
        }
    }

    fn turn(&mut self, span: Nanos) {
        self.drive();
        if let Some(wake) = self.volume().wake_at() {
            self.now = (self.now + span).min(wake.max(self.now));
            self.drive();
        }
    }

    /// To the next event; whether there was one.
    pub(crate) fn jump(&mut self) -> bool {
        self.drive();
        let Some(wake) = self.volume().wake_at() else { return false };
        self.now = wake.max(self.now);
        self.drive();
        true
    }

    /// Until everything is answered and the volume is not being opened.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            self.drive();
            if self.unanswered.is_empty() && !self.volume().is_reopening() {
                return;
            }
            assert!(self.jump(), "{:?} wait, and nothing will happen", self.unanswered);
        }
        panic!("{:?} are never answered", self.unanswered);
    }

    /// Goes on until so much time has passed.
    pub(crate) fn pass(&mut self, span: Nanos) {
        let until = self.now + span;
        loop {
            self.drive();
            let Some(wake) = self.volume().wake_at().filter(|wake| *wake < until) else { break };
            self.now = wake.max(self.now);
        }
        self.now = until;
        self.drive();
    }

    /// The power goes, and comes back.
    pub(crate) fn cut(&mut self, seed: u64) {
        self.reads.clear();
        self.unanswered.clear();
        let mut disk = self.volume.take().unwrap().into_disk();
        disk.power_cut(&mut SplitMix::new(seed));
        disk.mend();
        self.open(disk);
        self.adopt("after a power cut");
    }

    /// What is there now is allowed, and stays.
    pub(crate) fn adopt(&mut self, when: &str) {
        let mut read = BTreeMap::new();
        for start in (0..SPAN_SECTORS).step_by(512) {
            let id = self.send(Operation::Read { offset: start * SECTOR, len: 512 * 512 });
            let parts = loop {
                let now = self.now;
                self.volume().drive(now);
                if let Some(reply) = self.volume().poll_reply() {
                    assert_eq!(reply.id.0, id);
                    self.unanswered.remove(&id);
                    break reply.result.unwrap();
                }
                let wake = self.volume().wake_at().expect("a read is answered");
                self.now = wake.max(self.now);
            };
            read.extend((start..).zip(versions(start, &parts).unwrap()));
        }
        self.oracle.adopt(&read).unwrap_or_else(|problem| panic!("{when}: {problem}"));
    }
}
