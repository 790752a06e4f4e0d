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

/// The content of `parts`, in one piece.
pub fn bytes_of(parts: &[Payload]) -> Vec<u8> {
    let mut bytes = vec![0; total_len(parts)];
    copy_parts(parts, &mut bytes);
    bytes
}

/// Writes the content of `parts` one behind the other into `target`, which is at least as long.
pub fn copy_parts(parts: &[Payload], target: &mut [u8]) {
    let mut at = 0;
    for part in parts {
        part.copy_to(&mut target[at..at + part.len()]);
        at += part.len();
    }
}

/// The bytes `range` of the content of `parts`, sharing memory; fewer where that ends before.
pub fn range_of(parts: Vec<Payload>, range: &Range<usize>) -> Vec<Payload> {
    let (mut at, mut kept) = (0, Vec::new());
    for part in parts {
        let (from, to) = (at, at + part.len());
        at = to;
        let (start, end) = (range.start.max(from), range.end.min(to));
        if start < end {
            kept.push(part.slice(start - from..end - from));
        }
    }
    kept
}

/// Sum of the lengths of `parts`, in bytes.
pub fn total_len(parts: &[Payload]) -> usize {
    parts.iter().map(Payload::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferMut;

    #[test]
    fn a_range_over_several_parts_has_their_bytes_and_no_others() {
        let part = |bytes: &[u8]| Payload::Bytes(BufferMut::copy_of(bytes).freeze());
        let parts = || vec![part(b"near"), Payload::Zeros(2), part(b"head")];
        assert_eq!(bytes_of(&parts()), b"near\0\0head");
        for (range, expected) in [
            (2..8, &b"ar\0\0he"[..]),
            (0..10, b"near\0\0head"),
            (4..6, b"\0\0"),
            (9..20, b"d"),
            (10..20, b""),
        ] {
            assert_eq!(bytes_of(&range_of(parts(), &range)), expected, "{range:?}");
        }
    }
}
