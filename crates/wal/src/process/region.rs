//! Where things lie in the memory that a program and its helper share: two rings, one each way.
//!
//! ```text
//! bytes 0        128     256              384              512 .. 1023    4096            4096 + n
//!       +--------+-------+----------------+----------------+--------------+---------------+---------------+
//!       | written| read  | consumer_sleeps| producer_sleeps| the same four| n bytes: to   | n bytes: from |
//!       |          of the ring to the helper               | for the other| the helper    | the helper    |
//!       +--------+-------+----------------+----------------+--------------+---------------+---------------+
//! ```
//!
//! Words that different sides store to lie 128 bytes apart: processors fetch lines of 64 bytes in pairs.
//! docs/wal-helper.md is the specification. Nothing here looks at what the words hold.

use super::ring::{Lane, WORD_BYTES};
use nearhead_uring::SharedWords;
use rustix::fd::{AsFd, OwnedFd};
use std::io;

/// Bytes of each ring, if the client has no other wish: a few usual writes, and it stays in a cache.
pub(super) const RING_BYTES: u32 = 256 << 10;
/// What a helper agrees to.
pub(super) const RING_BYTES_RANGE: std::ops::RangeInclusive<u32> = 4096..=16 << 20;

const CONTROL_WORDS: usize = 4096 / WORD_BYTES;
const APART_WORDS: usize = 128 / WORD_BYTES;
const CONTROLS: usize = 4;

/// One mapping of the memory.
pub(super) struct Region {
    memory: SharedWords,
    ring_words: usize,
}

/// Which of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToHelper,
    FromHelper,
}

impl Direction {
    pub(super) fn opposite(self) -> Self {
        match self {
            Self::ToHelper => Self::FromHelper,
            Self::FromHelper => Self::ToHelper,
        }
    }
}

impl Region {
    /// New memory with two empty rings, and the file to give to the helper.
    pub(super) fn create(ring_bytes: u32) -> io::Result<(Self, OwnedFd)> {
        let ring_words = ring_bytes as usize / WORD_BYTES;
        let name = "nearhead-wal-ring";
        let (memory, file) = SharedWords::create(name, CONTROL_WORDS + 2 * ring_words)?;
        Ok((Self { memory, ring_words }, file))
    }

    /// What the client created.
    pub(super) fn open(file: impl AsFd, ring_bytes: u32) -> io::Result<Self> {
        if !ring_bytes.is_power_of_two() || !RING_BYTES_RANGE.contains(&ring_bytes) {
            let detail = format!(
                "ring_bytes: expected a power of two, 4096 to 16777216, found {ring_bytes}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, detail));
        }
        let ring_words = ring_bytes as usize / WORD_BYTES;
        let memory = SharedWords::open(file, CONTROL_WORDS + 2 * ring_words)?;
        Ok(Self { memory, ring_words })
    }

    /// The words of one ring.
    pub(super) fn lane(&self, direction: Direction) -> Lane<'_> {
        let index = direction as usize;
        let words = self.memory.words();
        let control = &words[index * CONTROLS * APART_WORDS..];
        let data = &words[CONTROL_WORDS + index * self.ring_words..][..self.ring_words];
        Lane {
            written: &control[0],
            read: &control[APART_WORDS],
            consumer_sleeps: &control[2 * APART_WORDS],
            producer_sleeps: &control[3 * APART_WORDS],
            data,
        }
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> &[std::sync::atomic::AtomicU64] {
        self.memory.words()
    }
}
