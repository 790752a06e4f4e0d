//! Short workloads, a cut at every change of the disk's state, every outcome of the cut.
//!
//! All sequences of up to three operations at two overlapping addresses, each either after the one
//! before is done or while it is under way; at each moment every subset of the unflushed writes, with
//! tears of each write in it. Every image is recovered and what can be read is held against the
//! oracle; recovery must write nothing, so that recovering twice is recovering once; and of some
//! images the volume is used and cut again.
//!
//! One in seven of the sequences of three is run: `EXHAUSTIVE_STRIDE=1` runs all, `EXHAUSTIVE_STRIDE=11` is a quick look.
//! `IMAGES=100000000` goes on, with more tears and sequences of four and five, until so many different images
//! were recovered (`make soak`); `EXHAUSTIVE_FROM=n` begins there at workload n, where an earlier run ended.

mod check;
mod image;
mod plan;
mod tally;
mod workload;

use check::{Checker, Depth, Known};
use plan::{GROUP, Plan};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tally::Tally;
use workload::{configurations, run_sequence};

/// Sectors that the operations touch.
const TOUCHED_SECTORS: u64 = 64;
/// Of the sequences of three one in so many is run, if nobody says otherwise; a soak runs all.
const STRIDE: u64 = 7;
/// Between two lines of progress, in a soak.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// One run of the test.
struct Run {
    plan: Plan,
    depth: Depth,
    tally: Tally,
    /// The next workload that nobody has begun, and the one to stop before.
    next: AtomicU64,
    end: u64,
    /// Different images after which nothing new is begun.
    images: u64,
    failed: AtomicBool,
}

impl Run {
    fn new() -> Self {
        let number =
            |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let images = number("IMAGES");
        let stride =
            number("EXHAUSTIVE_STRIDE").unwrap_or(if images.is_some() { 1 } else { STRIDE }).max(1);
        let plan = Plan::new(configurations().len(), stride, images.is_some());
        let only = number("EXHAUSTIVE_CASE");
        Self {
            next: AtomicU64::new(only.or(number("EXHAUSTIVE_FROM")).unwrap_or(0)),
            end: only.map_or(plan.len(), |case| case + 1),
            depth: if images.is_some() { Depth::SOAK } else { Depth::TEST },
            images: images.unwrap_or(u64::MAX),
            tally: Tally::new(),
            failed: AtomicBool::new(false),
            plan,
        }
    }

    /// Whether another group of workloads is begun.
    fn goes_on(&self) -> bool {
        let failed = self.failed.load(Ordering::Relaxed);
        !failed && self.tally.distinct.load(Ordering::Relaxed) < self.images
    }

    /// The words that repeat workload `number`.
    fn repeat(&self, number: u64) -> String {
        let images = if self.plan.soaks { "IMAGES=1 ".to_owned() } else { String::new() };
        format!(
            "repeat with: {images}EXHAUSTIVE_STRIDE={} EXHAUSTIVE_CASE={number} cargo test -p nearhead-volume \
             --test laws every_outcome -- --nocapture",
            self.plan.stride
        )
    }

    fn work(&self) {
        let configurations = configurations();
        let empty = configurations.iter().map(|options| {
            let mut image = options.disk().image();
            image.consolidate();
            image
        });
        let empty: Vec<_> = empty.collect();
        let mut known = Known::default();
        while self.goes_on() {
            let first = self.next.fetch_add(GROUP, Ordering::Relaxed);
            if first >= self.end {
                return;
            }
            for number in first..(first + GROUP).min(self.end) {
                let (sequence, configuration) = self.plan.workload(number);
                let options = &configurations[configuration];
                let name = format!("{}\n{options:?}\n{sequence}", self.repeat(number));
                let guard = Announce { name: &name, failed: &self.failed };
                let case = run_sequence(options, &empty[configuration], &sequence, name.clone());
                Checker::new(&case, configuration, self.depth, &mut known, &self.tally).run();
                self.tally.workloads.fetch_add(1, Ordering::Relaxed);
                std::mem::forget(guard);
            }
        }
    }

    /// Says now and then how far it is, until `done`.
    fn tell(&self, done: &AtomicBool) {
        let mut waited = Duration::ZERO;
        while !done.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_secs(1));
            waited += Duration::from_secs(1);
            if waited >= PROGRESS_EVERY {
                waited = Duration::ZERO;
                println!("{}; at workload {}", self.tally, self.next.load(Ordering::Relaxed));
            }
        }
    }
}

/// Says which case it was when something below panics.
struct Announce<'a> {
    name: &'a str,
    failed: &'a AtomicBool,
}

impl Drop for Announce<'_> {
    fn drop(&mut self) {
        self.failed.store(true, Ordering::Relaxed);
        println!("{}", self.name);
    }
}

#[test]
fn every_outcome_of_a_cut_in_a_short_workload_keeps_the_laws() {
    let run = Run::new();
    let from = run.next.load(Ordering::Relaxed);
    let asked = std::env::var("EXHAUSTIVE_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..asked.unwrap_or_else(cores)).map(|_| scope.spawn(|| run.work())).collect();
        let teller = run.plan.soaks.then(|| scope.spawn(|| run.tell(&done)));
        let ended: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        if let Some(teller) = teller {
            teller.thread().unpark();
        }
        assert!(ended.iter().all(Result::is_ok), "a law was broken");
    });
    println!("{} (stride {})", run.tally, run.plan.stride);
    let next = run.next.load(Ordering::Relaxed).min(run.end);
    if run.plan.soaks {
        println!("workloads {from} to {next}; go on with EXHAUSTIVE_FROM={next}");
    }
    let distinct = run.tally.distinct.load(Ordering::Relaxed);
    let whole = from == 0 && next == run.plan.len() && run.plan.stride == 1;
    assert!(!whole || distinct > 1_000_000, "only {distinct} distinct images");
}
