//! A thread that makes durable writes for callers whose own priority is not theirs to choose.
//!
//! One write at a time is handed over, with its memory, and waited for: nothing is queued. The
//! paper's separate process, as a thread: what it needs is a priority of its own, and on today's
//! kernels that belongs to threads.

use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::StoredFile;
use nearhead_disk::BufferMut;
use nearhead_uring::{IoPriority, Opener, block_signals, set_thread_priority};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

struct Job {
    file: Arc<dyn StoredFile>,
    bytes: BufferMut,
    len: usize,
    offset: u64,
}

type Outcome = (BufferMut, Result<()>);

/// The thread, and the way to it.
pub struct JobThread {
    jobs: Option<SyncSender<Job>>,
    outcomes: Receiver<Outcome>,
    thread: Option<JoinHandle<()>>,
    opener: Opener,
}

impl JobThread {
    /// Starts it with this priority, or as near to it as is permitted.
    pub fn start(priority: IoPriority) -> Result<Self> {
        let (jobs, incoming) = sync_channel::<Job>(1);
        let (outgoing, outcomes) = sync_channel::<Outcome>(1);
        let body = move || {
            block_signals();
            if set_thread_priority(priority).is_err() {
                // The first of best effort needs no privilege; without it writes are only slower.
                let _ = set_thread_priority(IoPriority::BEST_EFFORT_FIRST);
            }
            for job in incoming {
                let outcome = job.file.write_durable(job.offset, &job.bytes[..job.len]);
                if outgoing.send((job.bytes, outcome)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("nearhead-stream".to_owned()).spawn(body);
        let thread = thread.map_err(|error| {
            let detail = format!("cannot start a thread to write: {error}; raise the limits");
            WalError::new(WalErrorKind::Io, detail)
        })?;
        let opener = Opener::this_process();
        Ok(Self { jobs: Some(jobs), outcomes, thread: Some(thread), opener })
    }

    /// Writes the first `len` of `bytes`, which are durable when it returns without an error. The
    /// memory comes back either way, unless the thread is gone.
    pub(crate) fn write_durable(
        &self,
        file: &Arc<dyn StoredFile>,
        bytes: BufferMut,
        len: usize,
        offset: u64,
    ) -> (Option<BufferMut>, Result<()>) {
        let gone = || {
            WalError::new(
                WalErrorKind::Stopped,
                "the thread that writes has ended, and the stream with it; open it again",
            )
        };
        let job = Job { file: Arc::clone(file), bytes, len, offset };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        match sent.then(|| self.outcomes.recv()) {
            Some(Ok((bytes, outcome))) => (Some(bytes), outcome),
            _ => (None, Err(gone())),
        }
    }
}

impl Drop for JobThread {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if !self.opener.is_this_process() {
            // The thread is the parent's: here there is none to end or to wait for.
            std::mem::forget((self.jobs.take(), thread));
            return;
        }
        self.jobs = None;
        if let Some(thread) = thread {
            // A panic of the thread has been reported by itself.
            let _ = thread.join();
        }
    }
}
