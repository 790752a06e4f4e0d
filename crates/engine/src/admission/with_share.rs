//! `with_share`: bulk keeps the share of the disk's time that its owner asked for, and durable writes wait until they may have the rest.
//!
//! The other side of [`WithTarget`](super::WithTarget). A record beside a stream costs that stream a revolution or more, however few bytes
//! it has; so where somebody commits all the time what is left of the stream is what the commits leave. With a share
//! the next record waits, and takes more with it. How long is measured, not told: what the last one cost (`commit/rests.rs`).
//!
//! It keeps true what the policy below it does; it never holds anything back but the beginning of a record, and that for a second at most.

use super::{Admission, Outstanding, TargetStatus};
use nearhead_disk::{Class, Nanos};

/// A policy with a share for bulk.
#[derive(Clone, Debug)]
pub struct WithShare {
    below: Box<dyn Admission>,
    bulk_pct: u8,
}

impl WithShare {
    /// What `below` does, and `bulk_pct` of 100 parts of the time for bulk, while there is any; 99 at most.
    pub fn new(below: Box<dyn Admission>, bulk_pct: u8) -> Self {
        Self { below, bulk_pct: bulk_pct.min(99) }
    }
}

impl Admission for WithShare {
    fn admits(&self, class: Class, bytes: u64, waited: Nanos, outstanding: &Outstanding) -> bool {
        self.below.admits(class, bytes, waited, outstanding)
    }

    fn waiting_weighs_one_in(&self) -> Option<u32> {
        self.below.waiting_weighs_one_in()
    }

    fn memory_passes(&self) -> bool {
        self.below.memory_passes()
    }

    fn durable_took(&mut self, took: Nanos) {
        self.below.durable_took(took);
    }

    fn rest_after(&self, cost: Nanos) -> Nanos {
        let bulk = u64::from(self.bulk_pct);
        Nanos(cost.0.saturating_mul(bulk) / (100 - bulk))
    }

    fn bulk_share_pct(&self) -> Option<u8> {
        Some(self.bulk_pct)
    }

    fn target(&self) -> Option<TargetStatus> {
        self.below.target()
    }

    fn piece_bytes(&self) -> u32 {
        self.below.piece_bytes()
    }

    fn boxed(&self) -> Box<dyn Admission> {
        Box::new(self.clone())
    }
}
