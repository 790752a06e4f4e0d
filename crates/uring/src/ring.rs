//! The ring: jobs go in as system calls for the kernel, come back with their outcome.
//!
//! This is where memory is lent to the kernel, so it is (with `ioctl.rs`) where `unsafe` lives.
//! The rule that makes it sound: **a job handed to the kernel sits in its slot, untouched, until
//! its completion has been taken from the ring**. The job owns the memory (a `BufferMut` being
//! read into, or shared `Buffer`s being written, all on the heap, so moving the job moves none of
//! it), the slot owns the vector of addresses. A ring that is dropped waits for its jobs; if they
//! do not come back within a bound, their memory is leaked rather than freed under the kernel.
//!
//! What is registered with the kernel and what is not: the file is, since every command uses it.
//! Buffers are not. A registered buffer must stay mapped and owned for as long as it is registered,
//! but payloads come from, and are kept by, whoever uses the disk; copying into registered memory
//! would cost what the saved page lookups bring.
//!
//! Outcomes are looked for in the memory shared with the kernel, which costs no system call. The ring's
//! own descriptor is readable for as long as one waits there, so it needs neither a bell nor anybody to
//! silence one. Where the kernel leaves completions to their owner (below, `build`) a wait for that
//! descriptor may also end with `EINTR`: then the outcome is there already.
//!
//! Any thread may hand jobs over, one at a time. When one ends, the kernel gives up those of its calls that it had not begun (`ECANCELED`);
//! whoever polls makes them again.
#![expect(unsafe_code, reason = "the kernel reads and writes memory that Rust owns")]

use crate::job::{Job, Operation};
use crate::target::Target;
use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, opcode, types};
use nearhead_disk::Class;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Indices in the table of registered files: the disk, and the disk as it is read.
const DISK: types::Fixed = types::Fixed(0);
const READ: types::Fixed = types::Fixed(1);
/// What the look at the bell is called; jobs are called by their slot.
const BELL: u64 = u64::MAX;
/// How long a dropped ring waits for its jobs.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(10);

/// A job with what its last operation came to.
pub(crate) type Outcome = (Job, Result<usize, Errno>);

#[derive(Default)]
struct Slot {
    job: Option<Job>,
    pieces: Vec<libc::iovec>,
}

/// Jobs in the kernel's hands.
pub(crate) struct Ring {
    io: IoUring,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Entries pushed and not yet accepted by the kernel.
    unsubmitted: usize,
    /// Jobs in slots that somebody waits for.
    urgent: usize,
    /// Rung by those who have outcomes that the kernel knows nothing of.
    bell: Option<Arc<OwnedFd>>,
}

// SAFETY: the addresses in the slots point to memory that the jobs in them own exclusively or
// share immutably; they are used by the kernel alone, whichever thread owns the ring.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for `depth` jobs on `target`.
    ///
    /// # Errors
    /// What the kernel answered: `ENOSYS` or `EPERM` where `io_uring` is missing or forbidden,
    /// `EOPNOTSUPP` where it lacks an operation (before Linux 5.6), `ENOMEM` where the limit on
    /// locked memory is too low (before 5.12).
    pub(crate) fn new(target: &Target, depth: u16) -> io::Result<Self> {
        // One more for the bell.
        let entries = (u32::from(depth) + 1).next_power_of_two();
        let ring = build(entries)?;
        check_operations(&ring)?;
        let files = [target.write_fd().as_raw_fd(), target.read_fd().as_raw_fd()];
        ring.submitter().register_files(&files)?;
        Ok(Self {
            io: ring,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..u32::from(depth)).rev().collect(),
            unsubmitted: 0,
            urgent: 0,
            bell: None,
        })
    }

    /// From now on all is read and written through `fd`. No job may be in the ring.
    pub(crate) fn use_descriptor(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let files = [fd.as_raw_fd(); 2];
        let updated = self.io.submitter().register_files_update(0, &files)?;
        if updated == files.len() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
    }

    /// Readable for as long as an outcome waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }

    /// From the next [`Ring::submit`] on a ring of `bell`, an eventfd, wakes whoever waits for this ring.
    pub(crate) fn listen_to(&mut self, bell: Arc<OwnedFd>) {
        self.bell = Some(bell);
        self.listen();
    }

    fn listen(&mut self) {
        let Some(bell) = &self.bell else { return };
        let fd = types::Fd(bell.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build().user_data(BELL);
        self.push(&entry);
    }

    /// The bell rang: whoever rang it is asked after every look at the ring anyway.
    fn silence(&mut self) {
        if let Some(bell) = &self.bell {
            let _ = rustix::io::read(&**bell, &mut [0_u8; 8]);
        }
        self.listen();
    }

    /// Whether somebody waits for one of its jobs.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent > 0
    }

    /// Whether entries wait for [`Ring::submit`].
    pub(crate) fn has_unsubmitted(&self) -> bool {
        self.unsubmitted > 0
    }

    /// Queues the next operation of `job`, which is none of the ring's yet; never more jobs than
    /// the depth. [`Operation::Discard`] is not for the ring.
    pub(crate) fn start(&mut self, job: Job, target: &Target) {
        let index = self.free.pop().expect("the disk admits no more commands than there are slots");
        self.urgent += usize::from(is_urgent(&job));
        let slot = &mut self.slots[index as usize];
        let entry = entry_for(slot.job.insert(job), &mut slot.pieces, target);
        self.push(&entry.user_data(u64::from(index)));
    }

    fn push(&mut self, entry: &Entry) {
        // SAFETY: the memory an entry points to is owned by its slot or by the job in it, and both
        // stay in place until the completion is taken (module documentation). The bell's has none.
        let pushed = unsafe { self.io.submission().push(entry) };
        assert!(pushed.is_ok(), "the ring has an entry for every slot");
        self.unsubmitted += 1;
    }

    /// Hands queued entries to the kernel. On an error they stay queued.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        while self.unsubmitted > 0 {
            match self.io.submit() {
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(accepted) => self.unsubmitted -= accepted.min(self.unsubmitted),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next outcome, if there is one already.
    pub(crate) fn next_outcome(&mut self) -> Option<Outcome> {
        let entry = loop {
            let at_hand = self.io.completion().next();
            let entry = match at_hand {
                Some(entry) => entry,
                None => self.run_deferred_work()?,
            };
            if entry.user_data() != BELL {
                break entry;
            }
            self.silence();
        };
        let index = entry.user_data() as u32;
        let slot = &mut self.slots[index as usize];
        let job = slot.job.take().expect("the kernel completes only what was submitted");
        slot.pieces.clear();
        self.free.push(index);
        self.urgent -= usize::from(is_urgent(&job));
        let outcome = match entry.result() {
            negative if negative < 0 => Err(Errno::from_raw_os_error(-negative)),
            bytes => Ok(bytes as usize),
        };
        Some((job, outcome))
    }

    /// Completions may wait for the owner to enter the kernel; a flag in shared memory tells whether
    /// that is worth a system call.
    fn run_deferred_work(&mut self) -> Option<io_uring::cqueue::Entry> {
        if !self.io.submission().taskrun() {
            return None;
        }
        // An error leaves the flag set, and the next poll asks again.
        if let Ok(accepted) = self.io.submit() {
            self.unsubmitted -= accepted.min(self.unsubmitted);
        }
        self.io.completion().next()
    }

    /// Waits, within a bound, until the kernel has given every job back, and abandons them all.
    pub(crate) fn drain(&mut self) {
        let give_up_at = Instant::now() + DRAIN_WAIT_MAX;
        let tick = types::Timespec::new().nsec(100_000_000);
        while self.in_kernel() > 0 && Instant::now() < give_up_at {
            if self.submit().is_err() {
                break;
            }
            let arguments = types::SubmitArgs::new().timespec(&tick);
            // A timeout is an error like any other here: the loop looks again.
            let _ = self.io.submitter().submit_with_args(1, &arguments);
            while let Some((job, _)) = self.next_outcome() {
                job.abandon();
            }
        }
    }

    fn in_kernel(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.drain();
        for slot in self.slots.drain(..) {
            if slot.job.is_some() {
                std::mem::forget(slot);
            }
        }
        // Otherwise the kernel keeps the file, and with it the lock, until it gets round to it.
        let _ = self.io.submitter().unregister_files();
    }
}

/// A ring that, where the kernel can (Linux 5.19), does not interrupt its owner: completions appear
/// at the owner's next system call, also one that it sleeps in and that is interrupted for it, or when
/// asked for once a shared flag says that they wait.
/// Deferring them further (`DEFER_TASKRUN`) measured no faster at queue depth 1 and would bind the
/// ring to one thread.
fn build(entries: u32) -> io::Result<IoUring> {
    let cooperative = IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(entries);
    match cooperative {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        outcome => outcome,
    }
}

fn is_urgent(job: &Job) -> bool {
    matches!(job.class(), Class::Durable | Class::Foreground)
}

fn check_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
        opcode::PollAdd::CODE,
    ];
    if needed.iter().all(|code| probe.is_supported(*code)) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }
}

fn entry_for(job: &mut Job, pieces: &mut Vec<libc::iovec>, target: &Target) -> Entry {
    let priority = priority_of(job.class());
    match job.operation(target) {
        Operation::Read { offset } => {
            let memory = job.memory();
            opcode::Read::new(READ, memory.as_mut_ptr(), memory.len() as u32)
                .offset(offset)
                .ioprio(priority)
                .build()
        }
        Operation::Write { offset, through } => {
            let flags = if through { libc::RWF_DSYNC } else { 0 };
            pieces.clear();
            pieces.extend(job.pending().map(|piece| libc::iovec {
                // The kernel only reads from it.
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            }));
            if let [only] = pieces.as_slice() {
                opcode::Write::new(DISK, only.iov_base.cast(), only.iov_len as u32)
                    .offset(offset)
                    .rw_flags(flags)
                    .ioprio(priority)
                    .build()
            } else {
                opcode::Writev::new(DISK, pieces.as_ptr(), pieces.len() as u32)
                    .offset(offset)
                    .rw_flags(flags)
                    .ioprio(priority)
                    .build()
            }
        }
        Operation::ZeroRange { offset, len } => {
            allocate(offset, len, libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE)
        }
        Operation::Punch { offset, len } => {
            allocate(offset, len, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
        }
        Operation::Sync => opcode::Fsync::new(DISK).flags(types::FsyncFlags::DATASYNC).build(),
        Operation::Discard { .. } => unreachable!("discards go to the helper thread"),
    }
}

fn allocate(offset: u64, len: u64, mode: i32) -> Entry {
    opcode::Fallocate::new(DISK, len).offset(offset).mode(mode).build()
}

/// Priority for the I/O scheduler (`ioprio_set(2)`: class in the top three bits, level 0 to 7 below).
/// All are best effort: the real-time class needs a privilege, and the idle class could hold a
/// checkpoint back while a full log waits for it. BFQ tells the levels apart; the other schedulers
/// of Linux 6 look at the class alone.
fn priority_of(class: Class) -> u16 {
    const BEST_EFFORT: u16 = 2 << 13;
    let level = match class {
        Class::Durable => 0,
        Class::Foreground => 2,
        Class::Bulk => 4,
        Class::Background => 7,
    };
    BEST_EFFORT | level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{flush, target};
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn a_ring_knows_whether_somebody_waits_and_whether_it_has_something_to_hand_over() {
        let target = target("ring");
        let mut ring = match Ring::new(&target, 4) {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: no io_uring here: {error}"),
        };
        for (class, is_awaited) in [
            (Class::Background, false),
            (Class::Bulk, false),
            (Class::Foreground, true),
            (Class::Durable, true),
        ] {
            assert!(!ring.is_urgent() && !ring.has_unsubmitted(), "it has nothing");
            ring.start(flush(Class::Bulk, 1, &target), &target);
            ring.start(flush(class, 2, &target), &target);
            assert_eq!(ring.is_urgent(), is_awaited, "{class:?}");
            assert!(ring.has_unsubmitted());
            ring.submit().unwrap();
            assert!(!ring.has_unsubmitted());
            let mut left = 2;
            while left > 0 {
                if let Some((job, outcome)) = ring.next_outcome() {
                    job.abandon();
                    outcome.unwrap();
                    left -= 1;
                } else {
                    // It may end early: then the outcome is there already.
                    let _ = poll(&mut [PollFd::new(&ring.io, PollFlags::IN)], None);
                }
            }
        }
    }

    /// `IOPRIO_PRIO_VALUE` of `linux/ioprio.h`: the class in the bits from 13 on, the level below.
    #[test]
    fn all_are_best_effort_and_the_more_urgent_the_earlier() {
        let classes = [Class::Durable, Class::Foreground, Class::Bulk, Class::Background];
        let priorities = classes.map(priority_of);
        assert!(priorities.is_sorted_by(|one, next| one < next), "{priorities:?}");
        assert!(priorities.iter().all(|priority| priority >> 13 == 2), "{priorities:?}");
    }
}
