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

use super::{BLOCK_BYTES, Geometry, LogId, begin_block, open_block, seal_block};
use std::slice::from_ref;

/// Bytes of the header, all of them under its checksum.
pub(crate) const SEGMENT_HEADER_BYTES: usize = BLOCK_BYTES;
const MAGIC: [u8; 4] = *b"NHWS";

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
        begin_block(bytes, MAGIC, &self.log_id, self.sequence, &self.geometry);
        seal_block(bytes);
    }

    /// Reads one from 4096 `bytes`. The error says what was expected and found.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let reserved = 45..SEGMENT_HEADER_BYTES;
        let (_, opened) = open_block(bytes, "segment header", MAGIC, from_ref(&reserved))?;
        Ok(Self { log_id: opened.log_id, sequence: opened.number, geometry: opened.geometry })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Tail, hex};
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
