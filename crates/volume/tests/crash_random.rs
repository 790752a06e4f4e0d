//! Random workloads with power cuts against an oracle, on a disk whose cache tears and reorders.
//!
//! The oracle knows, for every sector, the set of values that a read may return: the newest durable
//! one, or any newer one that was not acknowledged as durable. Every written sector carries its
//! write's number, so a wrong value names the write it came from.

use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::{Operation, Reply, Request, RequestId};
use nearhead_format::{AckMode, Label, Preset};
use nearhead_models::{CrashDisk, SplitMix};
use nearhead_volume::{CreateOptions, NamedPreset, Service, SyncIo, Volume, create};
use std::collections::{BTreeMap, HashMap};

const DEVICE_BYTES: u64 = 64 << 20;
const SECTOR: u64 = 512;
/// Workloads touch this much of the volume, so that they overlap.
const SPAN_SECTORS: u64 = 4096;

fn sector_content(sector: u64, version: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    if version > 0 {
        for (at, chunk) in bytes.chunks_exact_mut(16).enumerate() {
            chunk[..8].copy_from_slice(&version.to_le_bytes());
            chunk[8..].copy_from_slice(&(sector * 1000 + at as u64).to_le_bytes());
        }
    }
    bytes
}

fn payload(start: u64, sectors: u64, version: u64) -> Payload {
    let mut buffer = BufferMut::zeroed((sectors * SECTOR) as usize);
    for (at, bytes) in buffer.chunks_exact_mut(512).enumerate() {
        bytes.copy_from_slice(&sector_content(start + at as u64, version));
    }
    Payload::Bytes(buffer.freeze())
}

/// What a sector may be. Version 0 is zeros.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// The newest value known durable.
    durable: u64,
    /// Values since, oldest first, with the write that made each.
    since: Vec<(u64, u64)>,
}

/// A write that was sent.
#[derive(Clone, Debug)]
struct Write {
    ranges: Vec<(u64, u64)>,
    value: u64,
    atomic: bool,
    durable_on_reply: bool,
    replied: bool,
}

#[derive(Default)]
struct Oracle {
    sectors: BTreeMap<u64, Sector>,
    writes: BTreeMap<u64, Write>,
    flushes: HashMap<u64, Vec<u64>>,
}

impl Oracle {
    fn send(&mut self, id: u64, write: Write) {
        for (start, count) in &write.ranges {
            for sector in *start..start + count {
                self.sectors.entry(sector).or_default().since.push((id, write.value));
            }
        }
        self.writes.insert(id, write);
    }

    fn busy(&self, start: u64, count: u64) -> bool {
        self.writes.values().any(|write| {
            !write.replied && write.ranges.iter().any(|(s, c)| *s < start + count && start < s + c)
        })
    }

    fn make_durable(&mut self, id: u64) {
        let Some(write) = self.writes.remove(&id) else { return };
        for (start, count) in write.ranges {
            for sector in start..start + count {
                let state = self.sectors.get_mut(&sector).unwrap();
                if let Some(at) = state.since.iter().position(|(by, _)| *by == id) {
                    state.durable = state.since[at].1;
                    state.since.drain(..=at);
                }
            }
        }
    }

    fn flush_sent(&mut self, id: u64) {
        let covered =
            self.writes.iter().filter(|(_, write)| write.replied).map(|(id, _)| *id).collect();
        self.flushes.insert(id, covered);
    }

    fn replied(&mut self, id: u64) {
        if let Some(covered) = self.flushes.remove(&id) {
            for write in covered {
                self.make_durable(write);
            }
        } else if let Some(write) = self.writes.get_mut(&id) {
            write.replied = true;
            if write.durable_on_reply {
                self.make_durable(id);
            }
        }
    }

    /// After a restart: what was read becomes the truth, if it was allowed.
    fn adopt(&mut self, read: &BTreeMap<u64, u64>) -> Result<(), String> {
        for (sector, value) in read {
            let state = self.sectors.entry(*sector).or_default();
            let allowed = state.durable == *value || state.since.iter().any(|(_, v)| v == value);
            if !allowed {
                return Err(format!("sector {sector}: found version {value}, allowed {state:?}"));
            }
        }
        for (id, write) in &self.writes {
            if write.atomic {
                let hits: Vec<bool> = write
                    .ranges
                    .iter()
                    .flat_map(|(start, count)| *start..start + count)
                    .filter(|sector| {
                        // Sectors a later write may have taken say nothing.
                        self.sectors[sector].since.last().is_some_and(|(by, _)| by == id)
                    })
                    .map(|sector| read[&sector] == write.value)
                    .collect();
                if hits.iter().any(|hit| *hit) && hits.iter().any(|hit| !*hit) {
                    return Err(format!("atomic write {id} is there only in part"));
                }
            }
        }
        self.writes.clear();
        self.flushes.clear();
        for (sector, value) in read {
            let state = self.sectors.get_mut(sector).unwrap();
            *state = Sector { durable: *value, since: Vec::new() };
        }
        Ok(())
    }

    fn newest(&self, sector: u64) -> u64 {
        self.sectors
            .get(&sector)
            .map_or(0, |state| state.since.last().map_or(state.durable, |(_, value)| *value))
    }
}

struct Run {
    random: SplitMix,
    now: Nanos,
    volume: Option<Volume<CrashDisk>>,
    oracle: Oracle,
    next: u64,
    reads: HashMap<u64, (u64, u64, Vec<u64>)>,
}

impl Run {
    fn new(seed: u64, preset: &str, ack: AckMode) -> Self {
        let mut disk = CrashDisk::new(DEVICE_BYTES, 512).with_latency(Nanos::from_micros(100));
        let named = NamedPreset::by_name(preset).unwrap();
        let options = CreateOptions {
            volume_id: [7; 16],
            created_unix_s: 0,
            preset: named.preset,
            logged_write_bytes_max: named.logged_write_bytes_max,
            group_bytes: (named.preset == Preset::Mlb).then_some(4 << 20),
            log_bytes: (named.preset != Preset::NoLog).then_some(512 << 10),
            ack,
            label: Label::default(),
            device_bytes: None,
            force: true,
        };
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        create(&mut io, &options).unwrap();
        let now = io.now();
        let mut run = Self {
            random: SplitMix::new(seed),
            now,
            volume: None,
            oracle: Oracle::default(),
            next: 1,
            reads: HashMap::new(),
        };
        run.open(disk);
        run
    }

    fn open(&mut self, disk: CrashDisk) {
        let idle = self.random.below(3) == 0;
        let (mut volume, now) = Volume::open_in_virtual_time(disk, self.now, |_, config| {
            config.snapshot_after_bytes = 300 << 10;
            config.cleaning.batch_bytes = 64 << 10;
            config.cleaning.idle_after = idle.then_some(Nanos::from_millis(3));
            config.cleaning.swap_idle_after = Nanos::ZERO;
            config.cleaning.swap_above_pct = Some(30);
            config.stage_bytes_max = 256 << 10;
        })
        .unwrap();
        self.now = volume.run_until_open(now).unwrap();
        assert_eq!(volume.status().damage, Vec::<String>::new());
        self.volume = Some(volume);
    }

    fn volume(&mut self) -> &mut Volume<CrashDisk> {
        self.volume.as_mut().unwrap()
    }

    fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        let now = self.now;
        self.volume().submit(Request { id: RequestId(id), operation }, now);
        id
    }

    fn random_operation(&mut self) {
        let start = self.random.below(SPAN_SECTORS);
        let small = self.random.below(3) > 0;
        let max = if small { 24 } else { 300 };
        let count = (1 + self.random.below(max)).min(SPAN_SECTORS - start);
        let offset = start * SECTOR;
        let id = self.next;
        let durable_mode = self.volume().engine().status().phase == "durable";
        let _ = durable_mode;
        match self.random.below(20) {
            0..=9 if !self.oracle.busy(start, count) => {
                let fua = self.random.below(3) == 0;
                let write = Write {
                    ranges: vec![(start, count)],
                    value: id,
                    atomic: false,
                    durable_on_reply: fua || self.durable_acks(),
                    replied: false,
                };
                self.oracle.send(id, write);
                self.send(Operation::Write { offset, data: payload(start, count, id), fua });
            }
            10 | 11 => {
                self.oracle.flush_sent(id);
                self.send(Operation::Flush);
            }
            12 if !self.oracle.busy(start, count) => {
                let write = Write {
                    ranges: vec![(start, count)],
                    value: 0,
                    atomic: false,
                    durable_on_reply: self.durable_acks(),
                    replied: false,
                };
                self.oracle.send(id, write);
                let len = count * SECTOR;
                self.send(Operation::WriteZeroes { offset, len, fua: false, fast_only: false });
            }
            13 if self.volume().engine().atomic_bytes_max() > 0 => {
                let other = (start + 2048) % SPAN_SECTORS;
                let count = count.min(16).min(SPAN_SECTORS - other).min(SPAN_SECTORS - start);
                if !self.oracle.busy(start, count) && !self.oracle.busy(other, count) {
                    let ranges = vec![(start, count), (other, count)];
                    let write = Write {
                        ranges,
                        value: id,
                        atomic: true,
                        durable_on_reply: true,
                        replied: false,
                    };
                    self.oracle.send(id, write);
                    let extents = vec![
                        (offset, payload(start, count, id)),
                        (other * SECTOR, payload(other, count, id)),
                    ];
                    self.send(Operation::WriteAtomic { extents });
                }
            }
            14 => {
                let now = self.now;
                self.volume().start_checkpoint(false, now);
            }
            _ if !self.oracle.busy(start, count) => {
                let expected = (start..start + count).map(|s| self.oracle.newest(s)).collect();
                self.reads.insert(id, (start, count, expected));
                self.send(Operation::Read { offset, len: (count * SECTOR) as u32 });
            }
            _ => {}
        }
    }

    fn durable_acks(&mut self) -> bool {
        self.volume().superblock().ack == AckMode::Durable
    }

    fn take_replies(&mut self) {
        while let Some(Reply { id, result }) = self.volume().poll_reply() {
            let parts = result.unwrap_or_else(|error| panic!("request {id:?}: {error}"));
            if let Some((start, _, expected)) = self.reads.remove(&id.0) {
                let bytes: Vec<u8> = parts
                    .iter()
                    .flat_map(|part| {
                        let mut bytes = vec![0; part.len()];
                        part.copy_to(&mut bytes);
                        bytes
                    })
                    .collect();
                for (at, (bytes, version)) in bytes.chunks(512).zip(expected).enumerate() {
                    let sector = start + at as u64;
                    // A write sent after the read may or may not be seen.
                    let newer = self.oracle.sectors.get(&sector).is_some_and(|state| {
                        state.durable > version || state.since.iter().any(|(by, _)| *by > id.0)
                    });
                    if !newer {
                        assert_eq!(
                            bytes,
                            sector_content(sector, version),
                            "sector {sector}, version {version}, found {}",
                            u64::from_le_bytes(bytes[..8].try_into().unwrap())
                        );
                    }
                }
            } else {
                self.oracle.replied(id.0);
            }
        }
    }

    fn step(&mut self) {
        let now = self.now;
        self.volume().drive(now);
        self.take_replies();
        if let Some(wake) = self.volume().wake_at() {
            let jump = Nanos::from_micros(self.random.below(400));
            self.now = (self.now + jump).min(wake.max(self.now));
            let now = self.now;
            self.volume().drive(now);
            self.take_replies();
        }
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            let now = self.now;
            self.volume().drive(now);
            self.take_replies();
            let idle = self.oracle.writes.values().all(|write| write.replied)
                && self.oracle.flushes.is_empty()
                && self.reads.is_empty();
            if idle {
                return;
            }
            let wake = self.volume().wake_at().expect("requests wait but nothing will happen");
            self.now = wake.max(self.now);
        }
        panic!("requests are never answered: {:?}", self.volume().status());
    }

    fn crash(&mut self) {
        self.reads.clear();
        let mut disk = self.volume.take().unwrap().into_disk();
        disk.power_cut(&mut self.random);
        self.open(disk);
        let mut read = BTreeMap::new();
        for start in (0..SPAN_SECTORS).step_by(512) {
            let id = self.send(Operation::Read { offset: start * SECTOR, len: 512 * 512 });
            loop {
                let now = self.now;
                self.volume().drive(now);
                if let Some(reply) = self.volume().poll_reply() {
                    assert_eq!(reply.id.0, id);
                    let mut at = start;
                    for part in reply.result.unwrap() {
                        let mut bytes = vec![0; part.len()];
                        part.copy_to(&mut bytes);
                        for sector in bytes.chunks(512) {
                            let version = u64::from_le_bytes(sector[..8].try_into().unwrap());
                            assert_eq!(
                                sector,
                                sector_content(at, version),
                                "sector {at} is torn inside"
                            );
                            read.insert(at, version);
                            at += 1;
                        }
                    }
                    break;
                }
                self.now = self.volume().wake_at().expect("read is answered").max(self.now);
            }
        }
        if let Err(problem) = self.oracle.adopt(&read) {
            panic!("after the cut: {problem}\n{:#?}", self.volume().status());
        }
    }
}

fn run(seed: u64, preset: &str, ack: AckMode, operations: u64) {
    let mut run = Run::new(seed, preset, ack);
    for _ in 0..operations {
        run.random_operation();
        if run.random.below(3) == 0 {
            run.step();
        }
        if run.random.below(40) == 0 {
            run.crash();
        }
        if run.random.below(60) == 0 {
            run.settle();
        }
    }
    run.settle();
    run.crash();
}

#[test]
fn no_power_cut_loses_or_revives_anything() {
    let only: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..60, |seed| seed..seed + 1);
    for seed in seeds {
        for preset in ["nolog", "singlelog", "mlb", "mlb-256"] {
            for ack in [AckMode::Durable, AckMode::Flush] {
                println!(
                    "repeat with: SEED={seed} cargo test -p nearhead-volume --test crash_random -- --nocapture ({preset}, {ack:?})"
                );
                run(seed, preset, ack, 400);
            }
        }
    }
}
