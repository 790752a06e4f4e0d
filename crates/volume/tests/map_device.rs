//! A volume whose map is on a map device: power cuts of both disks at once lose nothing that was
//! acknowledged, and what belongs together is told from what does not.

#![allow(clippy::unwrap_used)]

use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::{Operation, Request, RequestId};
use nearhead_format::{AckMode, Label};
use nearhead_models::{CrashDisk, SplitMix};
use nearhead_volume::{CreateOptions, JoinedDisk, NamedPreset, Service, SyncIo, Volume, create};
use std::collections::HashMap;

const BLOCKS: u64 = 512;
type Joined = JoinedDisk<CrashDisk, CrashDisk>;

fn options(volume_id: u8) -> CreateOptions {
    let preset = NamedPreset::by_name("mlb-256").unwrap();
    CreateOptions {
        volume_id: [volume_id; 16],
        created_unix_s: 0,
        preset: preset.preset,
        logged_write_bytes_max: preset.logged_write_bytes_max,
        group_bytes: Some(4 << 20),
        log_bytes: Some(512 << 10),
        ack: AckMode::Flush,
        label: Label::default(),
        device_bytes: None,
        force: true,
    }
}

fn disk(bytes: u64) -> CrashDisk {
    CrashDisk::new(bytes, 512).with_latency(Nanos::from_micros(50))
}

fn made(volume_id: u8) -> Joined {
    let mut joined = JoinedDisk::new(disk(64 << 20), disk(4 << 20)).unwrap();
    create(&mut SyncIo::in_virtual_time(&mut joined, Nanos::ZERO), &options(volume_id)).unwrap();
    joined
}

fn content(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    if version > 0 {
        for chunk in bytes.chunks_exact_mut(16) {
            chunk[..8].copy_from_slice(&version.to_le_bytes());
            chunk[8..].copy_from_slice(&block.to_le_bytes());
        }
    }
    bytes
}

struct Run {
    volume: Volume<Joined>,
    now: Nanos,
    next: u64,
}

impl Run {
    fn open(disk: Joined, now: Nanos) -> Self {
        let (mut volume, now) = Volume::open_in_virtual_time(disk, now, |_, config| {
            config.snapshot_after_bytes = 2 << 20;
            config.cleaning.idle_after = None;
        })
        .unwrap_or_else(|error| panic!("{error}"));
        let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(volume.status().damage, Vec::<String>::new());
        assert_eq!(volume.status().recovery_logs, 0, "no log is scanned");
        Self { volume, now, next: 1 }
    }

    fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        self.volume.submit(Request { id: RequestId(id), operation }, self.now);
        id
    }

    /// Drives until `id` is answered.
    fn wait(&mut self, id: u64) -> Vec<Payload> {
        loop {
            self.volume.drive(self.now);
            while let Some(reply) = self.volume.poll_reply() {
                if reply.id.0 == id {
                    return reply.result.unwrap();
                }
            }
            self.now = self.volume.wake_at().unwrap().max(self.now);
        }
    }

    fn version(&mut self, block: u64) -> u64 {
        let id = self.send(Operation::Read { offset: block * 4096, len: 4096 });
        let mut bytes = Vec::new();
        for part in self.wait(id) {
            let mut piece = vec![0; part.len()];
            part.copy_to(&mut piece);
            bytes.extend(piece);
        }
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == content(block, version), "block {block} is torn inside");
        version
    }
}

fn cut(run: Run, random: &mut SplitMix) -> Joined {
    let (mut main, mut map) = run.volume.into_disk().into_parts();
    main.power_cut(random);
    map.power_cut(random);
    JoinedDisk::new(main, map).unwrap()
}

#[test]
fn power_cuts_of_both_disks_lose_nothing_acknowledged() {
    for seed in 0..30 {
        println!("repeat with seed {seed}");
        let mut random = SplitMix::new(seed);
        let mut run = Run::open(made(7), Nanos::ZERO);
        let mut durable: HashMap<u64, u64> = HashMap::new();
        let mut version = 0;
        for _ in 0..30 {
            for _ in 0..random.below(40) {
                version += 1;
                let first = random.below(BLOCKS - 80);
                let blocks = if random.below(5) == 0 { 70 } else { 1 + random.below(4) };
                let bytes: Vec<u8> =
                    (first..first + blocks).flat_map(|block| content(block, version)).collect();
                let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
                let id = run.send(Operation::Write { offset: first * 4096, data, fua: true });
                run.wait(id);
                durable.extend((first..first + blocks).map(|block| (block, version)));
            }
            // One more that the cut may catch anywhere.
            version += 1;
            let block = random.below(BLOCKS);
            let data = Payload::Bytes(BufferMut::copy_of(&content(block, version)).freeze());
            run.send(Operation::Write { offset: block * 4096, data, fua: true });
            run.volume.drive(run.now);
            run.now += Nanos::from_micros(random.below(80));
            run.volume.drive(run.now);
            let now = run.now;
            run = Run::open(cut(run, &mut random), now);
            let found = run.version(block);
            let before = durable.get(&block).copied().unwrap_or(0);
            assert!(found == version || found == before, "block {block}: {found}");
            durable.insert(block, found);
            for (block, expected) in durable.clone() {
                assert_eq!(run.version(block), expected, "block {block}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_volume_refuses_to_open_without_its_map_device_or_with_another() {
    let (main, map) = made(7).into_parts();
    let (_, other) = made(9).into_parts();
    let problem = |disk: Joined| match Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| {}) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    let wrong = problem(JoinedDisk::new(main, other).unwrap());
    assert!(wrong.contains("expected the map device of volume 0707"), "{wrong}");
    let (main, _) = made(7).into_parts();
    let Err(without) = Volume::open_in_virtual_time(main, Nanos::ZERO, |_, _| {}) else {
        panic!("it opened without its map device")
    };
    assert!(without.to_string().contains("--map-device"), "{without}");
    drop(map);
}

#[test]
fn the_near_log_is_used_at_once_because_no_log_needs_a_claim() {
    let mut run = Run::open(made(7), Nanos::ZERO);
    for far in [0_u64, 40 << 20, 10 << 20, 45 << 20] {
        let id = run.send(Operation::Read { offset: far, len: 1 << 20 });
        run.wait(id);
        let data = Payload::Bytes(BufferMut::copy_of(&content(1, 1)).freeze());
        let id = run.send(Operation::Write { offset: 4096, data, fua: true });
        run.wait(id);
    }
    assert_eq!(run.volume.status().stats.records_far, 0);
}
