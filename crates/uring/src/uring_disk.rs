//! A real disk driven through `io_uring`.
//!
//! `submit` checks a command and queues its first system call, `kick` hands everything queued to
//! the kernel in one call, `poll` takes outcomes and queues what a short or refused call leaves to
//! do. Nothing blocks but the drop, which waits for outstanding commands.

use crate::helper::Helper;
use crate::job::{Job, Operation, Progress};
use crate::pool::ReadPool;
use crate::ring::Ring;
use crate::target::Target;
use nearhead_disk::{Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Submission};
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
        })
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
        let progress = Job::begin(submission, &self.target, &mut self.pool);
        self.proceed(progress);
    }

    fn kick(&mut self) {
        self.hand_over(Nanos::ZERO);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
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
        self.ring.drain();
        self.target.release();
    }
}
