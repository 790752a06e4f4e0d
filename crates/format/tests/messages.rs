//! What the codecs say when they refuse: always the field, what was expected and what was found, in the words
//! of docs/format.md, so that a person can find the bytes and knows what to do.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_format::layout::LayoutField;
use nearhead_format::map_device::{MAP_DEVICE_BYTES_MIN, MapDevice};
use nearhead_format::record::RecordIdentity;
use nearhead_format::{
    Entry, FieldError, LayoutError, Place, PresetNumber, RecordError, SnapshotError,
    SuperblockError,
};
use std::collections::BTreeSet;
use std::fmt::Display;

const FORMAT: &str = include_str!("../../../docs/format.md");

fn field() -> FieldError {
    FieldError { name: "flags", expected: "0 or 1".to_owned(), found: "7".to_owned() }
}

/// `error` as told to people has all of `parts`, in this order.
fn assert_says(error: &dyn Display, parts: &[&str]) {
    let text = error.to_string();
    let mut rest = text.as_str();
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` is missing in: {text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn a_refused_record_says_what_was_expected_and_what_was_found() {
    let identity = RecordIdentity { volume_id: [0xab; 16], log_index: 2, position: 4 };
    let elsewhere = RecordIdentity { log_index: 5, position: 7, ..identity };
    let checksum = RecordError::HeaderChecksum { expected: 0xaa, found: 0xbb };
    assert_says(&RecordError::NoMagic { found: *b"ABCD" }, &["\"NHRC\"", "found", "41, 42, 43"]);
    assert_says(&RecordError::Version { expected: 1, found: 9 }, &["reads 1", "found 9", "use"]);
    assert_says(&RecordError::Length { expected: 96, found: 5 }, &["expected 96", "found 5"]);
    assert_says(&checksum, &["header_crc: expected 0x000000aa", "found 0x000000bb"]);
    assert_says(&RecordError::Field(field()), &["record flags: expected 0 or 1, found 7"]);
    assert_says(
        &RecordError::Identity { expected: identity, found: elsewhere },
        &[
            "expected volume abababab",
            "log 2 position 4",
            "found volume abababab",
            "log 5 position 7",
        ],
    );
}

#[test]
fn a_refused_snapshot_says_what_was_expected_and_what_was_found() {
    let header = SnapshotError::HeaderChecksum { expected: 0xaa, found: 0xbb };
    let body = SnapshotError::BodyChecksum { expected: 0xaa, found: 0xbb };
    let (expected, found) = ("expected 0x000000aa", "found 0x000000bb");
    assert_says(&SnapshotError::NoMagic { found: *b"ABCDEFGH" }, &["\"NHSNAPSH\"", "found", "48"]);
    assert_says(&SnapshotError::Version { expected: 1, found: 9 }, &["reads 1", "found 9", "use"]);
    assert_says(&SnapshotError::Length { expected: 96, found: 5 }, &["expected 96", "found 5"]);
    assert_says(&header, &["snapshot header crc", expected, found, "the other slot"]);
    assert_says(&body, &["snapshot body_crc", expected, found, "the other slot"]);
    assert_says(&SnapshotError::Field(field()), &["snapshot flags: expected 0 or 1, found 7"]);
}

#[test]
fn a_refused_superblock_says_what_was_expected_and_what_was_found() {
    let version = SuperblockError::Version { expected: 1, found: 9 };
    let checksum = SuperblockError::Checksum { expected: 0xaa, found: 0xbb };
    let misdirected = SuperblockError::Misdirected { expected: 0, found: 2 };
    let layout = LayoutError {
        field: LayoutField::SlotBytes,
        expected: "4096".to_owned(),
        found: 1,
        advice: "try another copy".into(),
    };
    let preset = SuperblockError::Preset { expected: "0 to 4".to_owned(), found: PresetNumber(9) };
    let unreadable = SuperblockError::Unreadable { detail: "a bad sector".to_owned() };
    assert_says(&SuperblockError::Length { found: 5 }, &["expected 4096 bytes", "found 5"]);
    assert_says(&SuperblockError::NoMagic { found: [9; 8] }, &["\"NEARHEAD\"", "found", "09"]);
    assert_says(&checksum, &["crc: expected 0x000000aa", "found 0x000000bb"]);
    assert_says(&version, &["format_version", "reads 1", "found 9", "use"]);
    assert_says(&misdirected, &["copy_index: expected 0", "found 2", "wrong place"]);
    assert_says(&SuperblockError::Features { unknown: 5 }, &["feature_incompat", "0x5", "use"]);
    assert_says(
        &SuperblockError::Layout(layout),
        &["slot_bytes: expected 4096, found 1; try another copy"],
    );
    assert_says(&SuperblockError::Field(field()), &["superblock flags: expected 0 or 1, found 7"]);
    assert_says(&preset, &["preset: expected 0 to 4", "found 9", "use"]);
    assert_says(&unreadable, &["superblock: a bad sector"]);
}

#[test]
fn a_refused_map_device_says_what_was_expected_and_what_was_found() {
    let header = MapDevice::plan(MAP_DEVICE_BYTES_MIN, [1; 16], [2; 16]).unwrap().encode();
    let refused = |bytes: &[u8]| MapDevice::decode(bytes, MAP_DEVICE_BYTES_MIN).unwrap_err();
    let damaged = |at: usize| {
        let mut bytes = header;
        bytes[at] ^= 1;
        refused(&bytes)
    };
    assert_says(&refused(&header[..100]), &["map device header: expected 4096", "found 100"]);
    assert_says(&damaged(0), &["map device magic: expected \"NHMAPDEV\"", "found bytes [4f, 48"]);
    assert_says(&damaged(70), &["map device checksum: expected 0x", "found 0x"]);
    let too_small = MapDevice::decode(&header, MAP_DEVICE_BYTES_MIN - 8192).unwrap_err();
    assert_says(&too_small, &["map device layout", "parts that fit 4186112 bytes", "found"]);
    let mut newer = header;
    newer[8] = 2;
    let crc = nearhead_format::crc::crc32c(&newer[..4092]);
    newer[4092..].copy_from_slice(&crc.to_le_bytes());
    assert_says(&refused(&newer), &["map device version: expected 1", "found 2"]);
}

#[test]
fn a_refused_entry_names_the_field_that_is_wrong() {
    let log = |chunk_sector, chunk_len, offset| Place::Log { chunk_sector, chunk_len, offset };
    let entry = |home_sector, len_sectors, place, crc| {
        Entry { home_sector, len_sectors, place, crc }.validate().unwrap_err().to_string()
    };
    let cases = [
        (
            entry(6, 3, Place::Zero, 0),
            "entry home_sector and len: expected 1 to 8 sectors",
            "3 sectors at 6",
        ),
        (entry(0, 1, Place::Zero, 7), "entry crc: expected 0", "found 7"),
        (entry(0, 1, log(0, 9, 0), 7), "entry chunk_len: expected 1 to 8", "found 9"),
        (
            entry(0, 3, log(0, 2, 0), 7),
            "entry offset: expected 3 sectors inside a chunk of 2",
            "found 0",
        ),
        (
            entry(8, 1, log(0, 2, 1), 7),
            "entry chunk: expected a chunk inside one 4 KiB",
            "home sector 8 at offset 1 of a chunk of 2",
        ),
        (
            entry(8, 1, log(u64::MAX, 1, 0), 7),
            "entry chunk_sector: expected a sector below 2^48",
            "found 18446744073709551615",
        ),
    ];
    for (text, expected, found) in cases {
        assert_says(&text, &[expected, "found", found.trim_start_matches("found ")]);
    }
}

#[test]
fn bits_of_an_entry_that_mean_nothing_are_named() {
    let zero = Entry { home_sector: 8, len_sectors: 1, place: Place::Zero, crc: 0 }.encode();
    for (byte, bit, expected) in
        [(7, 0x80, "bits 57 to 63 zero"), (6, 0x40, "offset and chunk_len zero")]
    {
        let mut bytes = zero;
        bytes[byte] |= bit;
        assert_says(&Entry::decode(&bytes).unwrap_err(), &["entry word0", expected, "found 0x"]);
    }
}

#[test]
fn a_byte_that_should_be_zero_is_told_with_its_place() {
    let mut bytes = MapDevice::plan(MAP_DEVICE_BYTES_MIN, [1; 16], [2; 16]).unwrap().encode();
    bytes[14] = 0x5a;
    let crc = nearhead_format::crc::crc32c(&bytes[..4092]);
    bytes[4092..].copy_from_slice(&crc.to_le_bytes());
    let refused = MapDevice::decode(&bytes, MAP_DEVICE_BYTES_MIN).unwrap_err();
    assert_eq!(refused.to_string(), "reserved: expected zeros, found 0x5a at byte 2 of 4");
}

#[test]
fn fields_of_the_layout_are_called_what_the_format_calls_them() {
    let fields = LayoutField::ALL;
    let names: BTreeSet<_> = fields.iter().map(|field| field.name()).collect();
    assert_eq!(names.len(), fields.len(), "two fields have one name: {names:?}");
    for name in names {
        assert!(FORMAT.contains(&format!("`{name}")), "docs/format.md does not know {name}");
    }
}
