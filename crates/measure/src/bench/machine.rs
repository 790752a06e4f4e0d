//! What the numbers were measured on, and what this process used.

use super::row::{Row, median};
use crate::busy::{self, Machine};
use nearhead_basics::Random;
use nearhead_disk::BufferMut;
use nearhead_uring::{Access, DurableFile};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Of the file that shows what the disk does by itself.
const TRIAL_BYTES: u64 = 64 << 20;

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
    /// Whether any bench ran on a busy machine: repeat it.
    machine_was_busy: bool,
    machine: &'a [Watched],
    rows: &'a [Row],
}

/// What the machine did while a bench ran.
#[derive(Debug, Serialize)]
pub(super) struct Watched {
    bench: &'static str,
    /// What to do about it and why; nothing if the machine was quiet.
    busy: Option<String>,
    seen: Machine,
}

impl Watched {
    pub(super) fn new(bench: &'static str, seen: Machine) -> Self {
        Self { bench, busy: busy::repeat(&seen), seen }
    }

    pub(super) fn was_busy(&self) -> bool {
        self.busy.is_some()
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bench = self.bench;
        match &self.busy {
            Some(told) => write!(formatter, "{bench}: {told}"),
            None => write!(formatter, "{bench}: the machine was quiet: {}", busy::seen(&self.seen)),
        }
    }
}

/// Median time of a durable write of 4 KiB at random to a plain file in `folder`, one at a time for at
/// most `time`, as directly as the kernel allows, in us; `None` where it cannot be written.
pub(super) fn durable_write_us(folder: &Path, time: Duration) -> Option<f64> {
    let path = folder.join("alone.img");
    // Of a run that was killed.
    let _ = fs::remove_file(&path);
    let measured = || -> Option<f64> {
        let file = DurableFile::open(&path, Access::Create, true).ok()?;
        let zeros = BufferMut::zeroed(1 << 20).freeze();
        for offset in (0..TRIAL_BYTES).step_by(1 << 20) {
            file.write_at(&zeros, offset).ok()?;
        }
        file.sync().ok()?;
        let (mut random, mut times_us) = (Random::new(1), Vec::new());
        let started = Instant::now();
        while started.elapsed() < time {
            let offset = random.below(TRIAL_BYTES / 4096) * 4096;
            let issued = Instant::now();
            file.write_durable_at(&zeros[..4096], offset).ok()?;
            times_us.push(issued.elapsed().as_secs_f64() * 1e6);
        }
        Some(median(&times_us))
    };
    let found = measured();
    let _ = fs::remove_file(&path);
    found
}

/// What this machine is called.
pub(crate) struct Described {
    /// The processor's name as the kernel has it.
    pub(crate) processor: String,
    /// How many there are for this process.
    pub(crate) processors: usize,
}

impl Described {
    pub(crate) fn this() -> Self {
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }
}

pub(super) fn report<'a>(rows: &'a [Row], machine: &'a [Watched], quick: bool) -> Report<'a> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let Described { processor, processors } = Described::this();
    Report {
        measured_unix_s: since_1970.map_or(0, |since| since.as_secs()),
        quick,
        processor,
        processors,
        kernel: fs::read_to_string("/proc/version").unwrap_or_default().trim().to_owned(),
        memory_bytes: kib(&field("/proc/meminfo", "MemTotal")),
        load_average_1_min: load.split(' ').next().and_then(|x| x.parse().ok()).unwrap_or(0.0),
        machine_was_busy: machine.iter().any(Watched::was_busy),
        machine,
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
