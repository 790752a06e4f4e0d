//! Why bytes are not a superblock copy.

use crate::block::SealError;
use crate::bytes::FieldError;
use crate::layout::LayoutError;
use crate::superblock::PresetNumber;
use std::fmt;

/// Why a copy was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// Fewer than 4096 bytes were given: the device or image is too short.
    Length {
        /// How many.
        found: usize,
    },
    /// The first eight bytes are not "NEARHEAD": no volume, or the copy was overwritten.
    NoMagic {
        /// What they are.
        found: [u8; 8],
    },
    /// The checksum does not match: torn or rotten.
    Checksum {
        /// Computed from the bytes.
        expected: u32,
        /// Stored in them.
        found: u32,
    },
    /// A format this program does not know.
    Version {
        /// The one it knows.
        expected: u32,
        /// The one on disk.
        found: u32,
    },
    /// A sound copy, but one that belongs elsewhere.
    Misdirected {
        /// The copy that belongs here.
        expected: u32,
        /// The copy that is here.
        found: u32,
    },
    /// The volume uses features that must be known to open it.
    Features {
        /// Their bits.
        unknown: u64,
    },
    /// A preset that whoever opens the volume does not know. Not for this crate to say.
    Preset {
        /// The numbers that are known.
        expected: String,
        /// The one on disk.
        found: PresetNumber,
    },
    /// Sizes that contradict each other.
    Layout(LayoutError),
    /// A field holds what the format does not allow.
    Field(FieldError),
    /// The copy could not be read at all.
    Unreadable {
        /// What the disk said.
        detail: String,
    },
}

impl From<FieldError> for SuperblockError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<LayoutError> for SuperblockError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl From<SealError> for SuperblockError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Length { found } => Self::Length { found },
            SealError::Magic { found } => Self::NoMagic { found },
            SealError::Checksum { expected, found } => Self::Checksum { expected, found },
        }
    }
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => {
                write!(formatter, "superblock: expected 4096 bytes, found {found}")
            }
            Self::NoMagic { found } => {
                write!(
                    formatter,
                    "superblock magic: expected \"NEARHEAD\", found bytes {found:02x?}"
                )
            }
            Self::Checksum { expected, found } => write!(
                formatter,
                "superblock crc: expected {expected:#010x}, found {found:#010x} (torn or rotten)"
            ),
            Self::Version { expected, found } => write!(
                formatter,
                "superblock format_version: this program reads {expected}, found {found}; \
                 use a version of the program that reads it"
            ),
            Self::Misdirected { expected, found } => write!(
                formatter,
                "superblock copy_index: expected {expected}, found {found} \
                 (a copy was written to the wrong place)"
            ),
            Self::Features { unknown } => write!(
                formatter,
                "superblock feature_incompat: expected only known features, found unknown bits \
                 {unknown:#x}; use a newer version of the program"
            ),
            Self::Preset { expected, found } => write!(
                formatter,
                "superblock preset: expected {expected}, found {found}; \
                 use a version of the program that knows it"
            ),
            Self::Layout(error) => write!(formatter, "superblock {error}"),
            Self::Field(error) => write!(formatter, "superblock {error}"),
            Self::Unreadable { detail } => write!(formatter, "superblock: {detail}"),
        }
    }
}

impl std::error::Error for SuperblockError {}
