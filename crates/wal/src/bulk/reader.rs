//! Reading a large file in pieces, ahead of the one who reads by as much as the gate permits.

use super::PIECE_BYTES;
use super::gate::Gate;
use super::pieces::{Action, Piece, Pieces};
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{from_io, from_open};
use nearhead_disk::BufferMut;
use nearhead_uring::{Access, DurableFile};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file being read from its beginning.
pub struct BulkReader {
    pieces: Pieces,
    gate: Arc<Gate>,
    len: u64,
    /// What is to be asked for next.
    ask: u64,
    position: u64,
    /// Pieces that came back and were not read yet, by offset.
    ready: BTreeMap<u64, BufferMut>,
}

impl BulkReader {
    /// Opens the file at `path`. It is read up to the length that it has now.
    pub fn open(path: &Path, gate: Arc<Gate>) -> Result<Self> {
        let file = DurableFile::open(path, Access::Read, true).map_err(from_open)?;
        let len = file.len_bytes().map_err(|error| from_io("look at", &file.name(), &error))?;
        let pieces = Pieces::start(file, Arc::clone(&gate))?;
        Ok(Self { pieces, gate, len, ask: 0, position: 0, ready: BTreeMap::new() })
    }

    /// Reads up to `memory.len()` bytes; 0 at the end.
    ///
    /// # Errors
    /// Also if the file has become shorter.
    pub fn read(&mut self, memory: &mut [u8]) -> Result<usize> {
        if self.position >= self.len || memory.is_empty() {
            return Ok(0);
        }
        let start = self.position / PIECE_BYTES as u64 * PIECE_BYTES as u64;
        while !self.ready.contains_key(&start) {
            self.read_ahead()?;
            if let Some((piece, outcome)) = self.pieces.next_done(true)? {
                self.keep(piece, outcome)?;
            }
        }
        let Some(bytes) = self.ready.get(&start) else { return Ok(0) };
        let from = (self.position - start) as usize;
        let end = (self.len - start).min(PIECE_BYTES as u64) as usize;
        let len = (end - from).min(memory.len());
        memory[..len].copy_from_slice(&bytes[from..from + len]);
        self.position += len as u64;
        if from + len == end
            && let Some(bytes) = self.ready.remove(&start)
        {
            self.pieces.recycle(bytes);
        }
        Ok(len)
    }

    /// Asks for what comes next: as much as the gate permits now, and one piece whatever it takes.
    fn read_ahead(&mut self) -> Result<()> {
        while self.ask < self.len
            && self.pieces.outstanding() + self.ready.len() < self.gate.pieces_max()
        {
            if !self.pieces.try_read(self.ask, PIECE_BYTES)? {
                if self.pieces.outstanding() > 0 {
                    break;
                }
                let bytes = self.pieces.memory();
                let (action, offset) = (Action::Read, self.ask);
                self.pieces.submit(Piece { action, offset, bytes, len: PIECE_BYTES })?;
            }
            self.ask += PIECE_BYTES as u64;
        }
        Ok(())
    }

    fn keep(&mut self, piece: Piece, outcome: Result<usize>) -> Result<()> {
        let expected = (self.len - piece.offset).min(PIECE_BYTES as u64) as usize;
        let found = outcome?;
        if found < expected {
            let detail = format!(
                "{}: expected {expected} bytes at {}, found {found}; the file has become shorter",
                self.pieces.file().name(),
                piece.offset
            );
            return Err(WalError::new(WalErrorKind::Io, detail));
        }
        self.ready.insert(piece.offset, piece.bytes);
        Ok(())
    }
}

impl io::Read for BulkReader {
    fn read(&mut self, memory: &mut [u8]) -> io::Result<usize> {
        Self::read(self, memory).map_err(io::Error::other)
    }
}
