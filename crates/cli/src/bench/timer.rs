//! How exactly an emulated disk keeps its time when served in real time.
//!
//! A disk whose every command takes the same time is served over a socket, once with no time at all and
//! once with what a hard disk takes. What a read takes longer than that time and the round trip of the
//! first is the error of the timer, scheduler included.

use super::Effort;
use super::row::{Row, Target, median};
use crate::demo::client::{Ask, Client};
use crate::demo::server::Served;
use nearhead_disk::Nanos;
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_nbd::Limits;
use nearhead_volume::BareDisk;
use std::path::Path;
use std::time::{Duration, Instant};

const COMMAND_US: u64 = 3_000;
const READ_BYTES: u32 = 4096;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let reads = effort.pick(2_000, 100);
    let round_trip_us = median(&times_us(folder, Nanos::ZERO, reads)?);
    let times_us = times_us(folder, Nanos::from_micros(COMMAND_US), reads)?;
    let expected_us = COMMAND_US as f64 + round_trip_us;
    let mut errors_us: Vec<f64> = times_us.iter().map(|time| (time - expected_us).abs()).collect();
    let p99 = p99(&mut errors_us);
    let detail = format!(
        "{reads} reads of {COMMAND_US} us over a socket whose round trip takes {round_trip_us:.0} us; \
         p50 {:.1} us; a plain sleep of that time on this machine: p99 {:.0} us",
        median(&errors_us),
        p99_of_plain_sleeps(reads)
    );
    Ok(vec![Row::new("timer_error_us_p99", Target::AtMost(100.0), p99, detail)])
}

fn p99(errors_us: &mut [f64]) -> f64 {
    errors_us.sort_by(f64::total_cmp);
    errors_us.get(errors_us.len() * 99 / 100).copied().unwrap_or_default()
}

/// How late this thread wakes from sleeps: what the machine alone does.
fn p99_of_plain_sleeps(sleeps: u64) -> f64 {
    let mut errors_us: Vec<f64> = (0..sleeps)
        .map(|_| {
            let started = Instant::now();
            std::thread::sleep(Duration::from_micros(COMMAND_US));
            started.elapsed().as_secs_f64() * 1e6 - COMMAND_US as f64
        })
        .collect();
    p99(&mut errors_us)
}

/// What each of `reads` reads took, one at a time, from a disk where a command takes `latency`.
fn times_us(folder: &Path, latency: Nanos, reads: u64) -> Result<Vec<f64>, String> {
    let told = |error: std::io::Error| error.to_string();
    let served = Served::start(folder, "timer", Limits::default(), move |_| {
        let properties = plain_properties(1 << 30, 512);
        Ok(BareDisk::new(InstantDisk::new(properties, Box::new(Dataless), latency)))
    })?;
    let mut client = Client::connect(served.socket(), PATIENCE).map_err(told)?;
    let mut times_us = Vec::new();
    for number in 0..reads {
        let started = Instant::now();
        let offset = number * u64::from(READ_BYTES);
        client.send(number, Ask::Read { offset, len: READ_BYTES }).map_err(told)?;
        let answer = client.receive().map_err(told)?;
        if answer.error != 0 {
            return Err(std::io::Error::from_raw_os_error(answer.error as i32).to_string());
        }
        times_us.push(started.elapsed().as_secs_f64() * 1e6);
    }
    drop(client);
    served.stop()?;
    Ok(times_us)
}
