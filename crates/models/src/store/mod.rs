//! Where the bytes behind a model live.
//!
//! A model decides *when* and *whether* bytes reach the medium; a [`Store`] only keeps them. A
//! store has no timing, no cache of its own that could be lost, and never changes bytes outside
//! the range it is given. What was never written reads as zeros.

mod dataless;
mod file;
mod memory;
mod pattern;

pub use dataless::Dataless;
pub use file::FileStore;
pub use memory::MemoryStore;
pub use pattern::PatternStore;

use nearhead_disk::{BufferMut, DiskError, Payload, Run};

/// Content of a disk. Offsets and lengths are bytes; callers stay inside the capacity.
pub trait Store: Send {
    /// Whether bytes are kept at all; a data-less store answers reads with phantoms.
    fn keeps_content(&self) -> bool {
        true
    }

    /// Fills `target` with the bytes at `offset`.
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError>;

    /// Replaces the bytes at `offset`.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes `len` bytes at `offset` read as zeros.
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), DiskError>;

    /// What is known of the bytes from `offset` on without reading them; as [`nearhead_disk::Disk::run_at`].
    fn run_at(&self, offset: u64) -> Run {
        let _ = offset;
        Run::UNKNOWN
    }

    /// Writes a payload; phantoms leave zeros, as everywhere.
    fn write_payload(&mut self, offset: u64, payload: &Payload) -> Result<(), DiskError> {
        match payload {
            Payload::Bytes(buffer) => self.write(offset, buffer),
            Payload::Zeros(len) | Payload::Phantom(len) => self.zero(offset, *len as u64),
        }
    }

    /// Reads `len` bytes as a payload: bytes, or a phantom where none are kept.
    fn read_payload(&self, offset: u64, len: usize) -> Result<Payload, DiskError> {
        if !self.keeps_content() {
            return Ok(Payload::Phantom(len));
        }
        let mut buffer = BufferMut::zeroed(len);
        self.read(offset, &mut buffer)?;
        Ok(Payload::Bytes(buffer.freeze()))
    }
}
