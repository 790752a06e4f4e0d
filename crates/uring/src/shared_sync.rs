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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{flush, target};
    use crate::target::Target;
    use nearhead_disk::Class;

    fn joined(syncs: &mut SharedSync, count: u64, target: &Target) {
        for number in 0..count {
            syncs.join(flush(Class::Durable, number, target));
        }
    }

    /// How many a sync that is started now serves beside its carrier; it ends at once.
    fn served(syncs: &mut SharedSync) -> usize {
        syncs.start().expect("somebody waits").abandon();
        let served = syncs.end();
        let count = served.len();
        served.into_iter().for_each(Job::abandon);
        count
    }

    #[test]
    fn who_comes_while_a_sync_is_under_way_is_served_by_the_next() {
        let (target, mut syncs) = (target("shared"), SharedSync::default());
        assert!(!syncs.is_due() && syncs.start().is_none(), "nobody waits");
        joined(&mut syncs, 3, &target);
        assert!(syncs.is_due());
        let carrier = syncs.start().unwrap();
        joined(&mut syncs, 2, &target);
        assert!(!syncs.is_due() && syncs.start().is_none(), "never two beside each other");
        let served_by_first = syncs.end();
        assert_eq!(served_by_first.len(), 2);
        std::iter::once(carrier).chain(served_by_first).for_each(Job::abandon);
        assert!(syncs.is_due());
        assert_eq!(served(&mut syncs), 1);
        assert!(!syncs.is_due() && syncs.end().is_empty());
    }

    #[test]
    fn whoever_came_alone_twice_is_expected_to_come_alone() {
        let (target, mut syncs) = (target("for-one"), SharedSync::default());
        assert!(!syncs.is_for_one(), "nobody waits");
        joined(&mut syncs, 1, &target);
        assert!(syncs.is_for_one());
        joined(&mut syncs, 1, &target);
        assert!(!syncs.is_for_one(), "two wait");
        assert_eq!(served(&mut syncs), 1);
        joined(&mut syncs, 1, &target);
        assert!(!syncs.is_for_one(), "the last one served two");
        assert_eq!(served(&mut syncs), 0);
        joined(&mut syncs, 1, &target);
        assert!(syncs.is_for_one());
        syncs.take_waiting().into_iter().for_each(Job::abandon);
        assert!(
            !syncs.is_due() && !syncs.is_for_one(),
            "who was told that there is none waits no more"
        );
    }
}
