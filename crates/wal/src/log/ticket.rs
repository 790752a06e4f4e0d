//! The promise of a record's durability: to be waited for, asked, or awaited.

use super::Lsn;
use super::shared::Shared;
use crate::error::Result;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A record that has its number and will be durable, or the log stopped.
///
/// Dropping it changes nothing about the record. As a future it needs no particular runtime: it
/// is woken by the thread that wrote.
#[must_use = "a record is acknowledged only when its ticket says so"]
pub struct Ticket {
    lsn: Lsn,
    shared: Arc<Shared>,
}

impl Ticket {
    pub(super) fn new(lsn: Lsn, shared: Arc<Shared>) -> Self {
        Self { lsn, shared }
    }

    /// The record's number.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Waits until it is durable.
    pub fn wait(&self) -> Result<Lsn> {
        self.shared.wait_for(self.lsn)
    }

    /// Whether it is durable by now; `None` if that is not decided yet.
    pub fn outcome(&self) -> Option<Result<Lsn>> {
        if let Err(error) = self.shared.check_opener() {
            return Some(Err(error));
        }
        self.shared.queue().outcome(self.lsn)
    }
}

impl Future for Ticket {
    type Output = Result<Lsn>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(error) = self.shared.check_opener() {
            return Poll::Ready(Err(error));
        }
        let mut queue = self.shared.queue();
        if let Some(outcome) = queue.outcome(self.lsn) {
            return Poll::Ready(outcome);
        }
        let waker = context.waker();
        if !queue.wakers.iter().any(|(lsn, known)| *lsn == self.lsn && known.will_wake(waker)) {
            queue.wakers.push((self.lsn, waker.clone()));
        }
        Poll::Pending
    }
}
