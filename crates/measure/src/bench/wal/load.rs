//! One writer of a log, alone and then beside bulk writes.
//!
//! The phases follow each other on the same files, so what a writer did alone is known when bulk
//! begins. A latency belongs to the phase in which its write began. A paced writer that is late
//! leaves out the times that have passed: what is not written has no latency, which makes the bad
//! cases look better than they are, and never the good ones.

use super::writers::Writer;
use nearhead_wal::bulk::{BulkWriter, Gate};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const CHUNK_BYTES: usize = 1 << 20;
/// Writes before the first that counts.
const WARM_UP: u32 = 20;

/// How often the writer writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// So many times a second.
    Paced(f64),
    /// Again as soon as the last is durable.
    Saturating,
}

impl Rate {
    pub(super) fn name(self) -> String {
        match self {
            Self::Paced(per_s) => format!("{per_s:.0}/s"),
            Self::Saturating => "saturating".to_owned(),
        }
    }
}

/// Latencies of one phase, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latencies {
    pub(super) count: usize,
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Latencies {
    /// Of these samples, in ms. Percentiles are samples: the smallest that so many are not above.
    pub(super) fn of(samples: &mut [f64]) -> Self {
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        let at = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            samples.get(rank - 1).copied().unwrap_or_default()
        };
        let mean = samples.iter().sum::<f64>() / count.max(1) as f64;
        let max = samples.last().copied().unwrap_or_default();
        Self { count, mean, p50: at(50), p99: at(99), max }
    }
}

const ALONE: u8 = 0;
const BESIDE: u8 = 1;
const OVER: u8 = 2;

/// Appends for `alone` and then for as long as `bulk` takes, which is told what the first phase
/// measured. Gives both phases and what `bulk` returned.
pub(super) fn alone_and_beside<T>(
    writer: &Writer,
    rate: Rate,
    alone: Duration,
    bulk: impl FnOnce(&Latencies) -> Result<T, String>,
) -> Result<(Latencies, Latencies, T), String> {
    let phase = AtomicU8::new(ALONE);
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let (phase, tell) = (&phase, tell);
        let appender = scope.spawn(move || append_through_phases(writer, rate, phase, &tell));
        // Nothing to do but to let time pass.
        std::thread::sleep(alone);
        phase.store(BESIDE, Ordering::SeqCst);
        let outcome = match told.recv() {
            Ok(alone) => bulk(&alone).map(|result| (alone, result)),
            Err(_) => Err("the writer ended early".to_owned()),
        };
        phase.store(OVER, Ordering::SeqCst);
        // Why the writer failed says more than that it ended.
        let beside = appender.join().map_err(|_| "the writer panicked".to_owned())??;
        outcome.map(|(alone, result)| (alone, beside, result))
    })
}

fn append_through_phases(
    writer: &Writer,
    rate: Rate,
    phase: &AtomicU8,
    tell: &Sender<Latencies>,
) -> Result<Latencies, String> {
    (0..WARM_UP).try_for_each(|_| writer.append())?;
    let mut samples = Vec::new();
    let mut current = ALONE;
    let mut due = Instant::now();
    loop {
        if let Rate::Paced(per_s) = rate {
            due += Duration::from_secs_f64(1.0 / per_s);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due = due.max(Instant::now());
        }
        let now_in = phase.load(Ordering::SeqCst);
        if now_in != current {
            if current == ALONE {
                // Who listens has given up if nobody does; the phase tells the same.
                let _ = tell.send(Latencies::of(&mut samples));
                samples.clear();
            }
            current = now_in;
        }
        if current == OVER {
            return Ok(Latencies::of(&mut samples));
        }
        let began = Instant::now();
        writer.append()?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
    }
}

/// Writes a file of `mib` MiB through the page cache and one fsync, as programs do; in MiB/s.
pub(super) fn bulk_unmanaged(path: &Path, mib: usize) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let chunk = vec![0x5a; CHUNK_BYTES];
    let began = Instant::now();
    let mut file = File::create_new(path).map_err(failed)?;
    (0..mib).try_for_each(|_| file.write_all(&chunk)).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(mib as f64 / began.elapsed().as_secs_f64())
}

/// Writes the same through the library's gate; in MiB/s.
pub(super) fn bulk_paced(path: &Path, mib: usize, gate: Arc<Gate>) -> Result<f64, String> {
    let failed = |error: nearhead_wal::WalError| error.to_string();
    let chunk = vec![0x5a; CHUNK_BYTES];
    let began = Instant::now();
    let mut writer = BulkWriter::create(path, gate).map_err(failed)?;
    (0..mib).try_for_each(|_| writer.write(&chunk)).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(mib as f64 / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_so_many_are_not_above() {
        let mut samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let found = Latencies::of(&mut samples);
        let expected = Latencies { count: 200, mean: 100.5, p50: 100.0, p99: 198.0, max: 200.0 };
        assert_eq!(found, expected);
        assert_eq!(Latencies::of(&mut []), Latencies::default());
        let one = Latencies::of(&mut [7.0]);
        assert_eq!((one.p50, one.p99, one.max), (7.0, 7.0, 7.0));
    }
}
