//! What the processors did between two looks: for this measurement, for others, for nobody.
//!
//! All of it are counters of the kernel's. A measurement is this process, the programs that it started
//! and what those started; threads of the kernel count for nobody, because they work for whoever does
//! I/O. Where `/proc` says less (a container, another kernel) the share is not known, never guessed.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// A look.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    at: Instant,
    all: Option<Ticks>,
    /// Ticks of this process and its descendants.
    own: u64,
    /// Ticks of the kernel's threads.
    kernel: u64,
    /// Time in which somebody waited for a processor, in us.
    waited_us: Option<u64>,
}

/// Ticks of all processors since the machine started, from the first line of `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// In programs and in the kernel for them: user, nice, system.
    programs: u64,
    steal: u64,
    all: u64,
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    ticks: Option<Ticks>,
    own: u64,
    kernel: u64,
    waited_us: Option<u64>,
    passed_us: u64,
}

impl Counters {
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processes = processes();
        Self {
            at: Instant::now(),
            all: all_ticks(&text("/proc/stat")),
            own: own_ticks(&processes, std::process::id()),
            kernel: processes
                .values()
                .filter(|found| found.parent == KTHREADD)
                .map(|k| k.alone)
                .sum(),
            waited_us: waited_us(&text("/proc/pressure/cpu")),
        }
    }

    pub(super) fn since(&self, before: &Self) -> Spent {
        let ticks = self.all.zip(before.all).map(|(now, then)| Ticks {
            programs: now.programs.saturating_sub(then.programs),
            steal: now.steal.saturating_sub(then.steal),
            all: now.all.saturating_sub(then.all),
        });
        Spent {
            ticks,
            own: self.own.saturating_sub(before.own),
            kernel: self.kernel.saturating_sub(before.kernel),
            waited_us: self
                .waited_us
                .zip(before.waited_us)
                .map(|(now, then)| now.saturating_sub(then)),
            passed_us: self.at.duration_since(before.at).as_micros() as u64,
        }
    }
}

impl Spent {
    pub(super) fn steal_pct(&self) -> Option<f64> {
        self.ticks.and_then(|ticks| percent(ticks.steal, ticks.all))
    }

    /// Of programs that are no part of the measurement.
    pub(super) fn others_pct(&self) -> Option<f64> {
        let ticks = self.ticks?;
        percent(ticks.programs.saturating_sub(self.own + self.kernel), ticks.all)
    }

    pub(super) fn pressure_pct(&self) -> Option<f64> {
        self.waited_us.and_then(|waited| percent(waited, self.passed_us))
    }
}

fn percent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * part as f64 / of as f64)
}

/// From `cpu  user nice system idle iowait irq softirq steal guest guest_nice` (`proc_stat(5)`); what
/// guests used is in user and nice already.
fn all_ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
        return None;
    };
    let programs = user + nice + system;
    Some(Ticks { programs, steal, all: programs + idle + iowait + irq + softirq + steal })
}

/// From `some avg10=... avg60=... avg300=... total=US`.
fn waited_us(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// A process as `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// Its own ticks.
    alone: u64,
    /// And those of its children that have ended.
    with_ended: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found = numbers.filter_map(|number| {
        // It may have ended since it was listed.
        let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        Some((number, process(&text)?))
    });
    found.collect()
}

/// Fields 4 and 14 to 17; the second one, the name in brackets, may hold anything.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let alone = number(14)? + number(15)?;
    let with_ended = alone + number(16)? + number(17)?;
    Some(Process { parent: number(4)? as u32, alone, with_ended })
}

/// Ticks of `root`, of its descendants, and of those that have ended.
fn own_ticks(processes: &BTreeMap<u32, Process>, root: u32) -> u64 {
    let mut ticks = 0;
    let mut family = vec![root];
    // A process has one parent, so nobody is met twice; a list taken while processes come and go
    // could still hold a circle, and has only so many members.
    for _ in 0..=processes.len() {
        let Some(next) = family.pop() else { break };
        ticks += processes.get(&next).map_or(0, |process| process.with_ended);
        family
            .extend(processes.iter().filter(|(_, p)| p.parent == next).map(|(number, _)| *number));
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read_as_proc_documents_them() {
        let stat = "cpu  100 20 30 400 50 6 7 80 9 1\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(all_ticks(stat), Some(Ticks { programs: 150, steal: 80, all: 693 }));
        assert_eq!(all_ticks("cpu 1 2 3"), None);
        let pressure =
            "some avg10=7.92 avg60=14.73 avg300=34.66 total=305020667\nfull avg10=0.00 total=0";
        assert_eq!(waited_us(pressure), Some(305_020_667));
        assert_eq!(waited_us(""), None);
        let found = process("7 (a) b) (c) S 3 7 7 0 -1 4194560 1 2 3 4 250 50 20 1 20 0 1 0 99");
        assert_eq!(found, Some(Process { parent: 3, alone: 300, with_ended: 321 }));
        assert_eq!(process("7 (a) S 1"), None);
    }

    #[test]
    fn what_the_measurement_started_is_its_own_and_the_rest_is_others() {
        let process = |parent, alone, ended| Process { parent, alone, with_ended: alone + ended };
        let processes = BTreeMap::from([
            (2, process(0, 7, 0)),
            (9, process(2, 11, 0)),
            (100, process(1, 40, 5)),
            (101, process(100, 30, 0)),
            (102, process(101, 20, 1)),
            (200, process(1, 1000, 0)),
        ]);
        assert_eq!(own_ticks(&processes, 100), 96);
        let circle = BTreeMap::from([(1, process(2, 1, 0)), (2, process(1, 1, 0))]);
        assert!(own_ticks(&circle, 1) < 10, "it ends");
    }

    #[test]
    fn shares_are_of_what_passed_between_two_looks() {
        let ticks = |programs, steal, all| Some(Ticks { programs, steal, all });
        let before = Counters {
            at: Instant::now(),
            all: ticks(1000, 10, 5000),
            own: 100,
            kernel: 50,
            waited_us: Some(5),
        };
        let now = Counters { all: ticks(1160, 14, 5200), own: 160, kernel: 60, ..before.clone() };
        let spent = now.since(&before);
        assert_eq!(spent.steal_pct(), Some(2.0));
        assert_eq!(spent.others_pct(), Some(45.0));
        assert_eq!(spent.pressure_pct(), None, "no time has passed");
    }
}
