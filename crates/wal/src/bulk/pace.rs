//! How many bulk pieces may be in flight: additive increase, multiplicative decrease, within a budget of slow writes.
//!
//! With `k` pieces in flight a durable write waits for about `k` piece times, while bandwidth stops
//! growing after a few. Where that knee is differs by device and changes with other tenants, so it
//! is probed: one piece more while the log's p99 is within its target, half as many when it is not.
//! Halving gets out of trouble in one or two windows; and of several independent streams on one disk
//! none starves (Chiu and Jain, 1989, show that of these rules only this one converges to shares
//! that are both efficient and fair). Without any traffic on the log there is nobody to protect, and the bound grows.
//!
//! What the target means is that of a hundred writes one may take longer. So slow writes are counted against that
//! budget, over windows: one that is slow by chance halves nothing (the p99 of a window of 30 writes is its slowest, and
//! halving for each of those would cost a fifth of the bandwidth), and after a bound that was too much the writes it
//! made slow are made up for before it is tried again. So also the p99 over all windows is what was asked for, where one piece in flight is
//! right and two are too many.

use crate::metrics::Histogram;

/// The budget in hundredths of a slow write: each write adds one, each slow one takes a hundred.
const SLOW: i64 = 100;
/// Most that may be saved up: a burst of slow writes is trouble, however long there were none.
const SAVED_MAX: i64 = 3 * SLOW;
/// An overdraft up to this is chance.
const CHANCE: i64 = SLOW;
/// Most that has to be made up for, or trouble that had nothing to do with bulk would hold it back for long.
const OWED_MAX: i64 = 50 * SLOW;

/// What to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceOptions {
    /// The log's 99th percentile is to stay below this.
    pub target_latency_ns_p99: u64,
    /// Most pieces in flight.
    pub pieces_max: u32,
    /// Fewer latencies than this decide nothing: they are kept for the next window.
    pub samples_min: u64,
}

impl Default for PaceOptions {
    fn default() -> Self {
        Self { target_latency_ns_p99: 2_000_000, pieces_max: 16, samples_min: 20 }
    }
}

/// The rule and what it has come to.
#[derive(Clone, Debug)]
pub struct Pace {
    options: PaceOptions,
    bound: u32,
    /// What is left of the budget; below 0 it is overdrawn.
    budget: i64,
    /// The bound that overdrew it last: only this and more have to wait until that is made up for.
    failed: u32,
    latency_ns_p99: u64,
    windows: u64,
    windows_over: u64,
}

impl Pace {
    /// Begins with two pieces: one being transferred, one behind it.
    pub fn new(options: PaceOptions) -> Self {
        let bound = options.pieces_max.clamp(1, 2);
        Self {
            options,
            bound,
            budget: 0,
            failed: 0,
            latency_ns_p99: 0,
            windows: 0,
            windows_over: 0,
        }
    }

    /// Pieces that may be in flight: at least one, or bulk would never end.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// The p99 of the window that was last taken into account; 0 if the log was idle.
    pub fn latency_ns_p99(&self) -> u64 {
        self.latency_ns_p99
    }

    /// Windows so far, and in how many of them the target was missed.
    pub fn windows(&self) -> (u64, u64) {
        (self.windows, self.windows_over)
    }

    /// Takes the latencies of a window into account. False if they were too few to decide: then
    /// hand them in again with the next ones.
    pub fn observe(&mut self, window: &Histogram) -> bool {
        if window.count() > 0 && window.count() < self.options.samples_min {
            return false;
        }
        self.windows += 1;
        self.latency_ns_p99 = window.percentile(99.0);
        let missed = self.latency_ns_p99 > self.options.target_latency_ns_p99;
        self.windows_over += u64::from(missed);
        self.account(window);
        if missed && self.budget < -CHANCE {
            self.failed = self.bound;
            self.bound = (self.bound / 2).max(1);
        } else if !missed && (self.budget >= 0 || self.bound + 1 < self.failed || self.has_room()) {
            self.bound = (self.bound + 1).min(self.options.pieces_max.max(1));
        }
        true
    }

    fn account(&mut self, window: &Histogram) {
        if window.count() == 0 {
            self.budget = 0;
            return;
        }
        let counted = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let slow = counted(window.count_above(self.options.target_latency_ns_p99));
        let change = counted(window.count()).saturating_sub(slow.saturating_mul(SLOW));
        self.budget = self.budget.saturating_add(change).clamp(-OWED_MAX, SAVED_MAX);
    }

    /// Whether one piece more cannot miss the target: it makes waiting longer by its share of the pieces at most.
    fn has_room(&self) -> bool {
        let bound = u64::from(self.bound);
        let more = self.latency_ns_p99.saturating_mul(bound + 1);
        more <= self.options.target_latency_ns_p99.saturating_mul(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that serves in order: a log write waits for all pieces in flight before it.
    fn window(bound: u32, piece_ns: u64) -> Histogram {
        let mut histogram = Histogram::default();
        (0..50).for_each(|_| histogram.record(100_000 + u64::from(bound) * piece_ns));
        histogram
    }

    fn settle(pace: &mut Pace, piece_ns: u64, windows: u32) -> (u32, f64) {
        let (mut over, mut sum) = (0, 0);
        for _ in 0..windows {
            let latencies = window(pace.bound(), piece_ns);
            over += u32::from(latencies.percentile(99.0) > 2_000_000);
            sum += pace.bound();
            assert!(pace.observe(&latencies));
        }
        (over, f64::from(sum) / f64::from(windows))
    }

    #[test]
    fn the_bound_settles_below_what_the_target_allows_and_follows_the_device() {
        let mut pace = Pace::new(PaceOptions::default());
        // Pieces of 0.25 ms: seven fit below 2 ms.
        let (over, mean) = settle(&mut pace, 250_000, 200);
        assert!(over <= 200 / 4 && (4.0..=7.0).contains(&mean), "over {over}, mean {mean}");
        // Four times slower: one fits.
        settle(&mut pace, 1_000_000, 4);
        let (_, mean) = settle(&mut pace, 1_000_000, 200);
        assert!((1.0..=1.6).contains(&mean), "mean {mean}");
        // So fast that nothing has to be held back.
        settle(&mut pace, 1_000, 20);
        assert_eq!(pace.bound(), 16);
    }

    #[test]
    fn where_one_piece_is_right_and_two_are_too_many_one_write_in_a_hundred_is_slow_and_no_more() {
        let mut pace = Pace::new(PaceOptions::default());
        // One piece of 1.5 ms is within 2 ms, two are not.
        settle(&mut pace, 1_500_000, 100);
        let (over, _) = settle(&mut pace, 1_500_000, 2_000);
        assert!(over <= 2_000 / 90, "{over} of 2000 windows were given to a bound that fails");
        assert!(over >= 2_000 / 400, "{over} of 2000: it is to be tried now and then");
        // Just fast enough for two, which cannot be told beforehand.
        settle(&mut pace, 930_000, 100);
        let (over, mean) = settle(&mut pace, 930_000, 200);
        assert!(over <= 200 / 40 && mean >= 1.5, "over {over}, mean {mean}: it is not tried again");
        // Four times as fast as at first: five are within it.
        settle(&mut pace, 375_000, 8);
        let (over, mean) = settle(&mut pace, 375_000, 2_000);
        assert!(over <= 2_000 / 40 && mean >= 3.5, "over {over}, mean {mean}");
    }

    #[test]
    fn writes_that_are_slow_by_chance_hold_nothing_back() {
        let mut pace = Pace::new(PaceOptions::default());
        let mut with_one_slow = window(1, 100_000);
        with_one_slow.record(9_000_000);
        for _ in 0..20 {
            // One in 153: each such window's p99 is over the target, and the log's is not.
            for window in [&window(1, 100_000), &window(1, 100_000), &with_one_slow] {
                assert!(pace.observe(window));
            }
        }
        assert_eq!((pace.bound(), pace.windows()), (16, (60, 20)));
        // One in 17 is no chance.
        let mut slow = window(1, 100_000);
        (0..3).for_each(|_| slow.record(9_000_000));
        (0..5).for_each(|_| assert!(pace.observe(&slow)));
        assert_eq!(pace.bound(), 1);
    }

    #[test]
    fn an_idle_log_holds_nothing_back_and_a_target_out_of_reach_leaves_one_piece() {
        let mut pace = Pace::new(PaceOptions::default());
        (0..30).for_each(|_| assert!(pace.observe(&Histogram::default())));
        assert_eq!(pace.bound(), 16);
        for _ in 0..30 {
            pace.observe(&window(1, 9_000_000));
        }
        assert_eq!((pace.bound(), pace.windows()), (1, (60, 30)));
    }

    #[test]
    fn too_few_samples_decide_nothing() {
        let mut pace = Pace::new(PaceOptions::default());
        let mut few = Histogram::default();
        few.record(1_000_000_000);
        assert!(!pace.observe(&few));
        assert_eq!((pace.bound(), pace.windows()), (2, (0, 0)));
    }
}
