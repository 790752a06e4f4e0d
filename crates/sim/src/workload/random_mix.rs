//! Random reads and writes, a fixed number outstanding: the usual stress of a block device.

use super::{Content, Issue, Tally, Workload};
use nearhead_basics::{Random, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use std::ops::Range;

/// What a [`RandomMix`] does.
#[derive(Clone, Debug)]
pub struct RandomMixOptions {
    /// Where requests go, on multiples of their size.
    pub span: Range<u64>,
    /// Size of a request.
    pub request_bytes: u32,
    /// Share of reads, 0 to 1.
    pub reads: f64,
    /// Whether each write must be durable before its reply.
    pub fua: bool,
    /// Requests kept outstanding.
    pub outstanding_max: u32,
    /// Stop after that many.
    pub requests_max: Option<u64>,
    /// What writes carry.
    pub content: Content,
    /// Of addresses and of which are reads.
    pub seed: u64,
}

/// A running random mix.
#[derive(Clone, Debug)]
pub struct RandomMix {
    options: RandomMixOptions,
    random: Random,
    issued: u64,
    stopped: bool,
    outstanding: Slab<Outstanding>,
    reads: Tally,
    writes: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    issued: Nanos,
    read: bool,
}

impl RandomMix {
    /// Starts as soon as it is asked; does nothing if the span holds no request.
    pub fn new(options: RandomMixOptions) -> Self {
        let room = options.span.end.saturating_sub(options.span.start);
        Self {
            random: Random::new(options.seed),
            issued: 0,
            stopped: options.request_bytes == 0 || room < u64::from(options.request_bytes),
            outstanding: Slab::with_room(options.outstanding_max),
            reads: Tally::default(),
            writes: Tally::default(),
            options,
        }
    }

    /// What was counted of reads.
    pub fn reads(&self) -> &Tally {
        &self.reads
    }

    /// What was counted of writes.
    pub fn writes(&self) -> &Tally {
        &self.writes
    }

    fn may_issue(&self) -> bool {
        !self.stopped && self.options.requests_max.is_none_or(|max| self.issued < max)
    }
}

impl Workload for RandomMix {
    fn next_at(&self) -> Option<Nanos> {
        (self.may_issue() && !self.outstanding.is_full()).then_some(Nanos::ZERO)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if !self.may_issue() || self.outstanding.is_full() {
            return None;
        }
        let len = self.options.request_bytes;
        let places = (self.options.span.end - self.options.span.start) / u64::from(len);
        let offset = self.options.span.start + self.random.below(places) * u64::from(len);
        let read = self.random.happens(self.options.reads);
        let tag = self.outstanding.try_insert_tagged(Outstanding { issued: now, read }).ok()?;
        self.issued += 1;
        let operation = if read {
            Operation::Read { offset, len }
        } else {
            let data = self.options.content.payload(len);
            Operation::Write { offset, data, fua: self.options.fua }
        };
        Some(Issue { tag, due_at: now, operation })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some(Outstanding { issued, read }) = self.outstanding.remove_tagged(tag) else {
            return false;
        };
        let tally = if read { &mut self.reads } else { &mut self.writes };
        tally.book(&result, u64::from(self.options.request_bytes), issued, now);
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        !self.may_issue() && self.outstanding.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.reads.restart(now);
        self.writes.restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualTime;
    use crate::fixed_latency::FixedLatency;

    fn options() -> RandomMixOptions {
        RandomMixOptions {
            span: 8192..1 << 20,
            request_bytes: 8192,
            reads: 0.25,
            fua: true,
            outstanding_max: 8,
            requests_max: Some(4000),
            content: Content::Phantom,
            seed: 3,
        }
    }

    #[test]
    fn reads_and_writes_come_in_the_proportion_asked_for_all_inside_the_span() {
        let mut mix = RandomMix::new(options());
        let mut places = std::collections::BTreeSet::new();
        let mut reads = 0;
        while let Some(issue) = mix.poll_issue(Nanos::ZERO) {
            let offset = match issue.operation {
                Operation::Read { offset, len: 8192 } => {
                    reads += 1;
                    offset
                }
                Operation::Write { offset, fua: true, .. } => offset,
                other => panic!("{other:?}"),
            };
            assert!((8192..=(1 << 20) - 8192).contains(&offset) && offset.is_multiple_of(8192));
            places.insert(offset);
            assert!(mix.on_reply(issue.tag, Ok(Vec::new()), Nanos(1)));
        }
        assert!((900..1100).contains(&reads), "{reads}");
        assert_eq!(places.len(), 127, "every place is met");
    }

    #[test]
    fn throughput_follows_the_number_outstanding() {
        let mut service = FixedLatency::parallel(Nanos::from_millis(1));
        let mut mix = RandomMix::new(options());
        let mut time = VirtualTime::default();
        time.run(&mut service, &mut [&mut mix], Nanos::MAX).unwrap();
        assert_eq!(time.now(), Nanos::from_millis(4000 / 8));
        assert_eq!(mix.reads().requests + mix.writes().requests, 4000);
    }

    #[test]
    fn a_span_too_small_for_a_request_is_finished_at_once() {
        assert!(RandomMix::new(RandomMixOptions { span: 0..4096, ..options() }).is_finished());
    }
}
