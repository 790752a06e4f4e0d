//! What wakes the thread that sleeps between turns, and what it is told then: that the end is wanted, or that it came.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The bell. Rung before the thread sleeps, it wakes it all the same.
pub(crate) struct Bell {
    has_ended: AtomicBool,
    is_stopping: AtomicBool,
    descriptor: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> Result<Self, Errno> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (has_ended, is_stopping) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { has_ended, is_stopping, descriptor })
    }

    /// Something is to be looked at.
    pub(crate) fn ring(&self) {
        // It fails only when it was rung 2^64 times.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// The kernel asks nothing any more: it was unmounted.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// It is to be unmounted.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Whether the kernel asks nothing any more. All that it asked before is in the queue then.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Whether somebody wants it to end; tells it once.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.is_stopping.swap(false, Ordering::SeqCst)
    }

    /// Who slept is awake: from here on it is rung anew.
    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
