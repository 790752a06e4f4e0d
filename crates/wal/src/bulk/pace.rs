//! How many bulk pieces may be in flight: additive increase, multiplicative decrease, and patience where that was too
//! much before.
//!
//! With `k` pieces in flight a durable write waits for about `k` piece times, while bandwidth stops
//! growing after a few. Where that knee is differs by device and changes with other tenants, so it
//! is probed: one piece more while the log's p99 is within its target, half as many when it is not.
//! Halving gets out of trouble in one or two windows; and of several independent streams on one disk
//! none starves (Chiu and Jain, 1989, show that of these rules only this one converges to shares
//! that are both efficient and fair). A window needs enough samples for a p99 to mean something;
//! without any traffic on the log there is nobody to protect, and the bound grows.
//!
//! Each try of a bound that is too much costs the log a window of slow writes; where one piece is right and two are
//! too many, every other window would be one. So the bound that failed is remembered, and each time it
//! fails again it is tried half as often, down to once in [`PATIENCE_MAX`] windows: few enough that the log's p99
//! over all windows is that of the bound that is right. Where the p99 leaves room for one piece more nothing is waited for,
//! so a device that has become faster is found at once.

use crate::metrics::Histogram;

/// Most windows within the target before a bound that failed is tried again: with windows of 20 ms, 2.6 s.
const PATIENCE_MAX: u32 = 128;

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
    /// The least bound that missed the target lately; none has while it is above `pieces_max`.
    failed: u32,
    /// So many windows within the target go before it is tried again,
    patience: u32,
    /// and so many have gone.
    waited: u32,
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
            failed: u32::MAX,
            patience: 1,
            waited: 0,
            latency_ns_p99: 0,
            windows: 0,
            windows_over: 0,
        }
    }

    /// Pieces that may be in flight: at least one, or bulk would never end.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// The p99 that was last acted on; 0 if the log was idle.
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
        if self.latency_ns_p99 > self.options.target_latency_ns_p99 {
            self.windows_over += 1;
            self.step_down();
        } else {
            self.step_up();
        }
        true
    }

    fn step_down(&mut self) {
        self.waited = 0;
        if self.bound == self.failed {
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        } else if self.bound > 1 {
            (self.failed, self.patience) = (self.bound, 1);
        }
        // One piece is the least there is: that it was too much tells nothing new.
        self.bound = (self.bound / 2).max(1);
    }

    /// Whether one piece more cannot miss the target: it makes waiting longer by its share of the pieces at most.
    fn has_room(&self) -> bool {
        let bound = u64::from(self.bound);
        let more = self.latency_ns_p99.saturating_mul(bound + 1);
        more <= self.options.target_latency_ns_p99.saturating_mul(bound)
    }

    fn step_up(&mut self) {
        if self.bound >= self.failed {
            // It does now.
            (self.failed, self.patience) = (u32::MAX, 1);
        }
        if self.bound + 1 == self.failed && !self.has_room() && self.waited < self.patience {
            self.waited += 1;
            return;
        }
        self.waited = 0;
        self.bound = (self.bound + 1).min(self.options.pieces_max.max(1));
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
    fn a_bound_that_keeps_failing_is_tried_ever_less_often_and_again_when_the_device_is_faster() {
        let mut pace = Pace::new(PaceOptions::default());
        // One piece of 1.5 ms is within 2 ms, two are not.
        let (over, _) = settle(&mut pace, 1_500_000, 2_000);
        assert!(over <= 2_000 / 50, "{over} of 2000 windows were given to a bound that fails");
        assert!(over >= 2_000 / 400, "{over} of 2000: it is to be tried now and then");
        // Just fast enough for two, which cannot be told from one.
        settle(&mut pace, 949_000, 2 * PATIENCE_MAX);
        let (over, mean) = settle(&mut pace, 949_000, 200);
        assert!(over <= 200 / 10 && mean >= 1.5, "over {over}, mean {mean}: it is not tried again");
        // Four times as fast as at first: five are within it.
        settle(&mut pace, 375_000, 8);
        let (over, mean) = settle(&mut pace, 375_000, 2_000);
        assert!(over <= 2_000 / 50 && mean >= 3.5, "over {over}, mean {mean}");
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
