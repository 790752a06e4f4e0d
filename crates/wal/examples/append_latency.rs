//! What a durable append costs beside the barest write there is: p50 and p99 of one writer, all in
//! one run, in rounds that take turns.
//!
//! `cargo run --release -p nearhead-wal --example append_latency -- DIRECTORY [ROUNDS] [BYTES]`
//!
//! - `bare`: `O_DIRECT` with `RWF_DSYNC` over extents that were written before: the floor;
//! - the log in each of its modes, blocks of 4096 and 512 bytes, `append_durable` of as many bytes;
//! - the same in the mode `process`, told through a ring and through a socket, if the variable
//!   `NEARHEAD_WAL_HELPER` names the helper's program;
//! - `growing`: write and fdatasync at the end of a file, as most programs do.
//!
//! DIRECTORY is made if it is missing; what is in it of earlier runs is removed.

use clap::Parser;
use nearhead_disk::BufferMut;
use nearhead_uring::{Access, DurableFile};
use nearhead_wal::process::{HelperOptions, Transport};
use nearhead_wal::writer::Mode;
use nearhead_wal::{Geometry, LogOptions, OpenOptions, Opened, Tail};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

const WRITES_PER_ROUND: usize = 50;
const BARE_BYTES: u64 = 16 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Contestant = (String, Box<dyn FnMut() -> Outcome<()>>);

/// What a durable append costs in each mode, beside the barest write and a growing file
#[derive(clap::Parser)]
struct Arguments {
    /// Where files are written, in a folder of their own that is removed
    directory: PathBuf,
    /// Rounds in which they take turns
    #[arg(default_value_t = 40)]
    rounds: usize,
    /// Bytes of an append
    #[arg(default_value_t = 4096)]
    bytes: usize,
}

fn main() -> Outcome<()> {
    let Arguments { directory, rounds, bytes } = Arguments::parse();
    let directory = directory.join("append-latency");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    let mut contestants = vec![bare(&directory, bytes)?];
    for mode in [Mode::Caller, Mode::Request, Mode::Thread] {
        for block_bytes in [4096, 512] {
            contestants.push(log(&directory, (mode, None), block_bytes, bytes)?);
        }
    }
    if std::env::var_os("NEARHEAD_WAL_HELPER").is_some() {
        for transport in [Transport::Ring, Transport::Socket] {
            let who = (Mode::Process, Some(transport));
            contestants.push(log(&directory, who, 4096, bytes)?);
        }
    }
    contestants.push(growing(&directory, bytes)?);
    let mut samples_us = vec![Vec::new(); contestants.len()];
    for round in 0..=rounds {
        for (samples, (_, write)) in samples_us.iter_mut().zip(&mut contestants) {
            for _ in 0..WRITES_PER_ROUND {
                let began = Instant::now();
                write()?;
                // The first round warms up.
                if round > 0 {
                    samples.push(began.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
    }
    println!("{bytes} bytes durable, one writer, {} writes each", rounds * WRITES_PER_ROUND);
    println!("{:<32} {:>9} {:>9} {:>9} {:>10}", "", "p50 us", "p99 us", "of bare", "of growing");
    let p50: Vec<f64> = samples_us.iter_mut().map(|samples| percentile(samples, 50)).collect();
    let (first, last) = (p50[0], p50[p50.len() - 1]);
    for (((name, _), samples), p50) in contestants.iter().zip(&mut samples_us).zip(&p50) {
        let p99 = percentile(samples, 99);
        println!("{name:<32} {p50:>9.1} {p99:>9.1} {:>8.2}x {:>9.2}x", p50 / first, p50 / last);
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() * percent / 100).min(samples.len() - 1)]
}

fn bare(directory: &Path, bytes: usize) -> Outcome<Contestant> {
    let file = DurableFile::open(&directory.join("bare"), Access::Create, true)?;
    let zeros = BufferMut::zeroed(1 << 20);
    for piece in 0..BARE_BYTES >> 20 {
        file.write_at(&zeros, piece << 20)?;
    }
    file.sync()?;
    let data = BufferMut::zeroed(bytes.next_multiple_of(4096));
    let mut offset = 0;
    let write = move || {
        file.write_durable_at(&data, offset)?;
        offset = (offset + data.len() as u64) % BARE_BYTES;
        Ok(())
    };
    Ok(("bare".to_owned(), Box::new(write)))
}

fn log(
    directory: &Path,
    (mode, transport): (Mode, Option<Transport>),
    block_bytes: u32,
    bytes: usize,
) -> Outcome<Contestant> {
    let geometry = Geometry { segment_bytes: 16 << 20, block_bytes, tail: Tail::Rewritten };
    let log = LogOptions { geometry, ..LogOptions::default() };
    let options = OpenOptions { log, mode, ..OpenOptions::default() };
    let way = transport.map_or(String::new(), |transport| format!(" by {transport:?}"));
    let name = format!("{mode:?}{way}, {block_bytes}");
    let path = directory.join(name.replace([' ', ','], "-"));
    let transport = transport.unwrap_or_default();
    let helper = HelperOptions { transport, ..HelperOptions::default() };
    let Opened { log, choice, .. } = options.open_through(&path, &helper, |_, _| {})?;
    println!("{name}: {choice}");
    let record = vec![0x5a; bytes];
    let write = move || {
        let lsn = log.append_durable(&record)?;
        if lsn.0.is_multiple_of(2000) {
            log.truncate_prefix(lsn)?;
        }
        Ok(())
    };
    Ok((format!("log, {name} B blocks"), Box::new(write)))
}

fn growing(directory: &Path, bytes: usize) -> Outcome<Contestant> {
    let mut file = File::create(directory.join("growing"))?;
    let data = vec![0x5a; bytes];
    let write = move || {
        file.write_all(&data)?;
        file.sync_data()?;
        Ok(())
    };
    Ok(("growing, write+fdatasync".to_owned(), Box::new(write)))
}
