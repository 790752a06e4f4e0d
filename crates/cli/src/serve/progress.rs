//! Lines of a worker for its supervisor, which show that it gets on towards readiness.
//!
//! A line is printed for what was reached, never because time went by: a process that hangs prints none.

use nearhead_engine::Status;
use nearhead_output::say_json_line;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Lines for a supervisor, which show that this process gets on towards readiness.
pub(super) struct Progress {
    pub(super) is_told: bool,
}

/// Reads of a recovery that were reported so far.
#[derive(Default)]
pub(super) struct Told {
    at: Option<Instant>,
    read_bytes: u64,
}

/// Interval between two reports of a recovery: far below any limit for progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// A line about getting on.
#[derive(Debug, Serialize)]
struct GettingOn {
    event: &'static str,
    doing: &'static str,
    read_bytes: u64,
}

impl Progress {
    pub(super) fn tell(&self, doing: &'static str, read_bytes: u64) {
        if self.is_told {
            let _ = say_json_line(&GettingOn { event: "progress", doing, read_bytes });
        }
    }
}

impl Told {
    /// Reports what a recovery read, if that has grown.
    pub(super) fn tell(&mut self, progress: &Progress, status: impl Fn() -> Status) {
        if self.at.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.at = Some(Instant::now());
        let read_bytes = status().recovery_read_bytes;
        if read_bytes > self.read_bytes {
            self.read_bytes = read_bytes;
            progress.tell("recovering", read_bytes);
        }
    }
}
