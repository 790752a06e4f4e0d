//! One durable write, made by the calling thread: as it is, or with a priority of its own.

use nearhead_uring::{DurableFile, IoPriority, PriorityRing, set_thread_priority, thread_priority};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Makes durable writes.
pub trait DurableWriter: Send + Sync {
    /// Writes `bytes` to `file`; they are durable when it returns.
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Told that `file` is locked now: whoever else may write must hold the lock as long as it may.
    fn hold(&self, _file: &DurableFile) -> io::Result<()> {
        Ok(())
    }

    /// Told that `file` is about to be closed: nothing of it may be kept open.
    fn forget(&self, _file: &DurableFile) {}
}

/// Writes with whatever priority the calling thread has.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainWriter;

impl DurableWriter for PlainWriter {
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_durable_at(bytes, offset)
    }
}

/// Lends its priority to the calling thread for the time of the write: no change of threads, two
/// system calls. What the thread does otherwise keeps the priority it had.
#[derive(Clone, Copy, Debug)]
pub struct LendingWriter {
    /// What is lent.
    pub priority: IoPriority,
}

impl DurableWriter for LendingWriter {
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let own = thread_priority();
        // What is not permitted makes the write slower, not wrong.
        let is_lent = own.is_ok() && set_thread_priority(self.priority).is_ok();
        let outcome = file.write_durable_at(bytes, offset);
        if is_lent && let Ok(own) = own {
            // Giving a priority back, a lower one, needs no permission.
            let _ = set_thread_priority(own);
        }
        outcome
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

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_uring::Access;

    #[test]
    fn a_lent_priority_is_given_back() {
        let path = std::env::temp_dir().join(format!("nearhead-lent-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let file = DurableFile::open(&path, Access::Create, false).unwrap();
        let before = thread_priority().unwrap();
        for priority in [IoPriority::REAL_TIME, IoPriority::BEST_EFFORT_LAST] {
            LendingWriter { priority }.write_durable(&file, b"bytes", 0).unwrap();
            assert_eq!(thread_priority().unwrap(), before);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
        std::fs::remove_file(&path).unwrap();
    }
}
