//! Completions on their way from the threads that carry commands to the one that polls, and the bell
//! that wakes it.
//!
//! Whoever polls until nothing comes and then sleeps on the bell is woken for everything that was put in
//! after it looked last. The bell rings once for a row of completions, not for each. This file names no
//! file descriptor: `tests/interleavings.rs` builds it over a model of threads and tries them all.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::PoisonError;

/// What is done and not fetched yet.
pub(crate) struct Mailbox<T> {
    done: Mutex<VecDeque<T>>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self { done: Mutex::new(VecDeque::new()) }
    }

    /// Puts one in; rings if the box was empty. Under the lock: a bell that is rung later could be
    /// silenced before it rings.
    pub(crate) fn put(&self, item: T, ring: impl FnOnce()) {
        // A panic while the lock is held leaves a plain queue, which is still whole.
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push_back(item);
        if done.len() == 1 {
            ring();
        }
    }

    /// The oldest one. If there is none the bell is silenced first, then looked once more: what comes
    /// in between rings again.
    pub(crate) fn take(&self, silence: impl FnOnce()) -> Option<T> {
        self.pop().or_else(|| {
            silence();
            self.pop()
        })
    }

    fn pop(&self) -> Option<T> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
