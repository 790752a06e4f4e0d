//! What a log measures about itself: latencies, batch sizes, stalls. Fixed memory, whatever happens.

use std::time::Duration;

/// Buckets in each power of two: values are told apart to about 3 %.
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
const SUB_BITS: u32 = 5;
const BUCKETS: usize = (65 - SUB_BITS as usize) * SUB_BUCKETS as usize;

/// Counts of values, in buckets whose width grows with the value.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, sum: 0, max: 0 }
    }
}

fn bucket_of(value: u64) -> usize {
    if value < SUB_BUCKETS {
        return value as usize;
    }
    let octave = u64::from(value.ilog2() - SUB_BITS);
    (octave * SUB_BUCKETS + (value >> octave)) as usize
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB_BUCKETS {
        return bucket;
    }
    let octave = bucket / SUB_BUCKETS - 1;
    let step = u128::from(bucket % SUB_BUCKETS + SUB_BUCKETS + 1);
    u64::try_from((step << octave) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.buckets[bucket_of(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Counts a duration, in nanoseconds.
    pub fn record_duration(&mut self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts all values of another one too.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, 0 of none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// How many may be larger than `limit`, to the width of a bucket: whatever shares its bucket is counted too.
    pub fn count_above(&self, limit: u64) -> u64 {
        if limit >= self.max {
            return 0;
        }
        let bucket = bucket_of(limit);
        let first = bucket + usize::from(top_of(bucket) == limit);
        self.buckets[first..].iter().sum()
    }

    /// The value that `percent` of all do not exceed, to the width of a bucket; 0 of none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return top_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// What a log has done since it was opened.
#[derive(Clone, Debug, Default)]
pub struct LogMetrics {
    /// Nanoseconds from append to durable, of each record.
    pub append_latency_ns: Histogram,
    /// Nanoseconds of each durable write.
    pub write_latency_ns: Histogram,
    /// Records of each durable write.
    pub batch_records: Histogram,
    /// Bytes of each durable write.
    pub batch_bytes: Histogram,
    /// Appends that waited for room in memory.
    pub stalls_for_memory: u64,
    /// Appends that waited for a segment to be made ready.
    pub stalls_for_segment: u64,
    /// How long appends waited in all.
    pub stalled: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_to_three_percent() {
        for shift in 0..64 {
            for value in
                [1_u64 << shift, (1_u64 << shift) - 1, (1_u64 << shift) + (1 << shift >> 1)]
            {
                let top = top_of(bucket_of(value));
                assert!(top >= value, "{value} above the top {top} of its bucket");
                assert!(
                    top as f64 <= value as f64 * 1.035 + 0.5,
                    "{value} in a bucket up to {top}"
                );
            }
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentiles_are_of_the_values() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        let p99 = histogram.percentile(99.0);
        assert!((990..=1000).contains(&p99), "{p99}");
        assert_eq!(histogram.percentile(100.0), 1000);
        assert_eq!((histogram.count_above(0), histogram.count_above(1000)), (1000, 0));
        assert_eq!(histogram.count_above(u64::MAX), 0);
        let above = histogram.count_above(500);
        assert!((500..=516).contains(&above), "{above}");
        let top = top_of(bucket_of(500));
        assert_eq!(histogram.count_above(top), 1000 - top);
        assert_eq!(Histogram::default().percentile(50.0), 0);
    }
}
