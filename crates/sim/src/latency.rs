//! What people ask of the latencies of a run: mean, percentiles, and how far two runs are apart.
//!
//! Latencies are counted in nanoseconds, in a [`Histogram`]; what is told of them is milliseconds.

use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use serde::{Deserialize, Serialize};

/// Mean and percentiles of a set of latencies, in milliseconds; all zero when `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of latencies.
    pub count: u64,
    /// Exact mean.
    pub mean_ms: f64,
    /// Exact smallest.
    pub min_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90 % are at most this.
    pub p90_ms: f64,
    /// 95 % are at most this.
    pub p95_ms: f64,
    /// 99 % are at most this.
    pub p99_ms: f64,
    /// 99.9 % are at most this.
    pub p999_ms: f64,
    /// Exact largest.
    pub max_ms: f64,
}

impl LatencySummary {
    /// Of latencies in nanoseconds.
    pub fn of(latencies: &Histogram) -> Self {
        Self {
            count: latencies.count(),
            mean_ms: mean_ms(latencies),
            min_ms: Nanos(latencies.min()).as_millis_f64(),
            p50_ms: percentile_ms(latencies, 50.0),
            p90_ms: percentile_ms(latencies, 90.0),
            p95_ms: percentile_ms(latencies, 95.0),
            p99_ms: percentile_ms(latencies, 99.0),
            p999_ms: percentile_ms(latencies, 99.9),
            max_ms: Nanos(latencies.max()).as_millis_f64(),
        }
    }
}

/// Exact mean of latencies in nanoseconds, in milliseconds; zero of none.
pub fn mean_ms(latencies: &Histogram) -> f64 {
    latencies.mean() / 1e6
}

/// What `percent` of the latencies do not exceed, in milliseconds; zero of none.
pub fn percentile_ms(latencies: &Histogram, percent: f64) -> f64 {
    Nanos(latencies.percentile(percent)).as_millis_f64()
}

/// Distance of two latency distributions, as a percentage of `measured`'s mean: the root mean
/// square of the horizontal distance between their cumulative curves, the "demerit figure" of
/// Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3), 1994.
/// `None` when either is empty.
pub fn demerit_pct(ours: &Histogram, measured: &Histogram) -> Option<f64> {
    const STEPS: u32 = 1000;
    if ours.count() == 0 || measured.max() == 0 {
        return None;
    }
    let squares: f64 = (0..STEPS)
        .map(|step| {
            let percent = (f64::from(step) + 0.5) * 100.0 / f64::from(STEPS);
            (percentile_ms(ours, percent) - percentile_ms(measured, percent)).powi(2)
        })
        .sum();
    Some((squares / f64::from(STEPS)).sqrt() / mean_ms(measured) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demerit_of_a_shift_is_the_shift() {
        let (mut ours, mut measured) = (Histogram::new(), Histogram::new());
        for value in 1..=1000 {
            measured.record(Nanos::from_micros(9_500 + value).0);
            ours.record(Nanos::from_micros(10_500 + value).0);
        }
        let demerit = demerit_pct(&ours, &measured).unwrap();
        assert!((demerit - 10.0).abs() < 0.5, "{demerit}");
        assert!(demerit_pct(&measured, &measured).unwrap() < 1e-9);
        assert_eq!(demerit_pct(&Histogram::new(), &measured), None);
    }

    #[test]
    fn nothing_is_told_of_no_latencies() {
        assert_eq!(LatencySummary::of(&Histogram::new()), LatencySummary::default());
    }
}
