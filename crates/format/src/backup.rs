//! The head of a metadata backup: a file with the superblock and the newest snapshot of a volume.
//!
//! ```text
//! | head 4096 | superblock, as copy 0, 4096 | snapshot header 4096 | snapshot body, body_bytes |
//! ```
//!
//! Each part has a checksum of its own; the head says how long the file must be and whose it is, so that a file cut
//! short or put together from two is refused. It never changes once written.

use crate::VolumeId;
use crate::block::{SEALED_BYTES, SealError, check_rest_zero, check_zero, open, seal};
use crate::bytes::FieldError;
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// The first eight bytes.
pub const BACKUP_MAGIC: [u8; 8] = *b"NHMETABK";
/// Version of the file.
pub const BACKUP_VERSION: u32 = 1;
const USED_BYTES: usize = 64;

/// What the head of a backup says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupHead {
    /// The volume.
    pub volume_id: VolumeId,
    /// When the file was made, in seconds since 1970 UTC.
    pub made_unix_s: u64,
    /// Number of the snapshot in it.
    pub snapshot_number: u64,
    /// Bytes of its body, a multiple of 4096.
    pub body_bytes: u64,
}

impl BackupHead {
    /// The head's 4096 bytes.
    pub fn encode(&self) -> [u8; SEALED_BYTES] {
        let mut block = [0; SEALED_BYTES];
        put(&mut block, 0, &BACKUP_MAGIC);
        put(&mut block, 8, &BACKUP_VERSION.to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.made_unix_s.to_le_bytes());
        put(&mut block, 40, &self.snapshot_number.to_le_bytes());
        put(&mut block, 48, &self.body_bytes.to_le_bytes());
        put(&mut block, 56, &self.file_bytes().unwrap_or(0).to_le_bytes());
        seal(&mut block);
        block
    }

    /// Reads the head of a file, trusting nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, FieldError> {
        let block = open(bytes, BACKUP_MAGIC).map_err(|error| seal_field(&error))?;
        let version = u32_at(block, 8);
        if version != BACKUP_VERSION {
            return Err(FieldError::new("metadata backup version", BACKUP_VERSION, version));
        }
        check_zero("reserved", &block[12..16])?;
        check_rest_zero(block, USED_BYTES)?;
        let found = Self {
            volume_id: array_at(block, 16),
            made_unix_s: u64_at(block, 32),
            snapshot_number: u64_at(block, 40),
            body_bytes: u64_at(block, 48),
        };
        let (expected, told) = (found.file_bytes(), u64_at(block, 56));
        if expected == Some(told) && found.body_bytes.is_multiple_of(SEALED_BYTES as u64) {
            return Ok(found);
        }
        let expected = format_args!("{} for a body of {}", expected.unwrap_or(0), found.body_bytes);
        Err(FieldError::new("metadata backup file_bytes", expected.to_string(), told))
    }

    /// Size of the whole file; `None` if no number holds it.
    pub fn file_bytes(&self) -> Option<u64> {
        self.body_bytes.checked_add(3 * SEALED_BYTES as u64)
    }
}

fn seal_field(error: &SealError) -> FieldError {
    match error {
        SealError::Length { found } => FieldError::new("metadata backup head", 4096, found),
        SealError::Magic { found } => FieldError::new(
            "metadata backup magic",
            "\"NHMETABK\"",
            format_args!("bytes {found:02x?}"),
        ),
        SealError::Checksum { expected, found } => FieldError::new(
            "metadata backup checksum",
            format_args!("{expected:#010x}"),
            format_args!("{found:#010x}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{assert_same_bytes, for_every_bit_flip, golden};

    fn head() -> BackupHead {
        BackupHead {
            volume_id: std::array::from_fn(|index| index as u8 + 0xa0),
            made_unix_s: 1_700_000_000,
            snapshot_number: 13,
            body_bytes: 4096,
        }
    }

    #[test]
    fn a_head_has_the_bytes_that_an_independent_writer_gives_it() {
        let expected = golden(include_str!("../golden/backup_head.hex"));
        assert_same_bytes(&head().encode(), &expected);
        assert_eq!(BackupHead::decode(&expected), Ok(head()));
    }

    #[test]
    fn every_bit_flip_and_truncation_is_detected() {
        let bytes = head().encode();
        for_every_bit_flip(&bytes, |mutant, bit| {
            assert!(BackupHead::decode(mutant).is_err(), "bit {bit}");
        });
        for len in 0..bytes.len() {
            assert!(BackupHead::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn sizes_that_do_not_agree_and_newer_versions_are_refused() {
        let mut cases = vec![
            BackupHead { body_bytes: u64::MAX - 4095, ..head() }.encode(),
            BackupHead { body_bytes: 4097, ..head() }.encode(),
        ];
        for at in [8, 12, 56, USED_BYTES, SEALED_BYTES - 5] {
            let mut block = head().encode();
            block[at] += 1;
            seal(&mut block);
            cases.push(block);
        }
        for case in cases {
            let refused = BackupHead::decode(&case).unwrap_err().to_string();
            assert!(refused.contains("expected"), "{refused}");
        }
    }
}
