//! One read of a recovery: tried again when it fails, then read in ever smaller pieces.
//!
//! A device that cannot read one sector fails the whole command. So a read that still fails when repeated is split, down
//! to single sectors. A sector that fails to the end counts as zeros, and its address is reported with the bytes: whoever
//! looks at them treats a record there as damaged, and everything else as usual. A device that is gone is not asked again.
//! The number of failures is bounded over a whole recovery, past which a failing piece counts as unreadable at once. It
//! never waits, and never reports bytes as read that the device did not deliver.

use nearhead_disk::{At, Buffer, BufferMut, DiskError, DiskErrorKind, Payload, RangeSet};
use std::ops::Range;

/// Attempts at the whole read before it is split.
const TRIES: u32 = 3;
/// Attempts at a single sector.
const SECTOR_TRIES: u32 = 2;
/// Sizes of pieces, in bytes, before single sectors: few failures for each bad sector, which may take seconds each.
const PIECES: [u64; 2] = [64 << 10, 4 << 10];
/// Failed commands of one recovery after which nothing is retried or split any more.
pub(super) const FAILURES_MAX: u32 = 512;

/// Bytes that were read, and which of them were not.
#[derive(Debug)]
pub(super) struct Piece {
    /// Zeros where nothing could be read.
    pub(super) bytes: Buffer,
    /// Addresses of what could not be read.
    pub(super) unread: RangeSet,
    /// The device's words, if anything could not be read.
    pub(super) why: String,
}

impl Piece {
    /// Bytes all of which were read.
    #[cfg(test)]
    pub(super) fn of(bytes: &[u8]) -> Self {
        let bytes = BufferMut::copy_of(bytes).freeze();
        Self { bytes, unread: RangeSet::new(), why: String::new() }
    }

    /// All of it, or why not.
    pub(super) fn whole(self) -> Result<Buffer, String> {
        if self.unread.is_empty() { Ok(self.bytes) } else { Err(self.why) }
    }
}

/// What follows from a completion.
pub(super) enum Progress {
    /// These bytes are to be read next.
    Read { at: At, len: u64 },
    /// The read is over.
    Done(Piece),
}

/// A read in progress.
#[derive(Debug)]
pub(super) struct CarefulRead {
    at: At,
    len: u64,
    sector_bytes: u64,
    /// What the command on the device reads, from `at` on.
    current: Range<u64>,
    tries_left: u32,
    /// Pieces still to be read, the next one last.
    pending: Vec<Range<u64>>,
    /// What was read in pieces.
    bytes: Option<BufferMut>,
    unread: RangeSet,
    why: String,
}

impl CarefulRead {
    /// A read of `len` bytes at `at`, on a device of such sectors.
    pub(super) fn new(at: At, len: u64, sector_bytes: u64) -> Self {
        Self {
            at,
            len,
            sector_bytes: sector_bytes.max(512),
            current: 0..len,
            tries_left: TRIES - 1,
            pending: Vec::new(),
            bytes: None,
            unread: RangeSet::new(),
            why: String::new(),
        }
    }

    /// The first byte that is read.
    pub(super) fn at(&self) -> At {
        self.at
    }

    /// Takes the completion of the command that reads [`CarefulRead::current`]; `failures_left` is counted down.
    pub(super) fn next(
        &mut self,
        result: Result<Payload, DiskError>,
        failures_left: &mut u32,
    ) -> Progress {
        match result {
            Ok(Payload::Bytes(bytes)) if self.current == (0..self.len) => {
                return self.done(bytes);
            }
            Ok(Payload::Bytes(bytes)) => {
                let range = self.current.start as usize..self.current.end as usize;
                if let Some(part) = self.buffer().get_mut(range).filter(|p| p.len() == bytes.len())
                {
                    part.copy_from_slice(&bytes);
                }
            }
            // The buffer has zeros already.
            Ok(Payload::Zeros(_)) => {}
            Ok(Payload::Phantom(_)) => {
                self.give_up("the disk keeps no content (data-less simulation)".to_owned());
            }
            Err(error) => {
                if let Some(progress) = self.failed(error, failures_left) {
                    return progress;
                }
            }
        }
        if let Some(next) = self.pending.pop() {
            return self.begin(next);
        }
        let bytes = std::mem::replace(self.buffer(), BufferMut::zeroed(0));
        self.done(bytes.freeze())
    }

    /// Decides what follows from an error; nothing if the piece is given up.
    fn failed(&mut self, error: DiskError, failures_left: &mut u32) -> Option<Progress> {
        let is_of_place = error.kind == DiskErrorKind::Io;
        *failures_left = failures_left.saturating_sub(u32::from(is_of_place));
        let may_succeed = is_of_place && *failures_left > 0;
        if may_succeed && self.tries_left > 0 {
            self.tries_left -= 1;
            return Some(self.read());
        }
        let len = self.current.end - self.current.start;
        if !may_succeed || len <= self.sector_bytes {
            self.give_up(error.detail);
            return None;
        }
        let larger = |piece: &u64| *piece < len && *piece > self.sector_bytes;
        let piece = PIECES.into_iter().find(larger).unwrap_or(self.sector_bytes);
        let mut start = self.current.end;
        let first = self.pending.len();
        while start > self.current.start {
            let over = (start - self.current.start) % piece;
            let from = start - if over == 0 { piece } else { over };
            self.pending.push(from..start);
            start = from;
        }
        debug_assert!(self.pending.len() > first, "a piece is split into at least one");
        self.pending.pop().map(|next| self.begin(next))
    }

    fn give_up(&mut self, why: String) {
        let offset = self.at.offset;
        self.unread.insert(offset + self.current.start..offset + self.current.end);
        if self.why.is_empty() {
            self.why = why;
        }
    }

    fn begin(&mut self, piece: Range<u64>) -> Progress {
        let is_sector = piece.end - piece.start <= self.sector_bytes;
        self.tries_left = if is_sector { SECTOR_TRIES - 1 } else { 0 };
        self.current = piece;
        self.read()
    }

    fn read(&self) -> Progress {
        let len = self.current.end - self.current.start;
        Progress::Read { at: self.at + self.current.start, len }
    }

    fn buffer(&mut self) -> &mut BufferMut {
        let len = self.len as usize;
        self.bytes.get_or_insert_with(|| BufferMut::zeroed(len))
    }

    fn done(&mut self, bytes: Buffer) -> Progress {
        let (unread, why) = (std::mem::take(&mut self.unread), std::mem::take(&mut self.why));
        Progress::Done(Piece { bytes, unread, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: DiskErrorKind) -> DiskError {
        DiskError { kind, detail: "broken".to_owned() }
    }

    /// Reads 1 MiB of sevens at 4096 of a device on which `fails` says what a command does; gives what came of it, and how many
    /// commands failed.
    fn read(mut fails: impl FnMut(Range<u64>) -> Option<DiskErrorKind>) -> (Piece, u32) {
        let mut read = CarefulRead::new(4096.into(), 1 << 20, 512);
        let (mut left, mut next) = (FAILURES_MAX, (At::from(4096), 1u64 << 20));
        loop {
            let (at, len) = next;
            let bytes = || BufferMut::copy_of(&vec![7; len as usize]).freeze();
            let failed = fails(at.offset..at.offset + len).map(error);
            let result = failed.map_or_else(|| Ok(Payload::Bytes(bytes())), Err);
            match read.next(result, &mut left) {
                Progress::Read { at, len } => next = (at, len),
                Progress::Done(piece) => return (piece, FAILURES_MAX - left),
            }
        }
    }

    #[test]
    fn a_read_that_fails_once_or_twice_is_whole() {
        for failures in 0..TRIES {
            let mut count = 0;
            let (piece, failed) = read(|_| {
                count += 1;
                (count <= failures).then_some(DiskErrorKind::Io)
            });
            assert!(piece.unread.is_empty() && piece.bytes.iter().all(|byte| *byte == 7));
            assert_eq!(failed, failures);
        }
    }

    #[test]
    fn a_bad_sector_costs_its_own_bytes() {
        for at in [4096, 4096 + 70_000 / 512 * 512, 4096 + (1 << 20) - 512] {
            let bad = at..at + 512;
            let touches = |range: Range<u64>| range.start < bad.end && bad.start < range.end;
            let (piece, failed) = read(|range| touches(range).then_some(DiskErrorKind::Io));
            assert_eq!(piece.unread.iter().collect::<Vec<_>>(), std::slice::from_ref(&bad));
            let zeros: Vec<u64> =
                (4096..).zip(piece.bytes.iter()).filter(|byte| *byte.1 == 0).map(|b| b.0).collect();
            assert_eq!(zeros, bad.clone().collect::<Vec<_>>());
            assert!(failed <= 8, "{failed} failures for one sector");
        }
    }

    #[test]
    fn a_device_that_is_gone_is_asked_once_and_a_dead_one_a_bounded_number_of_times() {
        let mut asked = 0;
        let (piece, failed) = read(|_| {
            asked += 1;
            Some(DiskErrorKind::Gone)
        });
        assert_eq!((piece.unread.total(), asked, failed), (1 << 20, 1, 0));
        let (piece, failed) = read(|_| Some(DiskErrorKind::Io));
        assert_eq!((piece.unread.total(), failed), (1 << 20, FAILURES_MAX));
    }
}
