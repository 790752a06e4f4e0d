//! The bytes of a write as a list of memory pieces, and how far it has come.
//!
//! Neighbouring parts are joined, zeros come from one shared buffer, and a part whose address does
//! not suit direct I/O is copied. Nothing else is ever copied.

use nearhead_disk::{Buffer, BufferMut, Payload};
use std::sync::OnceLock;

/// Length of the one buffer that all zeros are written from.
pub(crate) const ZEROS_BYTES: usize = 256 * 1024;

/// Most pieces that one system call takes (`IOV_MAX` of Linux, readv(2)).
pub(crate) const PIECES_PER_CALL_MAX: usize = 1024;

/// The shared zeros.
pub(crate) fn zeros() -> &'static Buffer {
    static ZEROS: OnceLock<Buffer> = OnceLock::new();
    ZEROS.get_or_init(|| BufferMut::zeroed(ZEROS_BYTES).freeze())
}

/// Bytes still to be written.
pub(crate) struct Segments {
    pieces: Vec<Buffer>,
    /// The first piece not written completely.
    next: usize,
    /// How much of it is written.
    skip: usize,
}

impl Segments {
    /// The bytes of `parts`, at addresses that are multiples of `align_bytes`. Phantom parts were
    /// refused before.
    pub(crate) fn of_parts(parts: Vec<Payload>, align_bytes: usize) -> Self {
        let mut segments = Self { pieces: Vec::with_capacity(parts.len()), next: 0, skip: 0 };
        for part in parts {
            match part {
                Payload::Bytes(bytes) if bytes.is_empty() => {}
                Payload::Bytes(bytes) => segments.push(bytes, align_bytes),
                Payload::Zeros(len) | Payload::Phantom(len) => segments.push_zeros(len),
            }
        }
        segments
    }

    /// `len` zero bytes.
    pub(crate) fn of_zeros(len: usize) -> Self {
        let mut segments = Self { pieces: Vec::new(), next: 0, skip: 0 };
        segments.push_zeros(len);
        segments
    }

    fn push(&mut self, bytes: Buffer, align_bytes: usize) {
        let follows = self.pieces.last().is_some_and(|last| last.is_followed_by(&bytes));
        if follows && let Some(last) = self.pieces.last_mut() {
            *last = last.joined_with(&bytes);
        } else if (bytes.as_ptr() as usize).is_multiple_of(align_bytes) {
            self.pieces.push(bytes);
        } else {
            self.pieces.push(BufferMut::copy_of(&bytes).freeze());
        }
    }

    fn push_zeros(&mut self, mut len: usize) {
        while len > 0 {
            let piece = len.min(ZEROS_BYTES);
            self.pieces.push(zeros().slice(0..piece));
            len -= piece;
        }
    }

    /// The memory to write next: at most what one system call takes.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.skip;
        self.pieces[self.next..].iter().take(PIECES_PER_CALL_MAX).map(move |piece| {
            let rest = &piece[skip..];
            skip = 0;
            rest
        })
    }

    /// All of it is pending again.
    pub(crate) fn rewind(&mut self) {
        (self.next, self.skip) = (0, 0);
    }

    /// Takes note that the next `written` bytes, part of what was pending, are on the disk.
    pub(crate) fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let rest = self.pieces[self.next].len() - self.skip;
            if written < rest {
                self.skip += written;
                return;
            }
            written -= rest;
            self.next += 1;
            self.skip = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining(segments: &Segments) -> Vec<u8> {
        segments.pending().flatten().copied().collect()
    }

    #[test]
    fn neighbours_in_memory_become_one_piece() {
        let whole = BufferMut::copy_of(&[5; 8192]).freeze();
        let parts =
            vec![Payload::Bytes(whole.slice(0..4096)), Payload::Bytes(whole.slice(4096..8192))];
        assert_eq!(Segments::of_parts(parts, 512).pending().count(), 1);
    }

    #[test]
    fn a_part_at_an_odd_address_is_copied_to_an_aligned_one() {
        let whole = BufferMut::copy_of(&[5; 8192]).freeze();
        let odd = Payload::Bytes(whole.slice(100..612));
        let segments = Segments::of_parts(vec![odd], 512);
        assert!(segments.pending().all(|piece| (piece.as_ptr() as usize).is_multiple_of(512)));
        assert_eq!(remaining(&segments), vec![5; 512]);
    }

    #[test]
    fn any_sequence_of_short_writes_leaves_exactly_the_rest() {
        let bytes = |value: u8, len| Payload::Bytes(BufferMut::copy_of(&vec![value; len]).freeze());
        let parts = vec![bytes(1, 512), Payload::Zeros(1024), bytes(2, 4096), bytes(3, 512)];
        let mut expected: Vec<u8> = Vec::new();
        for (value, len) in [(1, 512), (0, 1024), (2, 4096), (3, 512)] {
            expected.extend(vec![value; len]);
        }
        for step in [1, 511, 512, 513, 1536, 6144] {
            let mut segments = Segments::of_parts(parts.clone(), 1);
            let mut done = 0;
            while done < expected.len() {
                assert_eq!(remaining(&segments), expected[done..], "step {step}, done {done}");
                let written = step.min(expected.len() - done);
                segments.advance(written);
                done += written;
            }
            assert_eq!(segments.pending().count(), 0, "step {step}");
        }
    }

    #[test]
    fn one_call_never_gets_more_pieces_than_it_takes() {
        let parts = (0..3000).map(|_| Payload::Bytes(BufferMut::copy_of(&[1; 512]).freeze()));
        let mut segments = Segments::of_parts(parts.collect(), 1);
        assert_eq!(segments.pending().count(), PIECES_PER_CALL_MAX);
        segments.advance(PIECES_PER_CALL_MAX * 512);
        assert_eq!(segments.pending().count(), PIECES_PER_CALL_MAX);
    }
}
