//! Durable writes that carry their own I/O priority, whichever thread makes them.
//!
//! `sqe->ioprio` is the one way to give a single request a priority; mq-deadline honours it, BFQ
//! goes by the thread and ignores it (measured on Linux 6.18). The rule that makes lending memory to
//! the kernel sound here: **a write does not return before the kernel has given it back**, however
//! often waiting is interrupted. A ring that cannot be entered any more takes no further write.
#![expect(unsafe_code, reason = "the kernel reads memory that Rust owns")]

use crate::durable_file::DurableFile;
use crate::priority::IoPriority;
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// A ring for one write at a time.
pub struct PriorityRing {
    io: IoUring,
    priority: IoPriority,
    is_broken: bool,
}

impl PriorityRing {
    /// A ring whose writes have this priority.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` where `io_uring` is missing or forbidden.
    pub fn new(priority: IoPriority) -> io::Result<Self> {
        Ok(Self { io: IoUring::new(2)?, priority, is_broken: false })
    }

    /// Writes `bytes` to `file`, which are durable when it returns.
    ///
    /// # Errors
    /// `EPERM` for the real-time class without the privilege; else as for any write.
    pub fn write_durable_at(
        &mut self,
        file: &DurableFile,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        let flags = if file.writes_through() { libc::RWF_DSYNC } else { 0 };
        let mut done = 0;
        while done < bytes.len() {
            match self.write_once(file, &bytes[done..], offset + done as u64, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if file.writes_through() { Ok(()) } else { file.sync() }
    }

    fn write_once(
        &mut self,
        file: &DurableFile,
        bytes: &[u8],
        offset: u64,
        flags: i32,
    ) -> io::Result<usize> {
        if self.is_broken {
            return Err(io::Error::other(
                "its io_uring failed before; open the file anew, with a ring of its own",
            ));
        }
        let len = u32::try_from(bytes.len()).unwrap_or(1 << 30);
        let entry = opcode::Write::new(types::Fd(file.as_fd().as_raw_fd()), bytes.as_ptr(), len)
            .offset(offset)
            .rw_flags(flags)
            .ioprio(self.priority.bits())
            .build();
        // SAFETY: `bytes` and `file` outlive this call, and it waits below until the kernel has
        // completed the entry, or has never taken it and never will.
        let pushed = unsafe { self.io.submission().push(&entry) };
        if pushed.is_err() {
            return Err(io::Error::other("the io_uring has no room for its one entry"));
        }
        loop {
            let entered = self.io.submit_and_wait(1);
            if let Some(completion) = self.io.completion().next() {
                let result = completion.result();
                return usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            }
            let Err(error) = entered else { continue };
            if error.kind() != io::ErrorKind::Interrupted && !self.io.submission().is_empty() {
                // The kernel has not taken the entry, and without another submit it never will.
                self.is_broken = true;
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable_file::Access;
    use nearhead_disk::BufferMut;

    #[test]
    fn what_a_ring_wrote_is_read_back() {
        let path = std::env::temp_dir().join(format!("nearhead-priority-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let file = DurableFile::open(&path, Access::Create, true).unwrap();
        let outcome = PriorityRing::new(IoPriority::BEST_EFFORT_FIRST);
        let Ok(mut ring) = outcome else {
            println!("skipped: no io_uring here");
            return;
        };
        ring.write_durable_at(&file, &BufferMut::copy_of(&[7; 8192]), 4096).unwrap();
        let mut read = BufferMut::zeroed(8192);
        assert_eq!(file.read_at(&mut read, 4096).unwrap(), 8192);
        assert!(read.iter().all(|byte| *byte == 7));
        std::fs::remove_file(&path).unwrap();
    }
}
