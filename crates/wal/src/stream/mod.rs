//! A durable stream of bytes: for programs that own the format of their log.
//!
//! Like a file output stream: write at the tail, sync, ask for the position. The file holds exactly
//! the program's bytes, so whatever reads it today goes on reading it. What is faster is underneath:
//! whole blocks past the page cache, into extents written with zeros ahead of time, durable by one
//! call; the last, part-filled block is written again with what follows.
//!
//! What it keeps true: after [`Stream::sync`] returned `n`, the first `n` bytes survive a power cut.
//! Behind the content there are zeros, up to `ahead_bytes` of them, until [`Stream::close`] cuts the
//! file to its exact length; after a crash they are still there. Bytes cut off by
//! [`Stream::truncate`] never come back. After an error of a write or sync the stream is stopped.

mod ahead;

use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage, StoredFile};
use crate::writer::JobThread;
use ahead::Ahead;
use nearhead_disk::BufferMut;
use nearhead_uring::Opener;
use std::io;
use std::sync::Arc;

/// Writes and reads are whole multiples of this.
const BLOCK_BYTES: u64 = 4096;

/// How a stream is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Bytes of zeros written ahead of the content; 0 lets the file grow with it, which is slower.
    pub ahead_bytes: u64,
    /// Whether a thread writes them before they are needed, rather than the caller when they are.
    pub ahead_by_thread: bool,
    /// Memory for bytes not written yet; when it is full they are written without being asked to.
    pub buffer_bytes: usize,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { ahead_bytes: 8 << 20, ahead_by_thread: true, buffer_bytes: 1 << 20 }
    }
}

/// Where a stream begins to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// In a new file, which must not exist.
    New,
    /// Behind the last byte of the file, zeros included.
    End,
    /// At this offset; what lies behind it is cut off.
    Position(u64),
}

/// A stream open for writing.
pub struct Stream {
    file: Arc<dyn StoredFile>,
    writer: Option<JobThread>,
    ahead: Ahead,
    /// Bytes from `base` to `end`, and zeros behind them. `None` while another thread writes it.
    buffer: Option<BufferMut>,
    base: u64,
    end: u64,
    durable: u64,
    stopped: Option<WalError>,
    opener: Opener,
}

impl Stream {
    /// Opens the file `name`, to be written by `writer`, or by whoever syncs if there is none.
    ///
    /// # Errors
    /// [`WalErrorKind::InUse`] if another stream has it; [`WalErrorKind::OutOfRange`] for a position
    /// behind its end.
    pub fn open(
        storage: Arc<dyn Storage>,
        name: &str,
        at: At,
        options: &StreamOptions,
        writer: Option<JobThread>,
    ) -> Result<Self> {
        let access = if at == At::New { Access::Create } else { Access::Write };
        let file = storage.open(name, access)?;
        file.lock()?;
        if at == At::New {
            storage.sync_names()?;
        }
        let len = file.len_bytes()?;
        let bytes = (options.buffer_bytes as u64).next_multiple_of(BLOCK_BYTES) + 2 * BLOCK_BYTES;
        let mut stream = Self {
            ahead: Ahead::new(storage, name, options, len.next_multiple_of(BLOCK_BYTES)),
            file,
            writer,
            buffer: Some(BufferMut::zeroed(bytes as usize)),
            base: 0,
            end: len,
            durable: len,
            stopped: None,
            opener: Opener::this_process(),
        };
        stream.load_tail()?;
        if let At::Position(position) = at {
            stream.truncate(position)?;
        }
        Ok(stream)
    }

    /// Reads the part-filled block at the end.
    fn load_tail(&mut self) -> Result<()> {
        self.base = self.end / BLOCK_BYTES * BLOCK_BYTES;
        let kept = (self.end - self.base) as usize;
        let buffer = writable(&mut self.buffer)?;
        buffer.fill(0);
        if kept > 0 {
            let read = self.file.read(self.base, &mut buffer[..BLOCK_BYTES as usize])?;
            if read < kept {
                let detail = format!("{}: ends before {}", self.file.name(), self.end);
                return Err(WalError::new(WalErrorKind::Io, detail));
            }
            buffer[kept..BLOCK_BYTES as usize].fill(0);
        }
        Ok(())
    }

    /// Adds bytes at the tail. They are durable after the next [`Stream::sync`].
    ///
    /// # Errors
    /// [`WalErrorKind::NoSpace`]: how much was taken in, [`Stream::position`] tells.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check_running()?;
        while !bytes.is_empty() {
            let base = self.base;
            let used = (self.end - base) as usize;
            let buffer = writable(&mut self.buffer)?;
            // A block is kept free, so that what is written out always ends on a whole one.
            let room = buffer.len() - BLOCK_BYTES as usize - used;
            if room == 0 {
                self.write_out()?;
                continue;
            }
            let piece = room.min(bytes.len());
            buffer[used..used + piece].copy_from_slice(&bytes[..piece]);
            self.end += piece as u64;
            bytes = &bytes[piece..];
        }
        Ok(())
    }

    /// Makes everything written so far durable. Returns how many bytes from the start are.
    pub fn sync(&mut self) -> Result<u64> {
        self.check_running()?;
        if self.durable < self.end {
            self.write_out()?;
        }
        Ok(self.durable)
    }

    /// Where the next byte goes: the length of the stream.
    pub fn position(&self) -> u64 {
        self.end
    }

    /// How many bytes from the start are durable.
    pub fn durable_position(&self) -> u64 {
        self.durable
    }

    /// Reads bytes of the stream, durable or not, into `memory`; returns how many there were.
    pub fn read_at(&self, offset: u64, memory: &mut [u8]) -> Result<usize> {
        let len = (memory.len() as u64).min(self.end.saturating_sub(offset)) as usize;
        let mut block = BufferMut::zeroed(BLOCK_BYTES as usize);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (start, source) = match &self.buffer {
                Some(buffer) if at >= self.base => (self.base, &buffer[..]),
                _ => {
                    let start = at / BLOCK_BYTES * BLOCK_BYTES;
                    self.file.read(start, &mut block)?;
                    (start, &block[..])
                }
            };
            let from = (at - start) as usize;
            let piece = (len - done).min(source.len() - from);
            memory[done..done + piece].copy_from_slice(&source[from..from + piece]);
            done += piece;
        }
        Ok(len)
    }

    /// Cuts the stream to `len` bytes, durably: what was behind reads as zeros, or not at all.
    pub fn truncate(&mut self, len: u64) -> Result<()> {
        self.sync()?;
        if len > self.end {
            let detail = format!(
                "{}: expected at most its {} bytes, found {len}",
                self.file.name(),
                self.end
            );
            return Err(WalError::new(WalErrorKind::OutOfRange, detail));
        }
        let old_end = self.end.next_multiple_of(BLOCK_BYTES);
        let outcome = self.erase(len, old_end);
        if let Err(error) = &outcome {
            self.stopped = Some(error.clone());
        }
        outcome
    }

    fn erase(&mut self, len: u64, old_end: u64) -> Result<()> {
        self.end = len;
        self.load_tail()?;
        let zeros = BufferMut::zeroed(128 << 10);
        let mut at = self.base;
        if self.end > self.base {
            let buffer = writable(&mut self.buffer)?;
            self.file.write_durable(at, &buffer[..BLOCK_BYTES as usize])?;
            at += BLOCK_BYTES;
        }
        while at < old_end {
            let piece = (old_end - at).min(zeros.len() as u64);
            self.file.write_durable(at, &zeros[..piece as usize])?;
            at += piece;
        }
        self.durable = len;
        Ok(())
    }

    /// Makes everything durable and cuts the file to its exact length.
    pub fn close(mut self) -> Result<u64> {
        let len = self.sync()?;
        self.ahead.stop();
        self.file.set_len(len)?;
        self.file.sync()?;
        Ok(len)
    }

    /// Writes what is buffered, in whole blocks, and keeps the last, part-filled one.
    fn write_out(&mut self) -> Result<()> {
        let len = (self.end - self.base).next_multiple_of(BLOCK_BYTES);
        // No room is no failure of what is written already: nothing is stopped by it.
        self.ahead.make_room(self.base + len)?;
        if let Err(error) = self.write_durable(len as usize) {
            self.stopped = Some(error.clone());
            return Err(error);
        }
        let base = self.end / BLOCK_BYTES * BLOCK_BYTES;
        let (from, to) = ((base - self.base) as usize, (self.end - self.base) as usize);
        let buffer = writable(&mut self.buffer)?;
        buffer.copy_within(from..to, 0);
        buffer[to - from..to].fill(0);
        self.base = base;
        self.durable = self.end;
        Ok(())
    }

    fn write_durable(&mut self, len: usize) -> Result<()> {
        let Some(writer) = &self.writer else {
            let buffer = writable(&mut self.buffer)?;
            return self.file.write_durable(self.base, &buffer[..len]);
        };
        let Some(buffer) = self.buffer.take() else { return Err(no_memory()) };
        let (buffer, outcome) = writer.write_durable(&self.file, buffer, len, self.base);
        self.buffer = buffer;
        outcome
    }

    fn check_running(&self) -> Result<()> {
        if !self.opener.is_this_process() {
            return Err(WalError::inherited());
        }
        self.stopped.as_ref().map_or(Ok(()), |cause| Err(WalError::stopped_by(cause)))
    }
}

fn writable(buffer: &mut Option<BufferMut>) -> Result<&mut BufferMut> {
    buffer.as_mut().ok_or_else(no_memory)
}

#[cold]
fn no_memory() -> WalError {
    WalError::new(WalErrorKind::Stopped, "the thread that wrote ended with the stream's memory")
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes).map(|()| bytes.len()).map_err(io::Error::other)
    }

    /// Makes everything durable.
    fn flush(&mut self) -> io::Result<()> {
        self.sync().map(drop).map_err(io::Error::other)
    }
}
