//! Generators of requests: what demos, benches and tests put on a volume or a disk.
//!
//! Each is a small state machine without a clock: it says when it next wants something
//! ([`Workload::next_at`]), gives out what is due ([`Workload::poll_issue`]) and is told of replies.
//! The same generator therefore runs in virtual time ([`crate::VirtualTime`]) and, by whoever owns a
//! socket and a clock, in real time. All of them bound what they have outstanding, and all
//! randomness comes from their seed.

mod bulk;
mod content;
mod durable_points;
mod random_mix;
mod tally;

pub use bulk::{Bulk, BulkOptions};
pub use content::Content;
pub use durable_points::{
    DurableBy, DurablePoints, DurablePointsOptions, PointsSummary, PointsTally,
};
pub use random_mix::{RandomMix, RandomMixOptions};
pub use tally::{Tally, TallySummary};

use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};

/// A request that a workload makes.
#[derive(Debug)]
pub struct Issue {
    /// Comes back with the reply; unique among the workload's outstanding requests, below 2^56.
    pub tag: u64,
    /// Since when somebody waits for it: what it belongs to was due, and its latency runs from then. Never later than now.
    pub due_at: Nanos,
    /// What to do.
    pub operation: Operation,
}

/// A source of requests.
pub trait Workload {
    /// When [`Workload::poll_issue`] will have something. A time that has passed means now; `None`
    /// means that only a reply, if anything, will change that. Ask again after every reply.
    fn next_at(&self) -> Option<Nanos>;

    /// The next request that is due by `now`. Call until `None`.
    fn poll_issue(&mut self, now: Nanos) -> Option<Issue>;

    /// The request `tag` was replied to. Returns false if no such request is outstanding.
    #[must_use]
    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool;

    /// Makes no further requests; those outstanding are still to be replied to.
    fn stop(&mut self);

    /// Whether nothing is outstanding and nothing more will be asked for.
    fn is_finished(&self) -> bool;

    /// Forgets what was counted so far: the warm-up ends at `now`.
    fn start_measuring(&mut self, now: Nanos);
}
