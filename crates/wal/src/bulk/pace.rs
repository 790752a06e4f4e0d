//! How many bulk pieces may be in flight: additive increase, multiplicative decrease, within a budget of slow writes.
//!
//! With `k` pieces in flight a durable write waits for about `k` piece times, while bandwidth stops
//! growing after a few. Where that knee is differs by device and changes with other tenants, so it
//! is probed: one piece more while the log's p99 is within its target, fewer when it is not. Halving gets out of trouble in a few
//! windows, and is what lets several independent streams on one disk find shares (Chiu and Jain, 1989).
//! Without any traffic on the log there is nobody to protect, and the bound grows.
//!
//! What the target means is that of a hundred writes one may take longer. So slow writes are counted against that
//! budget, over windows: one that is slow by chance halves nothing (the p99 of a window of 30 writes is its slowest, and
//! halving for each of those would cost a fifth of the bandwidth). More pieces are tried only with slow writes saved
//! up, and given up as soon as these are spent: so the p99 over all windows is what was asked for, from the first second on, and also
//! where no bound is quite right.
//!
//! Near the knee one piece more or less is what matters, so a bound that spent its budget goes down by one; it is halved where more
//! writes are slow than chance explains. And only then is it one piece: between one piece and the next the
//! device has nothing to do, which costs a quarter of the bandwidth and more, for a wait shorter by one piece.

use nearhead_basics::Histogram;

/// Each write adds one to the budget, and each slow one takes this: so seven in a thousand may be slow, and the rest of
/// the one in a hundred is for those that bulk makes slow before a window shows it.
const SLOW: i64 = 150;
/// Most that may be saved up, and what more pieces are tried with: what a window of too many of them may cost. Not more, since a
/// burst of slow writes is trouble, however long there were none.
const SAVED: i64 = 3 * SLOW;
/// Most that has to be made up for, or trouble that had nothing to do with bulk would hold it back for long.
const OWED_MAX: i64 = 50 * SLOW;
/// One slow write of so many, and as many as this, are no chance.
const TROUBLE_ONE_IN: u64 = 20;
const TROUBLE_MIN: u64 = 3;
/// So many windows without any slow write, and a piece more that is known to fit is let in, whatever is owed.
const CALM: u32 = 8;
/// A p99 that is so many times below the target is far from it.
const FAR: u64 = 4;
/// One piece being transferred, one behind it: the device always has something to do.
const BUSY: u32 = 2;

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
    /// The bound that overdrew it last; 0 for none.
    failed: u32,
    /// Windows at this bound since the last one with a slow write.
    calm: u32,
    latency_ns_p99: u64,
    windows: u64,
    windows_over: u64,
}

impl Pace {
    /// Begins with two pieces and one slow write to spend.
    pub fn new(options: PaceOptions) -> Self {
        Self {
            options,
            bound: options.pieces_max.clamp(1, BUSY),
            budget: SLOW,
            failed: 0,
            calm: 0,
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
        let slow = window.count_above(self.options.target_latency_ns_p99);
        self.windows += 1;
        self.latency_ns_p99 = window.percentile(99.0);
        let missed = self.latency_ns_p99 > self.options.target_latency_ns_p99;
        self.windows_over += u64::from(missed);
        self.account(window.count(), slow);
        let before = self.bound;
        if missed && self.budget < 0 {
            self.failed = self.bound;
            let is_trouble = slow >= TROUBLE_MIN && slow * TROUBLE_ONE_IN > window.count();
            self.bound = self.fewer(is_trouble);
        } else if !missed && self.may_grow() {
            self.bound = (self.bound + 1).min(self.options.pieces_max.max(1));
        }
        if self.bound != before {
            self.calm = 0;
        }
        true
    }

    fn account(&mut self, writes: u64, slow: u64) {
        let counted = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.calm = if slow == 0 { self.calm.saturating_add(1) } else { 0 };
        let (earned, spent) = (counted(writes), counted(slow));
        let change = earned.saturating_sub(spent.saturating_mul(SLOW));
        // Without a write there is nobody to protect, and nothing to save for.
        let sum = if writes == 0 { 0 } else { self.budget.saturating_add(change) };
        self.budget = sum.clamp(-OWED_MAX, SAVED);
    }

    fn fewer(&self, is_trouble: bool) -> u32 {
        let fewer = if is_trouble { self.bound / 2 } else { (self.bound - 1).max(BUSY) };
        fewer.clamp(1, self.bound)
    }

    /// Whether one piece more may be tried.
    fn may_grow(&self) -> bool {
        // However much is owed: not even twice as many pieces would miss the target.
        let is_far = self.latency_ns_p99.saturating_mul(FAR) <= self.options.target_latency_ns_p99;
        let fits = self.bound + 1 < self.failed;
        is_far || self.budget >= SAVED || fits && (self.budget >= 0 || self.calm >= CALM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

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

    #[test]
    fn of_a_noisy_device_one_write_in_a_hundred_is_slow_from_the_first_second_on() {
        // Slow writes in a thousand, by pieces in flight; two are the knee, whatever bulk does four are slow.
        let slow_of_1000 = |bound: u32| [4, 4, 6, 12, 40, 150][bound.min(5) as usize];
        let (mut kept, mut bounds, mut windows) = (0, 0, 0);
        for seed in 0..100 {
            let mut random = SplitMix::new(seed);
            let mut pace = Pace::new(PaceOptions::default());
            let (mut writes, mut slow) = (0, 0);
            // Two seconds of 500 writes a second, in windows of 50 ms.
            for _ in 0..40 {
                let mut latencies = Histogram::default();
                for _ in 0..25 {
                    let is_slow = random.below(1000) < slow_of_1000(pace.bound());
                    latencies.record(if is_slow { 3_000_000 } else { 900_000 });
                    (writes, slow) = (writes + 1, slow + u32::from(is_slow));
                }
                (bounds, windows) = (bounds + pace.bound(), windows + 1);
                assert!(pace.observe(&latencies));
            }
            kept += u32::from(slow * 100 <= writes);
        }
        assert!(kept >= 75, "{kept} of 100 runs kept their target");
        let mean = f64::from(bounds) / f64::from(windows);
        assert!((1.9..=3.0).contains(&mean), "{mean} pieces in flight");
    }

    #[test]
    fn only_trouble_leaves_a_device_with_nothing_to_do_between_two_pieces() {
        let mut pace = Pace::new(PaceOptions::default());
        let mut with_one_slow = window(1, 500_000);
        with_one_slow.record(3_000_000);
        // Twice as many as may be, but one by one: bulk may not be why.
        (0..100).for_each(|_| assert!(pace.observe(&with_one_slow)));
        assert_eq!(pace.bound(), 2);
        (0..10).for_each(|_| with_one_slow.record(3_000_000));
        assert!(pace.observe(&with_one_slow));
        assert_eq!(pace.bound(), 1);
    }
}
