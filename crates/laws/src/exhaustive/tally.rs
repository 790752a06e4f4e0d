//! What a run has done so far, counted by all threads together.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Parts of the set of images, so that threads seldom wait for each other.
const SHARDS: usize = 64;

/// The counts.
pub struct Tally {
    started: Instant,
    /// Hashes of all images recovered so far: eight bytes each.
    images: [Mutex<HashSet<u64>>; SHARDS],
    distinct: AtomicU64,
    workloads: AtomicU64,
    pub(super) checked: AtomicU64,
    pub(super) continued: AtomicU64,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            images: std::array::from_fn(|_| Mutex::default()),
            distinct: AtomicU64::new(0),
            workloads: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            continued: AtomicU64::new(0),
        }
    }

    /// Different images recovered.
    pub fn distinct(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    /// Workloads run.
    pub fn workloads(&self) -> u64 {
        self.workloads.load(Ordering::Relaxed)
    }

    pub(super) fn note_workload(&self) {
        self.workloads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an image, if nobody has recovered it before.
    pub(super) fn recovered(&self, image: u64) {
        let shard = &self.images[image as usize % SHARDS];
        if shard.lock().unwrap_or_else(PoisonError::into_inner).insert(image) {
            self.distinct.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let seconds = self.started.elapsed().as_secs_f64();
        write!(
            formatter,
            "{} workloads: {} distinct images ({:.0} each second), {} checks, {} used and cut again; {seconds:.0} s",
            get(&self.workloads),
            get(&self.distinct),
            get(&self.distinct) as f64 / seconds,
            get(&self.checked),
            get(&self.continued),
        )
    }
}
