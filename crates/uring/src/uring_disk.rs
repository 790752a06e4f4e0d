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

use crate::blocking::call;
use crate::helper::Helper;
use crate::job::{Job, Operation, Progress};
use crate::pool::ReadPool;
use crate::ring::Ring;
use crate::target::Target;
use nearhead_disk::{
    Class, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Run, Submission,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
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
    alone: Alone,
    /// One was just carried out: its completion is for the next look, which comes with the time that
    /// it took.
    took_time: bool,
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
            took_time: false,
        })
    }

    fn begin(&mut self, job: Job) {
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
            let outcome = call(&mut job, &self.target);
            match job.advance(outcome, &self.target, &mut self.pool) {
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
            Progress::Again(job) => match job.operation(&self.target) {
                Operation::Discard { .. } => self.give_to_helper(job),
                _ => self.ring.start(job, &self.target),
            },
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
        self.hand_over(Nanos::ZERO);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.carry_out_alone();
        if std::mem::take(&mut self.took_time) {
            return None;
        }
        if self.ready.is_empty() {
            self.take_outcomes();
            if self.ring.has_unsubmitted() {
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

    fn wake_at(&self) -> Option<Nanos> {
        let at_once = !self.ready.is_empty() || !matches!(self.alone, Alone::Nothing);
        if at_once { Some(Nanos::ZERO) } else { self.resubmit_at }
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
        self.ring.drain();
        self.target.release();
    }
}
