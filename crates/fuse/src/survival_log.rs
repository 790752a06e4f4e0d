//! A survival log in shared memory: it is there as long as a process has its descriptor.
//!
//! ```text
//!  0        8         16        24        4096 = start of the first log
//!  | magic  | start   | state   |  zeros  | batch | batch | ... end of file
//!  | 8      | 8       | 8       |
//!
//!  batch:  0          8                                          8 + length
//!          | length   | `length` bytes (nearhead_fs::Batch) ...   | length   |
//! ```
//!
//! - `magic` guards against another file behind the descriptor;
//! - `start` is the place of a batch before which none is needed: the memory before it is given back. It grows by [`GIVEN_BACK_BYTES`] or
//!   more. Dropped batches behind it are read again, and later ones replace what they say;
//! - `state` is 1 while the log is complete. With any other value no process goes on with it;
//! - the length behind a batch is written last: a process that ends in between leaves zeros there, and the log ends before that batch.
//!
//! Places only grow, so a place holds zeros until its batch is there. Fields are little-endian. The log never leaves the machine or its
//! memory; a process of another version reads it only if all entries are known to it.

use nearhead_fs::{Batch, SurvivalLog, Survived};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::{Errno, IoSlice, pread, pwrite, pwritev};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: u64 = u64::from_le_bytes(*b"NHsurv01");
const MAGIC_AT: u64 = 0;
const START_AT: u64 = 8;
const STATE_AT: u64 = 16;
/// Place of the first batch; memory is given back by pages.
const FIRST: u64 = 4096;
const PAGE_BYTES: u64 = 4096;
const COMPLETE: u64 = 1;
const GIVEN_UP: u64 = 2;
/// Bytes of a batch's length.
const LENGTH_BYTES: u64 = 8;
/// Dropped bytes whose memory is given back at once.
const GIVEN_BACK_BYTES: u64 = 4 << 20;
/// Longest batch that is read: a damaged length must not take all memory.
const BATCH_BYTES_MAX: u64 = 1 << 30;
/// Most pieces of one `pwritev` (`UIO_MAXIOV` is 1,024).
const PIECES_MAX: usize = 512;

/// The log.
#[derive(Debug)]
pub struct MemoryLog {
    memory: OwnedFd,
    start: u64,
    end: u64,
    /// Bytes of dropped batches behind `start`.
    dropped: u64,
    /// Bytes of each batch with its length, oldest first.
    batches: VecDeque<u64>,
    problem: Problem,
}

/// Reason for which a log was given up, for another thread.
#[derive(Clone, Debug, Default)]
pub struct Problem(Arc<Mutex<Option<String>>>);

impl Problem {
    /// The reason, once.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl MemoryLog {
    /// Memory for a log, which processes pass on over a socket.
    ///
    /// # Errors
    /// The kernel has no memory or no descriptor.
    pub fn memory() -> io::Result<OwnedFd> {
        let memory = memfd_create("nearhead-survival", MemfdFlags::CLOEXEC)?;
        let fields = [(MAGIC_AT, MAGIC), (START_AT, FIRST), (STATE_AT, COMPLETE)];
        for (at, value) in fields {
            put(memory.as_fd(), at, value)?;
        }
        Ok(memory)
    }

    /// The log in `memory`, with all that an ended process left there.
    ///
    /// # Errors
    /// The memory holds no complete log of this version.
    pub fn open(memory: OwnedFd) -> io::Result<(Self, Survived)> {
        let damaged =
            |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("survival log: {why}"));
        if field(memory.as_fd(), MAGIC_AT)? != MAGIC {
            return Err(damaged("expected a log of nearhead, found something else"));
        }
        if field(memory.as_fd(), STATE_AT)? != COMPLETE {
            return Err(damaged("it is incomplete: the process that wrote it gave it up"));
        }
        let start = field(memory.as_fd(), START_AT)?;
        let mut log = Self {
            memory,
            start,
            end: start,
            dropped: 0,
            batches: VecDeque::new(),
            problem: Problem::default(),
        };
        let mut survived = Survived::default();
        while let Some(batch) = log.next()? {
            survived.add(&batch).map_err(|error| damaged(&error.detail))?;
        }
        // A batch without its end: the next one must not be followed by a part of it.
        ftruncate(&log.memory, log.end)?;
        Ok((log, survived))
    }

    /// The reason for which the log is given up, if that happens.
    pub fn problem(&self) -> Problem {
        self.problem.clone()
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let len = field(self.memory.as_fd(), self.end)?;
        if len == 0 {
            return Ok(None);
        }
        if len > BATCH_BYTES_MAX {
            let detail = format!(
                "survival log: expected a batch below {BATCH_BYTES_MAX} bytes, found {len}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
        }
        let mut batch = vec![0; len as usize];
        let mut read = 0;
        while read < batch.len() {
            let at = self.end + LENGTH_BYTES + read as u64;
            match pread(&self.memory, &mut batch[read..], at) {
                Ok(0) => return Ok(None),
                Ok(more) => read += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if field(self.memory.as_fd(), self.end + LENGTH_BYTES + len)? != len {
            return Ok(None);
        }
        self.end += 2 * LENGTH_BYTES + len;
        self.batches.push_back(2 * LENGTH_BYTES + len);
        Ok(Some(batch))
    }

    fn write(&self, batch: &Batch) -> io::Result<()> {
        let (mut at, length) = (self.end, batch.bytes().to_le_bytes());
        let parts: Vec<&[u8]> =
            [&length[..]].into_iter().chain(batch.parts()).chain([&length[..]]).collect();
        for parts in parts.chunks(PIECES_MAX) {
            let pieces: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let total: usize = parts.iter().map(|part| part.len()).sum();
            let written = loop {
                match pwritev(&self.memory, &pieces, at) {
                    Err(Errno::INTR) => {}
                    other => break other?,
                }
            };
            if written < total {
                // Rare: a signal came, or memory is short.
                write_all(self.memory.as_fd(), at + written as u64, &parts.concat()[written..])?;
            }
            at += total as u64;
        }
        Ok(())
    }
}

impl SurvivalLog for MemoryLog {
    fn append(&mut self, batch: &Batch) -> Result<(), String> {
        self.write(batch).map_err(|error| format!("survival log: {error}"))?;
        let bytes = 2 * LENGTH_BYTES + batch.bytes();
        self.end += bytes;
        self.batches.push_back(bytes);
        Ok(())
    }

    fn drop_oldest(&mut self, batches: usize) {
        self.dropped += self.batches.drain(..batches.min(self.batches.len())).sum::<u64>();
        if self.dropped < GIVEN_BACK_BYTES {
            return;
        }
        let before = self.start / PAGE_BYTES * PAGE_BYTES;
        self.start += std::mem::take(&mut self.dropped);
        // What is left in memory is dead, and only takes room.
        if put(self.memory.as_fd(), START_AT, self.start).is_err() {
            return;
        }
        let (from, to) = (before.max(FIRST), self.start / PAGE_BYTES * PAGE_BYTES);
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.memory, how, from, to - from);
    }

    fn give_up(&mut self, why: &str) {
        let _ = put(self.memory.as_fd(), STATE_AT, GIVEN_UP);
        *self.problem.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }
}

fn field(memory: BorrowedFd<'_>, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    // Behind the end of the file there are zeros.
    pread(memory, &mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

fn put(memory: BorrowedFd<'_>, at: u64, value: u64) -> io::Result<()> {
    write_all(memory, at, &value.to_le_bytes())
}

fn write_all(memory: BorrowedFd<'_>, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match pwrite(memory, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => (at, bytes) = (at + written as u64, &bytes[written..]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopened(memory: &OwnedFd) -> io::Result<MemoryLog> {
        MemoryLog::open(memory.try_clone().unwrap()).map(|(log, _)| log)
    }

    fn log() -> (OwnedFd, MemoryLog) {
        let memory = MemoryLog::memory().unwrap();
        let log = reopened(&memory).unwrap();
        (memory, log)
    }

    #[test]
    fn appended_batches_are_found_by_another_process() {
        let (memory, mut log) = log();
        for len in [1, 5000, 100_000] {
            log.append(&Batch::of_answers(len)).unwrap();
        }
        let other = reopened(&memory).unwrap();
        assert_eq!((other.batches, other.end), (log.batches, log.end));
    }

    #[test]
    fn a_batch_without_its_end_is_no_part_of_the_log() {
        let (memory, mut log) = log();
        log.append(&Batch::of_answers(3)).unwrap();
        let end = log.end;
        log.append(&Batch::of_answers(2000)).unwrap();
        for cut in [log.end - 7, log.end - 8, end + 5000, end + 8, end + 1] {
            log.end = end;
            log.append(&Batch::of_answers(2000)).unwrap();
            ftruncate(&memory, cut).unwrap();
            let mut other = reopened(&memory).unwrap();
            assert_eq!((other.batches.len(), other.end), (1, end), "cut at {cut}");
            other.append(&Batch::of_answers(1)).unwrap();
            assert_eq!(reopened(&memory).unwrap().end, other.end, "cut at {cut}");
        }
    }

    #[test]
    fn memory_of_dropped_batches_is_given_back() {
        let (memory, mut log) = log();
        for _ in 0..400 {
            log.append(&Batch::of_answers(2000)).unwrap();
            log.drop_oldest(log.batches.len() - 1);
        }
        let blocks = rustix::fs::fstat(&memory).unwrap().st_blocks as u64;
        assert!(blocks * 512 < 2 * GIVEN_BACK_BYTES, "{blocks} blocks");
        assert!(log.start > 4 * GIVEN_BACK_BYTES);
        assert_eq!(reopened(&memory).unwrap().end, log.end);
    }

    #[test]
    fn an_incomplete_log_and_other_memory_are_refused() {
        let (memory, mut log) = log();
        log.give_up("no memory");
        assert_eq!(log.problem().take().as_deref(), Some("no memory"));
        assert!(reopened(&memory).unwrap_err().to_string().contains("incomplete"));
        let other = memfd_create("other", MemfdFlags::empty()).unwrap();
        assert!(MemoryLog::open(other).unwrap_err().to_string().contains("something else"));
    }
}
