//! A workload slowed down to a rate: what caps a writer that would write more on a faster system.

use nearhead_disk::{Nanos, Payload};
use nearhead_service::RequestError;
use nearhead_sim::workload::{Issue, Workload};

/// Issues what `inner` would, at most so many requests a second.
pub(crate) struct Paced<W> {
    pub(crate) inner: W,
    /// Shortest time between two requests; `None` does not slow down.
    between: Option<Nanos>,
    due_at: Nanos,
}

impl<W: Workload> Paced<W> {
    /// At most `per_s` requests a second; as fast as it can without.
    pub(crate) fn new(inner: W, per_s: Option<f64>) -> Self {
        let between = per_s.map(|per_s| Nanos((1e9 / per_s.max(1e-9)) as u64));
        Self { inner, between, due_at: Nanos::ZERO }
    }
}

impl<W: Workload> Workload for Paced<W> {
    fn next_at(&self) -> Option<Nanos> {
        self.inner.next_at().map(|at| at.max(self.due_at))
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if now < self.due_at {
            return None;
        }
        let issue = self.inner.poll_issue(now)?;
        if let Some(between) = self.between {
            // From when it was due, so that a late request does not lower the rate for good; but
            // what was missed is not made up for in a burst.
            self.due_at = (self.due_at + between).max(now);
        }
        Some(issue)
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        self.inner.on_reply(tag, result, now)
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.inner.start_measuring(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_sim::VirtualTime;
    use nearhead_sim::fixed_latency::FixedLatency;
    use nearhead_sim::workload::{Bulk, BulkOptions};

    fn requests_in_a_second(per_s: Option<f64>) -> u64 {
        let mut service = FixedLatency::serial(Nanos::from_millis(1));
        let mut paced = Paced::new(Bulk::new(BulkOptions::reader(0..1 << 30)), per_s);
        let mut time = VirtualTime::default();
        time.run(&mut service, &mut [&mut paced], Nanos::from_millis(999)).unwrap();
        paced.inner.tally().requests
    }

    #[test]
    fn the_rate_is_kept_where_the_service_can_follow_and_not_exceeded_where_it_cannot() {
        assert_eq!(requests_in_a_second(Some(50.0)), 50);
        assert_eq!(requests_in_a_second(Some(5000.0)), 999);
        assert_eq!(requests_in_a_second(None), 999);
    }
}
