//! Tests of fragments in records: where they may lie, how many a record may have, and that their bytes are as safe as the rest of a header.

use super::encode::{CRC_AT, FRAGMENT_BYTES_AT, FRAGMENTS_AT, MOVES_AT, header_crc};
use super::tests::{encoded, moving, sample};
use super::*;
use crate::damage::{assert_same_bytes, for_every_bit_flip, for_every_byte, golden};
use nearhead_basics::little_endian::put;

fn fragment(home_sector: u64, offset: u16, bytes: &[u8]) -> Fragment {
    Fragment { home_sector, offset, bytes: bytes.into() }
}

/// One at the start of a sector, one across two, one of the last byte of the last home block, and a later one over the first.
fn piecemeal() -> RecordHeader {
    let fragments = vec![
        fragment(0x1000, 0, b"from the start"),
        fragment(17, 509, b"across"),
        fragment(SECTORS_MAX - 1, 511, b"!"),
        fragment(0x1000, 5, b"THE"),
    ];
    RecordHeader { fragments, ..sample() }
}

/// Changes a sound record's bytes, makes the checksum fit, and says what is refused.
fn refused(at: usize, value: &[u8]) -> String {
    let mut bytes = encoded(&piecemeal(), 512);
    put(&mut bytes, at, value);
    let crc = header_crc(&bytes);
    put(&mut bytes, CRC_AT, &crc.to_le_bytes());
    match RecordHeader::decode(&bytes) {
        Err(RecordError::Field(field)) => field.to_string(),
        other => panic!("byte {at}: {other:?}"),
    }
}

/// The first fragment's item: six others are before it, three writes, an invalidation, a claim, an echo.
const FIRST_ITEM: usize = HEADER_FIXED_BYTES + 6 * ITEM_BYTES;

#[test]
fn fragments_have_the_bytes_that_an_independent_writer_gives_them() {
    let expected = golden(include_str!("../../golden/record_fragments.hex"));
    assert_same_bytes(&encoded(&piecemeal(), 512), &expected);
    assert_eq!(RecordHeader::decode(&expected), Ok(piecemeal()));
    assert_eq!(RecordHeader::decode(&encoded(&piecemeal(), 4096)), Ok(piecemeal()));
}

#[test]
fn every_flipped_bit_of_a_fragment_is_detected_be_it_of_its_item_or_of_its_bytes() {
    for_every_bit_flip(&encoded(&piecemeal(), 512), |mutant, bit| {
        assert!(RecordHeader::decode(mutant).is_err(), "bit {bit}");
    });
    let many = vec![fragment(64, 0, &[0; 2000]); 8];
    for_every_byte(&encoded(&RecordHeader { fragments: many, ..sample() }, 4096), |mutant, at| {
        assert!(RecordHeader::decode(mutant).is_err(), "byte {at}");
    });
}

#[test]
fn a_fragment_knows_its_bytes_and_the_sectors_that_it_touches() {
    let touched = |fragment: &Fragment| {
        let range = fragment.range();
        (fragment.home_byte(), fragment.end_byte(), range.start_sector, range.len_sectors)
    };
    let cases = [
        (fragment(16, 0, &[1]), (8192, 8193, 16, 1)),
        (fragment(16, 511, &[1]), (8703, 8704, 16, 1)),
        (fragment(16, 511, &[1; 2]), (8703, 8705, 16, 2)),
        (fragment(16, 0, &[1; 512]), (8192, 8704, 16, 1)),
        (fragment(16, 1, &[1; 512]), (8193, 8705, 16, 2)),
        (fragment(16, 0, &[1; 4096]), (8192, 12288, 16, 8)),
        (fragment(23, 511, &[1]), (12287, 12288, 23, 1)),
    ];
    for (fragment, expected) in cases {
        assert_eq!(touched(&fragment), expected, "{fragment:?}");
        assert_eq!(fragment.validate(), Ok(()), "{fragment:?}");
        let record = RecordHeader { fragments: vec![fragment], ..RecordHeader::default() };
        assert_eq!(RecordHeader::decode(&encoded(&record, 512)), Ok(record));
    }
}

#[test]
fn a_fragment_that_the_format_does_not_allow_is_neither_written_nor_read() {
    let bad = [
        fragment(16, 0, &[]),
        fragment(16, 512, &[1]),
        fragment(16, u16::MAX, &[1]),
        fragment(16, 0, &[1; 4097]),
        fragment(16, 1, &[1; 4096]),
        fragment(23, 511, &[1; 2]),
        fragment(SECTORS_MAX, 0, &[1]),
        fragment(u64::MAX, 0, &[1]),
        fragment(SECTORS_MAX - 1, 511, &[1; 2]),
    ];
    for fragment in bad {
        let told = fragment.validate().unwrap_err().to_string();
        assert!(told.starts_with("fragment: expected 1 to 4096 bytes"), "{told}");
        let record = RecordHeader { fragments: vec![fragment], ..sample() };
        assert_eq!(record.validate().unwrap_err().name, "fragment");
    }
    // The same in bytes: a sector past the last of its block, an offset of 512 (which spoils a bit that means nothing), no bytes.
    assert!(refused(FIRST_ITEM + 12, &23_u64.to_le_bytes()[..2]).starts_with("fragment: "));
    assert!(refused(FIRST_ITEM + 7, &[2]).contains("bits 57 to 63 zero"));
    assert!(refused(FIRST_ITEM + 8, &[0]).contains("0 bytes at byte 0 of sector 4096"));
    assert!(refused(FIRST_ITEM + 8, &u32::MAX.to_le_bytes()).contains("4294967295 bytes at"));
}

#[test]
fn lengths_that_do_not_add_up_to_the_bytes_that_are_there_are_refused() {
    let sum = piecemeal().fragment_bytes() as u8;
    let told = refused(FIRST_ITEM + 8, &[13]);
    let expected = format!("fragment_bytes: expected {}, the sum of the fragments", sum - 1);
    assert!(told.starts_with(&expected), "{told}");
    let told = refused(FIRST_ITEM + 8, &[15]);
    assert!(told.starts_with("fragment_bytes: expected the sum of the fragments"), "{told}");
    // One byte more is a zero behind them, one less is padding that is not zero.
    assert!(refused(FRAGMENT_BYTES_AT, &[sum + 1]).starts_with("fragment_bytes"));
    assert!(refused(FRAGMENT_BYTES_AT, &[sum - 1]).starts_with("fragment_bytes"));
    // Without the last item its bytes, and the item, are those of nobody.
    assert!(refused(FRAGMENTS_AT, &[3]).starts_with("fragment_bytes"));
    assert!(refused(FRAGMENTS_AT, &[0]).starts_with("fragment_bytes"));
    let bytes = encoded(&piecemeal(), 512);
    let end = FIRST_ITEM + 4 * ITEM_BYTES + usize::from(sum);
    assert_eq!((bytes[end - 1], bytes[end]), (b'E', 0));
    assert!(refused(end, &[1]).starts_with("header padding"));
}

#[test]
fn hostile_counts_of_fragments_are_refused_before_anything_is_allocated() {
    let peeked = |at: usize, value: &[u8]| {
        let mut bytes = encoded(&piecemeal(), 4096);
        put(&mut bytes, at, value);
        peek(&bytes).map_err(|error| error.to_string())
    };
    let over = |limit: usize| (limit as u32 + 1).to_le_bytes();
    let cases: [(usize, &[u8], &str); 6] = [
        (FRAGMENTS_AT, &over(FRAGMENTS_MAX)[..2], "fragment_count: expected at most 640"),
        (FRAGMENTS_AT, &u16::MAX.to_le_bytes(), "fragment_count: expected at most 640"),
        (FRAGMENT_BYTES_AT, &over(FRAGMENT_BYTES_MAX), "fragment_bytes: expected at most 16384"),
        (FRAGMENT_BYTES_AT, &u32::MAX.to_le_bytes(), "fragment_bytes: expected at most 16384"),
        // Within the limits, but not what fits a header of this size.
        (FRAGMENTS_AT, &(FRAGMENTS_MAX as u16).to_le_bytes(), "header_bytes: expected 8"),
        (FRAGMENT_BYTES_AT, &(FRAGMENT_BYTES_MAX as u32).to_le_bytes(), "header_bytes: expected 1"),
    ];
    for (at, value, expected) in cases {
        let told = peeked(at, value).unwrap_err();
        assert!(told.contains(expected), "byte {at}: {told}");
    }
}

#[test]
fn fragments_are_beside_no_moves_and_in_no_record_of_which_nothing_counts() {
    let fragments = piecemeal().fragments;
    let with_moves = RecordHeader { fragments: fragments.clone(), ..moving() };
    assert_eq!(
        with_moves.validate().unwrap_err().to_string().split(',').next(),
        Some("fragment_count: expected 0 beside moves")
    );
    let body = RecordHeader { flags: FLAG_BODY, ..piecemeal() };
    let told = body.validate().unwrap_err().to_string();
    assert!(told.contains("0 in a record of which nothing counts"), "{told}");
    let mut bytes = encoded(&piecemeal(), 512);
    put(&mut bytes, MOVES_AT, &[1]);
    assert!(peek(&bytes).unwrap_err().to_string().contains("expected 0 beside moves"));
    let mut bytes = encoded(&piecemeal(), 512);
    put(&mut bytes, 6, &FLAG_BODY.to_le_bytes());
    assert!(peek(&bytes).unwrap_err().to_string().contains("of which nothing counts"));
}

#[test]
fn a_full_record_with_fragments_fits_the_largest_header_and_one_more_is_refused() {
    let sample = sample();
    let small = fragment(64, 3, &[5; 25]);
    let full = RecordHeader {
        writes: vec![sample.writes[0]; WRITES_MAX],
        invalidations: vec![sample.invalidations[0]; INVALIDATIONS_MAX],
        claims: vec![sample.claims[0]; CLAIMS_MAX],
        echo: vec![sample.echo[0]; ECHO_MAX],
        fragments: vec![small.clone(); FRAGMENTS_MAX],
        ..sample.clone()
    };
    let bytes = encoded(&full, 4096);
    assert!(bytes.len() <= HEADER_BYTES_MAX, "{}", bytes.len());
    assert_eq!(RecordHeader::decode(&bytes).as_ref(), Ok(&full));
    let name = |fragments| {
        RecordHeader { fragments, ..sample.clone() }.validate().map_err(|field| field.name)
    };
    let whole = fragment(64, 0, &[1; 4096]);
    assert_eq!(name(vec![whole.clone(); 4]), Ok(()));
    let mut over = vec![whole; 4];
    over.push(fragment(0, 0, &[1]));
    assert_eq!(name(over), Err("fragment_bytes"));
    assert_eq!(name(vec![small; FRAGMENTS_MAX + 1]), Err("fragment_count"));
}

#[test]
fn the_size_of_a_header_is_that_of_its_items_and_of_all_bytes_of_fragments() {
    for (items, bytes, expected) in
        [(0, 0, 512), (1, 404, 512), (1, 405, 1024), (34, 8, 512), (34, 9, 1024), (1, 4096, 4608)]
    {
        assert_eq!(header_bytes_for(items, bytes, 512), expected, "{items} items, {bytes} bytes");
    }
    for len in [1, 403, 404, 405, 3988, 3989] {
        let fragments = vec![fragment(64, 0, &vec![7; len])];
        let record = RecordHeader { fragments, ..RecordHeader::default() };
        assert_eq!(record.encoded_bytes(4096), header_bytes_for(1, len, 4096));
        let bytes = encoded(&record, 512);
        assert_eq!(bytes.len(), (108 + len).next_multiple_of(512));
        assert_eq!(RecordHeader::decode(&bytes), Ok(record));
    }
}

#[test]
fn a_record_of_nothing_but_fragments_has_no_payload() {
    let fragments = piecemeal().fragments;
    let record = RecordHeader { fragments, ..RecordHeader::default() };
    assert_eq!((record.payload_sectors(), record.record_bytes(512)), (0, 512));
    let peeked = peek(&encoded(&record, 512)).unwrap();
    assert_eq!((peeked.header_bytes, peeked.payload_sectors), (512, 0));
}
