//! Short workloads, a cut at every change of the disk's state, every outcome of the cut.
//!
//! All sequences of up to three operations at two overlapping addresses, each either after the one
//! before is done or while it is under way; at each moment every subset of the unflushed writes, with
//! tears of each write in it. Every image is recovered and what can be read is held against the
//! oracle; recovery must write nothing, so that recovering twice is recovering once; and of some
//! images the volume is used and cut again.
//!
//! A soak goes on with more tears and sequences of four and five.

mod check;
mod image;
mod plan;
mod tally;
mod workload;

use crate::options::Options;
use check::{Checker, Depth, Known};
use nearhead_models::MemoryStore;
use plan::{GROUP, Plan};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
pub use tally::Tally;
pub use workload::configurations;
use workload::run_sequence;

/// Sectors that the operations touch.
const TOUCHED_SECTORS: u64 = 64;
/// Between two lines of progress, in a soak.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// How much of it is run.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Stride among the sequences of three operations; 1 runs all. From 400 on, sequences of two are left out, too.
    pub stride: u64,
    /// A soak: until so many different images were recovered.
    pub images: Option<u64>,
    /// From this workload on.
    pub from: u64,
    /// This workload and no other.
    pub only: Option<u64>,
    /// Threads that work, if not one for each core.
    pub threads: Option<usize>,
}

impl Extent {
    /// One in so many of the sequences of three.
    pub fn one_in(stride: u64) -> Self {
        Self { stride: stride.max(1), images: None, from: 0, only: None, threads: None }
    }
}

/// One run.
struct Run<'a> {
    configurations: &'a [Options],
    plan: Plan,
    depth: Depth,
    tally: Tally,
    /// The next workload that nobody has begun, and the one to stop before.
    next: AtomicU64,
    end: u64,
    /// Different images after which nothing new is begun.
    images: u64,
    failed: AtomicBool,
    /// The words that repeat a workload, by its number.
    repeat: &'a (dyn Fn(u64) -> String + Sync),
}

/// What was run.
pub struct Ran {
    pub tally: Tally,
    /// The first workload that was not begun.
    pub next: u64,
    /// Whether nothing was left out.
    pub is_whole: bool,
}

/// Runs the workloads on these configurations. `repeat` gives the words that repeat one, by its number.
///
/// # Panics
/// If a law is broken, after it printed which workload it was.
pub fn run(
    configurations: &[Options],
    extent: &Extent,
    repeat: &(dyn Fn(u64) -> String + Sync),
) -> Ran {
    let plan = Plan::new(configurations.len(), extent.stride, extent.images.is_some());
    let run = Run {
        configurations,
        next: AtomicU64::new(extent.only.unwrap_or(extent.from)),
        end: extent.only.map_or(plan.len(), |case| case + 1),
        depth: if extent.images.is_some() { Depth::SOAK } else { Depth::TEST },
        images: extent.images.unwrap_or(u64::MAX),
        tally: Tally::new(),
        failed: AtomicBool::new(false),
        plan,
        repeat,
    };
    run.all(extent.threads);
    let next = run.next.load(Ordering::Relaxed).min(run.end);
    let is_whole = extent.only.is_none() && extent.from == 0 && next == run.plan.len();
    Ran { next, is_whole: is_whole && run.plan.stride == 1, tally: run.tally }
}

impl Run<'_> {
    fn all(&self, threads: Option<usize>) {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads.unwrap_or_else(cores)).map(|_| scope.spawn(|| self.work())).collect();
            let teller = self.plan.soaks.then(|| scope.spawn(|| self.tell(&done)));
            let ended: Vec<_> =
                workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Relaxed);
            if let Some(teller) = teller {
                teller.thread().unpark();
            }
            // As it was told where it happened.
            if let Some(panic) = ended.into_iter().find_map(Result::err) {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// Whether another group of workloads is begun.
    fn goes_on(&self) -> bool {
        let failed = self.failed.load(Ordering::Relaxed);
        let policies =
            || self.configurations.iter().filter_map(|options| options.policies.as_ref());
        !failed
            && self.tally.distinct() < self.images
            && policies().all(|policies| policies.go_on())
    }

    fn work(&self) {
        let empty = self.configurations.iter().map(|options| {
            let mut image = options.disk().image();
            image.consolidate();
            image
        });
        let empty: Vec<MemoryStore> = empty.collect();
        let mut known = Known::default();
        while self.goes_on() {
            let first = self.next.fetch_add(GROUP, Ordering::Relaxed);
            if first >= self.end {
                return;
            }
            for number in first..(first + GROUP).min(self.end) {
                let (sequence, configuration) = self.plan.workload(number);
                let options = &self.configurations[configuration];
                let name = format!("{}\n{options:?}\n{sequence}", (self.repeat)(number));
                let guard = Announce { name: &name, failed: &self.failed };
                let case = run_sequence(options, &empty[configuration], &sequence, name.clone());
                Checker::new(&case, configuration, self.depth, &mut known, &self.tally).run();
                self.tally.note_workload();
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
