//! Counts of values in bounded memory: a log-linear histogram.
//!
//! Every power of two is divided into 128 equal buckets, so that a percentile is wrong by at most 1/256 of itself,
//! whatever its size, while count, sum, smallest and largest stay exact. A histogram takes 58 KiB and a record costs a
//! shift and an increment. Two histograms of parts of a run add up to the histogram of the whole ([`Histogram::merge`]).
//! What a value is the caller knows: nanoseconds of a latency, records of a batch.

/// Bits of a value kept below its highest one.
const PRECISION_BITS: u32 = 7;
const BUCKETS_PER_OCTAVE: usize = 1 << PRECISION_BITS;
/// Values below `BUCKETS_PER_OCTAVE` have a bucket each; every octave above adds as many.
const BUCKETS: usize = (64 - PRECISION_BITS as usize + 1) * BUCKETS_PER_OCTAVE;

/// Counts of values.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Their exact mean; zero when empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The exact smallest; zero when empty.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The exact largest; zero when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that `percent` (0 to 100) of all do not exceed: the middle of its bucket, kept between the exact
    /// smallest and largest. Zero when empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        if self.count == 0 {
            return 0;
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
                return middle_of(bucket).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Of each of these limits, which go up, how many values are surely at most it, to the width of a bucket: what shares its bucket and may
    /// be larger is left out. No such count ever becomes less as values are added. All of them cost one look at each bucket.
    pub fn counts_up_to(&self, limits: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let (mut seen, mut count) = (0, 0);
        let up_to = |limit: u64| {
            let bucket = bucket_of(limit);
            let end = bucket + usize::from(top_of(bucket) == limit);
            count += self.counts[seen.min(end)..end].iter().sum::<u64>();
            seen = seen.max(end);
            (limit, count)
        };
        limits.into_iter().map(up_to).collect()
    }

    /// The buckets that hold anything, in ascending order: smallest and largest value that falls into it, and how many did.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (bottom_of(bucket).0, top_of(bucket), *count))
    }

    /// How many may be larger than `limit`, to the width of a bucket: whatever shares its bucket is counted too.
    pub fn count_above(&self, limit: u64) -> u64 {
        if limit >= self.max {
            return 0;
        }
        let bucket = bucket_of(limit);
        let first = bucket + usize::from(top_of(bucket) == limit);
        self.counts[first..].iter().sum()
    }
}

fn bucket_of(value: u64) -> usize {
    let highest_bit = (value | 1).ilog2();
    let shift = highest_bit.saturating_sub(PRECISION_BITS);
    // Above the linear part the kept bits start with a one, which lands each octave behind the last.
    shift as usize * BUCKETS_PER_OCTAVE + (value >> shift) as usize
}

/// The smallest value of a bucket, and how many bits of a value it leaves out.
fn bottom_of(bucket: usize) -> (u64, u32) {
    let shift = (bucket / BUCKETS_PER_OCTAVE).saturating_sub(1) as u32;
    let kept = (bucket - shift as usize * BUCKETS_PER_OCTAVE) as u64;
    (kept << shift, shift)
}

fn middle_of(bucket: usize) -> u64 {
    let (bottom, shift) = bottom_of(bucket);
    bottom + (1_u64 << shift) / 2
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let (bottom, shift) = bottom_of(bucket);
    bottom + ((1_u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn every_value_is_in_the_bucket_whose_ends_hold_it() {
        let mut histogram = Histogram::new();
        let mut random = Random::new(4);
        let values: Vec<u64> = (0..2000).map(|_| random.next_u64() >> random.below(64)).collect();
        for value in &values {
            histogram.record(*value);
        }
        let mut counted = 0;
        let mut before = None;
        for (low, high, count) in histogram.buckets() {
            let within = values.iter().filter(|value| (low..=high).contains(*value)).count();
            assert_eq!(within as u64, count, "{low}..={high}");
            assert!(before.is_none_or(|before| before < low));
            (before, counted) = (Some(high), counted + count);
        }
        assert_eq!(counted, histogram.count());
    }

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
            let (bottom, _) = bottom_of(bucket);
            assert_eq!(top_of(bucket - 1) + 1, bottom, "bucket {bucket}");
        }
    }

    #[test]
    fn percentiles_agree_with_sorting() {
        let mut random = Random::new(5);
        let mut all: Vec<u64> = (0..10_000).map(|_| random.below(50_000_000)).collect();
        let mut histogram = Histogram::new();
        for &value in &all {
            histogram.record(value);
        }
        all.sort_unstable();
        for percent in [0.1, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let exact = all[((percent / 100.0 * 10_000.0_f64).ceil() as usize).max(1) - 1];
            let found = histogram.percentile(percent);
            assert!(found.abs_diff(exact) <= exact / 250 + 1, "p{percent}: {found}, not {exact}");
        }
        let mean = all.iter().sum::<u64>() as f64 / 10_000.0;
        assert!((histogram.mean() - mean).abs() < 1e-3);
    }

    #[test]
    fn parts_merge_into_the_whole() {
        let (mut whole, mut left, mut right) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..1000_u64 {
            whole.record(value * value);
            if value % 3 == 0 { &mut left } else { &mut right }.record(value * value);
        }
        left.merge(&right);
        let told = |histogram: &Histogram| {
            let percentiles = [0.0, 50.0, 99.0].map(|percent| histogram.percentile(percent));
            let ends = (histogram.count(), histogram.min(), histogram.max());
            (percentiles, ends, histogram.mean().to_bits())
        };
        assert_eq!(told(&left), told(&whole));
        left.clear();
        assert_eq!(told(&left), told(&Histogram::new()));
        assert_eq!(told(&left), ([0; 3], (0, 0, 0), 0));
    }

    #[test]
    fn what_lies_above_a_limit_is_counted_to_the_width_of_a_bucket() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!((histogram.count_above(0), histogram.count_above(1000)), (1000, 0));
        assert_eq!(histogram.count_above(u64::MAX), 0);
        let above = histogram.count_above(500);
        assert!((500..=504).contains(&above), "{above}");
        let top = top_of(bucket_of(500));
        assert_eq!(histogram.count_above(top), 1000 - top);
        assert_eq!(Histogram::new().count_above(0), 0);
        // The same from below, whatever else was recorded.
        let before = histogram.counts_up_to([0, top, 1000]);
        assert_eq!(before[..2], [(0, 0), (top, top)]);
        assert!((993..=1000).contains(&before[2].1), "{before:?}");
        histogram.record(u64::MAX);
        assert_eq!(histogram.counts_up_to([0, top, 1000]), before);
        assert_eq!(histogram.counts_up_to([1000, u64::MAX])[1], (u64::MAX, 1001));
    }
}
