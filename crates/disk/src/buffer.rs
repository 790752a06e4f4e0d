//! Aligned, reference-counted bytes.
//!
//! `O_DIRECT` needs memory aligned to the device's block; the engine needs to hand the same bytes
//! to a log record and to a reader without copying. A [`BufferMut`] has one owner and is filled;
//! [`BufferMut::freeze`] turns it into a [`Buffer`], which is cloned and sliced freely and never
//! changes again.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment of every buffer's first byte: enough for `O_DIRECT` on any device in use.
pub const ALIGN_BYTES: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; ALIGN_BYTES]);

/// A buffer being filled by its one owner.
pub struct BufferMut {
    pages: Vec<Page>,
    len: usize,
}

impl BufferMut {
    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let pages = <Page as FromZeros>::new_vec_zeroed(len.div_ceil(ALIGN_BYTES))
            .expect("memory for a buffer, whose size the callers bound");
        Self { pages, len }
    }

    /// A buffer holding a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Ends the filling: the bytes never change again.
    pub fn freeze(self) -> Buffer {
        let range = 0..self.len;
        Buffer { pages: Arc::new(self.pages), range }
    }
}

impl Deref for BufferMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_bytes()[..self.len]
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.pages.as_mut_slice().as_mut_bytes()[..len]
    }
}

/// Immutable shared bytes; cloning and slicing share the memory.
#[derive(Clone)]
pub struct Buffer {
    pages: Arc<Vec<Page>>,
    range: Range<usize>,
}

impl Buffer {
    /// The part `range` of this buffer, sharing its memory.
    ///
    /// # Panics
    /// If the range reaches past the end.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice outside the buffer");
        let start = self.range.start + range.start;
        Self { pages: Arc::clone(&self.pages), range: start..start + range.len() }
    }

    /// Whether `other` starts in the same memory where this buffer ends.
    pub fn is_followed_by(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pages, &other.pages) && self.range.end == other.range.start
    }

    /// This buffer and `next`, which must follow it in memory, as one.
    #[must_use]
    pub fn joined_with(&self, next: &Self) -> Self {
        assert!(self.is_followed_by(next), "only neighbours in memory can be joined");
        Self { pages: Arc::clone(&self.pages), range: self.range.start..next.range.end }
    }

    /// Gives the memory back for filling if nobody else holds it.
    pub fn try_reclaim(self) -> Option<BufferMut> {
        let pages = Arc::try_unwrap(self.pages).ok()?;
        let len = pages.len() * ALIGN_BYTES;
        Some(BufferMut { pages, len })
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_bytes()[self.range.clone()]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.len())
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BufferMut({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_starts_aligned_for_direct_io() {
        for len in [1, 511, 4096, 1 << 20] {
            let buffer = BufferMut::zeroed(len).freeze();
            assert_eq!(buffer.as_ptr() as usize % ALIGN_BYTES, 0, "length {len}");
            assert_eq!(buffer.len(), len);
        }
    }

    #[test]
    fn slices_share_memory_and_join_again() {
        let whole = BufferMut::copy_of(b"near the head").freeze();
        let (left, right) = (whole.slice(0..4), whole.slice(4..13));
        assert!(left.is_followed_by(&right));
        assert_eq!(&*left.joined_with(&right), b"near the head");
    }
}
