//! How exactly an emulated disk keeps its time when served in real time.
//!
//! A disk whose every command takes what a hard disk takes is served over a socket. The error is how long
//! after its due time each command was taken from the disk by the serving thread: sleep, scheduler and
//! event loop, but not the socket and the client, who are late for reasons of their own.

use super::Effort;
use super::row::{Row, Target, median};
use crate::demo::client::{Ask, Client};
use crate::demo::server::Served;
use nearhead_disk::{Completion, Disk, Nanos, Properties, Submission};
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_nbd::Limits;
use nearhead_volume::BareDisk;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const COMMAND: Nanos = Nanos::from_millis(3);
const READ_BYTES: u32 = 4096;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let reads = effort.pick(4_000, 100);
    let mut errors_us = errors_us(folder, reads)?;
    let p99 = p99(&mut errors_us);
    let detail = format!(
        "{reads} reads of {} us; p50 {:.1} us; a plain sleep of that time on this machine: p99 {:.0} us",
        COMMAND.0 / 1000,
        median(&errors_us),
        p99_of_plain_sleeps(reads / 2)
    );
    Ok(vec![Row::new("timer_error_us_p99", Target::AtMost(100.0), p99, detail)])
}

fn p99(errors_us: &mut [f64]) -> f64 {
    errors_us.sort_by(f64::total_cmp);
    errors_us.get(errors_us.len() * 99 / 100).copied().unwrap_or_default()
}

/// How late this thread wakes from sleeps: what the machine alone does.
fn p99_of_plain_sleeps(sleeps: u64) -> f64 {
    let span = Duration::from_nanos(COMMAND.0);
    let mut errors_us: Vec<f64> = (0..sleeps)
        .map(|_| {
            let started = Instant::now();
            std::thread::sleep(span);
            started.elapsed().saturating_sub(span).as_secs_f64() * 1e6
        })
        .collect();
    p99(&mut errors_us)
}

/// How late each of `reads` reads, one at a time, was taken from the disk.
fn errors_us(folder: &Path, reads: u64) -> Result<Vec<f64>, String> {
    let told = |error: std::io::Error| error.to_string();
    let (tell, errors) = channel();
    let served = Served::start(folder, "timer", Limits::default(), move |_| {
        Ok(BareDisk::new(TimedDisk::new(tell)))
    })?;
    let mut client = Client::connect(served.socket(), PATIENCE).map_err(told)?;
    for number in 0..reads {
        let offset = number * u64::from(READ_BYTES);
        client.send(number, Ask::Read { offset, len: READ_BYTES }).map_err(told)?;
        let answer = client.receive().map_err(told)?;
        if answer.error != 0 {
            return Err(std::io::Error::from_raw_os_error(answer.error as i32).to_string());
        }
    }
    drop(client);
    served.stop()?;
    Ok(errors.iter().map(|late: Nanos| late.0 as f64 / 1e3).collect())
}

/// A disk that tells how late each of its completions is taken.
struct TimedDisk {
    disk: InstantDisk,
    /// When those on their way are due, oldest first.
    due: VecDeque<Nanos>,
    tell: Sender<Nanos>,
}

impl TimedDisk {
    fn new(tell: Sender<Nanos>) -> Self {
        let properties = plain_properties(1 << 30, 512);
        let disk = InstantDisk::new(properties, Box::new(Dataless), COMMAND);
        Self { disk, due: VecDeque::new(), tell }
    }
}

impl Disk for TimedDisk {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.due.push_back(now + COMMAND);
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let completion = self.disk.poll(now)?;
        if let Some(due) = self.due.pop_front() {
            // Who measures may have stopped listening.
            let _ = self.tell.send(now.since(due));
        }
        Some(completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}
