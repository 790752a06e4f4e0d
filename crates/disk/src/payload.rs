//! What a command carries: bytes, zeros, or only a length.
//!
//! [`Payload::Phantom`] is the data-less mode: a simulator replays terabytes by sizes and addresses
//! alone, through the very same engine code.

use crate::Buffer;
use std::ops::Range;

/// The content of a write or of a finished read.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Real bytes.
    Bytes(Buffer),
    /// That many zero bytes, without memory for them.
    Zeros(usize),
    /// That many bytes whose content nobody keeps (data-less simulation).
    Phantom(usize),
}

impl Payload {
    /// No bytes at all.
    pub const EMPTY: Self = Self::Zeros(0);

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(buffer) => buffer.len(),
            Self::Zeros(len) | Self::Phantom(len) => *len,
        }
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part `range`, sharing memory.
    ///
    /// # Panics
    /// If the range reaches past the end.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice outside the payload");
        match self {
            Self::Bytes(buffer) => Self::Bytes(buffer.slice(range)),
            Self::Zeros(_) => Self::Zeros(range.len()),
            Self::Phantom(_) => Self::Phantom(range.len()),
        }
    }

    /// Writes the content into `target`, which has the same length; phantoms leave zeros.
    pub fn copy_to(&self, target: &mut [u8]) {
        match self {
            Self::Bytes(buffer) => target.copy_from_slice(buffer),
            Self::Zeros(_) | Self::Phantom(_) => target.fill(0),
        }
    }
}

/// Sum of the lengths of `parts`, in bytes.
pub fn total_len(parts: &[Payload]) -> usize {
    parts.iter().map(Payload::len).sum()
}
