//! A real disk driven through `io_uring`.
//!
//! `submit` checks a command and queues its first system call, `kick` hands everything queued to
//! the kernel in one call, `poll` takes outcomes and queues what a short or refused call leaves to
//! do. Nothing blocks but the drop, which waits for outstanding commands, and one case:
//!
//! A small durable write or a flush to a file, with nothing else outstanding, is carried out by `kick`
//! itself. The kernel would give it to a worker thread, which must be woken and must wake us; on a
//! busy machine each of the two may wait a tick of the scheduler (4 ms at 250 Hz), while the write
//! takes a tenth of a millisecond. Not on rotating disks, where it takes long and the disk could choose
//! among more commands; not with others outstanding, which would wait for it.

use crate::blocking::call;
use crate::helper::Helper;
use crate::job::{Job, Operation, Progress};
use crate::pool::ReadPool;
use crate::ring::Ring;
use crate::target::Target;
use nearhead_disk::{
    Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Run, Submission,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// When to try again after the kernel was short of memory for a submission.
const RESUBMIT_AFTER: Nanos = Nanos::from_millis(1);

/// A file or block device behind a ring.
pub(crate) struct UringDisk {
    ring: Ring,
    helper: Option<Helper>,
    target: Arc<Target>,
    pool: ReadPool,
    ready: VecDeque<Completion>,
    outstanding: usize,
    resubmit_at: Option<Nanos>,
    /// To be carried out by `kick` unless another command joins it.
    alone: Option<Job>,
    /// `kick` has just carried one out: its completion is for the look after the next, which comes
    /// with the time that it took.
    took_time: bool,
}

impl UringDisk {
    pub(crate) fn new(target: Arc<Target>) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(target.fd(), target.properties.queue_depth_max)?,
            helper: None,
            target,
            pool: ReadPool::default(),
            ready: VecDeque::new(),
            outstanding: 0,
            resubmit_at: None,
            alone: None,
            took_time: false,
        })
    }

    fn begin(&mut self, job: Job) {
        if self.outstanding == 1 && self.target.is_file_on_flash() && job.is_small_and_durable() {
            self.alone = Some(job);
            return;
        }
        if let Some(first) = self.alone.take() {
            self.proceed(Progress::Again(first));
        }
        self.proceed(Progress::Again(job));
    }

    fn carry_out_alone(&mut self) {
        while let Some(mut job) = self.alone.take() {
            self.took_time = true;
            let outcome = call(&mut job, &self.target);
            match job.advance(outcome, &self.target, &mut self.pool) {
                Progress::Again(unfinished) => self.alone = Some(unfinished),
                Progress::Done(completion) => self.ready.push_back(completion),
            }
        }
    }

    fn proceed(&mut self, progress: Progress) {
        match progress {
            Progress::Done(completion) => self.ready.push_back(completion),
            Progress::Again(job) => match job.operation(&self.target) {
                Operation::Discard { .. } => self.give_to_helper(job),
                _ => self.ring.start(job, &self.target),
            },
        }
    }

    fn give_to_helper(&mut self, job: Job) {
        let started = match self.helper.take() {
            Some(helper) => Ok(helper),
            None => Helper::start(Arc::clone(&self.target), Arc::clone(self.ring.bell())),
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
            let progress = job.advance(outcome, &self.target, &mut self.pool);
            self.proceed(progress);
        }
    }

    /// Hands queued calls to the kernel. If it cannot take them now they stay queued, and
    /// `wake_at` asks to be called again.
    fn hand_over(&mut self, now: Nanos) {
        self.resubmit_at = match self.ring.submit() {
            Ok(()) => None,
            Err(_) => Some(now + RESUBMIT_AFTER),
        };
    }
}

impl Disk for UringDisk {
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
        self.carry_out_alone();
        self.hand_over(Nanos::ZERO);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        // Who polls without a kick gets the same.
        self.carry_out_alone();
        if std::mem::take(&mut self.took_time) {
            return None;
        }
        if self.ready.is_empty() {
            self.take_outcomes();
            if self.ready.is_empty() {
                // Silence first, then look once more: what comes in between rings again.
                self.ring.silence();
                self.take_outcomes();
            }
            if self.ring.has_unsubmitted() {
                self.hand_over(now);
            }
        }
        let completion = self.ready.pop_front()?;
        self.outstanding -= 1;
        Some(completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.ready.is_empty() { self.resubmit_at } else { Some(Nanos::ZERO) }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.bell().as_fd())
    }
}

impl Drop for UringDisk {
    fn drop(&mut self) {
        self.helper = None;
        if let Some(job) = self.alone.take() {
            job.abandon();
        }
        self.ring.drain();
        self.target.release();
    }
}
