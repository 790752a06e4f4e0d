//! How values are spread: counts by steps, as reports carry them.
//!
//! Fine enough for percentiles and curves, and what two reports differ in is the distribution between them. Steps are the same in every
//! report of this version; those without a value are left out.

use nearhead_basics::Histogram;
use serde::{Deserialize, Serialize};

/// Ends of steps within a power of ten: twenty, each about 12 % above the one before (ISO 3, R20).
const TWENTIETHS: [u64; 20] = [
    112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900,
    1000,
];
/// Times: from 10 us on, over eight powers of ten, in nanoseconds.
const FIRST_TIME_NS: u64 = 10_000;
const POWERS_OF_TEN: u32 = 8;
/// Ends of steps of sizes, in bytes: a sector, a block, what presets log at most, and on.
pub const SIZE_STEPS: [u64; 11] = [
    512,
    4 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
];

/// Counts of values by steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Sum of all values.
    pub sum: u64,
    /// Steps with a value in them, smallest first.
    pub steps: Vec<Step>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its end: the values are at most this, and above the end of the step before. Whatever is larger than all ends is in the last one.
    pub at_most: u64,
    /// How many.
    pub count: u64,
}

/// Counts of sizes by [`SIZE_STEPS`], exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    counts: [u64; SIZE_STEPS.len()],
    count: u64,
    sum: u64,
}

impl Sizes {
    /// Adds one size in bytes.
    pub fn record(&mut self, bytes: u64) {
        if let Some(step) = SIZE_STEPS.iter().position(|end| bytes <= *end) {
            self.counts[step] += 1;
        }
        self.count += 1;
        self.sum += bytes;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How they are spread.
    pub fn distribution(&self) -> Distribution {
        let mut so_far = 0;
        let up_to = SIZE_STEPS.iter().zip(self.counts).map(|(end, count)| {
            so_far += count;
            (*end, so_far)
        });
        Distribution::of(up_to.collect::<Vec<_>>(), self.count, self.sum)
    }
}

fn time_steps() -> impl Iterator<Item = u64> {
    let of_power =
        |power: u32| TWENTIETHS.map(|step| step * (FIRST_TIME_NS / 100) * 10_u64.pow(power));
    std::iter::once(FIRST_TIME_NS).chain((0..POWERS_OF_TEN).flat_map(of_power))
}

impl Distribution {
    /// Of times in nanoseconds.
    pub fn of_times(times_ns: &Histogram) -> Self {
        let sum = u64::try_from(times_ns.sum()).unwrap_or(u64::MAX);
        Self::of(times_ns.counts_up_to(time_steps()), times_ns.count(), sum)
    }

    /// From how many values are at most each of these ends, how many there are at all, and their sum.
    fn of(up_to: impl IntoIterator<Item = (u64, u64)>, count: u64, sum: u64) -> Self {
        let (mut below, mut steps, mut last) = (0, Vec::new(), 0);
        for (at_most, so_far) in up_to {
            if so_far > below {
                steps.push(Step { at_most, count: so_far - below });
                below = so_far;
            }
            last = at_most;
        }
        match steps.last_mut().filter(|step| step.at_most == last) {
            Some(step) => step.count += count - below,
            None if count > below => steps.push(Step { at_most: last, count: count - below }),
            None => {}
        }
        Self { sum, steps }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.steps.iter().map(|step| step.count).sum()
    }

    /// How many of them are at most `limit`, the end of a step.
    pub fn count_at_most(&self, limit: u64) -> u64 {
        let within = self.steps.iter().take_while(|step| step.at_most <= limit);
        within.map(|step| step.count).sum()
    }

    /// What came since `earlier`, a report of the same daemon; all of it if that one was of another.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |at_most: u64| {
            let found = earlier.steps.iter().find(|step| step.at_most == at_most);
            found.map_or(0, |step| step.count)
        };
        let steps: Option<Vec<Step>> = self
            .steps
            .iter()
            .map(|step| {
                let count = step.count.checked_sub(before(step.at_most))?;
                Some(Step { count, ..*step })
            })
            .collect();
        let Some((mut steps, sum)) = steps.zip(self.sum.checked_sub(earlier.sum)) else {
            return self.clone();
        };
        steps.retain(|step| step.count > 0);
        Self { sum, steps }
    }

    /// What so many of a hundred do not exceed, to the width of a step; none of nothing.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let rank = ((percent / 100.0 * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.steps.iter().find(|step| {
            seen += step.count;
            seen >= rank
        });
        found.map(|step| step.at_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn steps_grow_by_an_eighth_at_most_and_have_the_round_ends_that_metrics_name() {
        let steps: Vec<u64> = time_steps().collect();
        for pair in steps.windows(2) {
            let growth = pair[1] as f64 / pair[0] as f64;
            assert!(growth > 1.09 && growth < 1.15, "{pair:?}");
        }
        for round in [10_000, 25_000, 50_000, 1_000_000, 2_500_000_000, 100_000_000_000] {
            assert!(steps.contains(&round), "{round}");
        }
    }

    #[test]
    fn every_value_is_counted_once_also_the_ones_past_all_ends() {
        let values = [1, 10_000, 10_001, 5_000_000, u64::MAX / 4];
        let told = Distribution::of_times(&histogram(values));
        assert_eq!((told.count(), told.sum), (5, values.iter().sum()));
        assert_eq!(told.count_at_most(10_000_000), 4);
        assert_eq!(told.steps.last().unwrap(), &Step { at_most: 1_000_000_000_000, count: 1 });
        let mut sizes = Sizes::default();
        for bytes in [0, 512, 513, 4096, 1 << 40] {
            sizes.record(bytes);
        }
        let told = sizes.distribution();
        assert_eq!((told.count(), told.sum), (5, 5121 + (1 << 40)));
        assert_eq!((told.count_at_most(512), told.count_at_most(4096)), (2, 4));
        assert_eq!(Distribution::of_times(&Histogram::new()), Distribution::default());
        assert_eq!(Distribution::default().percentile(99.0), None);
    }

    #[test]
    fn what_two_reports_differ_in_is_what_came_in_between() {
        let (first, then) = (vec![1_000_000_u64; 90], vec![8_000_000_u64; 10]);
        let earlier = Distribution::of_times(&histogram(first.iter().copied()));
        let all = Distribution::of_times(&histogram(first.into_iter().chain(then)));
        let between = all.since(&earlier);
        assert_eq!((between.count(), between.sum), (10, 80_000_000));
        let median = between.percentile(50.0).unwrap();
        assert!((8_000_000..=9_000_000).contains(&median), "{median}");
        assert!(all.percentile(50.0).unwrap() < 1_200_000);
        // A daemon that was started again counts from 0.
        assert_eq!(earlier.since(&all), earlier);
    }
}
