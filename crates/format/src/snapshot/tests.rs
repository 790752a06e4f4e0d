//! Tests of the snapshot codec: headers, and bodies written and read in any pieces.

use super::*;
use crate::block::{SEALED_BYTES, seal};
use crate::damage::{apply, assert_same_bytes, edits, for_every_bit_flip, for_every_byte, golden};
use crate::entry::tests::entry_in;
use crate::{Entry, Layout, LayoutKind, Place, SECTORS_MAX, VolumeId};
use nearhead_basics::little_endian::put;
use proptest::prelude::*;

pub(super) const VOLUME: VolumeId =
    *b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf";
const ROOM: u64 = 1 << 20;

fn items() -> Vec<BodyItem> {
    let log = |chunk_sector, chunk_len, offset| Place::Log { chunk_sector, chunk_len, offset };
    let entry = |home_sector, len_sectors, place, crc| {
        BodyItem::Entry(Entry { home_sector, len_sectors, place, crc })
    };
    vec![
        entry(8, 8, log(1 << 40, 8, 0), 0x0102_0304),
        entry(17, 2, log(4096, 5, 1), 0xcafe_babe),
        entry(24, 3, Place::Zero, 0),
        entry(SECTORS_MAX - 1, 1, Place::Poisoned, 0),
        BodyItem::Log(LogState { log_index: 3, position: 40 }),
        BodyItem::Log(LogState { log_index: 9, position: 0 }),
        BodyItem::Claim(9),
        BodyItem::Hint(HintRange { start_sector: 1 << 20, len_sectors: 1 << 33 }),
    ]
}

/// Writes `items` in pieces of `piece_bytes`; gives the body and what the header says of it.
pub(super) fn written(items: &[BodyItem], piece_bytes: usize) -> (Vec<u8>, BodySummary) {
    let mut writer = BodyWriter::new();
    let mut items = items.iter().copied();
    let mut body = Vec::new();
    loop {
        let mut piece = vec![0xa5; piece_bytes];
        let filled = writer.fill(&mut piece, &mut items).unwrap();
        body.extend_from_slice(&piece[..filled]);
        if filled < piece_bytes {
            assert_eq!(writer.fill(&mut piece, &mut items), Ok(0));
            return (body, writer.summary().unwrap());
        }
        assert!(items.len() > 0 || body.len() < 100 << 20, "the body never ends");
    }
}

/// Reads a body in pieces of `piece_bytes`.
/// A body with these edits under a checksum that fits is refused, or is what its items are written as.
pub(super) fn check_edited(items: &[BodyItem], edits: &[(usize, u8)], piece_bytes: usize) {
    let (mut body, mut summary) = written(items, 4096);
    apply(edits, &mut body);
    summary.body_crc = crate::crc::crc32c(&body);
    if let Ok(items) = read(&body, summary, piece_bytes) {
        assert_eq!(written(&items, 4096), (body, summary));
    }
}

pub(super) fn read(
    body: &[u8],
    summary: BodySummary,
    piece_bytes: usize,
) -> Result<Vec<BodyItem>, SnapshotError> {
    let mut reader = BodyReader::new(summary);
    let mut items = Vec::new();
    for piece in body.chunks(piece_bytes) {
        reader.feed(piece, &mut |item| items.push(item))?;
    }
    assert_eq!(reader.bytes_left(), summary.body_bytes - body.len() as u64);
    reader.finish()?;
    Ok(items)
}

pub(super) fn header() -> SnapshotHeader {
    SnapshotHeader {
        volume_id: VOLUME,
        snapshot_number: 13,
        record_sequence: 0x1122_3344_5566_7788,
        flags: FLAG_CLEAN_SHUTDOWN,
        body: written(&items(), 4096).1,
    }
}

#[test]
fn the_newer_of_two_headers_counts_and_of_equals_the_one_in_front() {
    let (old, new) = (header(), SnapshotHeader { snapshot_number: 15, ..header() });
    assert_eq!(SnapshotHeader::newer(Some(old), Some(new)), Some(new));
    assert_eq!(SnapshotHeader::newer(Some(new), Some(old)), Some(new));
    assert_eq!(SnapshotHeader::newer(None, Some(old)), Some(old));
    assert_eq!(SnapshotHeader::newer(Some(old), None), Some(old));
    assert_eq!(SnapshotHeader::newer(None, None), None);
    // Written again with the same number after a failure: the copy is of the attempt before.
    let again = SnapshotHeader { record_sequence: 1, ..old };
    assert_eq!(SnapshotHeader::newer(Some(again), Some(old)), Some(again));
}

pub(super) fn decode(bytes: &[u8]) -> Result<SnapshotHeader, SnapshotError> {
    SnapshotHeader::decode(bytes, &VOLUME, 1, ROOM)
}

fn body_items() -> impl Strategy<Value = Vec<BodyItem>> {
    let entries = prop::collection::btree_set(0..SECTORS_MAX / 8, 0..400)
        .prop_flat_map(|blocks| blocks.into_iter().map(entry_in).collect::<Vec<_>>());
    let logs = prop::collection::btree_map(any::<u32>(), any::<u32>(), 0..40);
    let claims = prop::collection::btree_set(any::<u32>(), 0..40);
    let hints = prop::collection::btree_set(0..SECTORS_MAX, 0..20);
    let cells = super::cell_tests::cells();
    (entries, logs, claims, hints, cells).prop_map(|(entries, logs, claims, hints, cells)| {
        let mut items: Vec<BodyItem> = entries.into_iter().map(BodyItem::Entry).collect();
        items.extend(
            logs.into_iter()
                .map(|(log_index, position)| BodyItem::Log(LogState { log_index, position })),
        );
        items.extend(claims.into_iter().map(BodyItem::Claim));
        let ends = hints.iter().skip(1).copied().chain([SECTORS_MAX]).collect::<Vec<_>>();
        items.extend(hints.into_iter().zip(ends).map(|(start_sector, end)| {
            BodyItem::Hint(HintRange { start_sector, len_sectors: end - start_sector })
        }));
        items.extend(cells.into_iter().map(BodyItem::Fragment));
        items
    })
}

#[test]
fn header_and_body_have_the_bytes_that_an_independent_writer_gives_them() {
    let body = golden(include_str!("../../golden/snapshot_body.hex"));
    assert_same_bytes(&written(&items(), 4096).0, &body);
    assert_eq!(read(&body, header().body, 4096), Ok(items()));
    let expected = golden(include_str!("../../golden/snapshot_header.hex"));
    assert_same_bytes(&header().encode(), &expected);
    assert_eq!(decode(&expected), Ok(header()));
}

#[test]
fn every_flipped_bit_of_a_header_is_detected() {
    for_every_bit_flip(&header().encode(), |mutant, bit| {
        assert!(decode(mutant).is_err(), "bit {bit}");
    });
}

#[test]
fn every_truncation_of_a_header_is_detected() {
    let bytes = header().encode();
    for len in 0..bytes.len() {
        let found = len as u64;
        assert_eq!(decode(&bytes[..len]), Err(SnapshotError::Length { expected: 4096, found }));
    }
}

#[test]
fn every_flipped_bit_of_a_body_is_detected() {
    let (body, summary) = written(&items(), 4096);
    for_every_bit_flip(&body, |mutant, bit| {
        assert!(read(mutant, summary, 4096).is_err(), "bit {bit}");
    });
}

/// Bodies of one block, of several, and of more than the pieces that are written and read.
#[test]
fn every_byte_of_a_body_counts_however_long_it_is() {
    for (entries, piece_bytes) in [(150, 4096), (300, 4096), (300, 8192), (450, 4096), (900, 8192)]
    {
        // Flipped bits of a checksum or of a place leave a sound entry: only the body's own checksum tells.
        let place = Place::Log { chunk_sector: 1 << 20, chunk_len: 8, offset: 0 };
        let entry = |block: u64| Entry { home_sector: block * 8, len_sectors: 8, place, crc: 7 };
        let items: Vec<BodyItem> = (0..entries).map(entry).map(BodyItem::Entry).collect();
        let (body, summary) = written(&items, piece_bytes);
        assert_eq!(read(&body, summary, piece_bytes).as_ref(), Ok(&items));
        for_every_byte(&body, |mutant, at| {
            let found = read(mutant, summary, piece_bytes);
            assert!(found.is_err(), "byte {at} of a body of {entries} entries");
        });
    }
}

#[test]
fn every_truncation_of_a_body_is_detected_and_so_is_a_longer_one() {
    let (mut body, summary) = written(&items(), 4096);
    for len in 0..body.len() {
        let found = read(&body[..len], summary, 1000);
        assert!(matches!(found, Err(SnapshotError::Length { .. })), "{len} bytes: {found:?}");
    }
    body.push(0);
    let mut reader = BodyReader::new(summary);
    let refused = reader.feed(&body, &mut |_| {});
    assert_eq!(refused, Err(SnapshotError::Length { expected: 4096, found: 4097 }));
}

#[test]
fn a_body_of_nothing_is_no_bytes_at_all() {
    let (body, summary) = written(&[], 4096);
    assert_eq!((body.len(), summary), (0, BodySummary::default()));
    assert_eq!(read(&body, summary, 4096), Ok(vec![]));
}

#[test]
fn a_body_that_ends_with_a_piece_is_complete_only_once_that_is_known() {
    // 4096 is 1024 claims of 4 bytes.
    let claims: Vec<BodyItem> = (0..1024).map(BodyItem::Claim).collect();
    let mut items = claims.iter().copied();
    let mut writer = BodyWriter::new();
    let mut piece = [0; 4096];
    assert_eq!(writer.fill(&mut piece, &mut items), Ok(4096));
    assert_eq!(writer.summary(), None);
    assert_eq!(writer.fill(&mut piece, &mut items), Ok(0));
    assert_eq!(writer.summary().unwrap().body_bytes, 4096);
}

#[test]
fn items_out_of_order_are_neither_written_nor_read() {
    let good = items();
    for first in 0..good.len() {
        for second in 0..=first {
            let pair = [good[first], good[second]];
            let refused = BodyWriter::new().fill(&mut [0; 4096], &mut pair.into_iter());
            assert!(refused.is_err(), "{pair:?}");
        }
    }
    // Two overlapping entries, as only a bug could write them.
    let (mut body, mut summary) = written(&good, 4096);
    body.copy_within(0..20, 20);
    summary.body_crc = crate::crc::crc32c(&body);
    match read(&body, summary, 4096) {
        Err(SnapshotError::Field(field)) => assert_eq!(field.name, "entry"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hint_of_no_sectors_or_past_the_last_one_is_neither_written_nor_read() {
    let hint = |start_sector, len_sectors| BodyItem::Hint(HintRange { start_sector, len_sectors });
    let last = hint(SECTORS_MAX - 1, 1);
    let (body, summary) = written(&[last], 4096);
    assert_eq!(read(&body, summary, 4096), Ok(vec![last]));
    for bad in [hint(8, 0), hint(SECTORS_MAX - 1, 2), hint(SECTORS_MAX, 1), hint(u64::MAX, 1)] {
        let refused = BodyWriter::new().fill(&mut [0; 4096], &mut [bad].into_iter());
        assert_eq!(refused.map_err(|field| field.name), Err("hint"), "{bad:?}");
        let BodyItem::Hint(range) = bad else { unreachable!("only hints are tried") };
        let mut body = body.clone();
        put(&mut body, 0, &range.start_sector.to_le_bytes());
        put(&mut body, 8, &range.len_sectors.to_le_bytes());
        let body_crc = crate::crc::crc32c(&body);
        match read(&body, BodySummary { body_crc, ..summary }, 4096) {
            Err(SnapshotError::Field(field)) => assert_eq!(field.name, "hint", "{bad:?}"),
            other => panic!("{bad:?}: {other:?}"),
        }
    }
}

#[test]
fn a_body_of_many_pieces_is_the_same_as_one_of_a_single_piece() {
    // 1024 entries of 20 bytes end exactly with the fifth piece of 4096; each piece before splits one.
    let entry = |at: u64| Entry { home_sector: at * 8, len_sectors: 8, place: Place::Zero, crc: 0 };
    let items: Vec<BodyItem> = (0..2500).map(|at| BodyItem::Entry(entry(at))).collect();
    let (body, summary) = written(&items, 4096);
    assert_eq!(summary.entry_count, 2500);
    assert!((body.clone(), summary) == written(&items, 1 << 20), "pieces change the body");
    assert_eq!(read(&body, summary, 4096), Ok(items));
}

#[test]
fn a_snapshot_of_another_volume_or_slot_is_refused() {
    let bytes = header().encode();
    let name = |result: Result<SnapshotHeader, SnapshotError>| match result {
        Err(SnapshotError::Field(field)) => field.name,
        other => panic!("{other:?}"),
    };
    assert_eq!(name(SnapshotHeader::decode(&bytes, &[0; 16], 1, ROOM)), "volume_id");
    assert_eq!(name(SnapshotHeader::decode(&bytes, &VOLUME, 0, ROOM)), "slot");
    assert_eq!(name(SnapshotHeader::decode(&bytes, &VOLUME, 1, 4095)), "body_bytes");
    assert_eq!(header().slot(), 1);
}

#[test]
fn hostile_counts_are_refused_by_the_header() {
    for (at, len) in [(48, 8), (56, 8), (64, 4), (68, 4), (72, 4), (84, 4)] {
        for value in [0xff, 0x7f] {
            let mut block = header().encode();
            put(&mut block, at, &[value; 8][..len]);
            seal(&mut block);
            let refused = SnapshotHeader::decode(&block, &VOLUME, 1, u64::MAX);
            assert!(matches!(refused, Err(SnapshotError::Field(_))), "at {at}: {refused:?}");
        }
    }
}

#[test]
fn fields_that_the_format_does_not_allow_are_named() {
    // 1280 log states make a longer body than the sample's 4096 bytes.
    let cases: [(usize, &[u8], &str); 6] = [
        (32, &[12], "snapshot_number"),
        (76, &[4], "flags"),
        (84, &[64], "body_bytes"),
        (88, &[1], "reserved"),
        (4091, &[1], "reserved"),
        (65, &[5], "body_bytes"),
    ];
    for (at, value, name) in cases {
        let mut block = header().encode();
        put(&mut block, at, value);
        seal(&mut block);
        match decode(&block) {
            Err(SnapshotError::Field(field)) => assert_eq!(field.name, name, "byte {at}"),
            other => panic!("byte {at}, {name}: {other:?}"),
        }
    }
    // The padding of a body is checked even where its checksum fits.
    let (mut body, mut summary) = written(&items(), 4096);
    body[4095] = 1;
    summary.body_crc = crate::crc::crc32c(&body);
    match read(&body, summary, 4096) {
        Err(SnapshotError::Field(field)) => assert_eq!(field.name, "body padding"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_says_whether_records_may_begin_anywhere_as_its_layout_does() {
    let options = crate::layout::tests::defaults(LayoutKind::ManyLogs, ROOM << 10);
    let in_order = Layout::plan(ROOM << 10, &options).unwrap();
    let anywhere = Layout { records_anywhere: true, ..in_order };
    for (layout, other) in [(&in_order, &anywhere), (&anywhere, &in_order)] {
        let flags = FLAG_CLEAN_SHUTDOWN | SnapshotHeader::flags_of(layout);
        let written = SnapshotHeader { flags, ..header() };
        let read = decode(&written.encode()).unwrap();
        assert_eq!(read, written);
        assert!(read.is_of(layout) && !read.is_of(other), "{layout:?}");
    }
}

#[test]
fn a_newer_version_is_named_with_the_version_that_is_read() {
    let mut block = header().encode();
    put(&mut block, 8, &2_u32.to_le_bytes());
    seal(&mut block);
    assert_eq!(decode(&block), Err(SnapshotError::Version { expected: 1, found: 2 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_body_reads_back_whatever_the_pieces(
        items in body_items(),
        write_blocks in 1_usize..4,
        read_bytes in 1_usize..9000,
    ) {
        let (body, summary) = written(&items, write_blocks * 4096);
        prop_assert_eq!(summary.expected_body_bytes(), Some(body.len() as u64));
        prop_assert_eq!(summary.body_bytes, body.len() as u64);
        let (in_one, same) = written(&items, 1 << 20);
        prop_assert!(in_one == body && same == summary, "pieces change the body");
        prop_assert_eq!(read(&body, summary, read_bytes), Ok(items));
        let header = SnapshotHeader { body: summary, ..header() };
        prop_assert_eq!(decode(&header.encode()), Ok(header));
    }
}

proptest! {
    #[test]
    fn random_bodies_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 1..9000),
        piece_bytes in 1_usize..9000,
        counts in any::<(u8, u8, u8, u8, u8)>(),
    ) {
        let summary = BodySummary {
            entry_count: u64::from(counts.0),
            log_count: u32::from(counts.1),
            claim_count: u32::from(counts.2),
            hint_count: u32::from(counts.3),
            fragment_count: u32::from(counts.4),
            body_bytes: bytes.len() as u64,
            body_crc: 0,
        };
        prop_assert!(read(&bytes, summary, piece_bytes).is_err());
    }

    /// A summary that no decoded header could carry must still not panic the reader.
    #[test]
    fn edited_bodies_with_a_fitting_checksum_are_refused_or_canonical(
        edits in edits(),
        piece_bytes in 1_usize..5000,
    ) {
        check_edited(&items(), &edits, piece_bytes);
    }

    #[test]
    fn edited_headers_with_a_fitting_checksum_are_refused_or_canonical(edits in edits()) {
        let mut block = header().encode();
        apply(&edits, &mut block);
        seal(&mut block);
        if let Ok(decoded) = decode(&block) {
            prop_assert_eq!(decoded.encode(), block);
        }
    }

    #[test]
    fn random_headers_are_refused(
        mut bytes in prop::collection::vec(any::<u8>(), SEALED_BYTES),
        sealed in any::<bool>(),
    ) {
        prop_assert!(decode(&bytes).is_err());
        put(&mut bytes, 0, &SNAPSHOT_MAGIC);
        put(&mut bytes, 8, &1_u64.to_le_bytes());
        let mut block: [u8; SEALED_BYTES] = bytes.try_into().unwrap();
        if sealed {
            seal(&mut block);
        }
        prop_assert!(decode(&block).is_err());
    }
}
