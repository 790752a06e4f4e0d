//! The decision table of docs/recovery.md for bytes that lie over what is at home or in a log.
//!
//! Each of its writes brings a few bytes of one sector of a block. What was there before says which block it is, so a read tells
//! the bytes over what they were written to from the bytes over anything else, and an error of their sector from one of the whole block.

use super::{Damaged, Table, assert_found_again, assert_table};
use crate::support::content::{SECTOR, payload};
use crate::support::disk::TestDisk;
use crate::support::options::Options;
use crate::support::raw::bytes_of;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_format::AckMode;
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Changed, Operation, Reply, Request, RequestId, Service};
use nearhead_volume::create::create;
use nearhead_volume::{Clock, Lanes, Volume};
use std::fmt::Write as _;

const TABLE: Table = Table {
    heading: "\n## Decision table of fragments\n",
    build: built,
    damage: damaged,
    writes: BLOCKS.len(),
    read: read_blocks,
    source: include_str!("fragments.rs"),
};

/// First sectors of the blocks of A, B, C, D and E.
const BLOCKS: [u64; 5] = [0, 16, 32, 48, 64];
/// E is written in place over the bytes that were brought.
const IN_PLACE: usize = 4;
/// Sectors of a block.
const COUNT: u64 = 8;
/// Where the new bytes are in their block, all in one sector.
const NEW: std::ops::Range<usize> = 1124..1144;
const NEW_SECTOR: usize = NEW.start / SECTOR as usize;

/// Records, by what they bring.
const UNDER_C: u64 = 1;
const A: u64 = 2;
const B: u64 = 3;
const C: u64 = 4;
const UNDER_E: u64 = 5;
const E_LOGGED: u64 = 6;
const E_TAKEN_BACK: u64 = 7;
const UNDER_D: u64 = 8;
const D: u64 = 9;

/// What was in a block before.
fn base(number: usize) -> Vec<u8> {
    bytes_of(&[payload(BLOCKS[number], COUNT, 11 + number as u64)])
}

/// What it is with its new bytes.
fn brought(number: usize) -> Vec<u8> {
    let mut bytes = base(number);
    bytes[NEW].fill(new_byte(number));
    bytes
}

/// What it was last.
fn written(number: usize) -> Vec<u8> {
    match number {
        IN_PLACE => bytes_of(&[payload(BLOCKS[number], COUNT, 99)]),
        _ => brought(number),
    }
}

fn new_byte(number: usize) -> u8 {
    0xa1 + number as u8
}

fn buffer(bytes: &[u8]) -> Payload {
    Payload::Bytes(BufferMut::copy_of(bytes).freeze())
}

/// A volume as it is filled.
struct Filled {
    options: Options,
    volume: Volume<TestDisk>,
    now: Nanos,
}

impl Filled {
    fn open(options: Options, image: Option<MemoryStore>) -> Self {
        let is_new = image.is_none();
        let disk = TestDisk::with_image(options.disk_properties(), image.unwrap_or_default());
        let mut lanes = Lanes::from(disk);
        if is_new {
            create(&mut lanes.in_virtual_time(Nanos::ZERO), &options.create_options()).unwrap();
        }
        let clock = Clock::Virtual { now: Nanos::ZERO };
        let (mut volume, now) = Volume::open_with(options.presets, lanes, clock, |_, config| {
            options.configure(config);
        })
        .unwrap();
        let now = volume.run_until_open(now).unwrap();
        Self { options, volume, now }
    }

    fn ask(&mut self, operation: Operation) {
        let reply = answer_to(&mut self.volume, &mut self.now, operation);
        assert!(reply.result.is_ok(), "{:?}", reply.result);
    }

    /// All of a block goes in place.
    fn write_in_place(&mut self, number: usize, bytes: &[u8]) {
        let offset = BLOCKS[number] * SECTOR;
        self.ask(Operation::WriteInPlace { offset, data: buffer(bytes), fua: true });
    }

    /// All of a block, in a record.
    fn write(&mut self, number: usize) {
        let offset = BLOCKS[number] * SECTOR;
        self.ask(Operation::Write { offset, data: buffer(&base(number)), fua: true });
    }

    fn bring(&mut self, number: usize) {
        let offset = BLOCKS[number] * SECTOR;
        let extents = vec![(offset, buffer(&brought(number)))];
        let new = offset + NEW.start as u64..offset + NEW.end as u64;
        let before = self.volume.status().stats.fragments;
        self.ask(Operation::WriteAtomic { extents, changed: Changed::Only(vec![new]) });
        assert_eq!(self.volume.status().stats.fragments, before + 1, "bytes went as a sector");
    }

    fn restarted(mut self) -> Self {
        nearhead_laws::stop(&mut self.volume, self.now);
        let image = self.volume.disk().image();
        Self::open(self.options, Some(image))
    }
}

fn answer_to(volume: &mut Volume<TestDisk>, now: &mut Nanos, operation: Operation) -> Reply {
    volume.submit(Request { id: RequestId(1), operation }, *now);
    loop {
        volume.drive(*now);
        if let Some(reply) = volume.poll_reply() {
            return reply;
        }
        *now = volume.wake().at.expect("a request is answered").max(*now);
    }
}

fn built() -> Damaged {
    let options = Options {
        swap_above_pct: None,
        snapshot_after_bytes: 1 << 20,
        fragments: true,
        ..Options::new("mlb", AckMode::Durable)
    };
    let properties = options.disk_properties();
    let mut filled = Filled::open(options, None);
    for number in [0, 1, IN_PLACE] {
        filled.write_in_place(number, &base(number));
    }
    filled.write(2);
    filled.bring(0);
    let mut filled = filled.restarted();
    filled.bring(1);
    filled.bring(2);
    filled.bring(IN_PLACE);
    filled.write_in_place(IN_PLACE, &written(IN_PLACE));
    filled.write(3);
    filled.bring(3);
    let superblock = filled.volume.superblock().clone();
    let image = filled.volume.disk().image();
    let damaged = Damaged::of(image, properties, superblock);
    let found: Vec<_> = damaged.records.keys().copied().collect();
    let all = [UNDER_C, A, B, C, UNDER_E, E_LOGGED, E_TAKEN_BACK, UNDER_D, D];
    assert_eq!(found, all);
    damaged
}

/// A bit of a record's header.
fn flip_record(damaged: &mut Damaged, sequence: u64) {
    damaged.flip(damaged.records[&sequence] + 70);
}

/// A bit of its payload.
fn flip_payload(damaged: &mut Damaged, sequence: u64) {
    damaged.flip(damaged.payload_of(sequence as usize - 1) + 100);
}

/// The new bytes of A in the body of slot 1.
fn cell_of_a(damaged: &Damaged) -> u64 {
    let (start, len) = (damaged.superblock.layout.slot_offsets[1], 64 << 10);
    let body = damaged.read(start, len);
    let at =
        body.windows(NEW.len()).position(|window| window == [new_byte(0); NEW.end - NEW.start]);
    start + at.expect("the snapshot has the bytes") as u64
}

fn damaged(damaged: &mut Damaged, id: &str) -> bool {
    let slots = damaged.superblock.layout.slot_offsets;
    match id {
        "bytes-nothing" => {}
        "bytes-over-home-gone" => flip_record(damaged, B),
        "bytes-over-copy-gone" => flip_record(damaged, C),
        "bytes-last-gone" => flip_record(damaged, D),
        "bytes-in-snapshot-gone" => flip_record(damaged, A),
        "bytes-misdirected" => damaged.copy(damaged.records[&D], damaged.records[&C], 512),
        "bytes-two-in-a-row" | "bytes-two-accepted" => {
            damaged.accept_loss = id == "bytes-two-accepted";
            flip_record(damaged, B);
            flip_record(damaged, C);
        }
        "copy-in-snapshot-damaged" => flip_payload(damaged, UNDER_C),
        "copy-damaged" => flip_payload(damaged, UNDER_D),
        "copy-gone" => flip_record(damaged, UNDER_D),
        "in-place-bytes-under-gone" => flip_record(damaged, UNDER_E),
        "in-place-logged-gone" => flip_record(damaged, E_LOGGED),
        "in-place-logged-damaged" => flip_payload(damaged, E_LOGGED),
        "in-place-taken-back-gone" => flip_record(damaged, E_TAKEN_BACK),
        "in-place-is-last" => {
            for sequence in [E_TAKEN_BACK, UNDER_D, D] {
                flip_record(damaged, sequence);
            }
        }
        "cell-damaged" => damaged.flip(cell_of_a(damaged)),
        "cell-unreadable" => {
            let sector = cell_of_a(damaged) / SECTOR * SECTOR;
            damaged.unreadable(sector..sector + SECTOR);
        }
        "cell-damaged-and-record" => {
            damaged.flip(cell_of_a(damaged));
            flip_record(damaged, A);
        }
        "cell-damaged-and-later-record" => {
            damaged.flip(cell_of_a(damaged));
            flip_record(damaged, B);
        }
        "cells-header-and-copy" => damaged.flip_both(1),
        "cells-older-header" => damaged.flip(slots[0] + 32),
        id if id.starts_with("repair-") => return damaged_to_repair(damaged, id),
        _ => return false,
    }
    true
}

/// Both slots are zeros, and perhaps more is damaged.
fn damaged_to_repair(damaged: &mut Damaged, id: &str) -> bool {
    damaged.rebuild = true;
    let slot_bytes = damaged.superblock.layout.slot_bytes;
    for slot in damaged.superblock.layout.slot_offsets {
        damaged.image.zero(slot, slot_bytes).unwrap();
    }
    match id {
        "repair-bytes" => {}
        "repair-bytes-gone" => flip_record(damaged, C),
        "repair-bytes-before-restart-gone" => flip_record(damaged, A),
        "repair-copy-under-gone" => flip_record(damaged, UNDER_C),
        "repair-copy-under-damaged" => flip_payload(damaged, UNDER_C),
        _ => return false,
    }
    true
}

/// What each block reads as; errors are told in `messages`.
fn read_blocks(volume: &mut Volume<TestDisk>, now: Nanos, messages: &mut String) -> Vec<String> {
    (0..BLOCKS.len()).map(|number| read_block(volume, now, number, messages)).collect()
}

fn read_block(
    volume: &mut Volume<TestDisk>,
    mut now: Nanos,
    number: usize,
    messages: &mut String,
) -> String {
    let mut found = Vec::new();
    for sector in BLOCKS[number]..BLOCKS[number] + COUNT {
        let operation = Operation::Read { offset: sector * SECTOR, len: SECTOR as u32 };
        let result = answer_to(volume, &mut now, operation).result;
        found.push(result.map(|parts| bytes_of(&parts)).map_err(|error| {
            let _ = write!(messages, "\n{error}");
        }));
    }
    // Whether what could be read is of this block.
    let is = |block: &[u8]| {
        let sectors = found.iter().zip(block.chunks(SECTOR as usize));
        sectors
            .into_iter()
            .all(|(found, sector)| found.as_ref().is_ok_and(|it| it == sector) || found.is_err())
    };
    let lost: Vec<usize> = (0..found.len()).filter(|sector| found[*sector].is_err()).collect();
    let told = match &lost[..] {
        [] if is(&written(number)) => "data",
        [] if is(&base(number)) || is(&[0; (COUNT * SECTOR) as usize]) => "older",
        [NEW_SECTOR] if is(&written(number)) => "EIO",
        _ if lost.len() == found.len() => "EIO, its block",
        _ => return format!("a mixture, and errors of the sectors {lost:?}"),
    };
    told.to_owned()
}

#[test]
fn recovery_table_says_what_recovery_does_with_fragments() {
    assert_table(&TABLE);
}

#[test]
fn what_a_recovery_found_under_fragments_is_found_again_after_the_next_record() {
    assert_found_again(&TABLE);
}
