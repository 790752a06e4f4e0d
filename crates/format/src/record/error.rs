//! Why bytes are not the record that was expected.
//!
//! Recovery decides by the variant: where a log ends there is `NoMagic` (never written), a
//! `HeaderChecksum` (torn, or rotten if the next sequence number exists elsewhere) or `Identity`
//! (from an earlier life of these blocks).

use super::RecordIdentity;
use crate::bytes::FieldError;
use std::fmt;

/// Why bytes were refused as a record header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The first four bytes are not "NHRC".
    NoMagic {
        /// What they are.
        found: [u8; 4],
    },
    /// A version this program does not know.
    Version {
        /// The one it knows.
        expected: u16,
        /// The one on disk.
        found: u16,
    },
    /// Fewer bytes were given than the header says it has.
    Length {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The checksum over the header does not match: torn or rotten.
    HeaderChecksum {
        /// Computed from the bytes.
        expected: u32,
        /// Stored in them.
        found: u32,
    },
    /// A field holds what the format does not allow.
    Field(FieldError),
    /// A sound record, but of another volume, log or position.
    Identity {
        /// What belongs at that address.
        expected: RecordIdentity,
        /// What the record says it is.
        found: RecordIdentity,
    },
}

impl From<FieldError> for RecordError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMagic { found } => {
                write!(formatter, "record magic: expected \"NHRC\", found bytes {found:02x?}")
            }
            Self::Version { expected, found } => write!(
                formatter,
                "record version: this program reads {expected}, found {found}; \
                 use a version of the program that reads it"
            ),
            Self::Length { expected, found } => {
                write!(formatter, "record header: expected {expected} bytes, found {found}")
            }
            Self::HeaderChecksum { expected, found } => write!(
                formatter,
                "record header_crc: expected {expected:#010x}, found {found:#010x} (torn or rotten)"
            ),
            Self::Field(field) => write!(formatter, "record {field}"),
            Self::Identity { expected, found } => {
                write!(formatter, "record: expected {expected}, found {found}")
            }
        }
    }
}

impl std::error::Error for RecordError {}

impl fmt::Display for RecordIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "volume {:032x} log {} position {}",
            u128::from_be_bytes(self.volume_id),
            self.log_index,
            self.position
        )
    }
}
