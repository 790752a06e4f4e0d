//! A writer that makes small scattered writes durable at a fixed rate: what a database or a mail
//! server does at every commit.
//!
//! A *durable point* is a set of scattered writes that count only when all are durable: issued
//! together and followed by one flush, or each carrying FUA. Points are due at fixed instants. The
//! writer is one thread of control: a point that is due while the last one still runs starts right
//! after it (and is counted as late), so nothing is skipped as long as the service keeps up on
//! average, and the rate achieved tells when it does not. Latency runs from the issue of a point's
//! first write to the moment all are durable.

use super::{Content, Issue, Slots, Tally, TallySummary, Workload};
use crate::Random;
use nearhead_disk::{Nanos, Payload};
use nearhead_engine::{Operation, RequestError};
use serde::{Deserialize, Serialize};
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
    phase: Phase,
    /// Points begun, the schedule's index of the next.
    begun: u64,
    stopped: bool,
    outstanding: Slots<()>,
    tally: PointsTally,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Until the next point is due.
    Resting,
    /// The writes of a point are being issued and replied to.
    Writing { begun: Nanos, to_issue: u32, failure: Option<RequestError> },
    /// The writes are done; the flush is to be issued or outstanding.
    Flushing { begun: Nanos },
}

/// What is counted of points.
#[derive(Clone, Debug, Default)]
pub struct PointsTally {
    /// Points as requests, their writes' bytes, and their latency until durable.
    pub points: Tally,
    /// Points that began after they were due, because the one before was not yet durable.
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
    /// Age of the point that is not yet durable, if there is one: a lower bound of its latency,
    /// which counts nowhere else.
    pub unfinished_ms: Option<f64>,
}

impl DurablePoints {
    /// A writer; with impossible options (no room, no rate) one that does nothing.
    pub fn new(options: DurablePointsOptions) -> Self {
        Self {
            random: Random::new(options.seed),
            phase: Phase::Resting,
            begun: 0,
            stopped: !options.is_possible(),
            outstanding: Slots::new(options.writes_per_point),
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
        let begun = match self.phase {
            Phase::Resting => None,
            Phase::Writing { begun, .. } | Phase::Flushing { begun } => Some(begun),
        };
        PointsSummary {
            points: self.tally.points.summary(now),
            late: self.tally.late,
            lag_max_ms: self.tally.lag_max.as_millis_f64(),
            unfinished_ms: begun.map(|begun| (now - begun).as_millis_f64()),
        }
    }

    fn due_at(&self) -> Option<Nanos> {
        let enough = self.options.points_max.is_some_and(|max| self.begun >= max);
        let since_first = self.begun as f64 * 1e9 / self.options.points_per_s;
        (!self.stopped && !enough).then(|| self.options.first_at + Nanos(since_first as u64))
    }

    fn issue(&mut self, operation: Operation) -> Option<Issue> {
        let tag = self.outstanding.insert(()).ok()?;
        Some(Issue { tag, operation })
    }

    fn issue_write(&mut self) -> Option<Issue> {
        let write_bytes = u64::from(self.options.write_bytes);
        let places = (self.options.span.end - self.options.span.start) / write_bytes;
        let offset = self.options.span.start + self.random.below(places) * write_bytes;
        let data = self.options.content.payload(self.options.write_bytes);
        let fua = self.options.durable_by == DurableBy::Fua;
        self.issue(Operation::Write { offset, data, fua })
    }

    fn point_ended(
        &mut self,
        result: &Result<Vec<Payload>, RequestError>,
        begun: Nanos,
        now: Nanos,
    ) {
        let bytes = u64::from(self.options.write_bytes) * u64::from(self.options.writes_per_point);
        self.tally.points.book(result, bytes, begun, now);
        self.phase = Phase::Resting;
    }
}

impl Workload for DurablePoints {
    fn next_at(&self) -> Option<Nanos> {
        match &self.phase {
            Phase::Resting => self.due_at(),
            Phase::Writing { to_issue, .. } => (*to_issue > 0).then_some(Nanos::ZERO),
            Phase::Flushing { .. } => self.outstanding.is_empty().then_some(Nanos::ZERO),
        }
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if matches!(self.phase, Phase::Resting) {
            let due_at = self.due_at().filter(|due_at| *due_at <= now)?;
            if now > due_at {
                self.tally.late += 1;
                self.tally.lag_max = self.tally.lag_max.max(now - due_at);
            }
            self.begun += 1;
            let to_issue = self.options.writes_per_point;
            self.phase = Phase::Writing { begun: now, to_issue, failure: None };
        }
        match &mut self.phase {
            Phase::Writing { to_issue, .. } if *to_issue > 0 => {
                *to_issue -= 1;
                self.issue_write()
            }
            Phase::Flushing { .. } if self.outstanding.is_empty() => self.issue(Operation::Flush),
            _ => None,
        }
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        if self.outstanding.remove(tag).is_none() {
            return false;
        }
        match &mut self.phase {
            Phase::Resting => {}
            Phase::Writing { begun, to_issue, failure } => {
                let begun = *begun;
                if let Err(error) = result {
                    failure.get_or_insert(error);
                }
                if *to_issue == 0 && self.outstanding.is_empty() {
                    match (failure.take(), self.options.durable_by) {
                        (Some(error), _) => self.point_ended(&Err(error), begun, now),
                        (None, DurableBy::Fua) => self.point_ended(&Ok(Vec::new()), begun, now),
                        (None, DurableBy::Flush) => self.phase = Phase::Flushing { begun },
                    }
                }
            }
            Phase::Flushing { begun } => {
                let begun = *begun;
                self.point_ended(&result, begun, now);
            }
        }
        true
    }

    /// The point that runs is still made durable.
    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Resting) && self.due_at().is_none()
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
    use nearhead_engine::ErrorKind;

    fn options(durable_by: DurableBy) -> DurablePointsOptions {
        DurablePointsOptions {
            durable_by,
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
