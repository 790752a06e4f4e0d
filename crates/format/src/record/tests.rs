//! Tests of the record codec.

use super::*;

fn sample() -> RecordHeader {
    RecordHeader {
        flags: FLAG_ATOMIC,
        volume_id: *b"0123456789abcdef",
        sequence: 0x0102_0304_0506_0708,
        log_index: 0x1112_1314,
        generation: 0x2122_2324,
        position: 0x3132_3334,
        previous_position: NO_POSITION,
        oldest_live_position: 0x4142_4344,
        writes: vec![
            WriteItem::Chunk { home_sector: 0x1234_5678_9ab0, len_sectors: 8, crc: 0xdead_beef },
            WriteItem::Zeros { home_sector: 17, run_sectors: 1_000_000 },
            WriteItem::Chunk { home_sector: 3, len_sectors: 2, crc: 7 },
        ],
        invalidations: vec![SectorRange { start_sector: 64, len_sectors: 128 }],
        claims: vec![Claim { log_index: 5, position: 6, generation: 7 }],
        echo: vec![SectorRange { start_sector: SECTORS_MAX - 1, len_sectors: 1 }],
    }
}

fn encoded(record: &RecordHeader, log_block_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0xa5; record.encoded_bytes(log_block_bytes)];
    record.encode_into(&mut bytes);
    bytes
}

#[test]
fn a_record_reads_back_as_it_was_written() {
    for log_block_bytes in [512, 4096] {
        let bytes = encoded(&sample(), log_block_bytes);
        assert_eq!(bytes.len(), log_block_bytes);
        assert_eq!(RecordHeader::decode(&bytes), Ok(sample()));
    }
}
