//! The read cache of a chain, in memory and on a device that is sound, fails, or mixes up what it took: reads give what was written
//! last, whatever the cache does, and are answered from it where that is what it is for.

#![allow(clippy::unwrap_used)]

use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission,
};
use nearhead_engine::{Config, DiskEvent, Stats};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_service::{Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Blocks that are written and read: so many that logs are cleaned as they come round.
const BLOCKS: u64 = 8_000;
const STEPS: u64 = 16_000;

/// What a device does beside its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// All commands fail from this one on.
    FailsFrom(u64),
    /// Every so many writes is lost: what was there stays.
    LosesOneIn(u64),
}

struct Flawed {
    disk: InstantDisk,
    flaw: Flaw,
    commands: u64,
    refused: Vec<Completion>,
    reads: u64,
}

impl Flawed {
    fn new(name: &str, bytes: u64, flaw: Flaw) -> Self {
        let properties = Properties { name: name.to_owned(), ..plain_properties(bytes, 512) };
        let disk =
            InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::from_micros(80));
        Self { disk, flaw, commands: 0, refused: Vec::new(), reads: 0 }
    }
}

impl Disk for Flawed {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.commands += 1;
        let Submission { ticket, class, command } = submission;
        self.reads += u64::from(matches!(command, Command::Read { .. }));
        match self.flaw {
            Flaw::FailsFrom(first) if self.commands >= first => {
                let detail = format!("{}: no answer", self.disk.properties().name);
                let error = DiskError { kind: DiskErrorKind::Io, detail };
                self.refused.push(ticket.complete(Err(error)));
            }
            Flaw::LosesOneIn(count)
                if self.commands.is_multiple_of(count)
                    && matches!(command, Command::Write { .. }) =>
            {
                self.refused.push(ticket.complete(Ok(Payload::EMPTY)));
            }
            _ => self.disk.submit(Submission { ticket, class, command }, now),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.refused.pop().or_else(|| self.disk.poll(now))
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.refused.is_empty() { self.disk.wake_at() } else { Some(Nanos::ZERO) }
    }
}

/// A chain of two, and its cache.
fn chain(memory_bytes: u64, device: Option<(u64, Flaw)>) -> (Volume<Flawed>, Nanos) {
    let disk = |name, bytes| Flawed::new(name, bytes, Flaw::None);
    let others = vec![disk("second", 20 * MIB)];
    let mut lanes = Lanes::from(disk("first", 64 * MIB)).with_data(others).unwrap();
    if let Some((bytes, flaw)) = device {
        lanes = lanes.with_cache(Flawed::new("flash", bytes, flaw)).unwrap();
    }
    let preset = NamedPreset::by_name("gecko").unwrap();
    let options =
        CreateOptions { log_bytes: Some(512 << 10), ..CreateOptions::new([9; 16], preset) };
    create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
    let configured = |_: &_, config: &mut Config| {
        config.read_cache_bytes = memory_bytes;
        config.snapshot_after_bytes = MIB;
        config.cleaning.watermark_pct = Some(3);
    };
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, configured).unwrap();
    let now = volume.run_until_open(now).unwrap();
    (volume, now)
}

fn answer(volume: &mut Volume<Flawed>, now: &mut Nanos, operation: Operation) -> Reply {
    volume.submit(Request { id: RequestId(1), operation }, *now);
    loop {
        volume.drive(*now);
        if let Some(reply) = volume.poll_reply() {
            return reply;
        }
        *now = volume.wake_at().expect("a request is under way").max(*now);
    }
}

fn bytes_of(parts: &[Payload]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        let mut bytes = vec![0xff; part.len()];
        part.copy_to(&mut bytes);
        all.extend(bytes);
    }
    all
}

/// What a run came to.
struct Outcome {
    stats: Stats,
    dropped: Option<String>,
    told: usize,
    /// Reads that each disk was asked for, and the times of all replies.
    reads: u64,
    replied: Vec<Nanos>,
}

/// Writes, trims and reads at random beside a model; every read is compared with it.
fn run(memory_bytes: u64, device: Option<(u64, Flaw)>, seed: u64) -> Outcome {
    let (mut volume, mut now) = chain(memory_bytes, device);
    let (mut random, mut model) = (SplitMix::new(seed), vec![0_u8; (BLOCKS * BLOCK) as usize]);
    let (mut replied, mut told) = (Vec::new(), 0);
    for step in 0..STEPS {
        // Half of all in a tenth of the blocks.
        let within = if random.coin() { BLOCKS / 10 } else { BLOCKS };
        let first = random.below(within);
        let count = (1 + random.below(9)).min(BLOCKS - first);
        let (offset, len) = (first * BLOCK, count * BLOCK);
        let range = offset as usize..(offset + len) as usize;
        match random.below(20) {
            0 => {
                let operation = Operation::Trim { offset, len, fua: true };
                answer(&mut volume, &mut now, operation).result.unwrap();
                model[range].fill(0);
            }
            1..=8 => {
                let mut data = BufferMut::zeroed(len as usize);
                random.fill(&mut data);
                model[range].copy_from_slice(&data);
                let data = Payload::Bytes(data.freeze());
                let operation = Operation::Write { offset, data, fua: true };
                answer(&mut volume, &mut now, operation).result.unwrap();
            }
            _ => {
                let operation = Operation::Read { offset, len: len as u32 };
                let found = answer(&mut volume, &mut now, operation).result.unwrap();
                assert!(bytes_of(&found) == model[range], "seed {seed}, step {step}");
            }
        }
        replied.push(now);
        while let Some(event) = volume.poll_disk_event() {
            assert!(matches!(event, DiskEvent::CacheDropped { .. }), "{event}");
            told += 1;
        }
    }
    let status = volume.status();
    let (main, _, data) = volume.into_lanes().into_all();
    Outcome {
        stats: status.stats,
        dropped: status.read_cache.and_then(|cache| cache.dropped),
        told,
        reads: main.reads + data[0].reads,
        replied,
    }
}

#[test]
fn whatever_is_read_through_a_cache_of_any_size_is_what_was_written_last() {
    let plain = run(0, None, 1);
    assert_eq!(plain.stats.read_cache_hits + plain.stats.read_cache_misses, 0);
    for (memory_bytes, device_bytes) in [
        (1, 0),
        (9000, 0),
        (200 << 10, 0),
        (128 * MIB, 0),
        (0, 300 << 10),
        (0, 16 * MIB),
        (80 << 10, MIB),
    ] {
        let device = (device_bytes > 0).then_some((device_bytes, Flaw::None));
        let cached = run(memory_bytes, device, 1);
        let Stats { read_cache_hits: hits, compactions, .. } = cached.stats;
        println!(
            "{memory_bytes} and {device_bytes}: {hits} hits, {} misses",
            cached.stats.read_cache_misses
        );
        assert!(compactions > 0, "nothing was cleaned");
        assert_eq!(cached.stats.read_cache_unsound, 0);
        assert!(cached.dropped.is_none() && cached.told == 0);
        if memory_bytes.max(device_bytes) > 100 << 10 {
            assert!(hits > 500, "{hits}");
            assert!(
                cached.reads < plain.reads,
                "{} and {} of the disks",
                cached.reads,
                plain.reads
            );
        }
        if memory_bytes >= 128 * MIB {
            // Of all that was ever written only what cleaning moved is not there.
            assert!(cached.stats.read_cache_misses * 4 < hits);
        }
    }
}

#[test]
fn a_device_of_the_cache_that_fails_fails_no_read_and_is_told_of_once() {
    for first in [1, 2, 100, 3000] {
        let failed = run(0, Some((16 * MIB, Flaw::FailsFrom(first))), first);
        assert_eq!(failed.dropped.as_deref(), Some("flash: no answer"), "from command {first}");
        assert_eq!(failed.told, 1);
        assert_eq!(failed.stats.disk_errors, 0, "it is no device of the volume");
    }
}

#[test]
fn a_device_of_the_cache_that_loses_writes_costs_a_read_of_the_disk_and_nothing_else() {
    let lying = run(0, Some((300 << 10, Flaw::LosesOneIn(5))), 4);
    assert!(lying.stats.read_cache_unsound > 100, "{}", lying.stats.read_cache_unsound);
    assert_eq!((lying.stats.unreadable, lying.stats.checksum_retries), (0, 0));
    assert!(lying.dropped.is_none());
}

#[test]
fn the_same_requests_find_the_same_in_the_cache_at_the_same_times() {
    for (memory_bytes, device) in [(100 << 10, None), (50 << 10, Some((400 << 10, Flaw::None)))] {
        let (one, other) = (run(memory_bytes, device, 8), run(memory_bytes, device, 8));
        assert!(one.stats.read_cache_misses > 0, "it lets go of some");
        assert!(one.replied == other.replied && one.stats == other.stats);
    }
}
