//! The header of a record, and its place in the chain.
//!
//! ```text
//! 0            4            8            12           16
//! +------------+------------+------------+------------+-------------------------+
//! | header_crc | previous   | payload_crc| payload_   | lsn                     |
//! |            |            |            | bytes      |                         |
//! +------------+------------+------------+------------+-------------------------+
//! 24           28   29          32
//! +------------+----+-----------+-----------------------------+
//! | durable_   |kind| 0   0   0 | payload ... zeros to 8 bytes|
//! | offset     |    |           |                             |
//! +------------+----+-----------+-----------------------------+
//! ```
//!
//! | field | protects against |
//! |---|---|
//! | `header_crc` | rot and tears of the header. Its seed is the log, the segment's sequence and the offset, none of them stored: a header of another log, of an earlier life of this segment, or from another place does not verify |
//! | `previous` | the `header_crc` of the record before: a record that is whole but belongs to a write that was given up |
//! | `payload_crc` | rot and tears of the payload |
//! | `payload_bytes` | reading too much: bounded before use |
//! | `lsn` | a record that was lost between two others |
//! | `durable_offset` | taking rot for a tear: everything before it in this segment was durable before this record was written, so if something there does not verify, it is damage |
//! | `kind` | reading bookkeeping as data |

use super::{LSN_MAX, LogId, RECORD_ALIGN, RECORDS_OFFSET};
use crate::log::Lsn;
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};
use nearhead_format::crc::{crc32c, crc32c_append};

/// Bytes of a record's header.
pub(crate) const RECORD_HEADER_BYTES: u32 = 32;
/// Bytes of the payload of a [`Kind::Begin`] record.
pub(crate) const BEGIN_PAYLOAD_BYTES: u32 = 8;

const _: () = assert!(RECORD_HEADER_BYTES.is_multiple_of(RECORD_ALIGN), "records stay aligned");

/// Bytes that a payload takes in a segment, header and padding included.
pub(crate) const fn space_of(payload_bytes: u32) -> u32 {
    RECORD_HEADER_BYTES + payload_bytes.next_multiple_of(RECORD_ALIGN)
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record of the program.
    Data,
    /// The first of a segment. Its payload says where the segment before it ended, as a `u32`, then
    /// four zero bytes. Its LSN is that of the record that follows it.
    Begin,
}

/// The part of a header's checksum that is the same for a whole life of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    /// For segment `sequence` of a log. A sequence is used once: a recycled segment gets a new one.
    pub(crate) fn of(log_id: &LogId, sequence: u64) -> Self {
        Self(crc32c_append(crc32c(log_id), &sequence.to_le_bytes()))
    }

    fn at(self, offset: u32) -> u32 {
        crc32c_append(self.0, &offset.to_le_bytes())
    }
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its number.
    pub(crate) lsn: Lsn,
    /// `header_crc` of the record before it; 0 for the first of a log.
    pub(crate) previous: u32,
    /// CRC32C of the payload.
    pub(crate) payload_crc: u32,
    /// Length of the payload, without padding.
    pub(crate) payload_bytes: u32,
    /// How much of this segment was durable before this record was written.
    pub(crate) durable_offset: u32,
}

impl RecordHeader {
    /// Writes it to the first 32 of `bytes`, for `offset` in the segment of `seed`. Returns its
    /// checksum, which the next record names.
    pub(crate) fn encode(&self, seed: Seed, offset: u32, bytes: &mut [u8]) -> u32 {
        put(bytes, 4, &self.previous.to_le_bytes());
        put(bytes, 8, &self.payload_crc.to_le_bytes());
        put(bytes, 12, &self.payload_bytes.to_le_bytes());
        put(bytes, 16, &self.lsn.0.to_le_bytes());
        put(bytes, 24, &self.durable_offset.to_le_bytes());
        put(bytes, 28, &[if self.kind == Kind::Data { 1 } else { 2 }, 0, 0, 0]);
        let crc = crc32c_append(seed.at(offset), &bytes[4..RECORD_HEADER_BYTES as usize]);
        put(bytes, 0, &crc.to_le_bytes());
        crc
    }

    /// Reads the header at `offset` of a segment of `segment_bytes`; with its checksum. `None` if
    /// none that belongs exactly there is whole.
    pub(crate) fn decode(
        seed: Seed,
        offset: u32,
        segment_bytes: u32,
        bytes: &[u8],
    ) -> Option<(Self, u32)> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES as usize)?;
        // Most of what is looked at behind the end of a log is zeros: settled without a checksum.
        let kind = match array_at(bytes, 28) {
            [1, 0, 0, 0] => Kind::Data,
            [2, 0, 0, 0] => Kind::Begin,
            _ => return None,
        };
        let crc = u32_at(bytes, 0);
        if crc != crc32c_append(seed.at(offset), &bytes[4..]) {
            return None;
        }
        let header = Self {
            kind,
            lsn: Lsn(u64_at(bytes, 16)),
            previous: u32_at(bytes, 4),
            payload_crc: u32_at(bytes, 8),
            payload_bytes: u32_at(bytes, 12),
            durable_offset: u32_at(bytes, 24),
        };
        let room = segment_bytes.saturating_sub(offset).saturating_sub(RECORD_HEADER_BYTES);
        let fits = header.payload_bytes <= room;
        let sane = (RECORDS_OFFSET..=offset).contains(&header.durable_offset)
            && (1..=LSN_MAX).contains(&header.lsn.0);
        (fits && sane).then_some((header, crc))
    }
}

/// The payload of a [`Kind::Begin`] record.
pub(crate) fn begin_payload(previous_end: u32) -> [u8; BEGIN_PAYLOAD_BYTES as usize] {
    let mut payload = [0; BEGIN_PAYLOAD_BYTES as usize];
    put(&mut payload, 0, &previous_end.to_le_bytes());
    payload
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    const ID: LogId = *b"0123456789abcdef";

    fn sample() -> RecordHeader {
        RecordHeader {
            kind: Kind::Data,
            lsn: Lsn(0x0102_0304_0506),
            previous: 0xa1b2_c3d4,
            payload_crc: crc32c(b"near the head"),
            payload_bytes: 13,
            durable_offset: 8192,
        }
    }

    #[test]
    fn the_golden_bytes_are_what_is_written() {
        let mut bytes = [0; 32];
        sample().encode(Seed::of(&ID, 7), 12288, &mut bytes);
        assert_eq!(hex(&bytes), GOLDEN);
    }

    /// Written by `golden.py` beside this file, which shares no code with it.
    const GOLDEN: &str = "74008ce3d4c3b2a1e1af42690d00000006050403020100000020000001000000";

    #[test]
    fn what_was_encoded_is_decoded() {
        let mut bytes = [0; 32];
        let crc = sample().encode(Seed::of(&ID, 7), 12288, &mut bytes);
        let found = RecordHeader::decode(Seed::of(&ID, 7), 12288, 65536, &bytes);
        assert_eq!(found, Some((sample(), crc)));
    }

    #[test]
    fn a_header_of_another_log_life_or_place_does_not_count() {
        let mut bytes = [0; 32];
        sample().encode(Seed::of(&ID, 7), 12288, &mut bytes);
        let other: LogId = *b"0123456789abcdeF";
        for (seed, offset) in [
            (Seed::of(&other, 7), 12288),
            (Seed::of(&ID, 8), 12288),
            (Seed::of(&ID, 7), 12296),
            (Seed::of(&ID, 7), 16384),
        ] {
            assert_eq!(RecordHeader::decode(seed, offset, 65536, &bytes), None);
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let mut bytes = [0; 32];
        sample().encode(Seed::of(&ID, 7), 12288, &mut bytes);
        for bit in 0..256 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = RecordHeader::decode(Seed::of(&ID, 7), 12288, 65536, &bytes);
            assert_eq!(found, None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_header_that_claims_more_than_there_is_does_not_count() {
        let mut bytes = [0; 32];
        for header in [
            RecordHeader { payload_bytes: 65536 - 12288 - 31, ..sample() },
            RecordHeader { durable_offset: 12296, ..sample() },
            RecordHeader { durable_offset: 0, ..sample() },
            RecordHeader { lsn: Lsn(0), ..sample() },
            RecordHeader { lsn: Lsn(u64::MAX), ..sample() },
        ] {
            header.encode(Seed::of(&ID, 7), 12288, &mut bytes);
            assert_eq!(RecordHeader::decode(Seed::of(&ID, 7), 12288, 65536, &bytes), None);
        }
        assert_eq!(RecordHeader::decode(Seed::of(&ID, 7), 12288, 65536, &bytes[..31]), None);
    }
}
