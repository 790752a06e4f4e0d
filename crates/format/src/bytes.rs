//! Little-endian integers at fixed offsets.
//!
//! Offsets are constants of the format and the callers have checked the length, so an index that is
//! out of bounds is a bug of this crate, never of the input.

use std::fmt;

/// The `u16` at `at`.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The `u32` at `at`.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// The `u64` at `at`.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// The `N` bytes at `at`.
#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Stores `value`, already in little-endian bytes, at `at`.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A field whose value the format does not allow: the common part of every codec's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field, as docs/format.md calls it.
    pub name: &'static str,
    /// What the format allows there.
    pub expected: String,
    /// What was there.
    pub found: String,
}

impl FieldError {
    /// `name` should have been `expected` but was `found`.
    #[cold]
    pub(crate) fn new(
        name: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self { name, expected: expected.to_string(), found: found.to_string() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: expected {}, found {}", self.name, self.expected, self.found)
    }
}

impl std::error::Error for FieldError {}
