//! A thread that does nothing but sleep, and how late it wakes: what the machine does to a timer.
//!
//! It sleeps so seldom that it disturbs nothing, and is given up as soon as nobody asks any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(2);
/// Fewer say nothing. On a busy machine a trial gets few, and the latest of them is what counts.
const SLEEPS_MIN: usize = 25;
/// Lateness is counted in steps of 10 us, up to a second: memory does not grow with the measurement.
const STEP_US: usize = 10;
const STEPS: usize = 100_000;

/// The running thread.
pub(super) struct Sleeper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Counts>,
}

impl Sleeper {
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = spawn(move || {
            let mut counts = Counts::default();
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(SLEEP);
                counts.add(began.elapsed().saturating_sub(SLEEP));
            }
            counts
        });
        Self { stop, thread }
    }

    /// Tries for `span`, with nothing else to do.
    pub(super) fn try_for(span: Duration) -> Option<f64> {
        let sleeper = Self::start();
        std::thread::sleep(span);
        sleeper.late_us_p99()
    }

    /// Ends it; `None` if it has slept too seldom to say.
    pub(super) fn late_us_p99(self) -> Option<f64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok()?.p99_us()
    }
}

/// How often a sleep ended so many steps late.
struct Counts {
    steps: Vec<u32>,
    all: usize,
}

impl Default for Counts {
    fn default() -> Self {
        Self { steps: vec![0; STEPS], all: 0 }
    }
}

impl Counts {
    fn add(&mut self, late: Duration) {
        let step = (late.as_micros() as usize / STEP_US).min(STEPS - 1);
        self.steps[step] += 1;
        self.all += 1;
    }

    fn p99_us(&self) -> Option<f64> {
        if self.all < SLEEPS_MIN {
            return None;
        }
        let mut left = self.all - self.all / 100;
        let found = self.steps.iter().position(|count| {
            left = left.saturating_sub(*count as usize);
            left == 0
        });
        found.map(|step| (step * STEP_US) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_later_than_what_is_told() {
        let mut counts = Counts::default();
        for late_us in 0..1000 {
            counts.add(Duration::from_micros(late_us));
        }
        assert_eq!(counts.p99_us(), Some(980.0));
        counts.add(Duration::from_secs(3600));
        assert_eq!(counts.p99_us(), Some(990.0), "what is late beyond all steps is in the last");
    }

    #[test]
    fn too_few_sleeps_say_nothing() {
        let mut counts = Counts::default();
        counts.add(Duration::from_secs(1));
        assert_eq!(counts.p99_us(), None);
    }
}
