//! Latencies in bounded memory: a log-linear histogram.
//!
//! Every power of two of nanoseconds is divided into 128 equal buckets, so that a percentile is
//! wrong by at most 1/256 of itself, whatever its size, while count, sum, smallest and largest stay
//! exact. A histogram takes 58 KiB and a record costs a shift and an increment. Two histograms of
//! parts of a run add up to the histogram of the whole ([`Histogram::merge`]).

use nearhead_disk::Nanos;
use serde::{Deserialize, Serialize};

/// Bits of a value kept below its highest one.
const PRECISION_BITS: u32 = 7;
const BUCKETS_PER_OCTAVE: usize = 1 << PRECISION_BITS;
/// Values below `BUCKETS_PER_OCTAVE` have a bucket each; every octave above adds as many.
const BUCKETS: usize = (64 - PRECISION_BITS as usize + 1) * BUCKETS_PER_OCTAVE;

/// Counts of latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    min: Nanos,
    max: Nanos,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum_ns: 0, min: Nanos::MAX, max: Nanos::ZERO }
    }

    /// Adds one latency.
    pub fn record(&mut self, latency: Nanos) {
        self.counts[bucket_of(latency.0)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(latency.0);
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum_ns, self.min, self.max) = (0, 0, Nanos::MAX, Nanos::ZERO);
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact mean, in milliseconds; zero when empty.
    pub fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1e6 }
    }

    /// The latency that `percent` (0 to 100) of all do not exceed: the middle of its bucket,
    /// kept between the exact smallest and largest. Zero when empty.
    pub fn percentile(&self, percent: f64) -> Nanos {
        if self.count == 0 {
            return Nanos::ZERO;
        }
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count);
        // The ends are known exactly; no need to settle for the middle of a bucket.
        if rank == 1 {
            return self.min;
        }
        if rank == self.count {
            return self.max;
        }
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(middle_of(bucket)).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The largest latency; zero when empty.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The figures people ask for.
    pub fn summary(&self) -> LatencySummary {
        let percentile_ms = |percent| self.percentile(percent).as_millis_f64();
        LatencySummary {
            count: self.count,
            mean_ms: self.mean_ms(),
            min_ms: if self.count == 0 { 0.0 } else { self.min.as_millis_f64() },
            p50_ms: percentile_ms(50.0),
            p90_ms: percentile_ms(90.0),
            p95_ms: percentile_ms(95.0),
            p99_ms: percentile_ms(99.0),
            p999_ms: percentile_ms(99.9),
            max_ms: self.max.as_millis_f64(),
        }
    }

    /// Distance of two latency distributions, as a percentage of `measured`'s mean: the root mean
    /// square of the horizontal distance between their cumulative curves, the "demerit figure" of
    /// Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling", IEEE Computer 27(3), 1994.
    /// `None` when either is empty.
    pub fn demerit_pct(&self, measured: &Self) -> Option<f64> {
        const STEPS: u32 = 1000;
        if self.count == 0 || measured.count == 0 || measured.sum_ns == 0 {
            return None;
        }
        let squares: f64 = (0..STEPS)
            .map(|step| {
                let percent = (f64::from(step) + 0.5) * 100.0 / f64::from(STEPS);
                let ours = self.percentile(percent).as_millis_f64();
                (ours - measured.percentile(percent).as_millis_f64()).powi(2)
            })
            .sum();
        Some((squares / f64::from(STEPS)).sqrt() / measured.mean_ms() * 100.0)
    }
}

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

fn bucket_of(value: u64) -> usize {
    let highest_bit = (value | 1).ilog2();
    let shift = highest_bit.saturating_sub(PRECISION_BITS);
    // Above the linear part the kept bits start with a one, which lands each octave behind the last.
    shift as usize * BUCKETS_PER_OCTAVE + (value >> shift) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let shift = (bucket / BUCKETS_PER_OCTAVE).saturating_sub(1) as u32;
    let kept = (bucket - shift as usize * BUCKETS_PER_OCTAVE) as u64;
    (kept << shift) + (1_u64 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::Random;

    #[test]
    fn every_value_lands_in_a_bucket_whose_middle_is_within_one_part_in_256() {
        let mut random = Random::new(1);
        for round in 0..200_000 {
            let value = random.next_u64() >> random.below(64);
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "round {round}: {value}");
            let error = middle_of(bucket).abs_diff(value);
            assert!(
                error <= value / 256 + 1,
                "round {round}: {value} became {}",
                middle_of(bucket)
            );
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_are_in_the_order_of_their_values() {
        for bucket in 1..BUCKETS {
            assert!(middle_of(bucket) > middle_of(bucket - 1), "bucket {bucket}");
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
    }

    #[test]
    fn percentiles_agree_with_sorting() {
        let mut random = Random::new(5);
        let mut all: Vec<u64> = (0..10_000).map(|_| random.below(50_000_000)).collect();
        let mut histogram = Histogram::new();
        for &value in &all {
            histogram.record(Nanos(value));
        }
        all.sort_unstable();
        for percent in [0.1, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let exact = all[((percent / 100.0 * 10_000.0_f64).ceil() as usize).max(1) - 1];
            let found = histogram.percentile(percent).0;
            assert!(found.abs_diff(exact) <= exact / 250 + 1, "p{percent}: {found}, not {exact}");
        }
        let mean = all.iter().sum::<u64>() as f64 / 10_000.0 / 1e6;
        assert!((histogram.mean_ms() - mean).abs() < 1e-9);
    }

    #[test]
    fn parts_merge_into_the_whole() {
        let (mut whole, mut left, mut right) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..1000_u64 {
            whole.record(Nanos(value * value));
            if value % 3 == 0 { &mut left } else { &mut right }.record(Nanos(value * value));
        }
        left.merge(&right);
        assert_eq!(left.summary(), whole.summary());
        left.clear();
        assert_eq!(left.summary(), LatencySummary::default());
    }

    #[test]
    fn the_demerit_of_a_shift_is_the_shift() {
        let (mut ours, mut measured) = (Histogram::new(), Histogram::new());
        for value in 1..=1000 {
            measured.record(Nanos::from_micros(9_500 + value));
            ours.record(Nanos::from_micros(10_500 + value));
        }
        let demerit = ours.demerit_pct(&measured).unwrap();
        assert!((demerit - 10.0).abs() < 0.5, "{demerit}");
        assert!(measured.demerit_pct(&measured).unwrap() < 1e-9);
        assert_eq!(Histogram::new().demerit_pct(&measured), None);
    }
}
