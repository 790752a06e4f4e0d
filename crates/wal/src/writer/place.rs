//! What is known of the place where a log lies, and what this process may do about it.
//!
//! Found out by trying, on a file that is removed again and on a thread that ends: nothing of the
//! process is changed. What the kernel does not tell stays unknown; it is never guessed.

use crate::error::Result;
use crate::storage::from_open;
use nearhead_uring::{
    Access, DurableFile, IoPriority, PriorityRing, scheduler_of, set_thread_priority,
};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory, seen from below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block device under it, `major:minor`, as far as the file system has one.
    pub device: Option<(u32, u32)>,
    /// The device's I/O scheduler.
    pub scheduler: Option<String>,
    /// The others it could have.
    pub schedulers_other: Vec<String>,
    /// Whether files there can bypass the page cache.
    pub is_direct: bool,
    /// What transfers that do are multiples of.
    pub align_bytes: u32,
    /// Whether a durable write is one system call.
    pub writes_through: bool,
}

impl Place {
    /// Looks at a directory, which must be writable.
    pub fn of(directory: &Path) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("probe-{}-{number}.tmp", std::process::id()));
        // Left behind by a process of the same number that was killed just here.
        let _ = std::fs::remove_file(&path);
        let file = DurableFile::open(&path, Access::Create, true).map_err(from_open)?;
        // It is ours: it was made above. Open it stays usable without a name.
        let _ = std::fs::remove_file(&path);
        let device = file.device().ok();
        let scheduler = device.and_then(|(major, minor)| scheduler_of(major, minor));
        let (scheduler, schedulers_other) = scheduler.unzip();
        Ok(Self {
            device,
            scheduler,
            schedulers_other: schedulers_other.unwrap_or_default(),
            is_direct: file.is_direct(),
            align_bytes: file.align_bytes(),
            writes_through: file.writes_through(),
        })
    }
}

/// What this process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permitted {
    /// Give a thread the real-time I/O class.
    pub real_time: bool,
    /// Use `io_uring`.
    pub uring: bool,
}

impl Permitted {
    /// Tries both.
    pub fn find_out() -> Self {
        let attempt = std::thread::spawn(|| set_thread_priority(IoPriority::REAL_TIME).is_ok());
        Self {
            real_time: attempt.join().unwrap_or(false),
            uring: PriorityRing::new(IoPriority::BEST_EFFORT_FIRST).is_ok(),
        }
    }
}
