//! A sequential reader or writer that keeps a fixed number of requests outstanding.
//!
//! It goes through its span from start to end and over again, as fast as replies allow: what a
//! backup, a scan or a big copy does to a disk.

use super::{Content, Issue, Tally, Workload};
use nearhead_basics::Slab;
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use std::ops::Range;

/// What a [`Bulk`] does.
#[derive(Clone, Debug)]
pub struct BulkOptions {
    /// Write or read.
    pub write: bool,
    /// Whether each write must be durable before its reply.
    pub fua: bool,
    /// Bytes it goes over; the last request of a pass is shorter if they do not divide evenly.
    pub span: Range<u64>,
    /// Size of a request.
    pub request_bytes: u32,
    /// Requests kept outstanding.
    pub outstanding_max: u32,
    /// Stop after that many bytes.
    pub bytes_max: Option<u64>,
    /// What writes carry.
    pub content: Content,
}

impl BulkOptions {
    /// A reader of 1 MiB requests, two outstanding: what the kernel's read-ahead does with a scan.
    pub fn reader(span: Range<u64>) -> Self {
        Self {
            write: false,
            fua: false,
            span,
            request_bytes: 1 << 20,
            outstanding_max: 2,
            bytes_max: None,
            content: Content::Phantom,
        }
    }

    /// The same as a writer.
    pub fn writer(span: Range<u64>, content: Content) -> Self {
        Self { write: true, content, ..Self::reader(span) }
    }
}

/// A running bulk reader or writer.
#[derive(Clone, Debug)]
pub struct Bulk {
    options: BulkOptions,
    /// Where the next request starts.
    next_offset: u64,
    issued_bytes: u64,
    stopped: bool,
    outstanding: Slab<Outstanding>,
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    issued: Nanos,
    bytes: u32,
}

impl Bulk {
    /// Starts as soon as it is asked.
    pub fn new(options: BulkOptions) -> Self {
        Self {
            next_offset: options.span.start,
            issued_bytes: 0,
            stopped: options.span.is_empty() || options.request_bytes == 0,
            outstanding: Slab::with_room(options.outstanding_max),
            tally: Tally::default(),
            options,
        }
    }

    /// What was counted.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn may_issue(&self) -> bool {
        let enough = self.options.bytes_max.is_some_and(|max| self.issued_bytes >= max);
        !self.stopped && !enough
    }
}

impl Workload for Bulk {
    fn next_at(&self) -> Option<Nanos> {
        (self.may_issue() && !self.outstanding.is_full()).then_some(Nanos::ZERO)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if !self.may_issue() {
            return None;
        }
        let span = &self.options.span;
        let offset = self.next_offset;
        let left = (span.end - offset)
            .min(self.options.bytes_max.map_or(u64::MAX, |max| max - self.issued_bytes));
        let len = u64::from(self.options.request_bytes).min(left) as u32;
        let tag =
            self.outstanding.try_insert_tagged(Outstanding { issued: now, bytes: len }).ok()?;
        self.issued_bytes += u64::from(len);
        self.next_offset = offset + u64::from(len);
        if self.next_offset >= span.end {
            self.next_offset = span.start;
        }
        let operation = if self.options.write {
            let data = self.options.content.payload(len);
            Operation::Write { offset, data, fua: self.options.fua }
        } else {
            Operation::Read { offset, len }
        };
        Some(Issue { tag, due_at: now, operation })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some(Outstanding { issued, bytes }) = self.outstanding.remove_tagged(tag) else {
            return false;
        };
        self.tally.book(&result, u64::from(bytes), issued, now);
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        !self.may_issue() && self.outstanding.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.tally.restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualTime;
    use crate::fixed_latency::FixedLatency;

    fn issued(bulk: &mut Bulk) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        while let Some(issue) = bulk.poll_issue(Nanos::ZERO) {
            match issue.operation {
                Operation::Read { offset, len } => all.push((offset, len)),
                Operation::Write { offset, data, .. } => all.push((offset, data.len() as u32)),
                other => panic!("{other:?}"),
            }
            assert!(bulk.on_reply(issue.tag, Ok(Vec::new()), Nanos(10)));
        }
        all
    }

    #[test]
    fn it_goes_through_its_span_in_order_and_over_again() {
        let mut bulk = Bulk::new(BulkOptions {
            request_bytes: 4096,
            bytes_max: Some(20_480),
            ..BulkOptions::reader(8192..18_432)
        });
        let expected = [(8192, 4096), (12_288, 4096), (16_384, 2048), (8192, 4096), (12_288, 4096)];
        let found = issued(&mut bulk);
        assert_eq!(found[..5], expected);
        assert_eq!(found.iter().map(|(_, len)| u64::from(*len)).sum::<u64>(), 20_480);
        assert!(bulk.is_finished());
    }

    #[test]
    fn it_keeps_exactly_its_number_outstanding() {
        let mut bulk =
            Bulk::new(BulkOptions { outstanding_max: 3, ..BulkOptions::reader(0..1 << 30) });
        let tags: Vec<u64> =
            std::iter::from_fn(|| bulk.poll_issue(Nanos::ZERO)).map(|issue| issue.tag).collect();
        assert_eq!((tags.len(), bulk.next_at()), (3, None));
        assert!(bulk.on_reply(tags[1], Ok(Vec::new()), Nanos(1)));
        assert!(!bulk.on_reply(tags[1], Ok(Vec::new()), Nanos(1)), "a second reply");
        assert_eq!(bulk.next_at(), Some(Nanos::ZERO));
    }

    #[test]
    fn bandwidth_counts_from_the_end_of_the_warm_up() {
        let mut service = FixedLatency::serial(Nanos::from_millis(10));
        let mut bulk = Bulk::new(BulkOptions::writer(0..1 << 30, Content::Phantom));
        let mut time = VirtualTime::default();
        time.run(&mut service, &mut [&mut bulk], Nanos::from_millis(500)).unwrap();
        bulk.start_measuring(time.now());
        time.run(&mut service, &mut [&mut bulk], Nanos::from_millis(1500)).unwrap();
        let summary = bulk.tally().summary(time.now());
        assert_eq!((summary.requests, summary.failed), (100, 0));
        assert!((summary.bytes_per_s - 104_857_600.0).abs() < 1.0, "{summary:?}");
        assert!((summary.latency.mean_ms - 20.0).abs() < 1e-9, "two outstanding: {summary:?}");
    }
}
