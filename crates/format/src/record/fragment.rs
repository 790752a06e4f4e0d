//! A fragment: new bytes of a home block that are fewer than a sector, or begin or end inside one.
//!
//! A small write does not become a chunk, which is whole sectors: its bytes alone go into the header of a record, behind all items,
//! so that many of them share one log block (the wasteless journaling of Okeanos). The header's checksum covers them, and
//! whoever reads headers has the bytes, too. A fragment never leaves its 4 KiB home block, and says nothing of the other
//! bytes of the sectors that it touches: those are what they were.

use super::SectorRange;
use crate::bytes::FieldError;
use crate::{BLOCK_BYTES, SECTOR_BYTES, SECTORS_MAX};

/// Most bytes of one fragment.
pub const FRAGMENT_LEN_MAX: usize = BLOCK_BYTES as usize;

const OFFSET_SHIFT: u32 = 48;
const UNUSED_SHIFT: u32 = 57;

/// Bytes that are newer than all that older records and homes say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The home sector that its first byte is in.
    pub home_sector: u64,
    /// Where in that sector it begins, 0 to 511.
    pub offset: u16,
    /// The bytes: 1 to 4096, all in one 4 KiB home block.
    pub bytes: Box<[u8]>,
}

impl Fragment {
    /// The first byte of the client's address space that it has.
    #[inline]
    pub fn home_byte(&self) -> u64 {
        self.home_sector * SECTOR_BYTES + u64::from(self.offset)
    }

    /// The byte after the last one it has.
    #[inline]
    pub fn end_byte(&self) -> u64 {
        self.home_byte() + self.bytes.len() as u64
    }

    /// All sectors of which it has a byte.
    #[inline]
    pub fn range(&self) -> SectorRange {
        let bytes = usize::from(self.offset) + self.bytes.len();
        let len_sectors = bytes.div_ceil(SECTOR_BYTES as usize) as u32;
        SectorRange { start_sector: self.home_sector, len_sectors }
    }

    /// Checks everything the format demands of a fragment.
    pub fn validate(&self) -> Result<(), FieldError> {
        check(self.home_sector, self.offset, self.bytes.len())
    }

    /// The first word of its item.
    #[inline]
    pub(super) fn word(&self) -> u64 {
        self.home_sector | u64::from(self.offset) << OFFSET_SHIFT
    }
}

/// What an item says of a fragment, checked.
pub(super) fn from_item(word: u64, len: u32) -> Result<(u64, u16, usize), FieldError> {
    if word >> UNUSED_SHIFT != 0 {
        let found = format_args!("word {word:#018x}").to_string();
        return Err(FieldError::new("fragment", "bits 57 to 63 zero", found));
    }
    let home_sector = word & (SECTORS_MAX - 1);
    let offset = (word >> OFFSET_SHIFT) as u16;
    let len = len as usize;
    check(home_sector, offset, len)?;
    Ok((home_sector, offset, len))
}

fn check(home_sector: u64, offset: u16, len: usize) -> Result<(), FieldError> {
    let is_sound = home_sector < SECTORS_MAX
        && u64::from(offset) < SECTOR_BYTES
        && (1..=FRAGMENT_LEN_MAX).contains(&len)
        && (home_sector * SECTOR_BYTES + u64::from(offset)) % BLOCK_BYTES + len as u64
            <= BLOCK_BYTES;
    if is_sound {
        return Ok(());
    }
    Err(FieldError::new(
        "fragment",
        "1 to 4096 bytes in one 4 KiB block, from one of the 512 bytes of a sector below 2^48 on",
        format_args!("{len} bytes at byte {offset} of sector {home_sector}"),
    ))
}
