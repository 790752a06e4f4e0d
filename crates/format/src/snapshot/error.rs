//! Why bytes are not a usable snapshot.

use crate::block::SealError;
use crate::bytes::FieldError;
use std::fmt;

/// Why a snapshot's header or body was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The first eight bytes are not "NHSNAPSH": no snapshot was ever written there.
    NoMagic {
        /// What they are.
        found: [u8; 8],
    },
    /// A version this program does not know.
    Version {
        /// The one it knows.
        expected: u32,
        /// The one on disk.
        found: u32,
    },
    /// Not as many bytes as there must be.
    Length {
        /// Bytes that there must be.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// The checksum over the header does not match: torn or rotten.
    HeaderChecksum {
        /// Computed from the bytes.
        expected: u32,
        /// Stored in them.
        found: u32,
    },
    /// The checksum over the body does not match: nothing that was read from it may be used.
    BodyChecksum {
        /// Computed from the bytes.
        expected: u32,
        /// Stored in the header.
        found: u32,
    },
    /// A field or an item is what the format does not allow.
    Field(FieldError),
}

impl From<FieldError> for SnapshotError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<SealError> for SnapshotError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Length { found } => Self::Length { expected: 4096, found: found as u64 },
            SealError::Magic { found } => Self::NoMagic { found },
            SealError::Checksum { expected, found } => Self::HeaderChecksum { expected, found },
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMagic { found } => {
                write!(formatter, "snapshot magic: expected \"NHSNAPSH\", found bytes {found:02x?}")
            }
            Self::Version { expected, found } => write!(
                formatter,
                "snapshot version: this program reads {expected}, found {found}; \
                 use a version of the program that reads it"
            ),
            Self::Length { expected, found } => {
                write!(formatter, "snapshot: expected {expected} bytes, found {found}")
            }
            Self::HeaderChecksum { expected, found } => write!(
                formatter,
                "snapshot header crc: expected {expected:#010x}, found {found:#010x} \
                 (torn or rotten); the other slot may be sound"
            ),
            Self::BodyChecksum { expected, found } => write!(
                formatter,
                "snapshot body_crc: expected {expected:#010x}, found {found:#010x} \
                 (rotten); the other slot may be sound"
            ),
            Self::Field(field) => write!(formatter, "snapshot {field}"),
        }
    }
}

impl std::error::Error for SnapshotError {}
