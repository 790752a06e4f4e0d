//! One sync for all who wait for one, and never two beside each other.
//!
//! Whoever waits is served by a sync that begins later; those who come while one is under way share the next. Only
//! used where writes go through the page cache (`page_cache.rs` says why syncs must not go beside each other).

use crate::job::Job;

/// Jobs whose next call is a sync.
#[derive(Default)]
pub(crate) struct SharedSync {
    /// For the next.
    waiting: Vec<Job>,
    /// Served by the one under way, beside the job that carries it.
    served: Vec<Job>,
    is_under_way: bool,
    /// How many the last one served.
    last_served: usize,
}

impl SharedSync {
    pub(crate) fn join(&mut self, job: Job) {
        self.waiting.push(job);
    }

    /// Whether one should be started now.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_under_way && !self.waiting.is_empty()
    }

    /// Whether one started now would serve a single job, and the last one did, too: whoever comes alone usually
    /// does so again.
    pub(crate) fn is_for_one(&self) -> bool {
        self.waiting.len() == 1 && self.last_served <= 1
    }

    /// Starts one: the job that carries it.
    pub(crate) fn start(&mut self) -> Option<Job> {
        if self.is_under_way {
            return None;
        }
        let carrier = self.waiting.pop()?;
        self.served = std::mem::take(&mut self.waiting);
        self.last_served = self.served.len() + 1;
        self.is_under_way = true;
        Some(carrier)
    }

    /// It ended: whom it served beside its carrier.
    pub(crate) fn end(&mut self) -> Vec<Job> {
        self.is_under_way = false;
        std::mem::take(&mut self.served)
    }

    /// All that wait, to be told that there will be none.
    pub(crate) fn take_waiting(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.waiting)
    }
}
