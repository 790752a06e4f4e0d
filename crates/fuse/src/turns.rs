//! Who carries out what is asked: any thread that comes with something, one at a time.
//!
//! A thread that asks puts what it asks in the queue and takes a turn itself if nobody is at it: nobody has to be woken for it. If
//! somebody is, it leaves, and whoever is at it finds what it left. What this keeps true:
//!
//! - one thread at a time has what the turns are taken of;
//! - **what is in the queue is taken**: whoever ends a turn looks at the queue once it has let go. A thread that put something there and
//!   found the turn taken did both before that look, or finds the turn free;
//! - what a turn leaves to be done (answers) is done after it, so that others can go on meanwhile.
//!
//! It must never wait for a turn where a thread receives requests: those of others would not be received either.

use crate::sync::{Mutex, MutexGuard, TryLockError};
use std::collections::VecDeque;

/// Who took a turn panicked: what it had is in no known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// What came of a turn.
pub(crate) struct Turn<R> {
    /// Another one is due at once.
    pub(crate) is_due: bool,
    /// What is left to be done after it.
    pub(crate) left: R,
}

/// The queue, and what the turns are taken of.
pub(crate) struct Turns<T, A> {
    /// The kernel bounds what is in it.
    asked: Mutex<VecDeque<A>>,
    it: Mutex<T>,
}

impl<T, A> Turns<T, A> {
    pub(crate) fn new(it: T) -> Self {
        Self { asked: Mutex::new(VecDeque::new()), it: Mutex::new(it) }
    }

    /// Puts something in the queue. [`Turns::take`] or [`Turns::take_one`] comes behind it, or whoever sleeps is woken.
    pub(crate) fn put(&self, asked: A) {
        if let Ok(mut queue) = self.asked.lock() {
            queue.push_back(asked);
        }
    }

    fn has_asked(&self) -> bool {
        self.asked.lock().is_ok_and(|queue| !queue.is_empty())
    }

    fn all_asked(&self) -> VecDeque<A> {
        self.asked.lock().map_or_else(|_| VecDeque::new(), |mut queue| std::mem::take(&mut *queue))
    }

    /// Takes turns for as long as there is something to do and nobody else is at it.
    pub(crate) fn take<R>(
        &self,
        mut turn: impl FnMut(&mut T, VecDeque<A>) -> Turn<R>,
        mut after: impl FnMut(R),
    ) -> Result<(), Broken> {
        loop {
            let it = match self.it.try_lock() {
                Ok(it) => it,
                Err(TryLockError::WouldBlock) => return Ok(()),
                Err(TryLockError::Poisoned(_)) => return Err(Broken),
            };
            let is_due = self.take_with(it, &mut turn, &mut after);
            if !is_due && !self.has_asked() {
                return Ok(());
            }
        }
    }

    /// Waits for its turn and takes one; whether another one is due at once.
    pub(crate) fn take_one<R>(
        &self,
        mut turn: impl FnMut(&mut T, VecDeque<A>) -> Turn<R>,
        mut after: impl FnMut(R),
    ) -> Result<bool, Broken> {
        let it = self.it.lock().map_err(|_| Broken)?;
        let is_due = self.take_with(it, &mut turn, &mut after);
        Ok(is_due || self.has_asked())
    }

    fn take_with<R>(
        &self,
        mut it: MutexGuard<'_, T>,
        turn: &mut impl FnMut(&mut T, VecDeque<A>) -> Turn<R>,
        after: &mut impl FnMut(R),
    ) -> bool {
        let Turn { is_due, left } = turn(&mut it, self.all_asked());
        drop(it);
        after(left);
        is_due
    }
}
