//! A writer that makes small scattered writes durable at a fixed rate: what a database or a mail
//! server does at every commit.
//!
//! A *durable point* is a set of scattered writes that count only when all are durable: issued
//! together and followed by one flush, or each carrying FUA. Points are due at fixed instants,
//! whether or not earlier ones are durable yet: many clients commit independently of each other. Up
//! to `outstanding_points_max` are under way at once (1 makes it a single client that waits); a
//! point that is due when that many are starts as soon as one is durable, and counts as late. So
//! nothing is skipped, and the rate achieved tells when a service cannot keep up. Latency runs from
//! the issue of a point's first write to the moment all are durable.

use super::{Content, Issue, Tally, TallySummary, Workload};
use nearhead_basics::{Random, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// How a point becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableBy {
    /// A flush once every write was replied to.
    Flush,
    /// FUA on every write.
    Fua,
}

/// What a [`DurablePoints`] does.
#[derive(Clone, Debug)]
pub struct DurablePointsOptions {
    /// Where writes go, at random, on multiples of their size.
    pub span: Range<u64>,
    /// Writes of a point.
    pub writes_per_point: u32,
    /// Size of a write.
    pub write_bytes: u32,
    /// Points a second.
    pub points_per_s: f64,
    /// Most points under way at once.
    pub outstanding_points_max: u32,
    /// How they become durable.
    pub durable_by: DurableBy,
    /// When the first is due.
    pub first_at: Nanos,
    /// Stop after that many.
    pub points_max: Option<u64>,
    /// What writes carry.
    pub content: Content,
    /// Of the addresses.
    pub seed: u64,
}

impl DurablePointsOptions {
    /// The demo's writer: points of 20 scattered writes of 4 KiB, `points_per_s` times a second
    /// (Manylogs, MSST 2016, figure 2, goes from 40 to 320 writes a second).
    pub fn of_twenty(span: Range<u64>, points_per_s: f64) -> Self {
        Self {
            span,
            writes_per_point: 20,
            write_bytes: 4096,
            points_per_s,
            outstanding_points_max: 4,
            durable_by: DurableBy::Flush,
            first_at: Nanos::ZERO,
            points_max: None,
            content: Content::Phantom,
            seed: 1,
        }
    }

    /// Points that cannot be made are a mistake of the caller's, said here.
    fn is_possible(&self) -> bool {
        let room = self.span.end.saturating_sub(self.span.start);
        self.write_bytes > 0
            && self.writes_per_point > 0
            && self.points_per_s.is_finite()
            && self.points_per_s > 0.0
            && room >= u64::from(self.write_bytes)
    }
}

/// A running writer of durable points.
#[derive(Clone, Debug)]
pub struct DurablePoints {
    options: DurablePointsOptions,
    random: Random,
    /// Points begun, the schedule's index of the next.
    begun: u64,
    stopped: bool,
    /// Points under way.
    points: Slab<Point>,
    /// The point whose writes are being issued.
    issuing: Option<u64>,
    /// Points whose writes are done and whose flush is to be issued; no more than `points`.
    to_flush: VecDeque<u64>,
    /// Requests at the service, each belonging to a point.
    requests: Slab<u64>,
    tally: PointsTally,
}

#[derive(Clone, Debug)]
struct Point {
    begun: Nanos,
    /// Writes not yet issued.
    to_issue: u32,
    /// Requests not yet replied to.
    outstanding: u32,
    is_flushing: bool,
    failure: Option<RequestError>,
}

/// What is counted of points.
#[derive(Clone, Debug, Default)]
pub struct PointsTally {
    /// Points as requests, their writes' bytes, and their latency until durable.
    pub points: Tally,
    /// Points that began after they were due, because too many were not yet durable.
    pub late: u64,
    /// Longest such delay.
    pub lag_max: Nanos,
}

/// The figures of [`PointsTally`] over a measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointsSummary {
    /// Points as requests; latency runs until all writes of a point are durable.
    pub points: TallySummary,
    /// Points that began after they were due.
    pub late: u64,
    /// Longest such delay.
    pub lag_max_ms: f64,
    /// Age of the oldest point that is not yet durable, if there is one: a lower bound of its
    /// latency, which counts nowhere else.
    pub unfinished_ms: Option<f64>,
}

impl DurablePoints {
    /// A writer; with impossible options (no room, no rate) one that does nothing.
    pub fn new(options: DurablePointsOptions) -> Self {
        Self {
            random: Random::new(options.seed),
            begun: 0,
            stopped: !options.is_possible(),
            points: Slab::with_room(options.outstanding_points_max),
            issuing: None,
            to_flush: VecDeque::new(),
            requests: Slab::with_room(
                options.writes_per_point.saturating_mul(options.outstanding_points_max),
            ),
            tally: PointsTally::default(),
            options,
        }
    }

    /// What was counted.
    pub fn tally(&self) -> &PointsTally {
        &self.tally
    }

    /// The figures at `now`.
    pub fn summary(&self, now: Nanos) -> PointsSummary {
        let oldest = self.points.iter().map(|point| point.begun).min();
        PointsSummary {
            points: self.tally.points.summary(now),
            late: self.tally.late,
            lag_max_ms: self.tally.lag_max.as_millis_f64(),
            unfinished_ms: oldest.map(|begun| (now - begun).as_millis_f64()),
        }
    }

    fn due_at(&self) -> Option<Nanos> {
        let enough = self.options.points_max.is_some_and(|max| self.begun >= max);
        let since_first = self.begun as f64 * 1e9 / self.options.points_per_s;
        (!self.stopped && !enough).then(|| self.options.first_at + Nanos(since_first as u64))
    }

    fn begin(&mut self, due_at: Nanos, now: Nanos) {
        if now > due_at {
            self.tally.late += 1;
            self.tally.lag_max = self.tally.lag_max.max(now - due_at);
        }
        self.begun += 1;
        let to_issue = self.options.writes_per_point;
        let point =
            Point { begun: now, to_issue, outstanding: 0, is_flushing: false, failure: None };
        self.issuing = self.points.try_insert_tagged(point).ok();
    }

    fn issue(&mut self, point: u64, operation: Operation) -> Option<Issue> {
        let owner = self.points.get_tagged_mut(point)?;
        owner.outstanding += 1;
        let due_at = owner.begun;
        let tag = self.requests.try_insert_tagged(point).ok()?;
        Some(Issue { tag, due_at, operation })
    }

    fn write(&mut self) -> Operation {
        let write_bytes = u64::from(self.options.write_bytes);
        let places = (self.options.span.end - self.options.span.start) / write_bytes;
        let offset = self.options.span.start + self.random.below(places) * write_bytes;
        let data = self.options.content.payload(self.options.write_bytes);
        let fua = self.options.durable_by == DurableBy::Fua;
        Operation::Write { offset, data, fua }
    }

    /// Nothing of the point is outstanding: it is durable, failed, or needs its flush.
    fn step_done(&mut self, tag: u64, now: Nanos) {
        let Some(point) = self.points.get_tagged_mut(tag) else { return };
        let by_flush = self.options.durable_by == DurableBy::Flush;
        if by_flush && !point.is_flushing && point.failure.is_none() {
            point.is_flushing = true;
            self.to_flush.push_back(tag);
            return;
        }
        let Some(point) = self.points.remove_tagged(tag) else { return };
        let bytes = u64::from(self.options.write_bytes) * u64::from(self.options.writes_per_point);
        let result = point.failure.map_or(Ok(Vec::new()), Err);
        self.tally.points.book(&result, bytes, point.begun, now);
    }
}

impl Workload for DurablePoints {
    fn next_at(&self) -> Option<Nanos> {
        if self.issuing.is_some() || !self.to_flush.is_empty() {
            return Some(Nanos::ZERO);
        }
        self.due_at().filter(|_| !self.points.is_full())
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if let Some(point) = self.to_flush.pop_front() {
            return self.issue(point, Operation::Flush);
        }
        if self.issuing.is_none() && !self.points.is_full() {
            let due_at = self.due_at().filter(|due_at| *due_at <= now)?;
            self.begin(due_at, now);
        }
        let tag = self.issuing?;
        let point = self.points.get_tagged_mut(tag)?;
        point.to_issue -= 1;
        if point.to_issue == 0 {
            self.issuing = None;
        }
        let write = self.write();
        self.issue(tag, write)
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some(owner) = self.requests.remove_tagged(tag) else { return false };
        let Some(point) = self.points.get_tagged_mut(owner) else { return false };
        point.outstanding -= 1;
        if let Err(error) = result {
            point.failure.get_or_insert(error);
        }
        if point.outstanding == 0 && point.to_issue == 0 {
            self.step_done(owner, now);
        }
        true
    }

    /// Points under way are still made durable.
    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        self.points.is_empty() && self.due_at().is_none()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.tally = PointsTally::default();
        self.tally.points.restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualTime;
    use crate::fixed_latency::FixedLatency;
    use nearhead_service::ErrorKind;

    fn options(durable_by: DurableBy) -> DurablePointsOptions {
        DurablePointsOptions {
            durable_by,
            outstanding_points_max: 1,
            points_max: Some(40),
            first_at: Nanos::from_millis(100),
            ..DurablePointsOptions::of_twenty(4096..1 << 30, 10.0)
        }
    }

    fn run(options: DurablePointsOptions, service: &mut FixedLatency) -> (PointsSummary, Nanos) {
        let mut points = DurablePoints::new(options);
        let mut time = VirtualTime::default();
        time.run(service, &mut [&mut points], Nanos::MAX).unwrap();
        assert!(points.is_finished());
        (points.summary(time.now()), time.now())
    }

    #[test]
    fn latency_runs_from_issue_until_all_is_durable() {
        let mut service = FixedLatency::parallel(Nanos::from_millis(3));
        let (by_fua, ended) = run(options(DurableBy::Fua), &mut service);
        assert!((by_fua.points.latency.mean_ms - 3.0).abs() < 1e-9, "{by_fua:?}");
        assert_eq!(ended, Nanos::from_millis(100 + 39 * 100 + 3));
        let (by_flush, _) = run(options(DurableBy::Flush), &mut service);
        assert!((by_flush.points.latency.mean_ms - 6.0).abs() < 1e-9, "writes, then the flush");
        assert_eq!((by_flush.points.requests, by_flush.late), (40, 0));
        assert_eq!(by_flush.points.bytes, 40 * 20 * 4096);
    }

    #[test]
    fn a_service_that_cannot_keep_up_shows_as_late_points_not_as_fewer() {
        // 21 requests of 10 ms one after the other: 210 ms a point, due every 100 ms.
        let mut service = FixedLatency::serial(Nanos::from_millis(10));
        let (summary, ended) = run(options(DurableBy::Flush), &mut service);
        assert_eq!((summary.points.requests, summary.late), (40, 39));
        assert_eq!(ended, Nanos::from_millis(100 + 40 * 210));
        assert!((summary.lag_max_ms - 39.0 * 110.0).abs() < 1e-6, "{summary:?}");
        assert!((summary.points.latency.mean_ms - 210.0).abs() < 1e-6, "from issue: {summary:?}");
    }

    #[test]
    fn points_of_independent_clients_overlap_up_to_the_bound() {
        // As above but on a service that takes everything at once: 240 ms a point, due every 100.
        let slow = || FixedLatency::parallel(Nanos::from_millis(120));
        let points = |outstanding_points_max| DurablePointsOptions {
            outstanding_points_max,
            ..options(DurableBy::Flush)
        };
        let (overlapping, ended) = run(points(3), &mut slow());
        assert_eq!((overlapping.late, overlapping.points.requests), (0, 40));
        assert_eq!(ended, Nanos::from_millis(100 + 39 * 100 + 240));
        let (bounded, _) = run(points(2), &mut slow());
        assert_eq!((bounded.late, bounded.points.requests), (38, 40));
        for summary in [overlapping, bounded] {
            assert!((summary.points.latency.max_ms - 240.0).abs() < 1e-6, "{summary:?}");
        }
    }

    #[test]
    fn a_flush_follows_only_once_all_writes_are_done() {
        let mut points = DurablePoints::new(options(DurableBy::Flush));
        assert_eq!(points.next_at(), Some(Nanos::from_millis(100)));
        assert!(points.poll_issue(Nanos::from_millis(99)).is_none());
        let now = Nanos::from_millis(100);
        let tags: Vec<u64> = std::iter::from_fn(|| points.poll_issue(now))
            .map(|issue| match issue.operation {
                Operation::Write { offset, data, fua: false } => {
                    assert!((4096..1 << 30).contains(&offset) && offset.is_multiple_of(4096));
                    assert_eq!(data.len(), 4096);
                    issue.tag
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(tags.len(), 20);
        assert_eq!(points.summary(now + Nanos::from_millis(7)).unfinished_ms, Some(7.0));
        for tag in &tags {
            assert!(points.poll_issue(now).is_none(), "a flush before all writes were done");
            assert!(points.on_reply(*tag, Ok(Vec::new()), now));
        }
        let flush = points.poll_issue(now).unwrap();
        assert!(matches!(flush.operation, Operation::Flush));
        assert!(points.on_reply(flush.tag, Ok(Vec::new()), now));
        assert_eq!(points.tally().points.requests, 1);
    }

    #[test]
    fn a_point_with_a_failed_write_is_a_failed_point() {
        let mut points = DurablePoints::new(options(DurableBy::Flush));
        let now = Nanos::from_millis(100);
        let tags: Vec<u64> =
            std::iter::from_fn(|| points.poll_issue(now)).map(|issue| issue.tag).collect();
        for (index, tag) in tags.iter().enumerate() {
            let error = RequestError::new(ErrorKind::Io, "broken");
            let result = if index == 7 { Err(error) } else { Ok(Vec::new()) };
            assert!(points.on_reply(*tag, result, now));
        }
        let tally = &points.tally().points;
        assert_eq!((tally.requests, tally.failed, tally.latency.count()), (0, 1, 0));
        assert_eq!(tally.first_failure.as_deref(), Some("broken"));
        assert_eq!(
            points.next_at(),
            Some(Nanos::from_millis(200)),
            "the next is made all the same"
        );
    }

    #[test]
    fn impossible_options_make_a_writer_that_is_finished_at_once() {
        for options in [
            DurablePointsOptions::of_twenty(0..1 << 30, 0.0),
            DurablePointsOptions::of_twenty(0..1 << 30, f64::NAN),
            DurablePointsOptions::of_twenty(0..1000, 2.0),
        ] {
            assert!(DurablePoints::new(options).is_finished());
        }
    }
}
