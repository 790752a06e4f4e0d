//! Everything a log keeps on disk, byte by byte: the control block, the header of a segment, the
//! header of a record. No I/O.
//!
//! What was decoded was written by us, for this log and this place: magic, checksum, version and
//! every field are checked before one of them is used in arithmetic. No input makes anything here
//! panic or allocate. Integers are little-endian; bytes that mean nothing are zero, and a reader
//! refuses anything else. docs/wal.md draws the same for people.

pub(crate) mod control;
pub(crate) mod record;
pub(crate) mod segment;

use crate::error::{Result, WalError, WalErrorKind};
use nearhead_basics::little_endian::{array_at, put, u16_at, u32_at, u64_at};
use nearhead_format::crc::crc32c;
use std::ops::Range;

/// Names a log; drawn when it is created. Part of every checksum: what another log left in
/// recycled disk space does not count.
pub type LogId = [u8; 16];

/// Version of everything here. A reader refuses any other.
pub(crate) const VERSION: u16 = 1;

/// Records start here in every segment: behind its header, on the largest physical sector there is.
pub(crate) const RECORDS_OFFSET: u32 = 4096;

/// Numbers of records, segments and generations end here, so that none of them can overflow.
pub(crate) const LSN_MAX: u64 = 1 << 62;

/// Records start at multiples of this, and are padded with zeros to it.
pub(crate) const RECORD_ALIGN: u32 = 8;

/// How the last, part-filled block of the log is treated by the next write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// It is written again, the same bytes first, new records behind them (Okeanos, section 3:
    /// no space is wasted on small records). Assumes what every device promises: a sector that is
    /// being overwritten when power fails is old or new afterwards.
    #[default]
    Rewritten,
    /// It is left alone: every write starts a block of its own. Costs the rest of a block per
    /// write, and survives devices that lose a sector they were overwriting.
    LeftAlone,
}

impl Tail {
    fn to_byte(self) -> u8 {
        match self {
            Self::Rewritten => 0,
            Self::LeftAlone => 1,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Rewritten),
            1 => Some(Self::LeftAlone),
            _ => None,
        }
    }
}

/// The sizes a log was created with; they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a segment: a multiple of 4096, from 16 KiB to 1 GiB.
    pub segment_bytes: u32,
    /// Bytes of a block, the unit of writes: 512 or 4096.
    pub block_bytes: u32,
    /// What happens to a part-filled block.
    pub tail: Tail,
}

impl Geometry {
    /// Smallest segment.
    pub const SEGMENT_BYTES_MIN: u32 = 16 << 10;
    /// Largest segment.
    pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

    /// Whether the sizes are within their bounds.
    pub(crate) fn validate(&self) -> Result<()> {
        let sizes = Self::SEGMENT_BYTES_MIN..=Self::SEGMENT_BYTES_MAX;
        if !sizes.contains(&self.segment_bytes) || !self.segment_bytes.is_multiple_of(4096) {
            let detail = format!(
                "segment_bytes: expected a multiple of 4096 from 16 KiB to 1 GiB, found {}",
                self.segment_bytes
            );
            return Err(WalError::new(WalErrorKind::OutOfRange, detail));
        }
        if !matches!(self.block_bytes, 512 | 4096) {
            let detail = format!("block_bytes: expected 512 or 4096, found {}", self.block_bytes);
            return Err(WalError::new(WalErrorKind::OutOfRange, detail));
        }
        Ok(())
    }

    /// The largest payload that fits into an empty segment.
    pub(crate) fn payload_bytes_max(&self) -> u32 {
        let begin = record::space_of(record::BEGIN_PAYLOAD_BYTES);
        self.segment_bytes - RECORDS_OFFSET - begin - record::RECORD_HEADER_BYTES - self.block_bytes
    }

    /// The first multiple of the block at or behind `offset`.
    pub(crate) fn block_up(&self, offset: u32) -> u32 {
        offset.next_multiple_of(self.block_bytes)
    }

    /// The last multiple of the block at or before `offset`.
    pub(crate) fn block_down(&self, offset: u32) -> u32 {
        offset / self.block_bytes * self.block_bytes
    }
}

/// Bytes of a control block and of a segment's header, all of them under its checksum.
const BLOCK_BYTES: usize = 4096;
/// What both begin with: magic, version, checksum, `segment_bytes`, `log_id`, a number of their own, `block_bytes`,
/// tail.
const CRC_AT: usize = 8;

/// Fills in what both sorts of block begin with, and clears the rest. Sealed when all of it is there.
fn begin_block(bytes: &mut [u8], magic: [u8; 4], log_id: &LogId, number: u64, geometry: &Geometry) {
    bytes[..BLOCK_BYTES].fill(0);
    put(bytes, 0, &magic);
    put(bytes, 4, &VERSION.to_le_bytes());
    put(bytes, 12, &geometry.segment_bytes.to_le_bytes());
    put(bytes, 16, log_id);
    put(bytes, 32, &number.to_le_bytes());
    put(bytes, 40, &geometry.block_bytes.to_le_bytes());
    put(bytes, 44, &[geometry.tail.to_byte()]);
}

/// Puts the checksum into a block that is complete.
fn seal_block(bytes: &mut [u8]) {
    let crc = crc32c(&bytes[..BLOCK_BYTES]);
    put(bytes, CRC_AT, &crc.to_le_bytes());
}

/// A block that begins as it should and verifies: its bytes and what both sorts begin with. `reserved` are those
/// that must be zero, besides bytes 6 and 7. The error says what of `what` was expected and found.
fn open_block<'a>(
    bytes: &'a [u8],
    what: &str,
    magic: [u8; 4],
    reserved: &[Range<usize>],
) -> std::result::Result<(&'a [u8], Opened), String> {
    let Some(bytes) = bytes.get(..BLOCK_BYTES) else {
        return Err(wrong(what, "length", BLOCK_BYTES, bytes.len()));
    };
    let found: [u8; 4] = array_at(bytes, 0);
    if found != magic {
        return Err(wrong(what, "magic", format!("{magic:02x?}"), format!("{found:02x?}")));
    }
    let mut copy = [0; BLOCK_BYTES];
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
    let is_zero = |range: &Range<usize>| bytes[range.clone()].iter().all(|byte| *byte == 0);
    if !is_zero(&(6..8)) || !reserved.iter().all(is_zero) {
        return Err(wrong(what, "reserved", "zeros", "something else"));
    }
    let geometry =
        Geometry { segment_bytes: u32_at(bytes, 12), block_bytes: u32_at(bytes, 40), tail };
    geometry.validate().map_err(|error| format!("{what}: {error}"))?;
    Ok((bytes, Opened { log_id: array_at(bytes, 16), number: u64_at(bytes, 32), geometry }))
}

/// What both sorts of block begin with.
struct Opened {
    log_id: LogId,
    /// The generation of a control block, the sequence of a segment.
    number: u64,
    geometry: Geometry,
}

/// `what` should have had `expected` in `field`, but had `found`.
#[cold]
fn wrong(
    what: &str,
    field: &str,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> String {
    format!("{what}: {field}: expected {expected}, found {found}")
}

/// As the golden bytes are written.
#[cfg(test)]
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
