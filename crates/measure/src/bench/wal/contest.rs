//! Writers that append in turn, any number of threads each, and what became of it.

use super::load::Latencies;
use super::writers::Writer;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Writes of each thread before the first that counts.
const WARM_UP: u32 = 20;

/// What `threads` threads measured in one go.
pub(super) struct Slice {
    /// Each latency, in ms.
    pub(super) samples: Vec<f64>,
    pub(super) took: Duration,
}

/// Everything that was measured of one contestant.
#[derive(Default)]
pub(super) struct Tally {
    samples: Vec<f64>,
    rates: Vec<f64>,
}

impl Tally {
    pub(super) fn add(&mut self, slice: Slice) {
        self.rates.push(slice.samples.len() as f64 / slice.took.as_secs_f64());
        self.samples.extend(slice.samples);
    }

    /// Latencies of all rounds together.
    pub(super) fn latencies(&mut self) -> Latencies {
        Latencies::of(&mut self.samples)
    }

    /// Appends per second, the median of the rounds.
    pub(super) fn per_s(&self) -> f64 {
        super::super::row::median(&self.rates)
    }
}

/// Appends with `threads` threads for `span`.
pub(super) fn append(writer: &Writer, threads: usize, span: Duration) -> Result<Slice, String> {
    let ready = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let start = |_| scope.spawn(|| append_alone(writer, &ready, span));
        let appending: Vec<_> = (0..threads).map(start).collect();
        ready.wait();
        let began = Instant::now();
        let mut samples = Vec::new();
        for thread in appending {
            samples.extend(thread.join().map_err(|_| "a writer panicked".to_owned())??);
        }
        Ok(Slice { samples, took: began.elapsed() })
    })
}

fn append_alone(writer: &Writer, ready: &Barrier, span: Duration) -> Result<Vec<f64>, String> {
    let warmed_up = (0..WARM_UP).try_for_each(|_| writer.append());
    // Everybody comes here, also who failed, or the others would wait for ever.
    ready.wait();
    warmed_up?;
    let mut samples = Vec::new();
    let started = Instant::now();
    while started.elapsed() < span {
        let began = Instant::now();
        writer.append()?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(samples)
}
