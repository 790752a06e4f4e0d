//! A thread for the one kind of command that the ring cannot carry: discards, whose `ioctl` blocks.
//!
//! It is started by the first discard and ends when the disk is dropped. Its queue is bounded by
//! the disk's queue depth, because every job in it is one of the disk's outstanding commands.

use crate::ioctl;
use crate::job::{Job, Operation};
use crate::ring::Outcome;
use crate::target::Target;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The thread and the two queues to and from it.
pub(crate) struct Helper {
    jobs: Option<Sender<Job>>,
    outcomes: Receiver<Outcome>,
    thread: Option<JoinHandle<()>>,
    bell: Arc<OwnedFd>,
}

impl Helper {
    /// Starts the thread for `target`.
    pub(crate) fn start(target: Arc<Target>) -> std::io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let rung = Arc::clone(&bell);
        let (jobs, incoming) = channel::<Job>();
        let (outgoing, outcomes) = channel();
        let thread =
            std::thread::Builder::new().name("nearhead-discard".to_owned()).spawn(move || {
                for job in incoming {
                    let outcome = carry_out(&job, &target);
                    if outgoing.send((job, outcome)).is_err() {
                        return;
                    }
                    // It can only fail when the counter is full, and then the bell rings already.
                    let _ = rustix::io::write(&*rung, &1_u64.to_ne_bytes());
                }
            })?;
        Ok(Self { jobs: Some(jobs), outcomes, thread: Some(thread), bell })
    }

    /// Rings after each discard.
    pub(crate) fn bell(&self) -> &Arc<OwnedFd> {
        &self.bell
    }

    /// Hands a discard over, or gives it back if the thread is gone.
    pub(crate) fn give(&mut self, job: Job) -> Result<(), Box<Job>> {
        let Some(jobs) = &self.jobs else { return Err(Box::new(job)) };
        jobs.send(job).map_err(|refused| Box::new(refused.0))
    }

    /// The next discard that is done.
    pub(crate) fn next_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by itself.
            let _ = thread.join();
        }
        while let Some((job, _)) = self.next_outcome() {
            job.abandon();
        }
    }
}

fn carry_out(job: &Job, target: &Target) -> Result<usize, rustix::io::Errno> {
    match job.operation(target) {
        Operation::Discard { offset, len } => ioctl::discard(target.fd(), offset, len).map(|()| 0),
        _ => Err(rustix::io::Errno::INVAL),
    }
}
