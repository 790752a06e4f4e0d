//! Writing a large file in pieces: a snapshot, a compaction.
//!
//! [`BulkWriter::finish`] alone says that the file is whole and durable; a writer that is dropped,
//! or met an error, leaves a file that nobody should use, which may be longer than what was written.

use super::PIECE_BYTES;
use super::gate::Gate;
use super::pieces::{Action, Piece, Pieces};
use crate::error::{Result, WalError};
use crate::storage::{from_io, from_open};
use nearhead_disk::BufferMut;
use nearhead_uring::{Access, DurableFile};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Room is made for so much at a time, more for a larger file.
const ROOM_BYTES_MIN: u64 = 1 << 20;
const ROOM_BYTES_MAX: u64 = 32 << 20;
/// What is left for others when room is made must be so many times as much: a log may need the last of it.
const SPARE_STEPS: u64 = 8;

/// A new file being written.
pub struct BulkWriter {
    pieces: Pieces,
    filling: BufferMut,
    filled: usize,
    offset: u64,
    /// Up to where the file has room.
    room_end: u64,
    failed: Option<WalError>,
}

impl BulkWriter {
    /// Makes the file at `path`, which must not exist.
    pub fn create(path: &Path, gate: Arc<Gate>) -> Result<Self> {
        let file = DurableFile::open(path, Access::Create, true).map_err(from_open)?;
        let mut pieces = Pieces::start(file, gate)?;
        let filling = pieces.memory();
        Ok(Self { pieces, filling, filled: 0, offset: 0, room_end: 0, failed: None })
    }

    /// Adds bytes. Waits while as many pieces as may be are in flight.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let len = (PIECE_BYTES - self.filled).min(bytes.len());
            self.filling[self.filled..self.filled + len].copy_from_slice(&bytes[..len]);
            self.filled += len;
            bytes = &bytes[len..];
            if self.filled == PIECE_BYTES {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.offset + self.filled as u64
    }

    fn send(&mut self) -> Result<()> {
        self.collect(false)?;
        let memory = self.pieces.memory();
        let bytes = std::mem::replace(&mut self.filling, memory);
        let len = std::mem::take(&mut self.filled);
        // Past the page cache only whole blocks can be written: the rest is cut off at the end.
        let whole = len.next_multiple_of(4096);
        let mut bytes = bytes;
        bytes[len..whole].fill(0);
        self.make_room(self.offset + whole as u64);
        let piece = Piece { action: Action::Write, offset: self.offset, bytes, len: whole };
        self.offset += len as u64;
        self.pieces.submit(piece)
    }

    /// Allocates ahead: pieces that need no room from the file system do not exclude each other (see [`super::pieces`]). As
    /// much as the file has already, so that a small one takes little, and a large one waits seldom. Where it cannot, pieces are
    /// written all the same, and say what is wrong.
    fn make_room(&mut self, end: u64) {
        let file = self.pieces.file();
        if end <= self.room_end || !file.is_direct() {
            return;
        }
        let step = self.room_end.clamp(ROOM_BYTES_MIN, ROOM_BYTES_MAX);
        let is_spare = file.free_bytes().is_ok_and(|free| free / step >= SPARE_STEPS);
        let is_made = is_spare && file.allocate(self.room_end, step).is_ok();
        self.room_end = if is_made { self.room_end + step } else { u64::MAX };
    }

    /// Takes back pieces that are done; all of them if `all`.
    fn collect(&mut self, all: bool) -> Result<()> {
        while let Some((piece, outcome)) = self.pieces.next_done(all)? {
            self.pieces.recycle(piece.bytes);
            if let Err(error) = outcome {
                self.failed.get_or_insert(error);
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Waits for all pieces, cuts the file to its exact length and makes it durable. Returns that.
    pub fn finish(mut self) -> Result<u64> {
        if self.filled > 0 {
            self.send()?;
        }
        self.collect(true)?;
        let file = self.pieces.file();
        let outcome = file.set_len(self.offset).and_then(|()| file.sync());
        outcome.map_err(|error| from_io("finish", &file.name(), &error))?;
        Ok(self.offset)
    }
}

impl io::Write for BulkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes).map(|()| bytes.len()).map_err(io::Error::other)
    }

    /// Does nothing: only [`BulkWriter::finish`] makes anything durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
