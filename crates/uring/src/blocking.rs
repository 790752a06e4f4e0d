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

/// Makes a small write durable that is in the page cache by now, and nothing else that is there: the same bytes once more,
/// with a flag. A sync would take everything with it that others wrote, such as what a checkpoint writes home.
pub(crate) fn sync_alone(job: &mut Job, target: &Target) -> Result<usize, Errno> {
    let Some((offset, segments)) = job.written() else { return call(job, target) };
    let pieces: Vec<IoSlice<'_>> = segments.pending().map(IoSlice::new).collect();
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let write = || {
        let flags = ReadWriteFlags::DSYNC;
        rustix::io::pwritev2(target.write_fd(), &pieces, offset, flags)
    };
    match target.sync_range(offset, len, write) {
        Some(outcome) => outcome.map(|()| 0),
        None => call(job, target),
    }
}

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
