//! What this crate adds to a durable 4 KiB write: p50 and p99 at queue depth 1, beside a bare
//! `pwrite` to the same file opened with `O_DSYNC`, in interleaved rounds; and writes per second at
//! queue depth 32.
//!
//! `cargo run --release -p nearhead-uring --example latency -- FILE [ROUNDS]`
//! The file is created (64 MiB, written once so that no allocation is measured) if it is missing;
//! an existing one is **overwritten**.

use clap::Parser;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Completion, Disk, Nanos, Payload, Submission, Ticket,
};
use nearhead_uring::{Engine, OpenOptions, RealDisk};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

const FILE_BYTES: u64 = 64 << 20;
const WRITE_BYTES: usize = 4096;
const WRITES_PER_ROUND: usize = 20;
const WRITES_PER_ROUND_DEEP: u64 = 320;
const DEPTH: u64 = 32;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What a durable write costs, bare and through each engine
#[derive(clap::Parser)]
struct Arguments {
    /// What is written over
    file: PathBuf,
    /// Rounds in which they take turns
    #[arg(default_value_t = 100)]
    rounds: u64,
}

fn main() -> Outcome<()> {
    let Arguments { file: path, rounds } = Arguments::parse();
    prepare(&path)?;
    let bare = open_bare(&path)?;
    let mut disks =
        [open_disk(&path, Engine::Threads, true)?, open_disk(&path, Engine::Uring, false)?];
    let mut deep: Vec<Vec<f64>> = vec![Vec::new(); disks.len()];
    let mut samples_us: Vec<Vec<f64>> = vec![Vec::new(); 1 + disks.len()];
    for round in 0..rounds {
        samples_us[0].extend(measure(round, |offset, data| write_bare(&bare, offset, data))?);
        for (index, disk) in disks.iter_mut().enumerate() {
            let write = |offset, data: &Payload| write_disk(disk, offset, data);
            samples_us[index + 1].extend(measure(round, write)?);
            deep[index].push(writes_per_s_deep(round, disk)?);
        }
    }
    println!("{:<24} {:>9} {:>9} {:>9}", "4 KiB durable, QD 1", "p50 us", "p99 us", "over bare");
    let bare_p50 = percentile(&mut samples_us[0], 50);
    for (name, samples) in
        ["pwrite with O_DSYNC", "threads", "io_uring"].iter().zip(&mut samples_us)
    {
        let (p50, p99) = (percentile(samples, 50), percentile(samples, 99));
        println!("{name:<24} {p50:>9.1} {p99:>9.1} {:>+9.1}", p50 - bare_p50);
    }
    println!("{:<24} {:>9}", "4 KiB durable, QD 32", "writes/s");
    for (name, samples) in ["threads", "io_uring"].iter().zip(&mut deep) {
        println!("{name:<24} {:>9.0}", percentile(samples, 50));
    }
    Ok(())
}

fn prepare(path: &Path) -> Outcome<()> {
    if !path.exists() {
        nearhead_uring::create_image(path, FILE_BYTES)?;
    }
    let mut disk = open_disk(path, Engine::Automatic, true)?;
    for note in disk.notes() {
        println!("note: {note}");
    }
    let chunk = Payload::Bytes(BufferMut::copy_of(&vec![0xa5; 1 << 20]).freeze());
    for offset in (0..FILE_BYTES).step_by(chunk.len()) {
        write_disk(&mut disk, offset, &chunk)?;
    }
    Ok(())
}

fn open_disk(path: &Path, engine: Engine, exclusive: bool) -> Outcome<RealDisk> {
    let options = OpenOptions { engine, exclusive, ..OpenOptions::default() };
    Ok(nearhead_uring::open(path, &options)?)
}

fn open_bare(path: &Path) -> Outcome<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::DSYNC | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn write_bare(fd: &OwnedFd, offset: u64, data: &Payload) -> Outcome<()> {
    let Payload::Bytes(bytes) = data else { return Err("only bytes are measured".into()) };
    let written = rustix::io::pwrite(fd, bytes, offset)?;
    if written == bytes.len() { Ok(()) } else { Err("short write".into()) }
}

fn write_disk(disk: &mut RealDisk, offset: u64, data: &Payload) -> Outcome<()> {
    submit(disk, offset, data);
    disk.kick();
    wait(disk)?.result?;
    Ok(())
}

fn submit(disk: &mut RealDisk, offset: u64, data: &Payload) {
    let command = Command::Write { offset, parts: vec![data.clone()], durable: true };
    let ticket = Ticket::new(CommandId(offset));
    disk.submit(Submission { ticket, class: Class::Durable, command }, Nanos::ZERO);
}

fn wait(disk: &mut RealDisk) -> Outcome<Completion> {
    loop {
        if let Some(completion) = disk.poll(Nanos::ZERO) {
            return Ok(completion);
        }
        if disk.wake_at().is_some() {
            continue;
        }
        let fd = disk.wake_fd().ok_or("a real disk has a descriptor")?;
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None)?;
    }
}

/// Microseconds of each write of a round, at offsets that are the same for every contender.
fn measure(round: u64, mut write: impl FnMut(u64, &Payload) -> Outcome<()>) -> Outcome<Vec<f64>> {
    let data = Payload::Bytes(BufferMut::copy_of(&[round as u8; WRITE_BYTES]).freeze());
    let mut samples_us = Vec::with_capacity(WRITES_PER_ROUND);
    for index in 0..WRITES_PER_ROUND as u64 {
        let block = (round * 7919 + index * 104_729) % (FILE_BYTES / WRITE_BYTES as u64);
        let start = Instant::now();
        write(block * WRITE_BYTES as u64, &data)?;
        samples_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(samples_us)
}

/// Durable writes per second with [`DEPTH`] outstanding at all times.
fn writes_per_s_deep(round: u64, disk: &mut RealDisk) -> Outcome<f64> {
    let data = Payload::Bytes(BufferMut::copy_of(&[round as u8; WRITE_BYTES]).freeze());
    let total = WRITES_PER_ROUND_DEEP;
    let start = Instant::now();
    let (mut sent, mut done) = (0, 0);
    while done < total {
        while sent < total && sent - done < DEPTH {
            let block = (round * 7919 + sent * 104_729) % (FILE_BYTES / WRITE_BYTES as u64);
            submit(disk, block * WRITE_BYTES as u64, &data);
            sent += 1;
        }
        disk.kick();
        wait(disk)?.result?;
        done += 1;
        while let Some(completion) = disk.poll(Nanos::ZERO) {
            completion.result?;
            done += 1;
        }
    }
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() * percent / 100).copied().unwrap_or(f64::NAN)
}
