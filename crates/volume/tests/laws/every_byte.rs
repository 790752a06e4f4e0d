//! Every byte that counts is covered: each structure of an image is damaged byte by byte and sector by sector, and what
//! opens from that is unchanged, or says so. Never other data without a word.
//!
//! The structures are longer than one block, so that a checksum which covers only the beginning is found: a record
//! header of hundreds of items, a snapshot of several blocks, chunks of eight sectors; also those of a map device. Two
//! records stand behind everything, since rot of the last one looks like a torn write (SAFETY.md). And structures are
//! put in each other's places.

use crate::support::harness::Options;
use crate::support::seen::{Seen, Subject, Used, View, run_on};
use nearhead_disk::Nanos;
use nearhead_engine::Operation;
use nearhead_format::AckMode;
use nearhead_format::record::peek;
use nearhead_models::{MemoryStore, Store};
use nearhead_volume::create;
use std::ops::Range;

/// Bytes at the start of each structure of which every one is damaged; of the rest one in so many.
const EACH_OF: u64 = 128;
const ONE_IN: u64 = 61;
const SECTOR_BYTES: u64 = 512;
/// Records of each log, and of the journal, that are damaged: the longest.
const RECORDS_MAX: usize = 6;

/// Blocks written before the snapshot: more than one block of it lists.
const SNAPSHOT_BLOCKS: u64 = 420;
/// Written in the one long record.
const RECORD_BLOCKS: u64 = 150;

fn subject(preset: &'static str, has_map: bool) -> Subject {
    let options = Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        snapshot_period: Nanos::from_secs(600),
        stage_bytes_max: 2 << 20,
        ..Options::new(preset, AckMode::Flush)
    };
    let blocks = (0..12).chain([100, 101, 250, 400, 420, 1000, 1004, 1250, 1298, 2000, 2001]);
    Subject::new(options, has_map, blocks.collect())
}

/// A volume with a snapshot, a long record, one that takes back, and two behind them.
fn image(subject: &Subject) -> MemoryStore {
    let mut device = subject.device(MemoryStore::new());
    let options = subject.options.create_options();
    run_on(&mut device, |io| create(io, &options)).unwrap();
    let mut used = subject.open(device.disk.image()).unwrap();
    // Apart, so that none of them share an entry.
    burst(&mut used, 0, SNAPSHOT_BLOCKS, 1);
    used.hint(6, 2);
    let mut used = subject.open(used.stop().disk.image()).unwrap();
    burst(&mut used, 1000, RECORD_BLOCKS, 2);
    // Taken back by a larger write in place.
    let id = used.write(2, 100, 3, true);
    used.wait(id).unwrap();
    for (block, version) in [(2000, 4), (2001, 5), (2000, 6)] {
        let id = used.write(block, 1, version, true);
        used.wait(id).unwrap();
    }
    used.image()
}

/// Every other block from `first` on, in as few records as possible.
fn burst(used: &mut Used, first: u64, count: u64, version: u64) {
    for number in 0..count {
        used.write(first + 2 * number, 1, version, false);
        // So that early answers make room.
        if number % 100 == 99 {
            used.ask(Operation::Flush).unwrap();
        }
    }
    used.ask(Operation::Flush).unwrap();
}

/// The structures of the image: what each is, and its bytes.
fn structures(subject: &Subject, image: &MemoryStore) -> Vec<(String, Range<u64>)> {
    let used = subject.open(image.clone()).unwrap();
    let layout = used.volume.superblock().layout;
    let number = used.volume.engine().snapshot_number();
    drop(used);
    let mut found = Vec::new();
    let copies = if subject.has_map { 0..0 } else { 0..3 };
    for copy in copies {
        let offset = layout.superblock_offsets()[copy];
        found.push((format!("superblock copy {copy}"), offset..offset + 4096));
    }
    if subject.has_map {
        let base = subject.device_bytes;
        found.push(("map device header".to_owned(), base..base + 4096));
        let map = nearhead_format::MapDevice::decode(&bytes(image, base..base + 4096), 4 << 20);
        let map = map.unwrap();
        let slot = base + map.slot_offsets[(number % 2) as usize];
        found.push(("snapshot".to_owned(), slot..slot + 4 * 4096));
        let journal = base + map.journal_offset..base + map.journal_offset + map.journal_bytes;
        found.extend(records(image, journal, 4096, true));
    } else {
        let slot = (number % 2) as usize;
        let start = layout.slot_offsets[slot];
        found.push(("snapshot".to_owned(), start..start + 4 * 4096));
        let copy = layout.snapshot_copy_offset(slot);
        found.push(("snapshot copy".to_owned(), copy..copy + 4096));
    }
    for log in 0..layout.log_count() {
        let start = layout.log_offset(log).unwrap();
        let block = u64::from(layout.log_block_bytes);
        found.extend(records(image, start..start + layout.log_bytes, block, false));
    }
    found
}

/// Records that begin at a block of `range`; the newest two are left out, of payloads only the beginning is taken.
fn records(
    image: &MemoryStore,
    range: Range<u64>,
    block_bytes: u64,
    of_journal: bool,
) -> Vec<(String, Range<u64>)> {
    let mut found = Vec::new();
    for start in range.clone().step_by(block_bytes as usize) {
        if let Ok(peeked) = peek(&bytes(image, start..start + 512)) {
            let header = u64::from(peeked.header_bytes);
            let payload = if of_journal { 0 } else { u64::from(peeked.payload_sectors) * 512 };
            let end = start + header + payload.min(3 * 4096);
            found.push((peeked.sequence, start..end));
        }
    }
    found.sort_by_key(|(sequence, _)| *sequence);
    found.truncate(found.len().saturating_sub(2));
    // One more of many that are alike says nothing.
    found.sort_by_key(|(_, range)| range.end - range.start);
    found.drain(..found.len().saturating_sub(RECORDS_MAX));
    let kind = if of_journal { "journal entry" } else { "record" };
    found.into_iter().map(|(sequence, range)| (format!("{kind} {sequence}"), range)).collect()
}

fn bytes(image: &MemoryStore, range: Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    image.read(range.start, &mut bytes).unwrap();
    bytes
}

/// The image opens unchanged, or something is said: by a refusal, a finding, or an error of the read itself.
fn is_unchanged_or_told(subject: &Subject, sound: &View, image: MemoryStore, what: &str) {
    let Seen::Open(view) = subject.look(image) else { return };
    for (block, expected) in &sound.blocks {
        let found = view.blocks[block];
        assert!(
            found.is_none() || found == *expected,
            "{what}: block {block} reads as something else; told {:?}",
            view.damage
        );
    }
    assert!(
        view.hints == sound.hints || view.is_told,
        "{what}: hints {:?} became {:?} without a word",
        sound.hints,
        view.hints
    );
    assert_eq!(view.size_bytes, sound.size_bytes, "{what}");
}

fn try_every_byte(preset: &'static str, has_map: bool) {
    let subject = subject(preset, has_map);
    let image = image(&subject);
    let Seen::Open(sound) = subject.look(image.clone()) else { panic!("a sound image opens") };
    assert_eq!((&sound.damage, sound.is_told), (&Vec::new(), false));
    assert!(sound.blocks.values().all(Option::is_some) && !sound.hints.is_empty());
    let structures = structures(&subject, &image);
    let longest = structures.iter().map(|(_, range)| range.end - range.start).max();
    assert!(longest > Some(4096), "{structures:?}");
    let mut tried = 0;
    for (name, range) in &structures {
        let len = range.end - range.start;
        let each = (0..len.min(EACH_OF)).chain((EACH_OF..len).step_by(ONE_IN as usize));
        for at in each {
            let mut damaged = image.clone();
            let byte = bytes(&image, range.start + at..range.start + at + 1)[0];
            damaged.write(range.start + at, &[byte ^ (1 << (at % 8))]).unwrap();
            let what = format!("{preset}, {name}, byte {at} of {len}");
            is_unchanged_or_told(&subject, &sound, damaged, &what);
            tried += 1;
        }
        for at in (0..len).step_by(SECTOR_BYTES as usize) {
            for content in [[0; SECTOR_BYTES as usize], [0xa5; SECTOR_BYTES as usize]] {
                let mut damaged = image.clone();
                damaged.write(range.start + at, &content).unwrap();
                let what = format!("{preset}, {name}, sector at byte {at} of {len}");
                is_unchanged_or_told(&subject, &sound, damaged, &what);
                tried += 1;
            }
        }
    }
    println!("{preset}, map device {has_map}: {tried} damages of {} structures", structures.len());
}

#[test]
fn whatever_rots_in_a_volume_with_one_log_is_told_or_changes_nothing() {
    try_every_byte("singlelog", false);
}

#[test]
fn whatever_rots_on_a_map_device_is_told_or_changes_nothing() {
    try_every_byte("mlb", true);
}

#[test]
fn whatever_stands_in_the_place_of_another_is_told_or_changes_nothing() {
    let subject = subject("singlelog", false);
    let image = image(&subject);
    let Seen::Open(sound) = subject.look(image.clone()) else { panic!("a sound image opens") };
    let structures = structures(&subject, &image);
    let mut places: Vec<(String, Range<u64>)> = structures.clone();
    // Chunks of the long record by themselves: of the same length, under sound headers.
    for (name, range) in &structures {
        if let Ok(peeked) = peek(&bytes(&image, range.start..range.start + 512)) {
            let payload = range.start + u64::from(peeked.header_bytes);
            let chunks = (payload..range.end.saturating_sub(4095)).step_by(4096).enumerate();
            places.extend(
                chunks.map(|(chunk, at)| (format!("{name}, chunk {chunk}"), at..at + 4096)),
            );
        }
    }
    let mut tried = 0;
    for (from, source) in &places {
        for (to, target) in &places {
            let same = target.end - target.start == source.end - source.start;
            if !same || source == target {
                continue;
            }
            let mut damaged = image.clone();
            damaged.write(target.start, &bytes(&image, source.clone())).unwrap();
            let what = format!("{from} in the place of {to}");
            is_unchanged_or_told(&subject, &sound, damaged, &what);
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried}");
}
