//! The queue between those who receive the kernel's requests and the thread that carries them out.
//!
//! The kernel bounds what is in it. A descriptor wakes the thread, and is written only while that sleeps.

use crate::answers::Waiting;
use nearhead_fs::FsRequest;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request with whom to answer.
pub(crate) struct Asked {
    pub(crate) request: FsRequest,
    pub(crate) waiting: Waiting,
}

#[derive(Default)]
struct Inner {
    asked: VecDeque<Asked>,
    /// Nobody will ask any more.
    has_ended: bool,
    /// Somebody wants it to end.
    is_stopping: bool,
    /// Somebody wants it to look up.
    is_roused: bool,
}

/// The queue.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    is_asleep: AtomicBool,
    bell: OwnedFd,
}

impl Queue {
    pub(crate) fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { inner: Mutex::default(), is_asleep: AtomicBool::new(false), bell })
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        // Nothing under the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, asked: Asked) {
        self.locked().asked.push_back(asked);
        self.ring();
    }

    /// The kernel asks nothing any more: it was unmounted.
    pub(crate) fn end(&self) {
        self.locked().has_ended = true;
        self.ring();
    }

    /// It is to be unmounted.
    pub(crate) fn stop(&self) {
        self.locked().is_stopping = true;
        self.ring();
    }

    /// A turn is to be taken, whatever there is to do.
    pub(crate) fn rouse(&self) {
        self.locked().is_roused = true;
        self.ring();
    }

    fn ring(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // It fails only when it was rung 2^64 times.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// All that waits, and whether the kernel asks nothing any more.
    pub(crate) fn take(&self) -> (VecDeque<Asked>, bool) {
        let mut inner = self.locked();
        inner.is_roused = false;
        (std::mem::take(&mut inner.asked), inner.has_ended)
    }

    /// Whether somebody wants it to end; tells it once.
    pub(crate) fn is_to_stop(&self) -> bool {
        std::mem::take(&mut self.locked().is_stopping)
    }

    /// The thread is about to sleep; false if there is something to do already.
    pub(crate) fn falls_asleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let inner = self.locked();
        let is_wanted = inner.is_stopping || inner.has_ended || inner.is_roused;
        let is_idle = inner.asked.is_empty() && !is_wanted;
        if !is_idle {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        is_idle
    }

    /// It is awake.
    pub(crate) fn wakes_up(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
