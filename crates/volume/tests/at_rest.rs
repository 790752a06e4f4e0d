//! The laws of a volume whose devices are changed while it is served ([`ReopeningVolume::rest`]).
//!
//! At rest everything that was answered is durable. Requests that come meanwhile are answered afterwards, each once and none with an
//! error, whatever was done to the devices. If they are gone the volume has failed, and whoever waited is told why.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Nanos, Payload, Properties};
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_service::{Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, ReopeningVolume, Volume, create, grow};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

fn disk(bytes: u64, image: MemoryStore) -> CrashDisk {
    let properties = Properties { volatile_cache: true, ..plain_properties(bytes, 512) };
    CrashDisk::with_image(properties, image).with_latency(Nanos::from_micros(50))
}

/// A served volume, and what its clients know.
struct Served {
    volume: ReopeningVolume<CrashDisk>,
    now: Nanos,
    next: u64,
    /// What each request is about.
    asked: BTreeMap<u64, (u64, Option<u8>)>,
    newest: BTreeMap<u64, u8>,
}

impl Served {
    fn new(preset: &str) -> Self {
        let mut lanes = Lanes::from(disk(64 * MIB, MemoryStore::new()));
        let preset = NamedPreset::by_name(preset).unwrap();
        let options = CreateOptions::new([7; 16], preset);
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
        let opened = Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, _| ());
        let (mut volume, now) = opened.unwrap();
        let now = volume.run_until_open(now).unwrap();
        let volume = ReopeningVolume::new(volume, None, |_, _| ());
        Self { volume, now, next: 0, asked: BTreeMap::new(), newest: BTreeMap::new() }
    }

    fn send(&mut self, block: u64, fill: Option<u8>) {
        self.next += 1;
        self.asked.insert(self.next, (block, fill));
        let offset = block * BLOCK;
        let operation = match fill {
            Some(fill) => {
                let data = BufferMut::copy_of(&[fill; BLOCK as usize]).freeze();
                Operation::Write { offset, data: Payload::Bytes(data), fua: false }
            }
            None => Operation::Read { offset, len: BLOCK as u32 },
        };
        self.volume.submit(Request { id: RequestId(self.next), operation }, self.now);
    }

    /// A write of a block that nobody else asks for at the moment.
    fn write(&mut self, random: &mut SplitMix) {
        let blocks = self.volume.info().size_bytes / BLOCK;
        let block = random.below(blocks);
        if self.asked.values().all(|(other, _)| *other != block) {
            self.send(block, Some(1 + random.below(255) as u8));
        }
    }

    /// Drives it once, at the next time that something happens; the answers that were errors.
    fn step(&mut self) -> Vec<String> {
        self.volume.drive(self.now);
        let mut errors = Vec::new();
        while let Some(Reply { id, result }) = self.volume.poll_reply() {
            let (block, fill) = self.asked.remove(&id.0).expect("each request is answered once");
            match (result, fill) {
                (Err(error), _) => errors.push(error.detail),
                (Ok(_), Some(fill)) => drop(self.newest.insert(block, fill)),
                (Ok(parts), None) => {
                    let expected = self.newest.get(&block).copied().unwrap_or(0);
                    let found = nearhead_disk::bytes_of(&parts);
                    assert!(found.iter().all(|byte| *byte == expected), "block {block}");
                }
            }
        }
        if let Some(at) = self.volume.wake_at() {
            self.now = at.max(self.now);
        }
        errors
    }

    /// Stops it in order, with so many requests on their way and as many while it stops.
    fn come_to_rest(&mut self, random: &mut SplitMix, count: usize) {
        (0..count).for_each(|_| self.write(random));
        assert!(self.volume.rest(self.now));
        assert!(!self.volume.rest(self.now), "it does already");
        for _ in 0..1_000_000 {
            if self.volume.is_at_rest() {
                return;
            }
            if self.asked.len() < 2 * count {
                self.write(random);
            }
            assert_eq!(self.step(), [""; 0]);
        }
        panic!("it never came to rest");
    }

    /// Gives it another disk, made of what is durable on its own.
    fn change(
        &mut self,
        change: impl FnOnce(MemoryStore, Nanos) -> Result<Lanes<CrashDisk>, String>,
    ) -> Result<(), String> {
        let now = self.now;
        let stand_in = disk(MIB, MemoryStore::new());
        let image = |lanes: Lanes<CrashDisk>| lanes.into_parts().0.image_with(0);
        self.volume.change_devices(stand_in, |lanes| change(image(lanes), now), now)
    }

    fn settle(&mut self) -> Vec<String> {
        let mut errors = Vec::new();
        for _ in 0..1_000_000 {
            errors.extend(self.step());
            if self.asked.is_empty() && !self.volume.is_reopening() {
                return errors;
            }
        }
        panic!("{} requests are never answered", self.asked.len());
    }

    fn expect_all(&mut self) {
        for block in self.newest.keys().copied().collect::<Vec<_>>() {
            self.send(block, None);
        }
        assert_eq!(self.settle(), [""; 0]);
    }
}

fn grown(image: MemoryStore, bytes: u64, now: Nanos) -> Lanes<CrashDisk> {
    let mut lanes = Lanes::from(disk(bytes, image));
    let mut io = lanes.in_virtual_time(now);
    let growth = grow::plan(&mut io).unwrap();
    grow::grow(&mut io, &growth).unwrap();
    lanes
}

#[test]
fn a_volume_grows_while_its_clients_wait_and_none_of_them_gets_an_error() {
    for preset in ["mlb", "nearhead", "nolog"] {
        for seed in 0..8 {
            println!("repeat with {preset}, seed {seed}");
            let (mut served, mut random) = (Served::new(preset), SplitMix::new(seed));
            let mut bytes = 64 * MIB;
            for _ in 0..3 {
                let before = served.volume.info().size_bytes;
                (0..100).for_each(|_| served.write(&mut random));
                served.come_to_rest(&mut random, 40);
                assert!(served.volume.is_reopening(), "requests wait");
                bytes += 32 * MIB;
                let planned = served.volume.volume().growth(bytes).unwrap();
                served.change(|image, now| Ok(grown(image, bytes, now))).unwrap();
                assert_eq!(served.settle(), [""; 0]);
                let after = served.volume.info().size_bytes;
                assert!(after > before, "{after} after {before}");
                assert_eq!(after, planned.after.layout.client_bytes(), "as was said before");
                served.send(after / BLOCK - 1, Some(9));
                assert_eq!(served.settle(), [""; 0]);
                served.expect_all();
            }
            assert!(served.volume.poll_loss_event().is_none(), "nothing was lost");
            served.volume.begin_shutdown(served.now);
            while !served.volume.is_shut_down() {
                assert_eq!(served.step(), [""; 0]);
            }
        }
    }
}

#[test]
fn the_same_disk_is_served_on_and_a_stop_that_was_asked_for_meanwhile_comes_after_it() {
    let (mut served, mut random) = (Served::new("mlb"), SplitMix::new(1));
    served.come_to_rest(&mut random, 40);
    served.volume.begin_shutdown(served.now);
    for _ in 0..100 {
        assert_eq!(served.step(), [""; 0]);
        assert!(!served.volume.is_shut_down(), "somebody waits");
    }
    served.change(|image, _| Ok(Lanes::from(disk(64 * MIB, image)))).unwrap();
    while !served.volume.is_shut_down() {
        assert_eq!(served.step(), [""; 0]);
    }
    assert!(served.asked.is_empty());
}

/// What is done to a disk of which so much is durable.
type Change = fn(MemoryStore, Nanos) -> Result<Lanes<CrashDisk>, String>;

#[test]
fn where_the_devices_are_gone_whoever_waited_is_told_why_and_so_is_who_comes_later() {
    let others = |_: MemoryStore, _| {
        let mut lanes = Lanes::from(disk(64 * MIB, MemoryStore::new()));
        let options = CreateOptions::new([8; 16], NamedPreset::by_name("mlb").unwrap());
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
        Ok(lanes)
    };
    let gone = |_: MemoryStore, _| Err("the cable was pulled".to_owned());
    for (change, words) in [(gone as Change, "the cable was pulled"), (others, "found another one")]
    {
        let (mut served, mut random) = (Served::new("mlb"), SplitMix::new(1));
        served.come_to_rest(&mut random, 40);
        let waiting = served.asked.len();
        let problem = served.change(change).unwrap_err();
        assert!(problem.contains(words), "{problem}");
        for _ in 0..2 {
            let errors = served.settle();
            assert!(!errors.is_empty() && errors.len() <= waiting.max(1), "{errors:?}");
            assert!(errors.iter().all(|error| error.contains(words)), "{errors:?}");
            served.send(0, Some(1));
        }
        served.settle();
        assert!(!served.volume.rest(served.now), "it has failed");
    }
}

#[test]
fn devices_are_changed_at_rest_alone() {
    let mut served = Served::new("mlb");
    let untouched = |_: MemoryStore, _| unreachable!("it is served");
    assert!(served.change(untouched).is_err());
    served.send(3, Some(5));
    assert_eq!(served.settle(), [""; 0]);
    served.expect_all();
}
