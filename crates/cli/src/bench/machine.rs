//! What the numbers were measured on, and what this process used.

use super::row::Row;
use serde::Serialize;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Everything that goes into bench.json.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    measured_unix_s: u64,
    quick: bool,
    processor: String,
    processors: usize,
    kernel: String,
    memory_bytes: u64,
    load_average_1_min: f64,
    rows: &'a [Row],
}

pub(super) fn report(rows: &[Row], quick: bool) -> Report<'_> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Report {
        measured_unix_s: since_1970.map_or(0, |since| since.as_secs()),
        quick,
        processor: field("/proc/cpuinfo", "model name"),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        kernel: fs::read_to_string("/proc/version").unwrap_or_default().trim().to_owned(),
        memory_bytes: kib(&field("/proc/meminfo", "MemTotal")),
        load_average_1_min: load.split(' ').next().and_then(|x| x.parse().ok()).unwrap_or(0.0),
        rows,
    }
}

/// Memory of this process that is resident, in bytes.
pub(super) fn resident_bytes() -> u64 {
    kib(&field("/proc/self/status", "VmRSS"))
}

/// Processor time of this process so far, user and system, all threads.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The value of the first line `name: value` in a file of the kernel's; empty if there is none.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(key, _)| key.trim() == name);
    found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// `"123 kB"` in bytes.
fn kib(text: &str) -> u64 {
    let number = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}
