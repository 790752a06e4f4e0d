//! The end of a file's content, in memory that outlives the program that wrote it.
//!
//! A memory file that program and guardian both have open:
//!
//! ```text
//! 0         8     16     24          4096                        4096 + 2 MiB
//! +---------+-----+------+-----------+---------------------------+
//! | durable | end | size | dirty_end | ring: byte i of the file  |
//! +---------+-----+------+-----------+ lies at i modulo 2 MiB    |
//! ```
//!
//! One write of 32 bytes in one page changes the four words: a kill does not tear it.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use std::io;

/// Bytes that the ring holds: more than a stream's buffer and one piece of a write together.
pub const TAIL_BYTES_MAX: u64 = 2 << 20;
/// Offset of the ring.
const RING_OFFSET: u64 = 4096;

/// Where the content of a file ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Bytes from the start that are durable in the file.
    pub durable: u64,
    /// Bytes that the program wrote; those from `durable` on are in the ring.
    pub end: u64,
    /// Length that the program believes in, with padding behind `end`.
    pub size: u64,
    /// The file may hold anything from `end` to here: a cut was under way.
    pub dirty_end: u64,
}

/// The memory.
pub(super) struct Tail {
    file: OwnedFd,
}

impl Tail {
    pub(super) fn create(ending: Ending) -> io::Result<Self> {
        let file = memfd_create("nearhead-run-tail", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, RING_OFFSET + TAIL_BYTES_MAX)?;
        let tail = Self { file };
        tail.set(ending)?;
        Ok(tail)
    }

    /// The memory of another process.
    pub(super) fn of(file: OwnedFd) -> Self {
        Self { file }
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn set(&self, ending: Ending) -> io::Result<()> {
        let mut bytes = [0; 32];
        let words = [ending.durable, ending.end, ending.size, ending.dirty_end];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        pwrite(&self.file, &bytes, 0)?;
        Ok(())
    }

    pub(super) fn get(&self) -> io::Result<Ending> {
        let mut bytes = [0; 32];
        if pread(&self.file, &mut bytes, 0)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut words =
            bytes.chunks_exact(8).map(|word| nearhead_basics::little_endian::u64_at(word, 0));
        let mut next = || words.next().unwrap_or_default();
        Ok(Ending { durable: next(), end: next(), size: next(), dirty_end: next() })
    }

    /// Puts bytes of the file, at `offset` there, into the ring.
    pub(super) fn put(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (at, range) in places(offset, bytes.len()) {
            pwrite(&self.file, &bytes[range], at)?;
        }
        Ok(())
    }

    /// The bytes that are not durable yet.
    pub(super) fn unsynced(&self, ending: &Ending) -> io::Result<Vec<u8>> {
        let len = ending.end.saturating_sub(ending.durable);
        if len > TAIL_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; len as usize];
        for (at, range) in places(ending.durable, bytes.len()) {
            pread(&self.file, &mut bytes[range], at)?;
        }
        Ok(bytes)
    }
}

/// Where `len` bytes at `offset` of the file lie in the memory file, as at most two parts.
fn places(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let start = offset % TAIL_BYTES_MAX;
    let first = len.min((TAIL_BYTES_MAX - start) as usize);
    let parts = [(RING_OFFSET + start, 0..first), (RING_OFFSET, first..len)];
    parts.into_iter().filter(|(_, range)| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_where_the_ring_begins_again() {
        let tail = Tail::create(Ending::default()).unwrap();
        let bytes: Vec<u8> = (0..5000_u32).map(|at| (at % 251) as u8).collect();
        for durable in [0, 1, TAIL_BYTES_MAX - 2000, 7 * TAIL_BYTES_MAX - 1] {
            let end = durable + bytes.len() as u64;
            let ending = Ending { durable, end, size: end, dirty_end: end };
            tail.put(durable, &bytes).unwrap();
            tail.set(ending).unwrap();
            assert_eq!(tail.get().unwrap(), ending);
            assert_eq!(tail.unsynced(&ending).unwrap(), bytes);
        }
    }
}
