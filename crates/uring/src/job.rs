//! One command on its way through the kernel: a state machine without I/O.
//!
//! [`Job::operation`] says which system call comes next, [`Job::advance`] takes its outcome, until
//! the ticket is spent. Both ways of driving a disk share it, so short transfers, interruptions,
//! kernels that refuse a call, and errors are treated alike and tested without a disk.
//!
//! Always true: no byte outside `at..end` is touched; a durable command completes only after a
//! successful write-through or a sync that began after its last byte was written.

use crate::error::{disk_error, kind_of};
use crate::gate::check;
use crate::pool::ReadPool;
use crate::segments::Segments;
use crate::target::{Target, TrimBy};
use nearhead_disk::{
    BufferMut, Class, Command, Completion, DiskError, DiskErrorKind, Payload, Submission, Ticket,
    total_len,
};
use rustix::io::Errno;

/// Zeroing at most this much is a plain write: cheaper than a change of the file's allocation, and
/// it keeps the blocks written, so that later durable writes there need no journal commit.
const ZERO_BY_WRITING_BYTES_MAX: u64 = 128 * 1024;
/// Zeros written by one call where the kernel cannot zero by itself.
const ZEROS_PER_CALL_BYTES: u64 = 2 << 20;
/// A durable write of at most this much is small.
const SMALL_BYTES_MAX: u64 = 256 * 1024;
/// `EINTR`, `EAGAIN` and `ECANCELED` in a row before a command is given up as failed.
const RETRIES_MAX: u32 = 1000;

/// The next system call. Ranges are bytes of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Read into [`Job::memory`].
    Read { offset: u64 },
    /// Write [`Job::pending`]; with `through`, return only once it is durable.
    Write { offset: u64, through: bool },
    /// Make the file system or device zero a range, keeping it allocated.
    ZeroRange { offset: u64, len: u64 },
    /// Deallocate a range, which then reads as zeros.
    Punch { offset: u64, len: u64 },
    /// Tell the device that a range is no longer needed.
    Discard { offset: u64, len: u64 },
    /// Make all completed writes durable.
    Sync,
}

/// What follows from an outcome.
pub(crate) enum Progress {
    /// Carry out [`Job::operation`] again.
    Again(Job),
    /// The command is done.
    Done(Completion),
}

enum Step {
    Read(BufferMut),
    Write(Segments),
    WriteZeros(Segments),
    ZeroRange,
    Punch,
    Discard,
    Sync,
}

/// A command being carried out.
pub(crate) struct Job {
    ticket: Ticket,
    class: Class,
    name: &'static str,
    start: u64,
    at: u64,
    end: u64,
    durable: bool,
    retries: u32,
    /// Its first call is a sync: what it changes may still be on its way to the disk.
    syncs_first: bool,
    /// What was written, where a sync is still to come.
    written: Option<Segments>,
    step: Step,
}

impl Job {
    /// Checks a command and prepares it; one that is refused or needs no call is done at once.
    pub(crate) fn begin(submission: Submission, target: &Target, pool: &mut ReadPool) -> Progress {
        let Submission { ticket, class, command } = submission;
        if let Err(error) = check(&command, target) {
            return Progress::Done(ticket.complete(Err(error)));
        }
        let (name, offset, len, durable, step) = match command {
            Command::Read { offset, len } => {
                ("read", offset, u64::from(len), false, Step::Read(pool.take(len as usize)))
            }
            Command::Write { offset, parts, durable } => {
                let len = total_len(&parts) as u64;
                let segments = Segments::of_parts(parts, target.way().memory_align_bytes);
                ("write", offset, len, durable, Step::Write(segments))
            }
            Command::WriteZeroes { offset, len, durable } => {
                let step = if len > ZERO_BY_WRITING_BYTES_MAX && target.may_zero_range() {
                    Step::ZeroRange
                } else {
                    zeros_to_write(len)
                };
                ("write of zeros", offset, len, durable, step)
            }
            Command::Trim { offset, len } => {
                let step = match target.trim_by {
                    TrimBy::Punch => Step::Punch,
                    TrimBy::Discard => Step::Discard,
                    TrimBy::Nothing => return Progress::Done(ticket.complete(Ok(Payload::EMPTY))),
                };
                ("trim", offset, len, false, step)
            }
            Command::Flush => ("flush", 0, 0, true, Step::Sync),
        };
        if len == 0 && name != "flush" {
            return Progress::Done(ticket.complete(Ok(Payload::EMPTY)));
        }
        let (start, end) = (offset, offset + len);
        Progress::Again(Self {
            ticket,
            class,
            name,
            start,
            at: start,
            end,
            durable,
            retries: 0,
            syncs_first: false,
            written: None,
            step,
        })
    }

    /// Urgency.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// The system call that comes next.
    pub(crate) fn operation(&self, target: &Target) -> Operation {
        let (offset, len) = (self.at, self.end - self.at);
        if self.syncs_first {
            return Operation::Sync;
        }
        match &self.step {
            Step::Read(_) => Operation::Read { offset },
            Step::Write(_) | Step::WriteZeros(_) => {
                let through = self.durable && target.way().write_through;
                Operation::Write { offset, through }
            }
            Step::ZeroRange => Operation::ZeroRange { offset, len },
            Step::Punch => Operation::Punch { offset, len },
            Step::Discard => Operation::Discard { offset, len },
            Step::Sync => Operation::Sync,
        }
    }

    /// Whether it is a small write that must be durable: what somebody waits for.
    pub(crate) fn is_small_and_durable(&self) -> bool {
        let is_small = self.end - self.start <= SMALL_BYTES_MAX;
        matches!(self.step, Step::Write(_)) && self.durable && is_small
    }

    /// Bytes that are still to be transferred.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.end - self.at
    }

    /// Of a small write that only its sync is left of: where it is, and its bytes.
    pub(crate) fn written(&self) -> Option<(u64, &Segments)> {
        let is_small = self.end - self.start <= SMALL_BYTES_MAX && !self.syncs_first;
        self.written.as_ref().filter(|_| is_small).map(|segments| (self.start, segments))
    }

    /// Makes a sync its next call, and goes on with what is next now after it.
    pub(crate) fn sync_first(&mut self) {
        self.syncs_first = true;
    }

    /// Whether it is a flush.
    pub(crate) fn is_flush(&self) -> bool {
        self.name == "flush"
    }

    /// Where [`Operation::Read`] puts its bytes.
    pub(crate) fn memory(&mut self) -> &mut [u8] {
        let done = (self.at - self.start) as usize;
        let len = (self.end - self.start) as usize;
        match &mut self.step {
            Step::Read(buffer) => &mut buffer[done..len],
            _ => &mut [],
        }
    }

    /// What [`Operation::Write`] writes.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &[u8]> {
        let segments = match &self.step {
            Step::Write(segments) | Step::WriteZeros(segments) => Some(segments),
            _ => None,
        };
        segments.into_iter().flat_map(Segments::pending)
    }

    /// Takes the outcome of the last operation.
    pub(crate) fn advance(
        self,
        outcome: Result<usize, Errno>,
        target: &Target,
        pool: &mut ReadPool,
    ) -> Progress {
        match outcome {
            Ok(bytes) => self.succeeded(bytes, target, pool),
            // The last is what the kernel says of a call that it had not begun when the thread ended that asked for it.
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED) => self.interrupted(),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => self.refused(target),
            Err(errno) => self.failed(errno, target),
        }
    }

    /// The disk itself is gone; nobody will ask for the answer.
    pub(crate) fn abandon(self) {
        self.ticket.abandon();
    }

    /// Ends the command with an error of the driver's own making.
    pub(crate) fn fail(self, kind: DiskErrorKind, found: &str, target: &Target) -> Completion {
        let detail = format!("{}: found {found}", self.describe(target));
        self.ticket.complete(Err(DiskError { kind, detail }))
    }

    fn succeeded(mut self, bytes: usize, target: &Target, pool: &mut ReadPool) -> Progress {
        self.retries = 0;
        if std::mem::take(&mut self.syncs_first) {
            return Progress::Again(self);
        }
        match &mut self.step {
            Step::Read(_) | Step::Write(_) | Step::WriteZeros(_) => {
                if let Err(found) = check_transferred(bytes, self.at, self.end, target) {
                    return Progress::Done(self.fail(DiskErrorKind::Io, &found, target));
                }
                self.at += bytes as u64;
                if let Step::Write(segments) | Step::WriteZeros(segments) = &mut self.step {
                    segments.advance(bytes);
                }
                if self.at == self.end { self.transferred(target, pool) } else { self.next_zeros() }
            }
            Step::ZeroRange | Step::Punch if self.durable => {
                self.step = Step::Sync;
                Progress::Again(self)
            }
            Step::ZeroRange | Step::Punch | Step::Discard | Step::Sync => {
                Progress::Done(self.ticket.complete(Ok(Payload::EMPTY)))
            }
        }
    }

    fn transferred(mut self, target: &Target, pool: &mut ReadPool) -> Progress {
        match self.step {
            Step::Read(buffer) => {
                let payload = pool.lend(buffer, (self.end - self.start) as usize);
                Progress::Done(self.ticket.complete(Ok(payload)))
            }
            step if self.durable && !target.way().write_through => {
                if let Step::Write(mut segments) = step {
                    segments.rewind();
                    self.written = Some(segments);
                }
                self.step = Step::Sync;
                Progress::Again(self)
            }
            _ => Progress::Done(self.ticket.complete(Ok(Payload::EMPTY))),
        }
    }

    /// More zeros to write, if one call's worth is used up and it is zeros that are written.
    fn next_zeros(mut self) -> Progress {
        if let Step::WriteZeros(segments) = &self.step
            && segments.pending().next().is_none()
        {
            self.step = zeros_to_write(self.end - self.at);
        }
        Progress::Again(self)
    }

    fn interrupted(mut self) -> Progress {
        self.retries += 1;
        if self.retries <= RETRIES_MAX {
            return Progress::Again(self);
        }
        let detail = format!("{}: found {RETRIES_MAX} interruptions in a row", self.name);
        Progress::Done(self.ticket.complete(Err(DiskError { kind: DiskErrorKind::Io, detail })))
    }

    /// The kernel does not offer this call here: take the next best.
    fn refused(mut self, target: &Target) -> Progress {
        self.step = match self.step {
            Step::ZeroRange => {
                target.zero_range_was_refused();
                if target.trim_by == TrimBy::Punch {
                    Step::Punch
                } else {
                    zeros_to_write(self.end - self.at)
                }
            }
            // What is trimmed by holes reads as zeros afterwards, by whatever means.
            Step::Punch => zeros_to_write(self.end - self.at),
            // A discard is a hint: a device that takes none is free to ignore it.
            Step::Discard => return Progress::Done(self.ticket.complete(Ok(Payload::EMPTY))),
            _ => return self.failed(Errno::OPNOTSUPP, target),
        };
        Progress::Again(self)
    }

    fn failed(self, errno: Errno, target: &Target) -> Progress {
        if let Some(why) = target.lost()
            && self.operation(target) == Operation::Sync
        {
            let detail = format!("{}: {why}", self.describe(target));
            let error = DiskError { kind: DiskErrorKind::Gone, detail };
            return Progress::Done(self.ticket.complete(Err(error)));
        }
        // A sync that fails in the middle of a write concerns the write, not just the sync.
        debug_assert!(!matches!(errno, Errno::INTR | Errno::AGAIN | Errno::CANCELED));
        let expected = match self.step {
            Step::Sync => "all completed writes to become durable".to_owned(),
            _ => format!("{} bytes done", self.end - self.start),
        };
        // What the kernel says of a write behind the end of a device; nothing that is freed makes room there.
        let has_left = errno == Errno::NOSPC && target.ends_before(self.end);
        let errno = if has_left { Errno::NODEV } else { errno };
        let error = disk_error(&self.describe(target), &expected, errno);
        debug_assert_eq!(error.kind, kind_of(errno));
        Progress::Done(self.ticket.complete(Err(error)))
    }

    fn describe(&self, target: &Target) -> String {
        let disk = &target.properties.name;
        if self.name == "flush" {
            return format!("flush of {disk}");
        }
        let (name, len, start) = (self.name, self.end - self.start, self.start);
        let done = self.at - start;
        format!("{name} of {len} bytes at offset {start} of {disk}, after {done} bytes")
    }
}

fn zeros_to_write(len: u64) -> Step {
    Step::WriteZeros(Segments::of_zeros(len.min(ZEROS_PER_CALL_BYTES) as usize))
}

/// A transfer of nothing would be repeated forever, one of a part of a sector cannot be continued.
fn check_transferred(bytes: usize, at: u64, end: u64, target: &Target) -> Result<(), String> {
    let left = end - at;
    let sector = u64::from(target.properties.sector_bytes);
    if bytes == 0 || bytes as u64 > left {
        Err(format!("{bytes} bytes transferred where {left} were left; was the disk truncated?"))
    } else if target.way().direct && !(bytes as u64).is_multiple_of(sector) {
        Err(format!(
            "{bytes} bytes transferred, no whole number of sectors of {sector}; was the disk truncated?"
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
pub(crate) mod tests;
