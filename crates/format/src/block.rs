//! The 4 KiB block with a magic at its start and a checksum at its end, which superblock copies and
//! snapshot headers share.
//!
//! 4 KiB is the largest sector a disk writes at once, so that such a block is rarely torn, and on
//! disks that do tear it, the checksum tells.

use crate::bytes::FieldError;
use crate::crc::crc32c;
use nearhead_basics::little_endian::{array_at, put, u32_at};

/// Size of the block.
pub(crate) const SEALED_BYTES: usize = 4096;
const CRC_AT: usize = SEALED_BYTES - 4;

/// Why a block was refused before any of its fields was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SealError {
    /// Fewer than 4096 bytes.
    Length { found: usize },
    /// Another magic.
    Magic { found: [u8; 8] },
    /// The checksum does not match.
    Checksum { expected: u32, found: u32 },
}

/// Stores the checksum over everything before it.
pub(crate) fn seal(block: &mut [u8; SEALED_BYTES]) {
    let crc = crc32c(&block[..CRC_AT]);
    put(block, CRC_AT, &crc.to_le_bytes());
}

/// Checks length, magic and checksum, in that order, and gives the block's 4096 bytes.
pub(crate) fn open(bytes: &[u8], magic: [u8; 8]) -> Result<&[u8], SealError> {
    let Some(block) = bytes.get(..SEALED_BYTES) else {
        return Err(SealError::Length { found: bytes.len() });
    };
    let found: [u8; 8] = array_at(block, 0);
    if found != magic {
        return Err(SealError::Magic { found });
    }
    let (expected, found) = (crc32c(&block[..CRC_AT]), u32_at(block, CRC_AT));
    if expected != found {
        return Err(SealError::Checksum { expected, found });
    }
    Ok(block)
}

/// Checks that the block says nothing from `from` up to its checksum.
pub(crate) fn check_rest_zero(block: &[u8], from: usize) -> Result<(), FieldError> {
    check_zero("reserved", &block[from..CRC_AT])
}

/// Checks that bytes which mean nothing are zeros.
pub(crate) fn check_zero(name: &'static str, bytes: &[u8]) -> Result<(), FieldError> {
    // A fold without an early end is what compilers turn into vector instructions.
    if bytes.iter().fold(0, |sum, byte| sum | byte) == 0 {
        return Ok(());
    }
    let at = bytes.iter().position(|&byte| byte != 0).unwrap_or_default();
    let found = format_args!("{:#04x} at byte {at} of {}", bytes[at], bytes.len()).to_string();
    Err(FieldError::new(name, "zeros", found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the fields of such a block are: those of the structures that use it today leave most of it empty.
    #[test]
    fn every_byte_of_a_sealed_block_counts() {
        let mut block: [u8; SEALED_BYTES] = std::array::from_fn(|at| (at / 5) as u8);
        let magic = array_at(&block, 0);
        seal(&mut block);
        assert!(open(&block, magic).is_ok());
        for at in 0..SEALED_BYTES {
            block[at] ^= 1 << (at % 8);
            assert!(open(&block, magic).is_err(), "byte {at}");
            block[at] ^= 1 << (at % 8);
        }
    }
}
