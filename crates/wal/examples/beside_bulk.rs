//! A log beside bulk writes on one disk: latency and bulk bandwidth, alone, unmanaged and paced.
//!
//! `cargo run --release -p nearhead-wal --example beside_bulk -- DIRECTORY [MIB] [TARGET_MS]`
//!
//! Each phase appends 4 KiB records durably, one after the other, for as long as a bulk file of MIB
//! (536 by default, the paper's) is being written: not at all (for 3 s), by plain writes and one
//! fsync, and through the gate with `TARGET_MS` (2 by default) as the p99 to keep.

use clap::Parser;
use nearhead_wal::bulk::{BulkWriter, Gate, PaceOptions};
use nearhead_wal::{Log, OpenOptions};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ALONE: Duration = Duration::from_secs(3);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What appends cost beside bulk writes, unmanaged and paced
#[derive(clap::Parser)]
struct Arguments {
    /// Where files are written, in a folder of their own that is removed
    directory: PathBuf,
    /// MiB of bulk
    #[arg(default_value_t = 536)]
    mib: usize,
    /// The p99 that the pace aims at, in milliseconds
    #[arg(default_value_t = 2.0)]
    target_ms: f64,
}

fn main() -> Outcome<()> {
    let Arguments { directory, mib, target_ms } = Arguments::parse();
    let directory = directory.join("beside-bulk");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    let opened = OpenOptions::default().open(&directory.join("log"), |_, _| {})?;
    println!("{}", opened.choice);
    let log = Arc::new(opened.log);
    println!(
        "{:<12} {:>8} {:>9} {:>9} {:>9} {:>12}",
        "", "appends", "mean ms", "p50 ms", "p99 ms", "bulk MiB/s"
    );
    phase("alone", &log, || {
        // Nothing to do but to let time pass.
        std::thread::sleep(ALONE);
        Ok(0)
    })?;
    let chunk = vec![0x5a; 1 << 20];
    let unmanaged = directory.join("unmanaged");
    phase("unmanaged", &log, || {
        let mut file = std::fs::File::create(&unmanaged)?;
        (0..mib).try_for_each(|_| file.write_all(&chunk))?;
        file.sync_all()?;
        Ok(mib)
    })?;
    let source = Arc::clone(&log);
    let target_latency_ns_p99 = (target_ms * 1e6) as u64;
    let options = PaceOptions { target_latency_ns_p99, ..PaceOptions::default() };
    // The gate takes the window, so this phase's own figures come from the timed appends.
    let gate = Arc::new(Gate::new(options, Box::new(move || source.take_latency_window())));
    let paced = directory.join("paced");
    phase("paced", &log, || {
        let mut writer = BulkWriter::create(&paced, Arc::clone(&gate))?;
        (0..mib).try_for_each(|_| writer.write(&chunk))?;
        writer.finish()?;
        Ok(mib)
    })?;
    println!("paced: {}", gate.report());
    drop(gate);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn phase(name: &str, log: &Log, bulk: impl FnOnce() -> Outcome<usize> + Send) -> Outcome<()> {
    let is_done = AtomicBool::new(false);
    let began = Instant::now();
    let (bulk_outcome, appended) = std::thread::scope(|scope| {
        let appender = scope.spawn(|| append_until(log, &is_done));
        let outcome = bulk().map(|mib| mib as f64 / began.elapsed().as_secs_f64());
        is_done.store(true, Ordering::Relaxed);
        (outcome, appender.join())
    });
    let mut samples_ms = appended.map_err(|_| "the appending thread panicked")??;
    samples_ms.sort_by(f64::total_cmp);
    let count = samples_ms.len().max(1);
    let mean = samples_ms.iter().sum::<f64>() / count as f64;
    let at =
        |percent: usize| samples_ms.get(samples_ms.len() * percent / 100).copied().unwrap_or(0.0);
    println!(
        "{name:<12} {:>8} {mean:>9.3} {:>9.3} {:>9.3} {:>12.1}",
        samples_ms.len(),
        at(50),
        at(99),
        bulk_outcome?
    );
    Ok(())
}

fn append_until(log: &Log, is_done: &AtomicBool) -> Outcome<Vec<f64>> {
    let record = vec![0x5a; 4096];
    let mut samples_ms = Vec::new();
    while !is_done.load(Ordering::Relaxed) {
        let began = Instant::now();
        let lsn = log.append_durable(&record)?;
        samples_ms.push(began.elapsed().as_secs_f64() * 1e3);
        if lsn.0.is_multiple_of(4000) {
            log.truncate_prefix(lsn)?;
        }
    }
    Ok(samples_ms)
}
