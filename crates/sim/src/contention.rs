//! The experiment at the heart of the project: bulk I/O and durable points on one disk.
//!
//! A sequential reader or writer takes all the bandwidth it can get while another client makes
//! small scattered writes durable at a fixed rate. Each alone is easy; the figures of both together
//! say what a disk, or a volume on it, is worth. Everything is virtual: minutes of disk time take a
//! moment, and the same options give the same figures.

use crate::VirtualTime;
use crate::measured::{Span, measure};
use crate::virtual_time::Stuck;
use crate::workload::{
    Bulk, BulkOptions, DurablePoints, DurablePointsOptions, PointsSummary, TallySummary, Workload,
};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use serde::{Deserialize, Serialize};

/// Longest time, after the measurement, for what is outstanding to be replied to.
const DRAIN_LIMIT: Nanos = Nanos::from_secs(3600);

/// Who works on the service, and for how long.
#[derive(Clone, Debug)]
pub struct ContentionOptions {
    /// The sequential reader or writer, if any.
    pub bulk: Option<BulkOptions>,
    /// The writer of durable points, if any; `first_at` counts from the start of the warm-up.
    pub points: Option<DurablePointsOptions>,
    /// Time before counting starts.
    pub warm_up: Nanos,
    /// Time that is measured.
    pub duration: Nanos,
}

/// What both got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContentionResults {
    /// Bandwidth and latencies of the bulk client.
    pub bulk: Option<TallySummary>,
    /// Rate and latencies of the durable points.
    pub points: Option<PointsSummary>,
    /// Time measured.
    pub measured_s: f64,
    /// Hash of every reply: equal runs have equal ones.
    pub digest: u64,
}

/// Runs the experiment on `service`, and leaves nothing outstanding behind.
pub fn run<S: Service + ?Sized>(
    service: &mut S,
    time: &mut VirtualTime,
    options: &ContentionOptions,
) -> Result<ContentionResults, Stuck> {
    let started = time.now();
    let mut bulk = options.bulk.clone().map(Bulk::new);
    let mut points = options.points.clone().map(|options| {
        let first_at = started + options.first_at;
        DurablePoints::new(DurablePointsOptions { first_at, ..options })
    });
    let span = Span { warm_up: options.warm_up, duration: options.duration };
    measure(service, time, &mut both(&mut bulk, &mut points), span, &mut || true)?;
    let ended = time.now();
    let results = ContentionResults {
        bulk: bulk.as_ref().map(|bulk| bulk.tally().summary(ended)),
        points: points.as_ref().map(|points| points.summary(ended)),
        measured_s: options.duration.as_secs_f64(),
        digest: time.digest(),
    };
    time.drain(service, &mut both(&mut bulk, &mut points), DRAIN_LIMIT)?;
    Ok(results)
}

fn both<'all>(
    bulk: &'all mut Option<Bulk>,
    points: &'all mut Option<DurablePoints>,
) -> Vec<&'all mut dyn Workload> {
    let bulk = bulk.iter_mut().map(|bulk| bulk as &mut dyn Workload);
    bulk.chain(points.iter_mut().map(|points| points as &mut dyn Workload)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed_latency::FixedLatency;
    use crate::workload::Content;

    fn options(points_per_s: f64) -> ContentionOptions {
        ContentionOptions {
            bulk: Some(BulkOptions::writer(0..1 << 30, Content::Phantom)),
            points: Some(DurablePointsOptions::of_twenty(1 << 30..1 << 35, points_per_s)),
            warm_up: Nanos::from_secs(2),
            duration: Nanos::from_secs(10),
        }
    }

    fn run_once(options: &ContentionOptions) -> ContentionResults {
        let mut service = FixedLatency::serial(Nanos::from_millis(2));
        run(&mut service, &mut VirtualTime::default(), options).unwrap()
    }

    #[test]
    fn each_request_of_the_points_costs_the_bulk_one_of_its_own() {
        let alone = run_once(&ContentionOptions { points: None, ..options(1.0) }).bulk.unwrap();
        assert_eq!(alone.requests, 5000, "10 s of 2 ms each");
        for rate in [2.0, 8.0] {
            let results = run_once(&options(rate));
            let (bulk, points) = (results.bulk.unwrap(), results.points.unwrap());
            assert!((points.points.requests_per_s - rate).abs() < 0.11, "{points:?}");
            // A point is 20 writes and a flush, 21 turns on a disk that takes turns.
            let lost = alone.requests - bulk.requests;
            let expected = 21 * points.points.requests;
            assert!(lost.abs_diff(expected) <= 42, "lost {lost}, not {expected}");
        }
    }

    #[test]
    fn the_same_options_give_the_same_figures() {
        assert_eq!(run_once(&options(8.0)), run_once(&options(8.0)));
        assert_ne!(run_once(&options(8.0)).digest, run_once(&options(7.0)).digest);
    }

    #[test]
    fn points_alone_take_their_own_time_only() {
        let results = run_once(&ContentionOptions { bulk: None, ..options(5.0) });
        let points = results.points.unwrap();
        assert!((points.points.latency.mean_ms - 42.0).abs() < 1e-6, "{points:?}");
        assert_eq!((results.bulk, points.late, points.points.requests), (None, 0, 50));
    }

    #[test]
    fn nothing_at_all_still_takes_the_measured_time() {
        let options = ContentionOptions { bulk: None, points: None, ..options(1.0) };
        let mut time = VirtualTime::default();
        let mut service = FixedLatency::serial(Nanos::from_millis(2));
        run(&mut service, &mut time, &options).unwrap();
        assert_eq!(time.now(), Nanos::from_secs(12));
    }
}
