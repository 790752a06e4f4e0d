//! What range locks and range sets cost: nanoseconds of processor time for acquiring and releasing one small range
//! with many others in flight, where none overlap and where many do.
//!
//! `cargo run --release -p nearhead-engine --example lock_speed`.

use nearhead_basics::SplitMix;
use nearhead_disk::RangeSet;
use nearhead_engine::range_lock::RangeLocks;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: u64 = 5_000_000;

/// Processor time of this thread: what an operation costs also where other programs run beside.
fn cpu_time_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A number for each step.
fn random(step: u64) -> u64 {
    SplitMix::new(0).nth_u64(step)
}

/// `in_flight` owners at a time, each of 8 sectors at one of `blocks` blocks; oldest holder first.
fn locks(in_flight: u64, blocks: u64) {
    let (mut locks, mut granted) = (RangeLocks::new(), Vec::new());
    let mut ready = std::collections::VecDeque::new();
    let mut next = 0;
    let mut step = |locks: &mut RangeLocks, ready: &mut std::collections::VecDeque<u64>| {
        let start = random(next) % blocks * 8;
        #[expect(clippy::single_range_in_vec_init, reason = "one range is what is asked for")]
        if locks.acquire(next, &[start..start + 8]) {
            ready.push_back(next);
        }
        next += 1;
    };
    (0..in_flight).for_each(|_| step(&mut locks, &mut ready));
    let start = cpu_time_ns();
    for _ in 0..ROUNDS {
        if let Some(oldest) = ready.pop_front() {
            locks.release(oldest, &mut granted);
            ready.extend(granted.drain(..));
        }
        step(&mut locks, &mut ready);
    }
    let each = (cpu_time_ns() - start) as f64 / ROUNDS as f64;
    println!(
        "locks: {in_flight:>7} in flight over {blocks:>13} blocks {each:>7.0} ns per acquire and \
         release, {} wait",
        locks.waiting()
    );
}

fn set(ranges: u64) {
    let mut set = RangeSet::new();
    let range = |step: u64| {
        let start = random(step) % (1 << 31) * 8;
        start..start + 8
    };
    let start = cpu_time_ns();
    for step in 0..ROUNDS {
        set.insert(range(step));
        if let Some(old) = step.checked_sub(ranges) {
            set.remove(range(old));
        }
    }
    let each = (cpu_time_ns() - start) as f64 / ROUNDS as f64;
    println!("set:   {:>7} ranges {each:>31.0} ns per insert and remove", set.len());
}

fn main() {
    for in_flight in [1, 32, 1_000, 100_000] {
        locks(in_flight, 1 << 31);
    }
    locks(1_000, 1_000);
    locks(100_000, 1_000);
    locks(100_000, 100_000);
    set(1_000);
    set(100_000);
}
