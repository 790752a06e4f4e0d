//! A volume in virtual time for tests: send requests, wait for their answers, read blocks back.
//!
//! Blocks of 4 KiB say of themselves which block they are and which version, so that a read tells
//! which write it shows and whether it is torn. What a test wants of a disk or of a power cut stays
//! with the test.

use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Disk, Nanos, Payload};
use nearhead_engine::Config;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume};
use std::collections::BTreeMap;
use std::ops::Range;

/// Options of a volume with small logs; `volume_id` fills all bytes of its identity.
pub(crate) fn options(preset: &str, volume_id: u8, group_bytes: u64) -> CreateOptions {
    CreateOptions {
        group_bytes: Some(group_bytes),
        log_bytes: Some(512 << 10),
        force: true,
        ..CreateOptions::new([volume_id; 16], NamedPreset::by_name(preset).unwrap())
    }
}

/// What version `version` of `block` holds; version 0 is a block that was never written.
fn content(block: u64, version: u64) -> Vec<u8> {
    let words = [version.to_le_bytes(), block.to_le_bytes()].concat();
    if version == 0 { vec![0; 4096] } else { words.repeat(256) }
}

/// An open volume and its time.
pub(crate) struct Run<D: Disk> {
    pub(crate) volume: Volume<D>,
    pub(crate) now: Nanos,
    next: u64,
}

impl<D: Disk> Run<D> {
    /// Opens the volume on these disks; nothing of it may be damaged.
    pub(crate) fn open(
        lanes: impl Into<Lanes<D>>,
        now: Nanos,
        configure: impl FnOnce(&mut Config),
    ) -> Self {
        let opened = Volume::open_in_virtual_time(lanes, now, |_, config| configure(config));
        let (volume, now) = opened.unwrap_or_else(|error| panic!("{error}"));
        Self::of(volume, now)
    }

    /// Lets a volume open; nothing of it may be damaged.
    pub(crate) fn of(mut volume: Volume<D>, now: Nanos) -> Self {
        let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
        assert!(volume.status().damage.is_empty(), "{:?}", volume.status().damage);
        Self { volume, now, next: 1 }
    }

    pub(crate) fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        self.volume.submit(Request { id: RequestId(id), operation }, self.now);
        id
    }

    /// Sends a durable write of `version` to `blocks`.
    pub(crate) fn write(&mut self, blocks: Range<u64>, version: u64) -> u64 {
        let bytes: Vec<u8> = blocks.clone().flat_map(|block| content(block, version)).collect();
        let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
        self.send(Operation::Write { offset: blocks.start * 4096, data, fua: true })
    }

    /// Drives until `id` is answered.
    pub(crate) fn wait(&mut self, id: u64) -> Vec<Payload> {
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

    /// The version of `block` that a read shows.
    pub(crate) fn version(&mut self, block: u64) -> u64 {
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
    pub(crate) fn rest(&mut self, span: Nanos) {
        let until = self.now + span;
        while let Some(at) = self.volume.wake_at().filter(|&at| at < until) {
            self.now = at.max(self.now);
            self.volume.drive(self.now);
        }
        self.now = until;
    }
}

/// How a volume is tried by power cuts.
pub(crate) struct Trial<'a> {
    /// What repeats it, for messages.
    pub(crate) name: &'a str,
    pub(crate) cuts: u32,
    /// Durable writes before a cut, at most.
    pub(crate) writes_max: u64,
    /// Writes go to blocks below this.
    pub(crate) blocks: u64,
    /// Before every other cut the volume is left alone for so long, if at all.
    pub(crate) rest: Option<Nanos>,
    /// The cut comes up to so many us after a last write was sent.
    pub(crate) cut_within_us: u64,
}

impl Trial<'_> {
    /// Whatever was acknowledged as durable is there after each cut, and a write that a cut caught is
    /// old or new. `restart` cuts the power and opens the volume again.
    pub(crate) fn run<D: Disk>(
        &self,
        mut run: Run<D>,
        random: &mut SplitMix,
        restart: impl Fn(Run<D>, &mut SplitMix) -> Run<D>,
    ) {
        let name = self.name;
        let mut durable: BTreeMap<u64, u64> = BTreeMap::new();
        let mut version = 0;
        for _ in 0..self.cuts {
            for _ in 0..random.below(self.writes_max) {
                version += 1;
                let first = random.below(self.blocks - 80);
                let count = if random.below(5) == 0 { 70 } else { 1 + random.below(4) };
                let id = run.write(first..first + count, version);
                run.wait(id);
                durable.extend((first..first + count).map(|block| (block, version)));
            }
            if let Some(rest) = self.rest.filter(|_| random.coin()) {
                run.rest(rest);
            }
            // One more that the cut may catch anywhere.
            version += 1;
            let block = random.below(self.blocks);
            run.write(block..block + 1, version);
            run.volume.drive(run.now);
            run.now += Nanos::from_micros(random.below(self.cut_within_us));
            run.volume.drive(run.now);
            run = restart(run, random);
            let found = run.version(block);
            let before = durable.get(&block).copied().unwrap_or(0);
            assert!(found == version || found == before, "{name}, block {block}: {found}");
            durable.insert(block, found);
            for (&block, &expected) in &durable {
                assert_eq!(run.version(block), expected, "{name}, block {block}");
            }
        }
    }
}
