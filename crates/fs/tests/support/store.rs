//! A volume in virtual time on disks that forget what was not flushed, for file systems to live on: its power goes at any command of
//! the disks, and what may be left then is recovered and read as any client would read it.

use super::{BLOCK, Blocks, Timed};
use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_format::AckMode;
use nearhead_laws::disk::{CutPoint, Devices, TestDisk};
use nearhead_laws::options::Options;
use nearhead_laws::raw::bytes_of;
use nearhead_models::{MemoryStore, Store as _};
use nearhead_service::{Extent, Operation, Reply, Request, RequestId, Service, ServiceInfo, Wake};
use nearhead_volume::create::create_with_regions;
use nearhead_volume::{Clock, CreateOptions, Lanes, Volume};
use std::rc::Rc;

/// What is read of a volume at once.
const PIECE_BYTES: u64 = 1 << 20;
/// What a command takes: longer than a client needs for the next request.
const COMMAND_TIME: Nanos = Nanos::from_millis(5);
/// Each device of a chain.
const CHAIN_DEVICE_BYTES: u64 = 96 << 20;
/// Regions of the blank map.
const REGION_BYTES: u64 = 64 << 10;

/// What kind of volume.
#[derive(Clone, Debug)]
pub struct Ground {
    pub options: Options,
    pub log_bytes: u64,
}

impl Ground {
    pub fn of(preset: &str, ack: AckMode) -> Self {
        let usual = Options::new(preset, ack);
        // Wherever there can be.
        let fragments = !usual.preset.layout.is_chain();
        let options = Options { fragments, ..usual };
        // Where a record of a full commit fits, and where it does not.
        let log_bytes = if ["mlb", "slsmr"].contains(&preset) { 3 << 20 } else { 9 << 20 };
        Self { options, log_bytes }
    }

    /// Its disks.
    fn disks(&self, image: MemoryStore) -> Devices {
        let mut all = self.options.device_properties();
        if !self.options.preset.layout.is_chain() {
            return self.options.disk_with(image);
        }
        // Those of the options are too small for logs of this size.
        for device in &mut all {
            device.capacity_bytes = CHAIN_DEVICE_BYTES;
        }
        let mut devices = TestDisk::side_by_side(all, image).into_iter();
        Devices::new(devices.next().unwrap(), devices.collect(), 0)
    }

    /// A new volume that holds these blocks, after an orderly stop.
    pub fn made(&self, blocks: &Blocks) -> MemoryStore {
        let mut disk = self.disks(MemoryStore::new());
        let usual = self.options.create_options();
        let group_bytes = usual.group_bytes.map(|_| 16 << 20);
        let log_bytes = usual.log_bytes.map(|_| self.log_bytes);
        let create = CreateOptions { group_bytes, log_bytes, ..usual };
        let mut io = disk.lanes_mut().in_virtual_time(Nanos::ZERO);
        create_with_regions(&mut io, &create, REGION_BYTES).unwrap();
        let mut store = Store::open(self, disk.into());
        for (block, bytes) in blocks {
            let data = nearhead_disk::Payload::Bytes(super::buffer(bytes));
            let offset = block * BLOCK as u64;
            store.ask(Operation::Write { offset, data, fua: false });
        }
        store.ask(Operation::Flush);
        let now = store.now;
        store.volume.begin_shutdown(now);
        store.run(|store| store.volume.is_shut_down());
        store.volume.disk().image()
    }

    /// What recovery makes of an image; blocks that are the same are shared with `base`.
    pub fn recovered(&self, image: MemoryStore, len: u64, base: &Blocks) -> Blocks {
        let mut store = Store::open(self, self.disks(image).into());
        let mut blocks = Blocks::new();
        for offset in (0..len).step_by(PIECE_BYTES as usize) {
            let extents = store.block_status(offset, PIECE_BYTES, usize::MAX);
            if extents.iter().all(|extent| extent.zero) {
                continue;
            }
            let read = store.ask(Operation::Read { offset, len: PIECE_BYTES as u32 });
            for (at, bytes) in (offset / BLOCK as u64..).zip(read.chunks(BLOCK)) {
                match base.get(&at) {
                    Some(same) if same[..] == *bytes => drop(blocks.insert(at, Rc::clone(same))),
                    _ if bytes.iter().all(|byte| *byte == 0) => {}
                    _ => drop(blocks.insert(at, Rc::new(bytes.to_vec()))),
                }
            }
        }
        blocks
    }
}

/// A volume.
pub struct Store {
    volume: Volume<TestDisk>,
    now: Nanos,
    /// Once the disks were told so many commands that change anything, the power is gone.
    pub commands_left: u64,
    is_cut: bool,
}

impl Store {
    pub fn on(ground: &Ground, image: MemoryStore) -> Self {
        let disk = ground.disks(image).with_latency(COMMAND_TIME);
        Self::open(ground, disk.into())
    }

    fn open(ground: &Ground, lanes: Lanes<TestDisk>) -> Self {
        let clock = Clock::Virtual { now: Nanos::ZERO };
        let options = &ground.options;
        let (mut volume, now) = Volume::open_with(options.presets, lanes, clock, |_, config| {
            options.configure(config);
        })
        .unwrap_or_else(|error| panic!("{error}"));
        let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
        let damage = volume.status().damage;
        assert!(damage.is_empty(), "a sound disk has no damage: {damage:?}");
        Self { volume, now, commands_left: u64::MAX, is_cut: false }
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Commands so far that change anything.
    pub fn commands(&self) -> u64 {
        self.volume.disk().writes()
    }

    /// From now on every state is noted that a cut may find.
    pub fn watch(&mut self) {
        self.volume.disk_mut().watch_cuts();
    }

    /// Those since the last look.
    pub fn cut_points(&mut self) -> Vec<CutPoint> {
        self.volume.disk_mut().take_cut_points()
    }

    /// What a cut now may find.
    pub fn cut_now(&mut self) -> CutPoint {
        self.volume.disk_mut().watch_cuts();
        self.volume.disk_mut().note_cut_point();
        self.volume.disk_mut().take_cut_points().pop().unwrap()
    }

    fn run(&mut self, is_done: impl Fn(&mut Self) -> bool) {
        loop {
            self.volume.drive(self.now);
            if is_done(self) {
                return;
            }
            let wake = self.volume.wake().at.expect("the volume goes on by itself");
            self.now = wake.max(self.now);
        }
    }

    fn ask(&mut self, operation: Operation) -> Vec<u8> {
        self.volume.submit(Request { id: RequestId(1 << 40), operation }, self.now);
        loop {
            self.volume.drive(self.now);
            if let Some(reply) = self.volume.poll_reply() {
                return bytes_of(&reply.result.unwrap_or_else(|error| panic!("{error}")));
            }
            let wake = self.volume.wake().at.expect("a request is answered");
            self.now = wake.max(self.now);
        }
    }
}

impl Timed for Store {
    fn next_at(&self) -> Option<Nanos> {
        self.volume.wake().at.filter(|_| !self.is_cut)
    }

    fn record_bytes_max(&self) -> u64 {
        self.volume.engine().atomic_bytes_max()
    }
}

impl Service for Store {
    fn info(&self) -> ServiceInfo {
        self.volume.info()
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        self.volume.submit(request, now);
    }

    fn drive(&mut self, now: Nanos) {
        if !self.is_cut {
            self.volume.drive(now);
            self.is_cut = self.volume.disk().writes() >= self.commands_left;
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        if self.is_cut { None } else { self.volume.poll_reply() }
    }

    fn wake(&self) -> Wake<'_> {
        self.volume.wake()
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        self.volume.block_status(offset, len, runs_max)
    }

    fn losses(&self) -> u64 {
        self.volume.losses()
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.volume.begin_shutdown(now);
    }

    fn is_shut_down(&self) -> bool {
        self.volume.is_shut_down()
    }
}

/// What a cut may leave.
#[derive(Clone, Copy, Debug)]
pub enum Left {
    /// What is safe alone.
    Safe,
    /// All that was sent.
    All,
    /// All but the first that was sent.
    Later,
    /// Of each write all, nothing or some sectors.
    Chance,
}

/// A disk after a cut.
pub fn after_cut(point: &CutPoint, sector: u32, left: Left, random: &mut Random) -> MemoryStore {
    let mut image = point.safe.clone();
    for (number, write) in point.unflushed.iter().enumerate() {
        let fate = random.below(4);
        for (at, bytes) in bytes_of(&write.parts).chunks(sector as usize).enumerate() {
            let is_there = match (left, fate) {
                (Left::Safe, _) | (Left::Chance, 1) => false,
                (Left::Later, _) => number > 0,
                (Left::All, _) | (Left::Chance, 0) => true,
                (Left::Chance, _) => random.below(2) == 0,
            };
            if is_there && !write.is_superseded(at) {
                image.write(write.offset + at as u64 * u64::from(sector), bytes).unwrap();
            }
        }
    }
    image
}
