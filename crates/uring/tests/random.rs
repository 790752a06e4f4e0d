//! Thousands of random commands at random depths, against a plain array in memory.
//!
//! A failure prints the seed; `NEARHEAD_SEED=<seed> cargo test -p nearhead-uring --test random`
//! repeats it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use nearhead_basics::SplitMix;
use nearhead_disk::{Class, Command, Disk, Payload};
use nearhead_uring::{Engine, OpenOptions, RealDisk};
use std::collections::BTreeMap;
use std::path::Path;
use support::*;

const DISK_BYTES: u64 = 4 * MIB;
const COMMANDS: u64 = 4000;
const DEPTH: u16 = 32;

/// A command on its way, and what its read must find.
struct Flying {
    start: u64,
    end: u64,
    expected: Option<Vec<u8>>,
}

struct Run {
    disk: RealDisk,
    reference: Vec<u8>,
    flying: BTreeMap<u64, Flying>,
    random: SplitMix,
    context: String,
}

impl Run {
    fn new(path: &Path, options: &OpenOptions, seed: u64) -> Self {
        let context = format!("seed {seed}, {options:?}");
        println!("{context}");
        let disk = nearhead_uring::open(path, options).unwrap();
        let bytes = disk.properties().capacity_bytes as usize;
        let random = SplitMix::new(seed);
        Self { disk, reference: vec![0; bytes], flying: BTreeMap::new(), random, context }
    }

    fn range(&mut self) -> (u64, u64) {
        let sector = u64::from(self.disk.properties().sector_bytes);
        let sectors_max = if self.random.below(8) == 0 { 1200 } else { 24 };
        let len = sector * (1 + self.random.below(sectors_max.min(DISK_BYTES / sector / 2)));
        let start = sector * self.random.below((DISK_BYTES - len) / sector + 1);
        (start, start + len)
    }

    fn parts(&mut self, len: usize) -> Vec<Payload> {
        let sector = self.disk.properties().sector_bytes as usize;
        let mut left = len;
        let mut parts = Vec::new();
        while left > 0 {
            let piece = sector * (1 + self.random.below((left / sector) as u64) as usize);
            let salt = self.random.next_u64();
            parts.push(match self.random.below(4) {
                0 => Payload::Zeros(piece),
                // An odd address.
                1 => Payload::Bytes(buffer(&pattern(piece + 64, salt)).slice(13..13 + piece)),
                _ => Payload::Bytes(buffer(&pattern(piece, salt))),
            });
            left -= piece;
        }
        parts
    }

    fn start(&mut self, id: u64) {
        let (start, end) = self.range();
        if self.flying.values().any(|other| start < other.end && other.start < end) {
            // The outcome of overlapping commands is nobody's promise.
            return;
        }
        let (len, at) = (end - start, start as usize..end as usize);
        let durable = self.random.below(4) == 0;
        let mut expected = None;
        let command = match self.random.below(10) {
            0..=3 => {
                expected = Some(self.reference[at].to_vec());
                Command::Read { offset: start, len: len as u32 }
            }
            4..=6 => {
                let parts = self.parts(len as usize);
                let mut from = at.start;
                for part in &parts {
                    part.copy_to(&mut self.reference[from..from + part.len()]);
                    from += part.len();
                }
                Command::Write { offset: start, parts, durable }
            }
            7 => {
                self.reference[at].fill(0);
                Command::WriteZeroes { offset: start, len, durable }
            }
            8 if self.disk.properties().trim_reads_zero => {
                self.reference[at].fill(0);
                Command::Trim { offset: start, len }
            }
            _ => Command::Flush,
        };
        let class = [Class::Durable, Class::Foreground, Class::Bulk, Class::Background]
            [self.random.below(4) as usize];
        self.flying.insert(id, Flying { start, end, expected });
        submit(&mut self.disk, id, class, command);
    }

    fn finish_one(&mut self) {
        self.disk.kick();
        let completion = next_completion(&mut self.disk);
        let id = completion.id.0;
        let flying =
            self.flying.remove(&id).unwrap_or_else(|| panic!("{id} twice: {}", self.context));
        let payload = completion.result.unwrap_or_else(|error| panic!("{error}: {}", self.context));
        if let Some(expected) = flying.expected {
            let Payload::Bytes(bytes) = payload else { panic!("no bytes: {}", self.context) };
            let Flying { start, end, .. } = flying;
            assert!(*bytes == *expected, "command {id} read {start}..{end}: {}", self.context);
        }
    }

    fn go(mut self) {
        for id in 0..COMMANDS {
            let depth = 1 + self.random.below(u64::from(DEPTH)) as usize;
            while self.flying.len() >= depth {
                self.finish_one();
            }
            self.start(id);
        }
        while !self.flying.is_empty() {
            self.finish_one();
        }
        for offset in (0..DISK_BYTES).step_by(1 << 20) {
            let at = offset as usize..offset as usize + (1 << 20);
            let found = read(&mut self.disk, offset, 1 << 20);
            assert!(found == self.reference[at], "at {offset} in the end: {}", self.context);
        }
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("NEARHEAD_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => vec![1, 2, 3],
    }
}

fn check_engine(engine: Engine) {
    let scratch = Scratch::new(&format!("random-{engine:?}"));
    for seed in seeds() {
        for (direct, cache_reads, sector) in [
            (true, false, None),
            (true, true, None),
            (true, false, Some(4096)),
            (false, false, None),
        ] {
            let name = format!("{seed}-{direct}-{cache_reads}-{sector:?}.img");
            let path = scratch.image(&name, DISK_BYTES);
            if !available(engine, &path) {
                return;
            }
            let options = OpenOptions {
                direct,
                cache_reads,
                rotational: Some(false),
                sector_bytes: sector,
                queue_depth: DEPTH,
                ..options(engine)
            };
            Run::new(&path, &options, seed).go();
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn random_commands_through_io_uring_match_a_plain_array() {
    check_engine(Engine::Uring);
}

#[test]
fn random_commands_through_threads_match_a_plain_array() {
    check_engine(Engine::Threads);
}

#[test]
fn random_commands_on_a_loop_device_match_a_plain_array() {
    let scratch = Scratch::new("random-loop");
    let image = scratch.image("disk.img", DISK_BYTES);
    for sector in ["512", "4096"] {
        let Some(device) = LoopDevice::attach(&image, &["--sector-size", sector]) else { return };
        for engine in ENGINES {
            if available(engine, &device.path) {
                let options = OpenOptions { queue_depth: DEPTH, ..options(engine) };
                // The run starts from zeros.
                let mut disk = nearhead_uring::open(&device.path, &options).unwrap();
                let zero = Command::WriteZeroes { offset: 0, len: DISK_BYTES, durable: true };
                run(&mut disk, zero).unwrap();
                drop(disk);
                Run::new(&device.path, &options, 11).go();
            }
        }
    }
}
