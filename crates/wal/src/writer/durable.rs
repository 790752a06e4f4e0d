//! One durable write, made by the calling thread: as it is, or with a priority of its own.

use nearhead_uring::{DurableFile, IoPriority, PriorityRing};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Makes durable writes.
pub trait DurableWriter: Send + Sync {
    /// Writes `bytes` to `file`; they are durable when it returns.
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// Writes with whatever priority the calling thread has.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainWriter;

impl DurableWriter for PlainWriter {
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_durable_at(bytes, offset)
    }
}

/// Gives every write a priority of its own (`sqe->ioprio`), whichever thread makes it. One at a
/// time, as a log writes anyway.
pub struct RequestWriter {
    ring: Mutex<PriorityRing>,
}

impl RequestWriter {
    /// A writer whose requests have this priority.
    ///
    /// # Errors
    /// Where there is no `io_uring`.
    pub fn new(priority: IoPriority) -> io::Result<Self> {
        Ok(Self { ring: Mutex::new(PriorityRing::new(priority)?) })
    }
}

impl DurableWriter for RequestWriter {
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.write_durable_at(file, bytes, offset)
    }
}
