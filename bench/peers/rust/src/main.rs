//! Appends to the logs of other crates, measured: one JSON line at the end.
//!
//! `nearhead-bench-peers PEER DIRECTORY WRITERS SECONDS BYTES`, PEER `okaywal` or `raft-engine`. Each
//! is used as its documentation says, with its defaults, but that raft-engine writes its files
//! beforehand (`prefill_for_recycle`, in files of 64 MiB, which are recycled from 128 MiB on), which
//! makes it faster: it is compared at its best. An append counts from the call to its durability; what is old is given up, as a program would.

use std::error::Error;
use std::sync::Barrier;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One durable append of writer `.0`, its `.1`-th.
type Append<'a> = dyn Fn(usize, u64, &[u8]) -> Outcome<()> + Sync + 'a;

/// Appends of each writer before it is measured.
const WARM_UP: u64 = 20;
/// Appends of a writer between two times that it gives up what is old.
const GIVEN_UP_AFTER: u64 = 2000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, directory, writers, seconds, bytes] = arguments.as_slice() else {
        return Err("expected PEER DIRECTORY WRITERS SECONDS BYTES".into());
    };
    let load = Load {
        writers: writers.parse()?,
        span: Duration::from_secs_f64(seconds.parse()?),
        bytes: bytes.parse()?,
    };
    let (version, (mut latencies_us, took)) = match peer.as_str() {
        "okaywal" => ("0.3.1", okaywal(directory, &load)?),
        "raft-engine" => ("0.4.2", raft_engine(directory, &load)?),
        other => return Err(format!("expected okaywal or raft-engine, found {other:?}").into()),
    };
    latencies_us.sort_by(f64::total_cmp);
    let last = latencies_us.len().saturating_sub(1);
    let at = |percent: usize| {
        latencies_us.get((latencies_us.len() * percent / 100).min(last)).copied().unwrap_or(0.0)
    };
    println!(
        "{{\"peer\":\"{peer}\",\"version\":\"{version}\",\"writers\":{},\"appends\":{},\"seconds\":{:.6},\"p50_us\":{:.1},\"p99_us\":{:.1}}}",
        load.writers,
        latencies_us.len(),
        took.as_secs_f64(),
        at(50),
        at(99)
    );
    Ok(())
}

/// What is appended.
struct Load {
    writers: usize,
    span: Duration,
    bytes: usize,
}

fn okaywal(directory: &str, load: &Load) -> Outcome<(Vec<f64>, Duration)> {
    // It gives up what is old by itself, once enough was written.
    let log = okaywal::WriteAheadLog::recover(directory, okaywal::LogVoid)?;
    let measured = measure(load, &|_, _, record| {
        let mut entry = log.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    })?;
    log.shutdown()?;
    Ok(measured)
}

fn raft_engine(directory: &str, load: &Load) -> Outcome<(Vec<f64>, Duration)> {
    let config = raft_engine::Config {
        dir: directory.to_owned(),
        enable_log_recycle: true,
        prefill_for_recycle: true,
        prefill_limit: Some(raft_engine::ReadableSize::mb(128)),
        purge_threshold: raft_engine::ReadableSize::mb(128),
        target_file_size: raft_engine::ReadableSize::mb(64),
        ..raft_engine::Config::default()
    };
    let engine = raft_engine::Engine::open(config)?;
    measure(load, &|writer, number, record| {
        let mut batch = raft_engine::LogBatch::default();
        // A region of each writer's own with one key, whose newest value counts.
        batch.put(writer as u64 + 1, b"newest".to_vec(), record.to_vec())?;
        engine.write(&mut batch, true)?;
        if writer == 0 && number % GIVEN_UP_AFTER == 0 {
            engine.purge_expired_files()?;
        }
        Ok(())
    })
}

/// All latencies, in us, and how long it took.
fn measure(load: &Load, append: &Append<'_>) -> Outcome<(Vec<f64>, Duration)> {
    let ready = Barrier::new(load.writers + 1);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..load.writers)
            .map(|writer| {
                let ready = &ready;
                scope.spawn(move || one_writer(writer, load, append, ready))
            })
            .collect();
        ready.wait();
        let began = Instant::now();
        let mut all = Vec::new();
        for writer in writers {
            all.extend(writer.join().map_err(|_| "a writer panicked")??);
        }
        Ok((all, began.elapsed()))
    })
}

fn one_writer(
    writer: usize,
    load: &Load,
    append: &Append<'_>,
    ready: &Barrier,
) -> Outcome<Vec<f64>> {
    let record = vec![0x5a; load.bytes];
    let warmed_up = (1..=WARM_UP).try_for_each(|number| append(writer, number, &record));
    ready.wait();
    warmed_up?;
    let began = Instant::now();
    let mut latencies_us = Vec::new();
    let mut number = WARM_UP;
    while began.elapsed() < load.span {
        number += 1;
        let called = Instant::now();
        append(writer, number, &record)?;
        latencies_us.push(called.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies_us)
}
