//! Tests of the record codec: what was written reads back, what was damaged is refused, and what
//! is accepted is exactly what would have been written.

use super::encode::{CRC_AT, header_crc};
use super::*;
use crate::damage::{apply, assert_same_bytes, edits, for_every_bit_flip, for_every_byte, golden};
use nearhead_basics::little_endian::put;
use proptest::prelude::*;

const VOLUME: VolumeId = *b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf";

pub(super) fn sample() -> RecordHeader {
    RecordHeader {
        flags: FLAG_ATOMIC,
        volume_id: VOLUME,
        sequence: 0x0102_0304_0506_0708,
        log_index: 0x1112_1314,
        position: 0x3132_3334,
        previous_position: NO_POSITION,
        oldest_live_position: 0x4142_4344,
        writes: vec![
            WriteItem::Chunk { home_sector: 0x1234_5678_9ab0, len_sectors: 8, crc: 0xdead_beef },
            WriteItem::Zeros { home_sector: 17, run_sectors: 1_000_000 },
            WriteItem::Chunk { home_sector: 3, len_sectors: 2, crc: 7 },
        ],
        invalidations: vec![SectorRange { start_sector: 64, len_sectors: 128 }],
        claims: vec![Claim { log_index: 5, position: 6 }],
        echo: vec![SectorRange { start_sector: SECTORS_MAX - 1, len_sectors: 1 }],
        moves: Vec::new(),
        fragments: Vec::new(),
    }
}

/// One that says where two chunks are now.
pub(super) fn moving() -> RecordHeader {
    let entry = |home_sector, chunk_sector| Entry {
        home_sector,
        len_sectors: 8,
        place: Place::Log { chunk_sector, chunk_len: 8, offset: 0 },
        crc: 0x5152_5354,
    };
    let moves = vec![entry(0x1000, 0x6162_6364_6568), entry(0x2008, 0x71)];
    RecordHeader { writes: Vec::new(), claims: Vec::new(), moves, ..sample() }
}

pub(super) fn encoded(record: &RecordHeader, log_block_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0xa5; record.encoded_bytes(log_block_bytes)];
    record.encode_into(&mut bytes);
    bytes
}

fn range() -> impl Strategy<Value = SectorRange> {
    (1..=u32::MAX).prop_flat_map(|len_sectors| {
        (0..=SECTORS_MAX - u64::from(len_sectors))
            .prop_map(move |start_sector| SectorRange { start_sector, len_sectors })
    })
}

fn write() -> impl Strategy<Value = WriteItem> {
    let chunk = (0..SECTORS_MAX / 8, 0_u8..8, 0_u8..8, any::<u32>()).prop_map(
        |(block, start, len, crc)| WriteItem::Chunk {
            home_sector: block * 8 + u64::from(start),
            len_sectors: 1 + len % (8 - start),
            crc,
        },
    );
    let zeros = range().prop_map(|range| WriteItem::Zeros {
        home_sector: range.start_sector,
        run_sectors: range.len_sectors,
    });
    prop_oneof![4 => chunk, 1 => zeros]
}

fn moved() -> impl Strategy<Value = Entry> {
    (0..SECTORS_MAX / 8, 1_u8..=8, 0..SECTORS_MAX - 8, any::<u32>()).prop_map(
        |(block, len_sectors, chunk_sector, crc)| {
            let place = Place::Log { chunk_sector, chunk_len: len_sectors, offset: 0 };
            Entry { home_sector: block * 8, len_sectors, place, crc }
        },
    )
}

fn fragment() -> impl Strategy<Value = Fragment> {
    let bytes = prop_oneof![4 => 1_usize..40, 1 => 1..=FRAGMENT_LEN_MAX];
    (0..SECTORS_MAX / 8, 0_usize..4096, bytes, any::<u8>()).prop_map(|(block, start, len, fill)| {
        let len = len.min(4096 - start);
        Fragment {
            home_sector: block * 8 + start as u64 / 512,
            offset: (start % 512) as u16,
            bytes: vec![fill; len].into(),
        }
    })
}

/// No record has both.
fn moves_or_fragments() -> impl Strategy<Value = (Vec<Entry>, Vec<Fragment>)> {
    prop_oneof![
        prop::collection::vec(moved(), 0..5).prop_map(|moves| (moves, Vec::new())),
        prop::collection::vec(fragment(), 1..4).prop_map(|fragments| (Vec::new(), fragments)),
    ]
}

pub(super) fn record() -> impl Strategy<Value = RecordHeader> {
    let claim = any::<(u32, u32)>().prop_map(|(log_index, position)| Claim { log_index, position });
    let lists = (
        prop::collection::vec(write(), 0..40),
        prop::collection::vec(range(), 0..8),
        prop::collection::vec(claim, 0..4),
        prop::collection::vec(range(), 0..8),
        moves_or_fragments(),
    );
    (0..=FLAGS_KNOWN, any::<(VolumeId, u64)>(), any::<[u32; 4]>(), lists).prop_map(
        |(flags, (volume_id, sequence), numbers, (writes, invalidations, claims, echo, last))| {
            let [log_index, position, previous_position, oldest_live_position] = numbers;
            let (moves, fragments) = last;
            let flags = if fragments.is_empty() { flags } else { flags & !FLAG_BODY };
            RecordHeader {
                flags,
                volume_id,
                sequence,
                log_index,
                position,
                previous_position,
                oldest_live_position,
                writes,
                invalidations,
                claims,
                echo,
                moves,
                fragments,
            }
        },
    )
}

#[test]
fn a_record_has_the_bytes_that_an_independent_writer_gives_it() {
    let expected = golden(include_str!("../../golden/record.hex"));
    assert_same_bytes(&encoded(&sample(), 512), &expected);
    assert_eq!(RecordHeader::decode(&expected), Ok(sample()));
    let expected = golden(include_str!("../../golden/record_moves.hex"));
    assert_same_bytes(&encoded(&moving(), 512), &expected);
    assert_eq!(RecordHeader::decode(&expected), Ok(moving()));
}

#[test]
fn what_was_moved_is_in_a_log_and_nowhere_else() {
    for place in [Place::Zero, Place::Poisoned, Place::Home] {
        let mut wrong = moving();
        (wrong.moves[0].place, wrong.moves[0].crc) = (place, 0);
        assert_eq!(wrong.validate().unwrap_err().name, "move");
    }
}

#[test]
fn a_record_reads_back_in_either_log_block_size() {
    for log_block_bytes in [512, 4096] {
        let bytes = encoded(&sample(), log_block_bytes);
        assert_eq!(bytes.len(), log_block_bytes);
        assert_eq!(RecordHeader::decode(&bytes), Ok(sample()));
    }
}

#[test]
fn every_flipped_bit_of_a_header_is_detected() {
    for log_block_bytes in [512, 4096] {
        for_every_bit_flip(&encoded(&sample(), log_block_bytes), |mutant, bit| {
            assert!(RecordHeader::decode(mutant).is_err(), "bit {bit} of {log_block_bytes} bytes");
        });
    }
}

/// A checksum that covers a part would cover all of a short header.
#[test]
fn every_byte_of_a_header_counts_however_long_it_is() {
    for (writes, log_block_bytes) in [(40, 512), (100, 512), (400, 512), (400, 4096), (1000, 4096)]
    {
        let mut record = sample();
        // Each with a home of its own, and whatever is in the item is a sound one.
        record.writes = (0..writes)
            .map(|number| WriteItem::Chunk { home_sector: number * 8, len_sectors: 1, crc: 0 })
            .collect();
        for_every_byte(&encoded(&record, log_block_bytes), |mutant, at| {
            let found = RecordHeader::decode(mutant);
            assert!(found.is_err(), "byte {at} of a header with {writes} writes");
        });
    }
}

#[test]
fn every_truncation_of_a_header_is_detected() {
    let bytes = encoded(&sample(), 4096);
    for len in 0..bytes.len() {
        let found = RecordHeader::decode(&bytes[..len]);
        assert!(matches!(found, Err(RecordError::Length { .. })), "{len} bytes: {found:?}");
    }
}

#[test]
fn a_torn_header_is_detected_at_every_sector() {
    let mut record = sample();
    record.writes = vec![record.writes[0]; 300];
    let new = encoded(&record, 512);
    for old_byte in [0, 0xff, b'N'] {
        for torn_at in (512..new.len()).step_by(512) {
            let mut torn = new.clone();
            torn[torn_at..].fill(old_byte);
            let found = RecordHeader::decode(&torn);
            let refused = matches!(found, Err(RecordError::HeaderChecksum { .. }));
            assert!(refused, "torn at {torn_at} over {old_byte:#x}: {found:?}");
        }
    }
}

#[test]
fn an_empty_log_block_is_not_taken_for_a_damaged_record() {
    let zeros = RecordHeader::decode(&[0; 512]);
    assert_eq!(zeros, Err(RecordError::NoMagic { found: [0; 4] }));
}

#[test]
fn a_record_read_from_another_place_is_refused() {
    let here = RecordIdentity { volume_id: VOLUME, log_index: 0x1112_1314, position: 0x3132_3334 };
    assert_eq!(sample().verify_identity(&here), Ok(()));
    let elsewhere = [
        RecordIdentity { volume_id: [0; 16], ..here },
        RecordIdentity { log_index: 0, ..here },
        RecordIdentity { position: 0, ..here },
    ];
    for expected in elsewhere {
        let refused = sample().verify_identity(&expected);
        assert_eq!(refused, Err(RecordError::Identity { expected, found: here }));
    }
}

#[test]
fn a_full_record_fits_the_largest_header_and_one_item_more_is_refused() {
    let chunk = sample().writes[0];
    let full = RecordHeader {
        writes: vec![chunk; WRITES_MAX],
        invalidations: vec![sample().invalidations[0]; INVALIDATIONS_MAX],
        claims: vec![sample().claims[0]; CLAIMS_MAX],
        echo: vec![sample().echo[0]; ECHO_MAX],
        ..sample()
    };
    let bytes = encoded(&full, 4096);
    assert!(bytes.len() <= HEADER_BYTES_MAX);
    assert_eq!(full.payload_sectors(), PAYLOAD_SECTORS_MAX);
    assert_eq!(RecordHeader::decode(&bytes).as_ref(), Ok(&full));

    let too_many = [
        ("write_count", RecordHeader { writes: vec![chunk; WRITES_MAX + 1], ..full.clone() }),
        ("invalidate_count", {
            let invalidations = vec![full.invalidations[0]; INVALIDATIONS_MAX + 1];
            RecordHeader { invalidations, ..full.clone() }
        }),
        ("claim_count", {
            RecordHeader { claims: vec![full.claims[0]; CLAIMS_MAX + 1], ..full.clone() }
        }),
        ("echo_count", RecordHeader { echo: vec![full.echo[0]; ECHO_MAX + 1], ..full.clone() }),
    ];
    for (name, record) in too_many {
        assert_eq!(record.validate().unwrap_err().name, name);
    }
}

#[test]
#[should_panic(expected = "could not be read back")]
fn a_record_that_could_not_be_read_back_is_never_written() {
    let crossing = WriteItem::Chunk { home_sector: 7, len_sectors: 2, crc: 0 };
    encoded(&RecordHeader { writes: vec![crossing], ..RecordHeader::default() }, 512);
}

#[test]
fn hostile_counts_are_refused_before_anything_is_allocated() {
    for (at, name) in
        [(60, "write_count"), (62, "invalidate_count"), (64, "claim_count"), (66, "echo_count")]
    {
        let mut bytes = encoded(&sample(), 4096);
        put(&mut bytes, at, &u16::MAX.to_le_bytes());
        match peek(&bytes) {
            Err(RecordError::Field(field)) => assert_eq!(field.name, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    for (at, name) in [(52, "header_bytes"), (56, "payload_sectors")] {
        let mut bytes = encoded(&sample(), 4096);
        put(&mut bytes, at, &u32::MAX.to_le_bytes());
        match peek(&bytes) {
            Err(RecordError::Field(field)) => assert_eq!(field.name, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn fields_that_the_format_does_not_allow_are_named() {
    // The sample's items start at 96: three writes, an invalidation, a claim, an echo.
    let cases: [(usize, &[u8], &str); 12] = [
        (6, &[16, 0], "flags"),
        (36, &[1], "reserved"),
        (39, &[1], "reserved"),
        (80, &[1], "reserved"),
        (95, &[1], "reserved"),
        (56, &[11, 0, 0, 0], "payload_sectors"),
        (96 + 7, &[0x10], "write"),
        (96 + 6, &[0x0f], "write"),
        (96 + 12 + 8, &[0; 4], "write zero run"),
        (96 + 36 + 6, &[1], "invalidation"),
        (96 + 60 + 8, &[2], "echo"),
        (511, &[1], "header padding"),
    ];
    for (at, value, name) in cases {
        let mut bytes = encoded(&sample(), 512);
        put(&mut bytes, at, value);
        let crc = header_crc(&bytes);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        match RecordHeader::decode(&bytes) {
            Err(RecordError::Field(field)) => assert_eq!(field.name, name, "byte {at}"),
            other => panic!("byte {at}, {name}: {other:?}"),
        }
    }
}

#[test]
fn a_newer_version_is_named_with_the_version_that_is_read() {
    let mut bytes = encoded(&sample(), 512);
    put(&mut bytes, 4, &2_u16.to_le_bytes());
    let refused = peek(&bytes).unwrap_err();
    assert_eq!(refused, RecordError::Version { expected: 1, found: 2 });
    assert!(refused.to_string().contains("reads 1, found 2"), "{refused}");
}

#[test]
fn the_fixed_part_alone_says_how_much_to_read() {
    let bytes = encoded(&sample(), 512);
    assert_eq!(peek(&bytes[..HEADER_FIXED_BYTES]), peek(&bytes));
    assert!(peek(&bytes).is_ok());
    let short = peek(&bytes[..HEADER_FIXED_BYTES - 1]);
    assert_eq!(short, Err(RecordError::Length { expected: 96, found: 95 }));
}

#[test]
fn a_range_ends_behind_its_last_sector() {
    assert_eq!(SectorRange { start_sector: 64, len_sectors: 128 }.end_sector(), 192);
    let all = sample().writes.iter().map(|write| write.range().end_sector()).collect::<Vec<_>>();
    assert_eq!(all, [0x1234_5678_9ab8, 1_000_017, 5]);
}

#[test]
fn chunks_lie_back_to_back_in_the_payload() {
    let chunks: Vec<_> = sample().chunks().map(|c| (c.payload_sector, c.len_sectors)).collect();
    assert_eq!(chunks, [(0, 8), (8, 2)]);
    assert_eq!(sample().payload_sectors(), 10);
    assert_eq!(sample().record_bytes(512), 512 + 10 * 512);
    assert_eq!(sample().record_bytes(4096), 4096 + 8192);
}

proptest! {
    #[test]
    fn any_record_reads_back_as_it_was_written(record in record(), small in any::<bool>()) {
        let log_block_bytes = if small { 512 } else { 4096 };
        let mut bytes = encoded(&record, log_block_bytes);
        let peek = peek(&bytes[..512]).unwrap();
        prop_assert_eq!(peek.header_bytes as usize, bytes.len());
        prop_assert_eq!(peek.record_bytes(log_block_bytes), record.record_bytes(log_block_bytes));
        prop_assert_eq!(
            (peek.sequence, peek.log_index, peek.position),
            (record.sequence, record.log_index, record.position)
        );
        // What follows the header on disk does not matter.
        bytes.extend([0x77; 100]);
        prop_assert_eq!(RecordHeader::decode(&bytes), Ok(record));
    }

    #[test]
    fn random_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(RecordHeader::decode(&bytes).is_err());
        if bytes.len() > 8 {
            put(&mut bytes, 0, b"NHRC\x01\x00");
            prop_assert!(RecordHeader::decode(&bytes).is_err());
        }
    }

    #[test]
    fn edits_without_the_checksum_are_detected(record in record(), edits in edits()) {
        let good = encoded(&record, 512);
        let mut bytes = good.clone();
        apply(&edits, &mut bytes);
        prop_assert!(bytes == good || RecordHeader::decode(&bytes).is_err());
    }

    /// An adversary, or a bug, can make the checksum fit. What is then accepted must be exactly
    /// what this program would have written.
    #[test]
    fn edits_with_a_fitting_checksum_are_refused_or_canonical(
        record in record(),
        edits in edits(),
    ) {
        let mut bytes = encoded(&record, 512);
        apply(&edits, &mut bytes);
        let crc = header_crc(&bytes);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        if let Ok(decoded) = RecordHeader::decode(&bytes) {
            prop_assert_eq!(decoded.validate(), Ok(()));
            let len = peek(&bytes).unwrap().header_bytes as usize;
            let mut again = vec![0xa5; len];
            decoded.encode_into(&mut again);
            prop_assert_eq!(&again[..], &bytes[..len]);
        }
    }
}
