//! A real disk driven through `io_uring`.
//!
//! `submit` checks a command and queues its first system call, `kick` hands everything queued to
//! the kernel in one call, `poll` takes outcomes and queues what a short or refused call leaves to
//! do. Nothing blocks but the drop, which waits for outstanding commands, and one case:
//!
//! A small durable write to a file, with nothing else outstanding that anybody waits for, is carried out by
//! `poll` itself, and a flush with nothing outstanding at all. The kernel would give it to a worker thread,
//! which must be woken and must wake us; on a busy machine each of the two may wait a tick of the scheduler
//! (4 ms at 250 Hz), while the write takes a tenth of a millisecond. Not on rotating disks, where it takes
//! long and the disk could choose among more commands. And not by the look that follows its `kick` at once:
//! the owner has answers to give first, which must not wait for it.
//!
//! Where writes go through the page cache, small ones of whole pages are copied there by `submit`: that is all the
//! kernel's worker would do. Syncs are shared (`shared_sync.rs`); one that has much to bring to the disk is for the
//! kernel's worker, since whoever owns the disk can take in the next requests meanwhile.

use crate::blocking::{call, sync_alone};
use crate::helper::Helper;
use crate::job::{Job, Operation, Progress};
use crate::page_cache::PageCache;
use crate::pool::ReadPool;
use crate::ring::Ring;
use crate::shared_sync::SharedSync;
use crate::target::Target;
use nearhead_disk::{
    Class, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Run, Submission,
};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// When to try again after the kernel was short of memory for a submission.
const RESUBMIT_AFTER: Nanos = Nanos::from_millis(1);

/// Largest write that `submit` copies into the page cache.
const COPIED_BYTES_MAX: u64 = 256 << 10;

/// A file or block device behind a ring.
pub(crate) struct UringDisk {
    ring: Ring,
    helper: Option<Helper>,
    target: Arc<Target>,
    pool: ReadPool,
    ready: VecDeque<Completion>,
    outstanding: usize,
    resubmit_at: Option<Nanos>,
    alone: Alone,
    syncs: SharedSync,
    /// One was just carried out: its completion is for the next look, which comes with the time that
    /// it took.
    took_time: bool,
}

/// Whether a write through the page cache is made by `submit`: a copy into memory. Of a part of a page the rest may
/// have to be read first, and a large one takes long.
fn is_copied_at_once(offset: u64, len: u64) -> bool {
    const PAGE_BYTES: u64 = 4096;
    len <= COPIED_BYTES_MAX && offset.is_multiple_of(PAGE_BYTES) && len.is_multiple_of(PAGE_BYTES)
}

/// A command that `poll` carries out itself.
enum Alone {
    Nothing,
    /// Submitted; another may still join it, and then both go to the ring.
    Kicked(Job),
    /// Its owner learnt since that there is nothing more to learn: at the next look.
    Due(Job),
}

impl UringDisk {
    pub(crate) fn new(target: Arc<Target>) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(&target, target.properties.queue_depth_max)?,
            helper: None,
            target,
            pool: ReadPool::default(),
            ready: VecDeque::new(),
            outstanding: 0,
            resubmit_at: None,
            alone: Alone::Nothing,
            syncs: SharedSync::default(),
            took_time: false,
        })
    }

    fn begin(&mut self, job: Job) {
        if self.target.caches_writes() {
            return self.proceed(Progress::Again(job));
        }
        if self.is_to_be_made_here(&job) {
            self.alone = Alone::Kicked(job);
            return;
        }
        if !matches!(job.class(), Class::Bulk | Class::Background)
            && let Some(first) = self.take_alone()
        {
            self.proceed(Progress::Again(first));
        }
        self.proceed(Progress::Again(job));
    }

    /// Whether `poll` carries it out: what nobody waits for goes on beside it.
    fn is_to_be_made_here(&self, job: &Job) -> bool {
        let is_awaited = self.ring.is_urgent() || !matches!(self.alone, Alone::Nothing);
        let is_alone = self.outstanding == 1;
        self.target.is_file_on_flash()
            && !is_awaited
            && (job.is_small_and_durable() || (is_alone && job.is_flush()))
    }

    fn take_alone(&mut self) -> Option<Job> {
        match std::mem::replace(&mut self.alone, Alone::Nothing) {
            Alone::Kicked(job) | Alone::Due(job) => Some(job),
            Alone::Nothing => None,
        }
    }

    fn carry_out_alone(&mut self) {
        let mut job = match std::mem::replace(&mut self.alone, Alone::Nothing) {
            Alone::Due(job) => job,
            other => return self.alone = other,
        };
        self.took_time = true;
        loop {
            let outcome = if self.target.caches_writes() {
                sync_alone(&mut job, &self.target)
            } else {
                call(&mut job, &self.target)
            };
            match job.advance(outcome, &self.target, &mut self.pool) {
                again @ Progress::Again(_) if self.target.caches_writes() => {
                    return self.proceed(again);
                }
                Progress::Again(unfinished) => job = unfinished,
                Progress::Done(completion) => return self.ready.push_back(completion),
            }
        }
    }

    /// Its owner has nothing more to learn now, and goes to give its answers.
    fn make_alone_due(&mut self) {
        if let Some(job) = self.take_alone() {
            self.alone = Alone::Due(job);
        }
    }

    fn proceed(&mut self, progress: Progress) {
        match progress {
            Progress::Done(completion) => self.ready.push_back(completion),
            Progress::Again(job) if self.target.caches_writes() => self.proceed_cached(job),
            Progress::Again(job) => match job.operation(&self.target) {
                Operation::Discard { .. } => self.give_to_helper(job),
                _ => self.ring.start(job, &self.target),
            },
        }
    }

    /// Where writes go through the page cache.
    fn proceed_cached(&mut self, mut job: Job) {
        let operation = job.operation(&self.target);
        if self.target.syncs_first(&job, operation) {
            job.sync_first();
        }
        match job.operation(&self.target) {
            Operation::Sync => {
                // Whoever would have been served alone has company now.
                self.syncs.join(job);
                if let Some(first) = self.take_alone() {
                    self.syncs.join(first);
                }
            }
            Operation::Write { offset, .. } if is_copied_at_once(offset, job.left_bytes()) => {
                let outcome = call(&mut job, &self.target);
                let progress = job.advance(outcome, &self.target, &mut self.pool);
                self.proceed(progress);
            }
            Operation::Discard { .. } => self.give_to_helper(job),
            _ => self.ring.start(job, &self.target),
        }
    }

    /// Starts a sync for those who wait for one.
    fn start_sync(&mut self) {
        if !self.syncs.is_due() {
            return;
        }
        if self.target.lost().is_some() {
            for job in self.syncs.take_waiting() {
                let progress = job.advance(Err(Errno::IO), &self.target, &mut self.pool);
                self.proceed(progress);
            }
            return;
        }
        let is_made_here = self.syncs.is_for_one()
            && self.target.is_file_on_flash()
            && !self.ring.is_urgent()
            && self.target.page_cache().is_none_or(PageCache::is_soon_synced);
        if is_made_here {
            if let Some(job) = self.syncs.take_waiting().pop() {
                self.alone = Alone::Kicked(job);
            }
        } else if let Some(carrier) = self.syncs.start() {
            self.target.sync_begins();
            self.ring.start(carrier, &self.target);
        }
    }

    /// The sync that the ring carried out for `carrier` ended: all whom it served go on.
    fn sync_ended(&mut self, carrier: Job, outcome: Result<usize, Errno>) {
        self.target.sync_ended(outcome.map(|_| ()));
        for job in std::iter::once(carrier).chain(self.syncs.end()) {
            let progress = job.advance(outcome, &self.target, &mut self.pool);
            self.proceed(progress);
        }
    }

    fn give_to_helper(&mut self, job: Job) {
        let started = match self.helper.take() {
            Some(helper) => Ok(helper),
            None => Helper::start(Arc::clone(&self.target)).inspect(|helper| {
                self.ring.listen_to(Arc::clone(helper.bell()));
            }),
        };
        let refused = match started {
            Ok(helper) => {
                self.helper.insert(helper).give(job).err().map(|job| (*job, "it ended".to_owned()))
            }
            Err(error) => Some((job, error.to_string())),
        };
        if let Some((job, why)) = refused {
            let found = format!("no thread for a discard: {why}");
            self.ready.push_back(job.fail(DiskErrorKind::Io, &found, &self.target));
        }
    }

    fn take_outcomes(&mut self) {
        loop {
            let at_ring = self.ring.next_outcome();
            let Some((job, outcome)) =
                at_ring.or_else(|| self.helper.as_mut().and_then(Helper::next_outcome))
            else {
                return;
            };
            if self.target.caches_writes() {
                let operation = job.operation(&self.target);
                if operation == Operation::Sync {
                    self.sync_ended(job, outcome);
                    continue;
                }
                self.target.note_written(&job, operation);
            }
            let progress = job.advance(outcome, &self.target, &mut self.pool);
            self.proceed(progress);
        }
    }

    /// Hands queued calls to the kernel. If it cannot take them now they stay queued, and
    /// `wake_at` asks to be called again.
    fn hand_over(&mut self, now: Nanos) {
        self.start_sync();
        self.resubmit_at = match self.ring.submit() {
            Ok(()) => None,
            Err(_) => Some(now + RESUBMIT_AFTER),
        };
    }
}

impl Disk for UringDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.target.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        self.target.run_at(offset)
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        self.outstanding += 1;
        if self.outstanding > usize::from(self.target.properties.queue_depth_max) {
            let depth = self.target.properties.queue_depth_max;
            let disk = &self.target.properties.name;
            let detail = format!(
                "command to {disk} refused: expected at most {depth} outstanding, found {}",
                self.outstanding
            );
            let error = DiskError { kind: DiskErrorKind::Invalid, detail };
            self.ready.push_back(submission.ticket.complete(Err(error)));
            return;
        }
        match Job::begin(submission, &self.target, &mut self.pool) {
            Progress::Again(job) => self.begin(job),
            done @ Progress::Done(_) => self.proceed(done),
        }
    }

    fn kick(&mut self) {
        self.hand_over(Nanos::ZERO);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.carry_out_alone();
        if std::mem::take(&mut self.took_time) {
            return None;
        }
        if self.ready.is_empty() {
            self.take_outcomes();
            if self.ring.has_unsubmitted() || self.syncs.is_due() {
                self.hand_over(now);
            }
        }
        let completion = self.ready.pop_front();
        match &completion {
            Some(_) => self.outstanding -= 1,
            None => self.make_alone_due(),
        }
        completion
    }

    fn lost_writes(&self) -> Option<&str> {
        self.target.lost_what_it_can_do_without()
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        self.target.settle_cache(self.outstanding)?;
        // Before the target says so: if it fails, nothing is changed through either of them.
        self.ring.use_descriptor(self.target.fd()).map_err(|error| {
            let name = &self.target.properties.name;
            let detail = format!(
                "{name}: expected the ring to take another descriptor of the file, found {error}; serve it again"
            );
            DiskError { kind: DiskErrorKind::Io, detail }
        })?;
        self.target.leave_cache();
        Ok(())
    }

    fn wake_at(&self) -> Option<Nanos> {
        let at_once = !self.ready.is_empty() || !matches!(self.alone, Alone::Nothing);
        let to_hand_over = self.target.caches_writes()
            && (self.syncs.is_due() || (self.ring.has_unsubmitted() && self.resubmit_at.is_none()));
        if at_once || to_hand_over { Some(Nanos::ZERO) } else { self.resubmit_at }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.descriptor())
    }
}

impl Drop for UringDisk {
    fn drop(&mut self) {
        self.helper = None;
        if let Some(job) = self.take_alone() {
            job.abandon();
        }
        for job in self.syncs.take_waiting() {
            job.abandon();
        }
        self.ring.drain();
        for job in self.syncs.end() {
            job.abandon();
        }
        self.target.release();
    }
}

#[cfg(test)]
#[path = "uring_disk_tests.rs"]
mod tests;
