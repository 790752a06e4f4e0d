//! A real disk driven by a bounded pool of threads, for where `io_uring` is missing or forbidden.
//!
//! Each thread carries one command at a time through blocking calls. Urgent commands are taken
//! first, and some threads are kept free of bulk and background work, so that a durable write
//! never waits for a thread behind bulk transfers alone. The queue is bounded by the queue depth.

use crate::blocking::call;
use crate::job::{Job, Progress};
use crate::mailbox::Mailbox;
use crate::pool::ReadPool;
use crate::target::Target;
use nearhead_disk::{
    Class, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Run, Submission,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// As many as other block servers use by default; more would only queue in the kernel.
const THREADS_MAX: usize = 16;
const CLASSES: usize = 4;

/// A file or block device behind a pool of threads.
pub(crate) struct PreadDisk {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    ready: VecDeque<Completion>,
    outstanding: usize,
}

struct Shared {
    target: Arc<Target>,
    waiting: Mutex<Waiting>,
    work: Condvar,
    done: Mailbox<Completion>,
    pool: Mutex<ReadPool>,
    bell: OwnedFd,
}

#[derive(Default)]
struct Waiting {
    queues: [VecDeque<Job>; CLASSES],
    /// Threads busy with bulk or background work, and the most there may be.
    patient: usize,
    patient_max: usize,
    closing: bool,
}

impl Waiting {
    /// The most urgent job that may be started now.
    fn take(&mut self) -> Option<Job> {
        for (class, queue) in self.queues.iter_mut().enumerate() {
            let patient = is_patient(class);
            if patient && self.patient >= self.patient_max {
                return None;
            }
            if let Some(job) = queue.pop_front() {
                self.patient += usize::from(patient);
                return Some(job);
            }
        }
        None
    }
}

fn is_patient(class: usize) -> bool {
    class >= Class::Bulk as usize
}

impl PreadDisk {
    pub(crate) fn new(target: Arc<Target>) -> std::io::Result<Self> {
        let count = usize::from(target.properties.queue_depth_max).min(THREADS_MAX);
        let patient_max = (count * 3 / 4).max(1);
        let shared = Arc::new(Shared {
            target,
            waiting: Mutex::new(Waiting { patient_max, ..Waiting::default() }),
            work: Condvar::new(),
            done: Mailbox::new(),
            pool: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let mut disk = Self { shared, threads: Vec::new(), ready: VecDeque::new(), outstanding: 0 };
        for number in 0..count {
            let shared = Arc::clone(&disk.shared);
            let builder = std::thread::Builder::new().name(format!("nearhead-disk-{number}"));
            disk.threads.push(builder.spawn(move || shared.work_until_closed())?);
        }
        Ok(disk)
    }
}

/// A panic while a lock is held leaves plain queues, which are still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn work_until_closed(&self) {
        while let Some(job) = self.next_job() {
            let patient = is_patient(job.class() as usize);
            let completion = self.carry_through(job);
            if patient {
                lock(&self.waiting).patient -= 1;
                self.work.notify_one();
            }
            self.done.put(completion, || {
                // It can only fail when the counter is full, and then the bell rings already.
                let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
            });
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut waiting = lock(&self.waiting);
        loop {
            if waiting.closing {
                return None;
            }
            if let Some(job) = waiting.take() {
                return Some(job);
            }
            waiting = self.work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_through(&self, mut job: Job) -> Completion {
        loop {
            let outcome = call(&mut job, &self.target);
            match job.advance(outcome, &self.target, &mut lock(&self.pool)) {
                Progress::Again(unfinished) => job = unfinished,
                Progress::Done(completion) => return completion,
            }
        }
    }

    fn next_done(&self) -> Option<Completion> {
        self.done.take(|| {
            let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        })
    }
}

impl Disk for PreadDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.shared.target.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        self.shared.target.run_at(offset)
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        self.outstanding += 1;
        let target = &self.shared.target;
        let depth = target.properties.queue_depth_max;
        if self.outstanding > usize::from(depth) {
            let (disk, found) = (&target.properties.name, self.outstanding);
            let detail = format!(
                "command to {disk} refused: expected at most {depth} outstanding, found {found}"
            );
            let error = DiskError { kind: DiskErrorKind::Invalid, detail };
            self.ready.push_back(submission.ticket.complete(Err(error)));
            return;
        }
        match Job::begin(submission, target, &mut lock(&self.shared.pool)) {
            Progress::Done(completion) => self.ready.push_back(completion),
            Progress::Again(job) => {
                lock(&self.shared.waiting).queues[job.class() as usize].push_back(job);
                self.shared.work.notify_one();
            }
        }
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        let completion = self.ready.pop_front().or_else(|| self.shared.next_done())?;
        self.outstanding -= 1;
        Some(completion)
    }

    fn lost_writes(&self) -> Option<&str> {
        self.shared.target.lost_what_it_can_do_without()
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        self.shared.target.settle_cache(self.outstanding)?;
        self.shared.target.leave_cache();
        Ok(())
    }

    fn wake_at(&self) -> Option<Nanos> {
        (!self.ready.is_empty()).then_some(Nanos::ZERO)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.bell.as_fd())
    }
}

impl Drop for PreadDisk {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.waiting);
        waiting.closing = true;
        for job in waiting.queues.iter_mut().flat_map(std::mem::take) {
            job.abandon();
        }
        drop(waiting);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported by itself.
            let _ = thread.join();
        }
        self.shared.target.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{flush, target};

    /// Commands of these classes that wait, and at most so many threads that may be busy with bulk.
    fn waiting(name: &str, classes: &[Class], patient_max: usize) -> Waiting {
        let target = target(name);
        let mut waiting = Waiting { patient_max, ..Waiting::default() };
        for class in classes {
            waiting.queues[*class as usize].push_back(flush(*class, 0, &target));
        }
        waiting
    }

    fn taken(waiting: &mut Waiting) -> Option<Class> {
        let job = waiting.take()?;
        let class = job.class();
        job.abandon();
        Some(class)
    }

    #[test]
    fn the_most_urgent_command_is_taken_first() {
        let classes = [Class::Background, Class::Bulk, Class::Foreground, Class::Durable];
        let mut waiting = waiting("urgent", &classes, 4);
        for class in [Class::Durable, Class::Foreground, Class::Bulk, Class::Background] {
            assert_eq!(taken(&mut waiting), Some(class));
        }
        assert_eq!(taken(&mut waiting), None);
    }

    #[test]
    fn bulk_and_background_work_leave_threads_to_what_somebody_waits_for() {
        use Class::{Background, Bulk, Durable, Foreground};
        let classes = [Bulk, Bulk, Bulk, Background, Foreground, Foreground, Foreground, Durable];
        let mut waiting = waiting("patient", &classes, 2);
        for class in [Durable, Foreground, Foreground, Foreground, Bulk, Bulk] {
            assert_eq!(taken(&mut waiting), Some(class));
        }
        assert_eq!(taken(&mut waiting), None, "two are busy with bulk");
        waiting.patient -= 1;
        assert_eq!(taken(&mut waiting), Some(Bulk));
        assert_eq!(taken(&mut waiting), None);
        waiting.patient -= 1;
        assert_eq!(taken(&mut waiting), Some(Background));
    }
}
