//! A job's system call made here and now, by the thread that asks.
//!
//! The pool's threads live by it; the ring uses it where handing a command to the kernel's workers
//! and being woken by them costs more than the command itself (`uring_disk.rs` says when).

use crate::job::{Job, Operation};
use crate::segments::PIECES_PER_CALL_MAX;
use crate::target::Target;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;

/// The job's next operation as a blocking call.
pub(crate) fn call(job: &mut Job, target: &Target) -> Result<usize, Errno> {
    let keep = FallocateFlags::KEEP_SIZE;
    let fd = target.write_fd();
    let operation = job.operation(target);
    if target.syncs_first(job, operation) {
        target.sync()?;
    }
    let outcome = match operation {
        Operation::Read { offset } => rustix::io::pread(target.read_fd(), job.memory(), offset),
        Operation::Write { offset, through } => {
            let flags = if through { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            let mut pieces = Vec::with_capacity(8);
            pieces.extend(job.pending().take(PIECES_PER_CALL_MAX).map(IoSlice::new));
            rustix::io::pwritev2(fd, &pieces, offset, flags)
        }
        Operation::ZeroRange { offset, len } => {
            rustix::fs::fallocate(fd, FallocateFlags::ZERO_RANGE | keep, offset, len).map(|()| 0)
        }
        Operation::Punch { offset, len } => {
            rustix::fs::fallocate(fd, FallocateFlags::PUNCH_HOLE | keep, offset, len).map(|()| 0)
        }
        Operation::Discard { offset, len } => crate::ioctl::discard(fd, offset, len).map(|()| 0),
        Operation::Sync => target.sync().map(|()| 0),
    };
    target.note_written(job, operation);
    outcome
}
