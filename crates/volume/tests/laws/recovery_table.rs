//! The decision tables of docs/recovery.md, row by row: a table says what must happen, this file and
//! the one below it say how to damage the bytes. A row that only one of them has fails the test.

mod fragments;

use crate::support::content::{SECTOR, payload, versions};
use crate::support::disk::{Fault, FaultKind, TestDisk};
use crate::support::harness::Harness;
use crate::support::options::{DEVICE_BYTES, Options};
use crate::support::seen::damage_of;
use crate::support::steps::Step;
use nearhead_disk::{Nanos, Properties};
use nearhead_format::crc::crc32c;
use nearhead_format::record::peek;
use nearhead_format::{AckMode, Superblock};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use nearhead_volume::repair::weigh;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const DOCUMENT: &str = include_str!("../../../../docs/recovery.md");

/// One table, and what builds its rows.
struct Table {
    /// Of its section.
    heading: &'static str,
    build: fn() -> Damaged,
    /// False if there is no such row.
    damage: fn(&mut Damaged, &str) -> bool,
    /// How many writes it tells of.
    writes: usize,
    /// What each of them reads as; errors are told in the text.
    read: fn(&mut Volume<TestDisk>, Nanos, &mut String) -> Vec<String>,
    /// The file that knows its rows.
    source: &'static str,
}

const WHOLE_WRITES: Table = Table {
    heading: "\n## Decision table\n",
    build: Damaged::build,
    damage: Damaged::damage,
    writes: WRITES.len(),
    read: read_writes,
    source: include_str!("recovery_table.rs"),
};

/// First sectors of the four writes; each is 8 sectors long.
const WRITES: [u64; 4] = [0, 16, 32, 48];

/// What a row of the table says.
#[derive(Debug)]
struct Row {
    id: String,
    opens: bool,
    /// Parts of messages; none: no message at all.
    reported: Vec<String>,
    reads: Vec<String>,
}

fn rows(table: &Table) -> Vec<Row> {
    let section = DOCUMENT.split(table.heading).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 4 + table.writes, "columns of a row: {line}");
            Row {
                id: cells[0].trim_matches('`').to_owned(),
                opens: match cells[2] {
                    "opens" => true,
                    "refuses" => false,
                    other => panic!("expected opens or refuses, found {other}"),
                },
                reported: cells[3].split('`').skip(1).step_by(2).map(str::to_owned).collect(),
                reads: cells[4..].iter().map(|cell| (*cell).to_owned()).collect(),
            }
        })
        .collect()
}

/// The disk of a row.
struct Damaged {
    image: MemoryStore,
    properties: Properties,
    superblock: Superblock,
    faults: Vec<Fault>,
    accept_loss: bool,
    /// `nearhead repair` rebuilds the map, and gives up what is doubtful.
    rebuild: bool,
    /// Device bytes of the records, by sequence.
    records: BTreeMap<u64, u64>,
}

impl Damaged {
    fn build() -> Self {
        let options = Options {
            swap_above_pct: None,
            snapshot_after_bytes: 1 << 20,
            ..Options::new("mlb", AckMode::Durable)
        };
        let mut harness = Harness::new(options.clone());
        for (number, start) in WRITES.into_iter().enumerate() {
            harness.apply(&Step::Write { start, count: 8, fua: true });
            harness.apply(&Step::Settle);
            if number == 0 {
                harness.apply(&Step::Restart);
            }
        }
        let superblock = harness.volume().superblock().clone();
        let image = harness.volume().disk().image();
        let damaged = Self::of(image, options.disk_properties(), superblock);
        assert_eq!(damaged.records.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        damaged
    }

    /// Nothing of it is damaged yet.
    fn of(image: MemoryStore, properties: Properties, superblock: Superblock) -> Self {
        let mut damaged = Self {
            image,
            properties,
            superblock,
            faults: Vec::new(),
            accept_loss: false,
            rebuild: false,
            records: BTreeMap::new(),
        };
        damaged.find_records();
        damaged
    }

    fn find_records(&mut self) {
        let layout = self.superblock.layout;
        for position in 0..layout.log_blocks() {
            let offset = layout.log_block_offset(0, position).unwrap();
            if let Ok(found) = peek(&self.read(offset, 512)) {
                self.records.insert(found.sequence, offset);
            }
        }
    }

    fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.image.read(offset, &mut bytes).unwrap();
        bytes
    }

    fn flip(&mut self, offset: u64) {
        let byte = self.read(offset, 1)[0];
        self.image.write(offset, &[byte ^ 0x10]).unwrap();
    }

    /// A bit of a slot's header and of its copy.
    fn flip_both(&mut self, slot: usize) {
        let layout = self.superblock.layout;
        self.flip(layout.slot_offsets[slot] + 32);
        self.flip(layout.snapshot_copy_offset(slot) + 32);
    }

    fn copy(&mut self, from: u64, to: u64, len: usize) {
        let bytes = self.read(from, len);
        self.image.write(to, &bytes).unwrap();
    }

    /// Where the record of write A, B, C or D stands.
    fn header_of(&self, write: usize) -> u64 {
        self.records[&(write as u64 + 1)]
    }

    fn payload_of(&self, write: usize) -> u64 {
        let header = self.header_of(write);
        header + u64::from(peek(&self.read(header, 512)).unwrap().header_bytes)
    }

    fn log(&self) -> std::ops::Range<u64> {
        let start = self.superblock.layout.log_offset(0).unwrap();
        start..start + self.superblock.layout.log_bytes
    }

    /// Writes copy `copy` of the superblock anew, with `change` applied to its bytes.
    fn rewrite_superblock(&mut self, copy: usize, change: impl Fn(&mut [u8])) {
        let offset = self.superblock.layout.superblock_offsets()[copy];
        let mut bytes = self.read(offset, 4096);
        change(&mut bytes);
        let crc = crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&crc.to_le_bytes());
        self.image.write(offset, &bytes).unwrap();
    }

    /// Reads of these bytes fail for good.
    fn unreadable(&mut self, range: std::ops::Range<u64>) {
        let (kind, range) = (FaultKind::Reads, Some(range));
        let (after, sticky, has_effect) = (0, true, false);
        self.faults.push(Fault { kind, range, after, sticky, has_effect });
    }

    /// The same of one sector.
    fn unreadable_sector(&mut self, at: u64) {
        self.unreadable(at..at + 512);
    }

    /// Reads of one sector fail once.
    fn unreadable_once(&mut self, at: u64) {
        self.unreadable_sector(at);
        self.faults.iter_mut().for_each(|fault| fault.sticky = false);
    }

    /// Damages what the row says; false if there is no such row.
    fn damage(&mut self, id: &str) -> bool {
        let copies = self.superblock.layout.superblock_offsets();
        let slots = self.superblock.layout.slot_offsets;
        let slot_copies = [0, 1].map(|slot| self.superblock.layout.snapshot_copy_offset(slot));
        match id {
            "nothing" => {}
            "superblock-one-copy" => self.flip(copies[0] + 40),
            "superblock-two-copies" => copies[..2].iter().for_each(|copy| self.flip(copy + 40)),
            "superblock-misdirected" => self.copy(copies[1], copies[0], 4096),
            "superblock-stale" => {
                for copy in 1..3 {
                    self.rewrite_superblock(copy, |bytes| bytes[32] += 1);
                }
            }
            "superblock-all-copies" => copies.iter().for_each(|copy| self.flip(copy + 40)),
            "superblock-zeroed" => {
                for copy in copies {
                    self.image.zero(copy, 4096).unwrap();
                }
            }
            "superblock-newer" => {
                for copy in 0..3 {
                    self.rewrite_superblock(copy, |bytes| bytes[8] = 2);
                }
            }
            "truncated" => self.properties.capacity_bytes = DEVICE_BYTES - (1 << 20),
            "snapshot-newer-header" => self.flip(slots[1] + 32),
            "snapshot-newer-body" => self.flip(slots[1] + 4096 + 3),
            "snapshot-misdirected" => self.copy(slots[0], slots[1], 4096),
            "snapshot-older" => self.flip(slots[0] + 32),
            "snapshot-newer-lost" => self.image.zero(slots[1], 4096).unwrap(),
            "snapshot-newer-copy" => self.flip(slot_copies[1] + 32),
            "snapshot-newer-header-and-copy" => self.flip_both(1),
            "snapshot-both-headers" => slots.iter().for_each(|slot| self.flip(slot + 32)),
            "snapshot-all-headers" => (0..2).for_each(|slot| self.flip_both(slot)),
            "snapshot-newer-and-record" => {
                self.flip_both(1);
                self.flip(self.header_of(0) + 70);
            }
            "record-header-middle" => self.flip(self.header_of(2) + 70),
            "record-header-zeroed" => self.image.zero(self.header_of(2), 512).unwrap(),
            "record-payload-middle" => self.flip(self.payload_of(2) + 1000),
            "record-payload-stale" => self.image.zero(self.payload_of(2), 4096).unwrap(),
            "record-misdirected" => self.copy(self.header_of(3), self.header_of(2), 512 + 4096),
            "records-two-in-a-row" | "records-two-accepted" => {
                self.accept_loss = id == "records-two-accepted";
                self.flip(self.header_of(1) + 70);
                self.flip(self.header_of(2) + 70);
            }
            "record-header-last" => self.flip(self.header_of(3) + 70),
            "record-payload-last" => self.flip(self.payload_of(3) + 1000),
            "records-two-at-the-end" => {
                self.flip(self.header_of(2) + 70);
                self.flip(self.payload_of(3) + 1000);
            }
            "snapshot-newer-unreadable" => self.unreadable(slots[1]..slots[1] + 4096),
            "snapshot-newer-body-unreadable" => self.unreadable(slots[1] + 4096..slots[1] + 8192),
            "snapshot-newer-header-and-copy-unreadable" => {
                self.flip(slots[1] + 32);
                self.unreadable(slot_copies[1]..slot_copies[1] + 4096);
            }
            "snapshot-older-unreadable" => self.unreadable(slots[0]..slots[0] + 4096),
            "snapshot-newer-body-and-tail" => {
                self.flip(slots[1] + 4096 + 3);
                (0..4).for_each(|write| self.flip(self.header_of(write) + 70));
            }
            "superblock-unreadable" => self.unreadable_sector(copies[0]),
            "record-header-once" => self.unreadable_once(self.header_of(2)),
            "record-header-unreadable" => self.unreadable_sector(self.header_of(2)),
            "record-payload-unreadable" => self.unreadable_sector(self.payload_of(2) + 1024),
            "records-two-unreadable" | "records-two-unreadable-accepted" => {
                self.accept_loss = id == "records-two-unreadable-accepted";
                self.unreadable_sector(self.header_of(1));
                self.unreadable_sector(self.header_of(2));
            }
            "records-apart-unreadable" | "records-apart-unreadable-accepted" => {
                self.accept_loss = id == "records-apart-unreadable-accepted";
                self.unreadable_sector(self.header_of(1));
                self.unreadable_sector(self.header_of(3));
            }
            "record-payload-last-unreadable" => self.unreadable_sector(self.payload_of(3) + 1024),
            "record-header-last-unreadable" | "record-header-last-unreadable-accepted" => {
                self.accept_loss = id == "record-header-last-unreadable-accepted";
                self.unreadable_sector(self.header_of(3));
            }
            "log-never-written-unreadable" => self.unreadable_sector(self.payload_of(3) + 65536),
            id if id.starts_with("repair-") => return self.damage_to_repair(id),
            "log-zeroed" => {
                let log = self.log();
                self.image.zero(log.start, log.end - log.start).unwrap();
            }
            "log-unreadable" => self.unreadable(self.log()),
            "chunk-in-snapshot" => self.flip(self.payload_of(0) + 1000),
            _ => return false,
        }
        true
    }

    /// Both slots are zeros, and perhaps more is damaged.
    fn damage_to_repair(&mut self, id: &str) -> bool {
        self.rebuild = true;
        let slot_bytes = self.superblock.layout.slot_bytes;
        for slot in self.superblock.layout.slot_offsets {
            self.image.zero(slot, slot_bytes).unwrap();
        }
        match id {
            "repair-both-snapshots" => {}
            "repair-snapshots-and-first-record" => self.flip(self.header_of(0) + 70),
            "repair-snapshots-and-record" => self.flip(self.header_of(1) + 70),
            "repair-snapshots-and-two-records" => {
                self.flip(self.header_of(1) + 70);
                self.flip(self.header_of(2) + 70);
            }
            "repair-snapshots-and-payload" => self.flip(self.payload_of(2) + 1000),
            "repair-snapshots-of-an-older-program" => {
                for copy in 0..3 {
                    self.rewrite_superblock(copy, |bytes| bytes[136..144].fill(0));
                }
            }
            _ => return false,
        }
        true
    }

    /// Opens the volume and reads the writes: every message, and what each read gave.
    fn open(self, table: &Table) -> (bool, String, Vec<String>) {
        let mut disk = TestDisk::with_image(self.properties, self.image);
        for fault in self.faults {
            disk.add_fault(fault);
        }
        let (accept_loss, rebuild) = (self.accept_loss, self.rebuild);
        let none = || vec!["–".to_owned(); table.writes];
        let opened = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| {
            config.accept_loss = accept_loss;
            config.rebuild = rebuild;
        });
        let (mut volume, now) = match opened {
            Ok(opened) => opened,
            Err(error) => return (false, error.to_string(), none()),
        };
        if let Err(error) = volume.run_until_open(now) {
            return (false, error.to_string(), none());
        }
        let mut messages = damage_of(&volume.status());
        if let Some(weighed) = weigh(&mut volume, |lanes| lanes.in_virtual_time(now)) {
            for range in &weighed.doubtful {
                let _ = write!(messages, "\n{}", range.reason.explain());
            }
            if weighed.found.is_rest_unknown {
                messages.push_str("\nnot certain where nothing is listed");
            }
            volume.take_rebuilt(weighed.to_give_up(false));
        }
        let reads = (table.read)(&mut volume, now, &mut messages);
        (true, messages, reads)
    }
}

/// What each of the four writes reads as; errors are told in `messages`.
fn read_writes(volume: &mut Volume<TestDisk>, now: Nanos, messages: &mut String) -> Vec<String> {
    let mut reads = Vec::new();
    for (number, start) in (1..).zip(WRITES) {
        let operation = Operation::Read { offset: start * SECTOR, len: 8 * SECTOR as u32 };
        volume.submit(Request { id: RequestId(number), operation }, now);
        volume.drive(now);
        let reply = volume.poll_reply().expect("a read is answered at once on this disk");
        reads.push(match reply.result.map(|parts| versions(start, &parts).unwrap()) {
            Ok(found) if found.iter().all(|version| *version == 0) => "older".to_owned(),
            Ok(found) if found.iter().all(|version| *version == found[0]) => "data".to_owned(),
            Ok(found) => format!("a mixture: {found:?}"),
            Err(error) => {
                let _ = write!(messages, "\n{error}");
                "EIO".to_owned()
            }
        });
    }
    reads
}

fn assert_table(table: &Table) {
    let mut wrong = Vec::new();
    let rows = rows(table);
    for row in &rows {
        let mut damaged = (table.build)();
        let is_known = (table.damage)(&mut damaged, &row.id);
        assert!(is_known, "docs/recovery.md has the row {}, this test not", row.id);
        let (opens, messages, reads) = damaged.open(table);
        let poisoned = reads.iter().any(|read| read.starts_with("EIO"));
        let silent = row.reported.is_empty() && !poisoned && !messages.is_empty();
        let missing: Vec<_> =
            row.reported.iter().filter(|part| !messages.contains(*part)).collect();
        if opens != row.opens || reads != row.reads || silent || !missing.is_empty() {
            wrong.push(format!(
                "row {}: expected opens {}, reads {:?}, a message with {:?}; found opens {opens}, \
                 reads {reads:?}, message: {messages}",
                row.id, row.opens, row.reads, row.reported
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The rows the source knows and the table does not.
    let arms = table.source.split("    match id {\n").skip(1);
    let arms: Vec<_> = arms.map(|arms| arms.split("_ => return").next().unwrap()).collect();
    assert_eq!(arms.len(), 2, "those that repair mends are apart");
    let ids = arms.iter().flat_map(|arms| arms.split('"').skip(1).step_by(2));
    for id in ids.filter(|id| *id != "repair-") {
        assert!(rows.iter().any(|row| row.id == id), "docs/recovery.md lacks the row {id}");
    }
}

/// Nothing that a recovery found is touched by the first record after it, wherever the damage was.
fn assert_found_again(table: &Table) {
    for row in rows(table).iter().filter(|row| row.opens) {
        let mut damaged = (table.build)();
        assert!((table.damage)(&mut damaged, &row.id));
        if !damaged.faults.is_empty() || damaged.accept_loss || damaged.rebuild {
            continue;
        }
        let (properties, image) = (damaged.properties, damaged.image);
        let disk = TestDisk::with_image(properties.clone(), image);
        let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| {}).unwrap();
        let mut now = volume.run_until_open(now).unwrap();
        let before = (table.read)(&mut volume, now, &mut String::new());
        let operation =
            Operation::Write { offset: 80 * SECTOR, data: payload(80, 8, 9), fua: true };
        volume.submit(Request { id: RequestId(9), operation }, now);
        let reply = loop {
            volume.drive(now);
            if let Some(reply) = volume.poll_reply() {
                break reply;
            }
            now = volume.wake_at().expect("a write is answered").max(now);
        };
        assert!(reply.result.is_ok(), "row {}: {:?}", row.id, reply.result);
        let disk = TestDisk::with_image(properties, volume.disk().image());
        let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| {}).unwrap();
        let now = volume.run_until_open(now).unwrap();
        let after = (table.read)(&mut volume, now, &mut String::new());
        assert_eq!(after, before, "row {}", row.id);
    }
}

#[test]
fn recovery_table_says_what_recovery_does() {
    assert_table(&WHOLE_WRITES);
}

#[test]
fn what_a_recovery_found_is_found_again_after_the_next_record() {
    assert_found_again(&WHOLE_WRITES);
}
