//! What a database under TPC-C does to its log file, as a trace of calls: Okeanos' third source of small writes.
//!
//! The paper's trace of `InnoDB` is not public. This one is made from the benchmark's public tables: what transactions log is that of
//! `log_traffic.rs`, which the figures of Trail use too, and terminals wait as the benchmark says. The log is a ring of blocks of 512 bytes; the
//! last block of a write may be partly filled, and the next write begins with it. Nothing here depends on how fast calls are answered.

use crate::files::{LogCall, LogTrace};
use crate::log_traffic::Kind;
use nearhead_basics::Random;
use nearhead_disk::Nanos;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Of the log (`InnoDB`'s manual).
const BLOCK_BYTES: u64 = 512;
/// Two log files of 5 MiB, the default of the paper's time, as one.
pub(crate) const LOG_BYTES: u64 = 10 << 20;
/// The paper's 20 warehouses with 10 terminals each.
const TERMINALS: usize = 200;
/// From one transaction of a terminal to its next, on average.
const CYCLE_S: f64 = 21.0;
/// Between two flushes by time.
const FLUSH_EVERY: Nanos = Nanos::from_secs(1);

/// When the log is flushed: `InnoDB`'s three ways, by the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flushing {
    /// At each commit it is written and flushed.
    CommitDisk,
    /// Each second it is written and flushed.
    PeriodDisk,
    /// At each commit it is written, each second flushed.
    CommitCache,
}

impl Flushing {
    pub(crate) const ALL: [Self; 3] = [Self::CommitDisk, Self::PeriodDisk, Self::CommitCache];

    /// As the paper calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CommitDisk => "Cmt/Disk",
            Self::PeriodDisk => "Prd/Disk",
            Self::CommitCache => "Cmt/Cache",
        }
    }
}

/// Keying time and mean thinking time of a transaction, in seconds (TPC-C, clause 5.2.5.7).
fn pause_s(kind: Kind) -> (f64, f64) {
    match kind {
        Kind::NewOrder => (18.0, 12.0),
        Kind::Payment => (3.0, 12.0),
        Kind::OrderStatus => (2.0, 10.0),
        Kind::Delivery | Kind::StockLevel => (2.0, 5.0),
    }
}

fn seconds(value: f64) -> Nanos {
    Nanos((value * 1e9) as u64)
}

/// Exponential, at most ten times its mean (clause 5.2.5.4).
fn think(mean_s: f64, random: &mut Random) -> Nanos {
    let unit = (random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
    seconds((-unit.ln() * mean_s).min(10.0 * mean_s))
}

/// When transactions that log something commit, and what of.
fn commits(length: Nanos, random: &mut Random) -> Vec<(Nanos, u64)> {
    let mut due = BTreeSet::new();
    let begin = |from: Nanos, random: &mut Random| {
        let kind = Kind::next(random);
        (from + seconds(pause_s(kind).0), kind)
    };
    let mut kinds = [Kind::StockLevel; TERMINALS];
    for (terminal, kind) in kinds.iter_mut().enumerate() {
        // As if they had been at it for a while: somewhere within a mean cycle.
        *kind = Kind::next(random);
        due.insert((Nanos(random.below(seconds(CYCLE_S).0)), terminal));
    }
    let mut commits = Vec::new();
    while let Some((at, terminal)) = due.pop_first().filter(|(at, _)| *at < length) {
        let kind = kinds[terminal];
        let bytes = kind.log_bytes(random);
        if bytes > 0 {
            commits.push((at, bytes));
        }
        let (next, kind) = begin(at + think(pause_s(kind).1, random), random);
        kinds[terminal] = kind;
        due.insert((next, terminal));
    }
    commits
}

/// What was appended to a log, and written.
#[derive(Debug, Default)]
struct Log {
    appended: u64,
    written: u64,
    calls: Vec<(Nanos, LogCall)>,
}

impl Log {
    /// Writes what is not yet, whole blocks, in two calls where the ring ends.
    fn write(&mut self, at: Nanos) {
        let mut from = self.written / BLOCK_BYTES * BLOCK_BYTES;
        let end = self.appended.next_multiple_of(BLOCK_BYTES);
        if self.appended == self.written {
            return;
        }
        while from < end {
            let offset = from % LOG_BYTES;
            let bytes = (end - from).min(LOG_BYTES - offset);
            self.calls.push((at, LogCall::Write { offset, bytes: bytes as u32 }));
            from += bytes;
        }
        self.written = self.appended;
    }

    fn sync(&mut self, at: Nanos) {
        self.calls.push((at, LogCall::Sync));
    }
}

/// The calls of so long a time.
pub(crate) fn trace(flushing: Flushing, length: Nanos, seed: u64) -> LogTrace {
    let mut random = Random::new(seed);
    let mut log = Log::default();
    let mut next_flush = FLUSH_EVERY;
    let mut unsynced = false;
    for (at, bytes) in commits(length, &mut random) {
        while flushing != Flushing::CommitDisk && next_flush <= at {
            if unsynced {
                log.write(next_flush);
                log.sync(next_flush);
            }
            (unsynced, next_flush) = (false, next_flush + FLUSH_EVERY);
        }
        log.appended += bytes;
        unsynced = true;
        if flushing != Flushing::PeriodDisk {
            log.write(at);
        }
        if flushing == Flushing::CommitDisk {
            log.sync(at);
        }
    }
    Rc::new(log.calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_secs(500);

    fn syncs(trace: &LogTrace) -> usize {
        trace.iter().filter(|(_, call)| *call == LogCall::Sync).count()
    }

    fn written(trace: &LogTrace) -> u64 {
        let bytes = |(_, call): &(Nanos, LogCall)| match call {
            LogCall::Write { bytes, .. } => u64::from(*bytes),
            LogCall::Sync => 0,
        };
        trace.iter().map(bytes).sum()
    }

    #[test]
    fn terminals_that_wait_as_the_benchmark_says_commit_nine_times_a_second() {
        // 200 of them, of which each has a cycle of 21 s; 92 of 100 transactions log something.
        let commits = syncs(&trace(Flushing::CommitDisk, LENGTH, 1)) as f64;
        assert!((commits / 500.0 - 200.0 * 0.92 / CYCLE_S).abs() < 0.5, "{commits}");
    }

    #[test]
    fn the_first_seconds_have_as_many_commits_as_later_ones() {
        let all = trace(Flushing::CommitDisk, LENGTH, 1);
        let within = |from: u64, to: u64| {
            let range = Nanos::from_secs(from)..Nanos::from_secs(to);
            all.iter().filter(|(at, call)| range.contains(at) && *call == LogCall::Sync).count()
        };
        let (first, later) = (within(0, 20) as f64, within(200, 300) as f64 / 5.0);
        assert!((0.7..1.4).contains(&(first / later)), "{first} {later}");
    }

    #[test]
    fn what_is_flushed_by_time_is_flushed_once_a_second_and_brings_the_same_log_in_fewer_blocks() {
        let each = Flushing::ALL.map(|flushing| trace(flushing, LENGTH, 1));
        assert!(syncs(&each[1]) <= 500 && syncs(&each[1]) > 480);
        assert_eq!(syncs(&each[1]), syncs(&each[2]));
        // A block that is partly filled is written again by the next commit.
        assert!(written(&each[1]) < written(&each[0]));
    }

    #[test]
    fn every_call_lies_in_the_ring_and_none_is_before_the_one_in_front_of_it() {
        for flushing in Flushing::ALL {
            let all = trace(flushing, LENGTH, 1);
            assert!(all.is_sorted_by_key(|(at, _)| *at));
            for (_, call) in all.iter() {
                let LogCall::Write { offset, bytes } = call else { continue };
                assert!(offset % BLOCK_BYTES == 0 && bytes % 512 == 0);
                assert!(offset + u64::from(*bytes) <= LOG_BYTES);
            }
        }
    }
}
