//! The header of a segment: the first block of its file.
//!
//! ```text
//! 0        4    6    8        12       16                       32
//! +--------+----+----+--------+--------+------------------------+
//! | "NHWS" |ver | 0  | crc    |segment_| log_id                 |
//! |        |    |    |        |bytes   |                        |
//! +--------+----+----+--------+--------+------------------------+
//! 32                 40       44  45   48                      4096
//! +------------------+--------+---+----+------------------------+
//! | sequence         | block_ |tai| 0  | zeros                  |
//! |                  | bytes  |l  |    |                        |
//! +------------------+--------+---+----+------------------------+
//! ```
//!
//! | field | protects against |
//! |---|---|
//! | magic, `ver` | files that are something else; formats of other versions |
//! | `crc` | CRC32C of the 4096 bytes with this field zero: rot. A file gets its name as a segment only after its header is durable, so a header that does not verify is damage, never a tear |
//! | `log_id`, `sequence` | files copied in from another log, renamed, or left behind by a cut recycling |
//! | `segment_bytes`, `block_bytes`, `tail` | reading it by other rules than it was written by |

use super::{Geometry, LogId, Tail, VERSION, array_at, put, u16_at, u32_at, u64_at, wrong};
use nearhead_format::crc::crc32c;

/// Bytes of the header, all of them under its checksum.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 4096;
const MAGIC: [u8; 4] = *b"NHWS";
const CRC_AT: usize = 8;
const USED_BYTES: usize = 48;

const _: () = assert!(SEGMENT_HEADER_BYTES == super::RECORDS_OFFSET as usize);

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) log_id: LogId,
    pub(crate) sequence: u64,
    pub(crate) geometry: Geometry,
}

impl SegmentHeader {
    /// Writes it to `bytes`, 4096 of them.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        bytes[..SEGMENT_HEADER_BYTES].fill(0);
        put(bytes, 0, &MAGIC);
        put(bytes, 4, &VERSION.to_le_bytes());
        put(bytes, 12, &self.geometry.segment_bytes.to_le_bytes());
        put(bytes, 16, &self.log_id);
        put(bytes, 32, &self.sequence.to_le_bytes());
        put(bytes, 40, &self.geometry.block_bytes.to_le_bytes());
        put(bytes, 44, &[self.geometry.tail.to_byte()]);
        let crc = crc32c(&bytes[..SEGMENT_HEADER_BYTES]);
        put(bytes, CRC_AT, &crc.to_le_bytes());
    }

    /// Reads one from 4096 `bytes`. The error says what was expected and found.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let what = "segment header";
        let Some(bytes) = bytes.get(..SEGMENT_HEADER_BYTES) else {
            return Err(wrong(what, "length", SEGMENT_HEADER_BYTES, bytes.len()));
        };
        let magic: [u8; 4] = array_at(bytes, 0);
        if magic != MAGIC {
            return Err(wrong(what, "magic", format!("{MAGIC:02x?}"), format!("{magic:02x?}")));
        }
        let mut copy = [0; SEGMENT_HEADER_BYTES];
        copy.copy_from_slice(bytes);
        put(&mut copy, CRC_AT, &[0; 4]);
        let (expected, found) = (crc32c(&copy), u32_at(bytes, CRC_AT));
        if expected != found {
            return Err(wrong(what, "checksum", format!("{expected:08x}"), format!("{found:08x}")));
        }
        let version = u16_at(bytes, 4);
        if version != VERSION {
            return Err(wrong(what, "version", VERSION, version));
        }
        let tail =
            Tail::from_byte(bytes[44]).ok_or_else(|| wrong(what, "tail", "0 or 1", bytes[44]))?;
        let reserved = [&bytes[6..8], &bytes[45..USED_BYTES], &bytes[USED_BYTES..]];
        if reserved.iter().any(|part| part.iter().any(|byte| *byte != 0)) {
            return Err(wrong(what, "reserved", "zeros", "something else"));
        }
        let geometry =
            Geometry { segment_bytes: u32_at(bytes, 12), block_bytes: u32_at(bytes, 40), tail };
        geometry.validate().map_err(|error| format!("{what}: {error}"))?;
        Ok(Self { log_id: array_at(bytes, 16), sequence: u64_at(bytes, 32), geometry })
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    fn sample() -> SegmentHeader {
        let geometry = Geometry { segment_bytes: 65536, block_bytes: 512, tail: Tail::LeftAlone };
        SegmentHeader { log_id: *b"0123456789abcdef", sequence: 0x0a0b, geometry }
    }

    #[test]
    fn the_golden_bytes_are_what_is_written() {
        let mut bytes = [0xff; SEGMENT_HEADER_BYTES];
        sample().encode(&mut bytes);
        assert_eq!(hex(&bytes[..48]), GOLDEN);
        assert!(bytes[48..].iter().all(|byte| *byte == 0));
    }

    /// Written by `golden.py` beside this file, which shares no code with it.
    const GOLDEN: &str = "4e48575301000000b25a48a000000100303132333435363738396162636465660b0a0000000000000002000001000000";

    #[test]
    fn what_was_encoded_is_decoded_and_any_flipped_bit_is_noticed() {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        sample().encode(&mut bytes);
        assert_eq!(SegmentHeader::decode(&bytes), Ok(sample()));
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(SegmentHeader::decode(&bytes[..4095]).is_err());
    }
}
