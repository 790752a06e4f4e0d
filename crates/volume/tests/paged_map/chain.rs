//! A chain with hardly any memory for its map, and what its clients know.

use crate::rotting::Rotting;
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Disk, Nanos, Payload, Properties};
use nearhead_engine::Activity;
use nearhead_engine::cleaner::Cleaner;
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
pub(super) const BLOCK: u64 = 4096;
/// Two links: what they offer is a map of a dozen pages.
const LINK_BYTES: [u64; 2] = [64 * MIB, 24 * MIB];
/// Memory for the map: a layer of 24 KiB, and a cache of three pages.
pub(super) const MAP_MEMORY_BYTES: u64 = 128 << 10;

/// A chain, and what its clients know.
pub(super) struct Chain {
    pub(super) volume: Volume<Rotting>,
    pub(super) rotten: Rc<RefCell<Vec<Range<u64>>>>,
    pub(super) failing: Rc<RefCell<Vec<Range<u64>>>>,
    pub(super) now: Nanos,
    /// What each block was written with last; 0 is what was trimmed.
    pub(super) newest: BTreeMap<u64, u8>,
    pub(super) random: SplitMix,
    cleaner: Box<dyn Cleaner>,
    memory_bytes: u64,
    /// The most that the layers took.
    pub(super) layer_bytes_max: u64,
    /// Pages read for it, and logs cleaned, in the lives before this one.
    pub(super) pages_read: u64,
    pub(super) cleaned: u64,
    next: u64,
}

impl Chain {
    pub(super) fn new(seed: u64, cleaner: Box<dyn Cleaner>) -> Self {
        let (rotten, failing) = (Rc::default(), Rc::default());
        let disk = |bytes| {
            let properties = Properties { volatile_cache: true, ..plain_properties(bytes, 4096) };
            let disk = CrashDisk::with_image(properties, MemoryStore::new());
            let disk = disk.with_latency(Nanos::from_micros(100));
            Rotting::of(disk, &rotten, &failing)
        };
        let mut lanes =
            Lanes::from(disk(LINK_BYTES[0])).with_data(vec![disk(LINK_BYTES[1])]).unwrap();
        let preset = NamedPreset::by_name("gecko").unwrap();
        let options = CreateOptions { log_bytes: Some(MIB), ..CreateOptions::new([7; 16], preset) };
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
        let (volume, now) = opened(lanes, Nanos::ZERO, &*cleaner, MAP_MEMORY_BYTES).unwrap();
        Self {
            volume,
            rotten,
            failing,
            now,
            newest: BTreeMap::new(),
            random: SplitMix::new(seed),
            cleaner,
            memory_bytes: MAP_MEMORY_BYTES,
            layer_bytes_max: 0,
            pages_read: 0,
            cleaned: 0,
            next: 0,
        }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.volume.info().size_bytes / BLOCK
    }

    pub(super) fn send(&mut self, operation: Operation) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.volume.submit(Request { id, operation }, self.now);
        id
    }

    /// Goes on to the next reply.
    pub(super) fn reply(&mut self) -> Reply {
        loop {
            self.volume.drive(self.now);
            let status = self.volume.status();
            if let Some(paged) = status.paged_map {
                let layers = status.map_bytes + paged.frozen_bytes;
                self.layer_bytes_max = self.layer_bytes_max.max(layers);
                assert!(paged.cached_bytes <= paged.memory_bytes_max, "{paged:?}");
            }
            if let Some(reply) = self.volume.poll_reply() {
                return reply;
            }
            self.now = self.volume.wake_at().expect("nobody waits for ever").max(self.now);
        }
    }

    pub(super) fn ask(&mut self, operation: Operation) -> Reply {
        let id = self.send(operation);
        let reply = self.reply();
        assert_eq!(reply.id, id, "one at a time");
        reply
    }

    pub(super) fn write(&mut self, block: u64, count: u64, fill: u8) {
        let data = vec![fill; (count * BLOCK) as usize];
        let data = Payload::Bytes(BufferMut::copy_of(&data).freeze());
        self.ask(Operation::Write { offset: block * BLOCK, data, fua: true }).result.unwrap();
        self.newest.extend((block..block + count).map(|block| (block, fill)));
    }

    pub(super) fn trim(&mut self, block: u64, count: u64) {
        let (offset, len) = (block * BLOCK, count * BLOCK);
        self.ask(Operation::WriteZeroes {
            offset,
            len,
            fua: true,
            fast_only: false,
            may_unmap: false,
        })
        .result
        .unwrap();
        self.newest.extend((block..block + count).map(|block| (block, 0)));
    }

    /// So many writes and zeroings anywhere, each durable.
    pub(super) fn change(&mut self, count: u64) {
        for _ in 0..count {
            let len = 1 + self.random.below(8) * self.random.below(8);
            let block = self.random.below(self.blocks() - len);
            if self.random.below(9) == 0 {
                self.trim(block, len);
            } else {
                let fill = 1 + self.random.below(255) as u8;
                self.write(block, len, fill);
            }
        }
    }

    pub(super) fn read(&mut self, block: u64, count: u64) -> Result<Vec<u8>, (ErrorKind, String)> {
        let operation = Operation::Read { offset: block * BLOCK, len: (count * BLOCK) as u32 };
        let parts = self.ask(operation).result.map_err(|error| (error.kind, error.detail))?;
        let bytes = nearhead_disk::bytes_of(&parts);
        let blocks = bytes.chunks(BLOCK as usize);
        Ok(blocks
            .map(|block| {
                assert!(block.iter().all(|byte| *byte == block[0]), "of one write");
                block[0]
            })
            .collect())
    }

    /// A snapshot, to its end.
    pub(super) fn snapshot(&mut self) {
        let number = self.volume.status().snapshot_number;
        self.volume.start_snapshot(self.now);
        while self.volume.status().snapshot_number == number {
            self.volume.drive(self.now);
            self.now = self.volume.wake_at().expect("a snapshot comes").max(self.now);
        }
    }

    /// One whose body is written, and whose header cannot be.
    pub(super) fn failing_snapshot(&mut self) {
        let slots = self.volume.superblock().layout.slots();
        let headers = [slots.header_offset(0), slots.header_offset(1)];
        self.failing.replace(headers.map(|header| header..header + 1).to_vec());
        let number = self.volume.status().snapshot_number;
        self.volume.start_snapshot(self.now);
        let until = self.now + Nanos::from_secs(3);
        while self.now < until && !self.volume.engine().activities().has(Activity::SnapshotFailed) {
            self.volume.drive(self.now);
            self.now = self.volume.wake_at().unwrap_or(until).max(self.now);
        }
        assert_eq!(self.volume.status().snapshot_number, number);
        self.failing.borrow_mut().clear();
    }

    /// Reads all of it.
    pub(super) fn expect_all(&mut self) {
        let step = 64;
        for block in (0..self.blocks()).step_by(step as usize) {
            let count = step.min(self.blocks() - block);
            let expected: Vec<u8> = (block..block + count)
                .map(|block| self.newest.get(&block).copied().unwrap_or(0))
                .collect();
            assert_eq!(self.read(block, count).unwrap(), expected, "from block {block} on");
        }
        self.volume.engine().check_counts().unwrap();
    }

    /// Opens it again, in order or after a cut, with so much memory for its map.
    pub(super) fn reopen(&mut self, in_order: bool, memory_bytes: u64) {
        if in_order {
            self.volume.begin_shutdown(self.now);
        }
        while in_order && !self.volume.is_shut_down() {
            self.volume.drive(self.now);
            self.now = self.volume.wake_at().map_or(self.now, |at| at.max(self.now));
        }
        let stats = self.volume.status().stats;
        self.pages_read += stats.map_pages_read;
        self.cleaned += stats.swaps + stats.compactions;
        // Until the volume lets go of its disks another one stands in its place.
        let (cleaner, memory) = (self.cleaner.clone(), memory_bytes);
        let other = self.stand_in();
        let volume = std::mem::replace(&mut self.volume, other);
        let (mut first, _, mut data) = volume.into_lanes().into_all();
        first.disk.power_cut(&mut self.random);
        data[0].disk.power_cut(&mut self.random);
        (first.reads, data[0].reads) = (BTreeMap::new(), BTreeMap::new());
        let lanes = Lanes::from(first).with_data(data).unwrap();
        let (volume, now) = opened(lanes, self.now, &*cleaner, memory).unwrap();
        (self.volume, self.now, self.memory_bytes) = (volume, now, memory);
        let damage = self.volume.status().damage;
        assert!(damage.is_empty(), "{damage:?}");
    }

    pub(super) fn stand_in(&self) -> Volume<Rotting> {
        let preset = NamedPreset::by_name("nolog").unwrap();
        let options = CreateOptions::new([9; 16], preset);
        let disk = CrashDisk::with_image(plain_properties(64 * MIB, 4096), MemoryStore::new());
        let disk = Rotting::of(disk, &self.rotten, &self.failing);
        let superblock =
            nearhead_volume::create::describe(disk.properties(), None, &options).unwrap();
        Volume::start_empty(Lanes::from(disk), superblock, preset, |_, _| ())
    }
}

pub(super) fn opened(
    lanes: Lanes<Rotting>,
    now: Nanos,
    cleaner: &dyn Cleaner,
    memory_bytes: u64,
) -> Result<(Volume<Rotting>, Nanos), String> {
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, now, |_, config| {
        config.cleaner = cleaner.boxed();
        config.map_memory_bytes = memory_bytes;
        config.keeps_paged_map = true;
    })
    .map_err(|error| error.to_string())?;
    let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    Ok((volume, now))
}
