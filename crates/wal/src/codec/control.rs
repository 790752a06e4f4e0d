//! The control block: which segments are the log, and where its readable part begins.
//!
//! Two slots, one in each block of a small file, are written in turn, so that a torn write of one
//! leaves the other. The one with the higher generation counts.
//!
//! ```text
//! 0        4    6    8        12       16                       32
//! +--------+----+----+--------+--------+------------------------+
//! | "NHWC" |ver | 0  | crc    |segment_| log_id                 |
//! |        |    |    |        |bytes   |                        |
//! +--------+----+----+--------+--------+------------------------+
//! 32                 40       44  45 46 48                 56                 64
//! +------------------+--------+---+-+--+------------------+------------------+
//! | generation       | block_ |tai|c|0 | first_sequence   | last_sequence    |
//! |                  | bytes  |l  |l|  |                  |                  |
//! +------------------+--------+---+-+--+------------------+------------------+
//! 64                 72                 80                 88       92       96        4096
//! +------------------+------------------+------------------+--------+--------+----------+
//! | first_lsn        | end_sequence     | end_lsn          | end_   | end_   | zeros    |
//! |                  |                  |                  | offset | chain  |          |
//! +------------------+------------------+------------------+--------+--------+----------+
//! ```
//!
//! | field | protects against |
//! |---|---|
//! | magic, `ver`, `crc`, `log_id` | as in the header of a segment |
//! | `generation` | the older slot coming back over the newer |
//! | `first_sequence`, `last_sequence` | a segment that went missing at either end of the log: all between them must be there |
//! | `first_lsn` | truncated records coming back |
//! | `cl` (1: closed in order), `end_*` | loss of the newest records of a log that was closed: everything up to there must verify |

use super::{BLOCK_BYTES, Geometry, LSN_MAX, LogId, begin_block, open_block, seal_block, wrong};
use crate::log::Lsn;
use nearhead_basics::little_endian::{put, u32_at, u64_at};

/// Bytes of a slot, all of them under its checksum.
pub(crate) const SLOT_BYTES: usize = BLOCK_BYTES;
/// Slots of the file.
pub(crate) const SLOTS: usize = 2;
const MAGIC: [u8; 4] = *b"NHWC";
const USED_BYTES: usize = 96;

/// Where a log ends: the place of the next record, and what it will name as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The segment.
    pub(crate) sequence: u64,
    /// Offset in it.
    pub(crate) offset: u32,
    /// Number of the next record.
    pub(crate) lsn: Lsn,
    /// `header_crc` of the last record.
    pub(crate) chain: u32,
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) log_id: LogId,
    pub(crate) geometry: Geometry,
    pub(crate) generation: u64,
    /// The oldest segment that is needed.
    pub(crate) first_sequence: u64,
    /// The newest that may hold anything.
    pub(crate) last_sequence: u64,
    /// The oldest record that may be read.
    pub(crate) first_lsn: Lsn,
    /// Where the log ended when it was closed in order.
    pub(crate) clean_end: Option<End>,
}

impl Control {
    /// Writes it to `bytes`, 4096 of them.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        begin_block(bytes, MAGIC, &self.log_id, self.generation, &self.geometry);
        put(bytes, 45, &[u8::from(self.clean_end.is_some())]);
        put(bytes, 48, &self.first_sequence.to_le_bytes());
        put(bytes, 56, &self.last_sequence.to_le_bytes());
        put(bytes, 64, &self.first_lsn.0.to_le_bytes());
        if let Some(end) = self.clean_end {
            put(bytes, 72, &end.sequence.to_le_bytes());
            put(bytes, 80, &end.lsn.0.to_le_bytes());
            put(bytes, 88, &end.offset.to_le_bytes());
            put(bytes, 92, &end.chain.to_le_bytes());
        }
        seal_block(bytes);
    }

    /// Reads a slot of 4096 `bytes`. The error says what was expected and found.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let what = "control block";
        let (bytes, opened) = open_block(bytes, what, MAGIC, &[46..48, USED_BYTES..SLOT_BYTES])?;
        if bytes[45] > 1 {
            return Err(wrong(what, "closed in order", "0 or 1", bytes[45]));
        }
        let control = Self {
            log_id: opened.log_id,
            geometry: opened.geometry,
            generation: opened.number,
            first_sequence: u64_at(bytes, 48),
            last_sequence: u64_at(bytes, 56),
            first_lsn: Lsn(u64_at(bytes, 64)),
            clean_end: (bytes[45] == 1).then(|| End {
                sequence: u64_at(bytes, 72),
                offset: u32_at(bytes, 88),
                lsn: Lsn(u64_at(bytes, 80)),
                chain: u32_at(bytes, 92),
            }),
        };
        control
            .check_ranges()
            .map_err(|error| wrong(what, "ranges", "first <= last + 1, from 1", error))?;
        Ok(control)
    }

    fn check_ranges(&self) -> Result<(), String> {
        let sequences = 1 <= self.first_sequence && self.first_sequence - 1 <= self.last_sequence;
        let end = self.clean_end.is_none_or(|end| {
            (self.first_sequence..=self.last_sequence).contains(&end.sequence)
                && end.offset <= self.geometry.segment_bytes
        });
        let numbers = [self.generation, self.last_sequence, self.first_lsn.0];
        let bounded = numbers.iter().all(|number| *number <= LSN_MAX);
        if sequences && end && bounded && self.first_lsn.0 > 0 {
            Ok(())
        } else {
            Err(format!("{self:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Tail, hex};
    use super::*;

    fn sample() -> Control {
        Control {
            log_id: *b"0123456789abcdef",
            geometry: Geometry { segment_bytes: 65536, block_bytes: 4096, tail: Tail::Rewritten },
            generation: 9,
            first_sequence: 3,
            last_sequence: 5,
            first_lsn: Lsn(100),
            clean_end: Some(End { sequence: 4, offset: 8200, lsn: Lsn(170), chain: 0x1234_5678 }),
        }
    }

    #[test]
    fn the_golden_bytes_are_what_is_written() {
        let mut bytes = [0xff; SLOT_BYTES];
        sample().encode(&mut bytes);
        assert_eq!(hex(&bytes[..96]), GOLDEN);
        assert!(bytes[96..].iter().all(|byte| *byte == 0));
    }

    /// Written by `golden.py` beside this file, which shares no code with it.
    const GOLDEN: &str = "4e485743010000005b3747c10000010030313233343536373839616263646566090000000000000000100000000100000300000000000000050000000000000064000000000000000400000000000000aa000000000000000820000078563412";

    #[test]
    fn what_was_encoded_is_decoded_and_any_flipped_bit_is_noticed() {
        let mut bytes = [0; SLOT_BYTES];
        for control in [sample(), Control { clean_end: None, ..sample() }] {
            control.encode(&mut bytes);
            assert_eq!(Control::decode(&bytes), Ok(control));
        }
        for bit in 0..SLOT_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Control::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn ranges_that_contradict_each_other_are_refused() {
        let mut bytes = [0; SLOT_BYTES];
        let end = End { sequence: 9, offset: 0, lsn: Lsn(1), chain: 0 };
        for control in [
            Control { first_sequence: 7, ..sample() },
            Control { first_sequence: 0, clean_end: None, ..sample() },
            Control { first_lsn: Lsn(0), ..sample() },
            Control { clean_end: Some(end), ..sample() },
            Control { last_sequence: u64::MAX, ..sample() },
            Control { generation: u64::MAX, ..sample() },
        ] {
            control.encode(&mut bytes);
            assert!(Control::decode(&bytes).is_err(), "{control:?}");
        }
    }
}
