//! A cell: up to 40 bytes that a fragment brought, as a snapshot lists them.
//!
//! A record has the bytes of its fragments in its header, and that is read only when the record is younger than the snapshot
//! that a recovery begins with. So a snapshot has all of them that still count, cut into cells of one size. A cell never leaves
//! its 4 KiB home block, and says which record brought it: where that is, nothing may be written over it before the bytes are at home.
//!
//! ```text
//! 0           8               16    17      24                                  64
//! | home_byte | record_sector | len | zeros | content, zeros from `len` on      |
//! ```

use crate::block::check_zero;
use crate::bytes::FieldError;
use crate::{BLOCK_BYTES, SECTOR_BYTES, SECTORS_MAX};
use nearhead_basics::little_endian::{array_at, put, u64_at};

/// Size of a cell on disk.
pub const FRAGMENT_CELL_BYTES: usize = 64;
/// Most bytes of content in a cell.
pub const CELL_CONTENT_BYTES: usize = 40;

const LEN_AT: usize = 16;
const CONTENT_AT: usize = 24;

const _: () = assert!(CONTENT_AT + CELL_CONTENT_BYTES == FRAGMENT_CELL_BYTES, "no gap at the end");

/// Bytes that a fragment brought and that lie over what the map's entries say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentCell {
    /// First byte of the client's address space that it has.
    pub home_byte: u64,
    /// Device sector at which the record begins that brought it, below 2^48.
    pub record_sector: u64,
    /// Number of bytes, 1 to 40, all in one 4 KiB home block.
    pub len: u8,
    /// The bytes, zeros from `len` on.
    pub bytes: [u8; CELL_CONTENT_BYTES],
}

impl FragmentCell {
    /// The byte after the last one it has.
    #[inline]
    pub fn end_byte(&self) -> u64 {
        self.home_byte + u64::from(self.len)
    }

    /// The bytes it has; none of a cell that is not [sound](FragmentCell::validate).
    #[inline]
    pub fn content(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Checks everything the format demands of a cell.
    pub fn validate(&self) -> Result<(), FieldError> {
        let len = u64::from(self.len);
        let in_block = self.home_byte % BLOCK_BYTES;
        let is_sound = self.home_byte < SECTORS_MAX * SECTOR_BYTES
            && (1..=CELL_CONTENT_BYTES as u64).contains(&len)
            && in_block + len <= BLOCK_BYTES;
        if !is_sound {
            return Err(FieldError::new(
                "cell home_byte and len",
                format_args!("1 to {CELL_CONTENT_BYTES} bytes below 2^57 in one 4 KiB block"),
                format_args!("{len} bytes at {}", self.home_byte),
            ));
        }
        if self.record_sector >= SECTORS_MAX {
            let found = self.record_sector;
            return Err(FieldError::new("cell record_sector", "a sector below 2^48", found));
        }
        check_zero("cell content", &self.bytes[usize::from(self.len)..])
    }

    /// The 64 bytes on disk.
    pub fn encode(&self) -> [u8; FRAGMENT_CELL_BYTES] {
        let mut target = [0; FRAGMENT_CELL_BYTES];
        put(&mut target, 0, &self.home_byte.to_le_bytes());
        put(&mut target, 8, &self.record_sector.to_le_bytes());
        put(&mut target, LEN_AT, &[self.len]);
        put(&mut target, CONTENT_AT, &self.bytes);
        target
    }

    /// Reads 64 bytes from a disk, trusting none of them.
    pub fn decode(bytes: &[u8; FRAGMENT_CELL_BYTES]) -> Result<Self, FieldError> {
        check_zero("reserved", &bytes[LEN_AT + 1..CONTENT_AT])?;
        let cell = Self {
            home_byte: u64_at(bytes, 0),
            record_sector: u64_at(bytes, 8),
            len: bytes[LEN_AT],
            bytes: array_at(bytes, CONTENT_AT),
        };
        cell.validate()?;
        Ok(cell)
    }
}
