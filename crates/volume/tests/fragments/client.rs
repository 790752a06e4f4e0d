//! A client that knows what every byte of a few blocks may be, and a volume whose power goes now and then.

mod asks;
mod steps;

use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::snapshot::{CELL_CONTENT_BYTES, FRAGMENT_CELL_BYTES};
use nearhead_laws::disk::TestDisk;
use nearhead_laws::options::Options;
use nearhead_laws::raw::bytes_of;
use nearhead_models::MemoryStore;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::create::create_with_regions;
use nearhead_volume::{Clock, Lanes, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const BLOCK: u64 = 4096;
const SECTOR: usize = 512;
/// What a command takes.
const COMMAND_TIME: Nanos = Nanos::from_millis(5);
/// How long a read waits at most on a disk that comes to it late.
const READS_LATE: Nanos = Nanos::from_millis(60);
/// Regions of the blank map.
const REGION_BYTES: u64 = 4096;
/// Requests under way at once.
const DEPTH: usize = 6;
/// Turns in which no request is answered: more are a volume that turns in circles.
const TURNS_MAX: u32 = 20_000;
/// A pause in which cleaning begins.
const PAUSE: Nanos = Nanos::from_millis(200);

/// What kind of life.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of a life, not a state")]
pub(crate) struct Life {
    pub(crate) requests: u64,
    /// Blocks that it uses.
    pub(crate) blocks: u64,
    /// The power goes.
    pub(crate) cuts: bool,
    /// Nobody asks anything for a while, now and then.
    pub(crate) pauses: bool,
    /// Some writes go in place.
    pub(crate) large: bool,
    /// Reads meet writes of the same sectors, on a disk that comes to a read late.
    pub(crate) reads_late: bool,
    /// Not every write waits until it is durable.
    pub(crate) volatile: bool,
    /// Of twenty requests so many bring fragments.
    pub(crate) fragments_of_20: u64,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            requests: 500,
            blocks: 40,
            cuts: true,
            pauses: false,
            large: true,
            reads_late: false,
            volatile: false,
            fragments_of_20: 11,
        }
    }
}

/// What a sector may be: what it was, and what a request that is not answered makes of it.
#[derive(Clone)]
struct Sector {
    is: Vec<u8>,
    becomes: Option<Vec<u8>>,
    /// It was trimmed: whatever it is, it stays that until it is written.
    is_any: bool,
}

impl Sector {
    fn blank() -> Self {
        Self { is: vec![0; SECTOR], becomes: None, is_any: false }
    }

    /// All that it may read as now.
    fn versions(&self) -> Vec<Vec<u8>> {
        std::iter::once(&self.is).chain(&self.becomes).cloned().collect()
    }

    fn may_be(&self, found: &[u8]) -> bool {
        self.is_any || self.is == found || self.becomes.as_deref() == Some(found)
    }
}

/// A request that is not answered.
struct Asked {
    sectors: Range<u64>,
    /// Of a read: what each sector was or became since it was asked for.
    versions: Option<Vec<Vec<Vec<u8>>>>,
    is_trim: bool,
    /// A crash may take it back although it was answered.
    is_volatile: bool,
}

impl Asked {
    fn write(sectors: Range<u64>) -> Self {
        Self { sectors, versions: None, is_trim: false, is_volatile: false }
    }

    fn is_read(&self) -> bool {
        self.versions.is_some()
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

pub(crate) struct Client<'a> {
    options: &'a Options,
    life: Life,
    seed: u64,
    random: SplitMix,
    volume: Volume<TestDisk>,
    now: Nanos,
    sectors: BTreeMap<u64, Sector>,
    asked: BTreeMap<u64, Asked>,
    next_id: u64,
    /// Fragments that records brought.
    brought: u64,
    /// Commands until the power goes.
    commands_left: u64,
    /// Turns since a request was answered, while any is under way.
    turns: u32,
}

fn opened(
    options: &Options,
    life: Life,
    image: Option<MemoryStore>,
    seed: u64,
) -> (Volume<TestDisk>, Nanos) {
    let is_new = image.is_none();
    let mut disk = options.disk_with(image.unwrap_or_default()).with_latency(COMMAND_TIME);
    if is_new {
        let mut io = disk.lanes_mut().in_virtual_time(Nanos::ZERO);
        create_with_regions(&mut io, &options.create_options(), REGION_BYTES)
            .expect("a new volume");
    }
    if life.reads_late {
        disk = disk.with_reads_late(READS_LATE, seed);
    }
    let lanes: Lanes<TestDisk> = disk.into();
    let clock = Clock::Virtual { now: Nanos::ZERO };
    let (mut volume, now) = Volume::open_with(options.presets, lanes, clock, |_, config| {
        options.configure(config);
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
    let damage = volume.status().damage;
    assert!(damage.is_empty(), "a sound disk has no damage: {damage:?}");
    (volume, now)
}

impl<'a> Client<'a> {
    pub(crate) fn new(options: &'a Options, life: Life, seed: u64) -> Self {
        let (volume, now) = opened(options, life, None, seed);
        let random = SplitMix::new(seed);
        let mut client = Self {
            options,
            life,
            seed,
            random,
            volume,
            now,
            sectors: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_id: 0,
            brought: 0,
            commands_left: u64::MAX,
            turns: 0,
        };
        client.choose_cut();
        client
    }

    /// Lives; says how many fragments records brought.
    pub(crate) fn live(mut self) -> u64 {
        for _ in 0..self.life.requests {
            while self.asked.len() >= DEPTH {
                self.go_on();
            }
            if self.life.pauses && self.random.below(40) == 0 {
                self.wait(PAUSE);
            }
            if self.random.below(120) == 0 {
                self.restart();
            }
            self.ask_something();
            self.turn();
        }
        self.settle();
        self.compare_all();
        self.note_brought();
        self.brought
    }

    fn note_brought(&mut self) {
        self.brought += self.volume.status().stats.fragments;
    }

    fn tell(&self, what: &str) -> String {
        format!("seed {}, request {}: {what}", self.seed, self.next_id)
    }

    fn choose_cut(&mut self) {
        let commands = 5 + self.random.below(120);
        let written = self.volume.disk().writes();
        self.commands_left = if self.life.cuts { written + commands } else { u64::MAX };
    }

    /// One step of the volume; the power may go at any command.
    fn turn(&mut self) {
        self.volume.drive(self.now);
        self.volume
            .engine()
            .check_counts()
            .unwrap_or_else(|problem| panic!("{}", self.tell(&problem)));
        self.check_room();
        while let Some(reply) = self.volume.poll_reply() {
            self.turns = 0;
            let asked = self.asked.remove(&reply.id.0).expect("asked");
            let parts = reply.result.unwrap_or_else(|error| panic!("{}", self.tell(&error.detail)));
            self.answered(&asked, &bytes_of(&parts));
        }
        if self.volume.disk().writes() >= self.commands_left {
            self.cut();
        }
    }

    /// A snapshot has room for all of them, whenever it begins.
    fn check_room(&self) {
        let sectors = 0..self.volume.superblock().layout.client_bytes() / SECTOR as u64;
        let runs = self.volume.engine().bytes_over(sectors);
        let cells: usize = runs.iter().map(|(_, run)| run.len().div_ceil(CELL_CONTENT_BYTES)).sum();
        let bytes = (cells * FRAGMENT_CELL_BYTES) as u64;
        let room_bytes = self.volume.superblock().layout.fragment_room_bytes();
        assert!(
            bytes <= room_bytes,
            "{}",
            self.tell("more fragments than a snapshot has room for")
        );
    }

    /// What is said to be zeros is, where nobody writes.
    fn check_zeros(&mut self, block: u64) {
        let sectors = block * 8..(block + 1) * 8;
        if self.asked.values().any(|asked| overlap(&asked.sectors, &sectors)) {
            return;
        }
        let mut at = 0;
        for run in self.volume.block_status(block * BLOCK, BLOCK, 100) {
            for byte in at..at + run.len {
                let (number, within) = (block * 8 + byte / 512, (byte % 512) as usize);
                let Some(sector) = self.sectors.get(&number).filter(|_| run.zero) else { continue };
                let is_right = sector.is_any || sector.is[within] == 0;
                assert!(is_right, "{}", self.tell(&format!("sector {number} is no zeros")));
            }
            at += run.len;
        }
    }

    fn go_on(&mut self) {
        self.turn();
        if !self.asked.is_empty() {
            self.turns += 1;
            assert!(self.turns < TURNS_MAX, "{}", self.tell("no request is answered any more"));
            let at = self.volume.wake().at.expect("a request is answered");
            self.now = at.max(self.now);
        }
    }

    fn settle(&mut self) {
        while !self.asked.is_empty() {
            self.go_on();
        }
    }

    fn wait(&mut self, time: Nanos) {
        let end = self.now + time;
        while let Some(at) = self.volume.wake().at.filter(|at| *at < end) {
            self.now = at.max(self.now);
            self.turn();
        }
        self.now = end;
    }

    fn answered(&mut self, asked: &Asked, bytes: &[u8]) {
        for (at, number) in asked.sectors.clone().enumerate() {
            let sector = self.sectors.entry(number).or_insert_with(Sector::blank);
            if let Some(versions) = &asked.versions {
                let found = &bytes[at * SECTOR..(at + 1) * SECTOR];
                let is_right = sector.is_any || versions[at].iter().any(|version| version == found);
                assert!(is_right, "{}", self.tell(&format!("sector {number} was read wrong")));
            } else if asked.is_volatile {
                // Old or new from now on.
            } else if let Some(becomes) = sector.becomes.take() {
                sector.is = becomes;
                sector.is_any = asked.is_trim;
            }
        }
    }

    fn cut(&mut self) {
        self.note_brought();
        self.volume.disk_mut().power_cut(&mut self.random);
        let image = self.volume.disk().image();
        self.asked.clear();
        (self.volume, self.now) =
            opened(self.options, self.life, Some(image), self.random.below(u64::MAX));
        self.choose_cut();
        self.compare_all();
    }

    fn restart(&mut self) {
        self.settle();
        self.note_brought();
        self.now = nearhead_laws::stop(&mut self.volume, self.now);
        let left = self.volume.engine().occupancy();
        let image = self.volume.disk().image();
        (self.volume, self.now) =
            opened(self.options, self.life, Some(image), self.random.below(u64::MAX));
        let found = self.volume.engine().occupancy();
        assert_eq!(
            (&found.logs, found.map_entries),
            (&left.logs, left.map_entries),
            "{}",
            self.tell("not as it was left")
        );
        self.choose_cut();
    }

    /// Reads everything that it ever wrote, and takes what it finds for what is there.
    fn compare_all(&mut self) {
        let cut_at = std::mem::replace(&mut self.commands_left, u64::MAX);
        let blocks: BTreeSet<u64> = self.sectors.keys().map(|sector| sector / 8).collect();
        for block in blocks {
            let (offset, len) = (block * BLOCK, BLOCK as u32);
            let id = RequestId(u64::MAX);
            self.volume
                .submit(Request { id, operation: Operation::Read { offset, len } }, self.now);
            let reply = loop {
                self.volume.drive(self.now);
                if let Some(reply) = self.volume.poll_reply() {
                    break reply;
                }
                self.now = self.volume.wake().at.expect("a read is answered").max(self.now);
            };
            let parts = reply.result.unwrap_or_else(|error| panic!("{}", self.tell(&error.detail)));
            let bytes = bytes_of(&parts);
            for (number, found) in (block * 8..).zip(bytes.chunks(SECTOR)) {
                let sector = self.sectors.entry(number).or_insert_with(Sector::blank);
                let is_right = sector.may_be(found);
                if !is_right {
                    let at = found.iter().zip(&sector.is).position(|(a, b)| a != b);
                    let text =
                        format!("sector {number} is neither old nor new, from byte {at:?} on");
                    panic!("{}", self.tell(&text));
                }
                *sector = Sector { is: found.to_vec(), becomes: None, is_any: sector.is_any };
            }
        }
        self.commands_left = cut_at;
    }
}
