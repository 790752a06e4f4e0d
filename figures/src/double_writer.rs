//! The big sequential writer under data journaling: everything it writes goes to disk twice.
//!
//! It writes a unit of 128 MB to the journal, one request after the other, then the same to its
//! place. Only what has reached its place counts, so the bandwidth is the one that can be sustained
//! (Manylogs IV-A, "double writes"), whatever the size of the journal.

use nearhead_basics::Slab;
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use nearhead_sim::workload::{Issue, Tally, Workload};
use std::ops::Range;

/// A unit (Manylogs V-A.1: "128-MB of reads/writes").
const UNIT_BYTES: u64 = 128 << 20;
const REQUEST_BYTES: u64 = 1 << 20;
const OUTSTANDING_MAX: u32 = 2;

/// A running writer.
pub(crate) struct DoubleWriter {
    home: Range<u64>,
    journal: Range<u64>,
    home_next: u64,
    journal_next: u64,
    /// Bytes of the unit that were issued: first to the journal, then in place.
    unit_bytes: u64,
    in_place: bool,
    stopped: bool,
    requests: Slab<(Nanos, bool)>,
    tally: Tally,
}

impl DoubleWriter {
    /// Writes to `home` by way of `journal`, both again and again from their start.
    pub(crate) fn new(home: Range<u64>, journal: Range<u64>) -> Self {
        Self {
            home_next: home.start,
            journal_next: journal.start,
            home,
            journal,
            unit_bytes: 0,
            in_place: false,
            stopped: false,
            requests: Slab::with_room(OUTSTANDING_MAX),
            tally: Tally::default(),
        }
    }

    /// What reached its place.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The transaction must be complete before it is written in place, and the other way round.
    fn waits(&self) -> bool {
        self.stopped
            || self.requests.is_full()
            || self.unit_is_issued() && !self.requests.is_empty()
    }

    fn unit_is_issued(&self) -> bool {
        self.unit_bytes >= UNIT_BYTES
    }
}

/// Takes the next request of `area` and moves `next` on, from the start again at the end.
fn advance(next: &mut u64, area: &Range<u64>) -> u64 {
    if *next + REQUEST_BYTES > area.end {
        *next = area.start;
    }
    let at = *next;
    *next += REQUEST_BYTES;
    at
}

impl Workload for DoubleWriter {
    fn next_at(&self) -> Option<Nanos> {
        (!self.waits()).then_some(Nanos::ZERO)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if self.waits() {
            return None;
        }
        if self.unit_is_issued() {
            (self.unit_bytes, self.in_place) = (0, !self.in_place);
        }
        self.unit_bytes += REQUEST_BYTES;
        let offset = if self.in_place {
            advance(&mut self.home_next, &self.home)
        } else {
            advance(&mut self.journal_next, &self.journal)
        };
        let tag = self.requests.try_insert_tagged((now, self.in_place)).ok()?;
        let data = Payload::Phantom(REQUEST_BYTES as usize);
        Some(Issue { tag, due_at: now, operation: Operation::Write { offset, data, fua: false } })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some((issued, in_place)) = self.requests.remove_tagged(tag) else { return false };
        if in_place || result.is_err() {
            self.tally.book(&result, REQUEST_BYTES, issued, now);
        }
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        self.stopped && self.requests.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.tally.restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_sim::VirtualTime;
    use nearhead_sim::fixed_latency::FixedLatency;

    #[test]
    fn half_of_what_is_written_counts() {
        let mut service = FixedLatency::serial(Nanos::from_millis(1));
        let mut writer = DoubleWriter::new(0..1 << 30, 1 << 31..1 << 32);
        let mut time = VirtualTime::default();
        time.run(&mut service, &mut [&mut writer], Nanos::from_millis(1024)).unwrap();
        assert_eq!(time.replies(), 1024);
        assert_eq!(writer.tally().requests, 512);
    }
}
