//! One durable write, made by the calling thread.

use nearhead_uring::DurableFile;
use std::io;

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
