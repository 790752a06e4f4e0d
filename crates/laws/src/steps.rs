//! The steps a workload consists of, and how a seed chooses them.

use crate::disk::{Fault, FaultKind};
use nearhead_basics::SplitMix;

/// Workloads touch this many sectors of the volume, so that they overlap.
pub const SPAN_SECTORS: u64 = 4096;

/// One thing a client, an operator or fate does. Sectors are 512 bytes; the harness rounds to the
/// volume's block.
#[derive(Clone, Debug)]
pub enum Step {
    Write {
        start: u64,
        count: u64,
        fua: bool,
    },
    Zeroes {
        start: u64,
        count: u64,
        fua: bool,
    },
    Trim {
        start: u64,
        count: u64,
        fua: bool,
    },
    /// Two ranges at once, or one if both are the same.
    Atomic {
        start: u64,
        other: u64,
        count: u64,
    },
    Read {
        start: u64,
        count: u64,
    },
    Flush,
    /// Durability-only or back to normal.
    Hint {
        start: u64,
        count: u64,
        on: bool,
    },
    Checkpoint {
        everything: bool,
    },
    /// Time passes, at most to the next event.
    Turn {
        micros: u64,
    },
    /// Everything asked for is answered.
    Settle,
    /// The power goes; the seed decides what of the unflushed writes is there.
    Cut {
        seed: u64,
    },
    /// The process goes, the disk stays.
    Kill,
    /// A clean shutdown, then a start.
    Restart,
    /// From now on the disk fails.
    Fail(Fault),
}

/// A step of a random workload; `restarts` allows cuts, kills and shutdowns.
pub fn random_step(random: &mut SplitMix, restarts: bool, faults: bool) -> Step {
    let start = random.below(SPAN_SECTORS);
    let small = random.below(3) > 0;
    let count = 1 + random.below(if small { 24 } else { 300 });
    let count = count.min(SPAN_SECTORS - start);
    let fua = random.below(3) == 0;
    if restarts && random.below(90) == 0 {
        return match random.below(4) {
            0 => Step::Kill,
            1 => Step::Restart,
            _ => Step::Cut { seed: random.next_u64() },
        };
    }
    if faults && random.below(120) == 0 {
        return Step::Fail(random_fault(random));
    }
    match random.below(40) {
        0..=13 => Step::Write { start, count, fua },
        14 | 15 => Step::Flush,
        16 => Step::Zeroes { start, count, fua },
        17 => Step::Trim { start, count, fua },
        18 => Step::Atomic { start, other: random.below(SPAN_SECTORS), count: count.min(16) },
        19 => match random.below(4) {
            0 => Step::Hint { start, count, on: random.coin() },
            1 => Step::Settle,
            everything => Step::Checkpoint { everything: everything == 2 },
        },
        20..=24 => Step::Read { start, count },
        _ => Step::Turn { micros: random.below(400) },
    }
}

fn random_fault(random: &mut SplitMix) -> Fault {
    let kind = match random.below(6) {
        0 => FaultKind::Flushes,
        1 => FaultKind::Reads,
        _ => FaultKind::Writes,
    };
    // Somewhere, or only in one part of the device.
    let range = random.coin().then(|| {
        let start = random.below(64) << 20;
        start..start + ((1 + random.below(8)) << 20)
    });
    let (sticky, has_effect) = (random.below(4) == 0, random.coin());
    Fault { kind, range, after: random.below(20), sticky, has_effect }
}
