//! Volumes on every kind of modelled disk and on arrays of them: the engine knows none of them, and
//! whatever was acknowledged as durable is there after a power cut.

#![allow(clippy::unwrap_used)]

use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::{Operation, Request, RequestId};
use nearhead_format::{AckMode, Label};
use nearhead_models::{Model, SplitMix, model_from_text};
use nearhead_volume::{CreateOptions, NamedPreset, Service, SyncIo, Volume, create};
use std::collections::HashMap;

const VOLUME_BYTES: u64 = 96 << 20;
const BLOCKS: u64 = 4096;

/// Each with its write cache on, where something can be lost.
const DISKS: [&str; 7] = [
    "model:st8000as0002,cache=on",
    "model:st8000as0002-slsmr,cache=on",
    "model:st8000as0002-mlsmr,cache=on",
    "model:st8000as0002-mlsmr",
    "model:flash-8ch-550gb,cache=on",
    "raid0:model:st3146855fc,cache=on,model:flash-8ch-550gb,cache=on?chunk=16k",
    "mirror:model:st3146855fc,cache=on,model:st8000as0002,cache=on",
];

fn options() -> CreateOptions {
    let preset = NamedPreset::by_name("mlb-32").unwrap();
    CreateOptions {
        volume_id: [7; 16],
        created_unix_s: 0,
        preset: preset.preset,
        logged_write_bytes_max: preset.logged_write_bytes_max,
        group_bytes: Some(8 << 20),
        log_bytes: Some(512 << 10),
        ack: AckMode::Flush,
        label: Label::default(),
        device_bytes: Some(VOLUME_BYTES),
        force: true,
    }
}

struct Run {
    volume: Volume<Box<dyn Model>>,
    now: Nanos,
    next: u64,
}

fn content(block: u64, version: u64) -> Vec<u8> {
    let words = [version.to_le_bytes(), block.to_le_bytes()].concat();
    if version == 0 { vec![0; 4096] } else { words.repeat(256) }
}

impl Run {
    fn open(disk: Box<dyn Model>, now: Nanos) -> Self {
        let (mut volume, now) = Volume::open_in_virtual_time(disk, now, |_, _| {})
            .unwrap_or_else(|error| panic!("{error}"));
        let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(volume.status().damage, Vec::<String>::new());
        Self { volume, now, next: 1 }
    }

    fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        self.volume.submit(Request { id: RequestId(id), operation }, self.now);
        id
    }

    fn write(&mut self, blocks: std::ops::Range<u64>, version: u64) -> u64 {
        let bytes: Vec<u8> = blocks.clone().flat_map(|block| content(block, version)).collect();
        let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
        self.send(Operation::Write { offset: blocks.start * 4096, data, fua: true })
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

    /// Lets the volume and the disk work for themselves.
    fn rest(&mut self, span: Nanos) {
        let until = self.now + span;
        while let Some(at) = self.volume.wake_at().filter(|&at| at < until) {
            self.now = at.max(self.now);
            self.volume.drive(self.now);
        }
        self.now = until;
    }
}

#[test]
fn what_was_durable_is_there_after_power_cuts_on_every_kind_of_disk() {
    for (disk, seed) in DISKS.iter().flat_map(|disk| [(disk, 1), (disk, 2)]) {
        println!("repeat with {disk}, seed {seed}");
        let mut random = SplitMix::new(seed);
        let mut model = model_from_text(disk).unwrap();
        create(&mut SyncIo::in_virtual_time(&mut model, Nanos::ZERO), &options()).unwrap();
        let mut run = Run::open(model, Nanos::from_secs(60));
        let mut durable: HashMap<u64, u64> = HashMap::new();
        let mut version = 0;
        for _ in 0..6 {
            for _ in 0..random.below(20) {
                version += 1;
                let first = random.below(BLOCKS - 80);
                let count = if random.below(5) == 0 { 70 } else { 1 + random.below(4) };
                let id = run.write(first..first + count, version);
                run.wait(id);
                durable.extend((first..first + count).map(|block| (block, version)));
            }
            if random.coin() {
                run.rest(Nanos::from_secs(5));
            }
            // One more that the cut may catch anywhere.
            version += 1;
            let block = random.below(BLOCKS);
            run.write(block..block + 1, version);
            run.volume.drive(run.now);
            run.now += Nanos::from_micros(random.below(20_000));
            run.volume.drive(run.now);
            let now = run.now;
            let mut model = run.volume.into_disk();
            model.power_cut(now, &mut random).unwrap();
            run = Run::open(model, now);
            let found = run.version(block);
            let before = durable.get(&block).copied().unwrap_or(0);
            assert!(found == version || found == before, "{disk}, block {block}: {found}");
            durable.insert(block, found);
            for (block, expected) in durable.clone() {
                assert_eq!(run.version(block), expected, "{disk}, block {block}, seed {seed}");
            }
        }
    }
}
