//! How many bytes moved when, in a number of steps that does not grow with the run: they become longer instead.

use nearhead_disk::Nanos;

/// Steps kept.
const STEPS_MAX: usize = 120;
/// How long one is at first.
const STEP_FIRST: Nanos = Nanos::from_secs(1);

/// Bytes over time.
#[derive(Clone, Debug)]
pub struct OverTime {
    started: Nanos,
    step: Nanos,
    bytes: Vec<u64>,
}

impl OverTime {
    pub(super) fn new(started: Nanos) -> Self {
        Self { started, step: STEP_FIRST, bytes: Vec::new() }
    }

    /// So many bytes are there at `now`.
    pub(super) fn add(&mut self, bytes: u64, now: Nanos) {
        let mut at = self.place(now);
        while at >= STEPS_MAX {
            let halves = self.bytes.chunks(2).map(|pair| pair.iter().sum());
            self.bytes = halves.collect();
            self.step = self.step + self.step;
            at = self.place(now);
        }
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        self.bytes[at] = self.bytes[at].saturating_add(bytes);
    }

    fn place(&self, now: Nanos) -> usize {
        usize::try_from(now.since(self.started).0 / self.step.0).unwrap_or(usize::MAX)
    }

    /// The middle of each step in seconds from the start, and bytes a second in it.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let step_s = self.step.as_secs_f64();
        let rate =
            |(at, bytes): (usize, &u64)| ((at as f64 + 0.5) * step_s, *bytes as f64 / step_s);
        self.bytes.iter().enumerate().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_lost_and_steps_stay_few_however_long_it_takes() {
        let mut over_time = OverTime::new(Nanos::from_secs(5));
        for second in 5..5 + 10_000 {
            over_time.add(1000, Nanos::from_secs(second));
        }
        let rates = over_time.rates();
        assert!(rates.len() <= STEPS_MAX && rates.len() > STEPS_MAX / 4, "{}", rates.len());
        let step_s = rates[1].0 - rates[0].0;
        let sum: f64 = rates.iter().map(|(_, rate)| rate * step_s).sum();
        assert!((sum - 10_000_000.0).abs() < 1.0, "{sum}");
        assert!(rates[1..rates.len() - 1].iter().all(|(_, rate)| (*rate - 1000.0).abs() < 20.0));
    }
}
