//! Lets a bounded number of bulk pieces in flight, for every bulk stream that shares it.
//!
//! The bound is [`Pace`]'s. It is asked when a piece ends and a window has passed, by the thread
//! whose piece that was: no thread of its own, and without bulk nothing happens at all.

use super::pace::{Pace, PaceOptions};
use nearhead_basics::Histogram;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long latencies are gathered before they count.
const WINDOW: Duration = Duration::from_millis(20);

/// Where latencies come from: [`crate::Log::take_latency_window`], or a program's own figures.
pub type LatencySource = Box<dyn FnMut() -> Histogram + Send>;

struct State {
    pace: Pace,
    source: LatencySource,
    gathered: Histogram,
    looked_at: Instant,
    in_flight: u32,
    report: Totals,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    bytes: u64,
    bound_sum: u64,
    pieces: u64,
    worst_ns_p99: u64,
}

/// The gate.
pub struct Gate {
    state: Mutex<State>,
    freed: Condvar,
    pieces_max: u32,
}

/// What bulk and log had of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BulkReport {
    /// Bulk bytes transferred.
    pub bytes: u64,
    /// Pieces that may be in flight now.
    pub bound_pieces: u32,
    /// The mean of that over all pieces.
    pub bound_pieces_mean: f64,
    /// The log's p99 in the newest window that decided.
    pub log_latency_ns_p99: u64,
    /// The largest of all windows.
    pub log_latency_ns_p99_worst: u64,
    /// Windows that decided.
    pub windows: u64,
    /// Of these, how many missed the target.
    pub windows_over_target: u64,
}

impl fmt::Display for BulkReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.1} MiB with {:.1} pieces in flight; the log's p99 {:.3} ms, worst window {:.3} ms, over its target in {} of {}",
            self.bytes as f64 / 1_048_576.0,
            self.bound_pieces_mean,
            self.log_latency_ns_p99 as f64 / 1e6,
            self.log_latency_ns_p99_worst as f64 / 1e6,
            self.windows_over_target,
            self.windows
        )
    }
}

impl Gate {
    /// A gate that keeps to `options` by the latencies that `source` tells.
    pub fn new(options: PaceOptions, source: LatencySource) -> Self {
        let state = State {
            pace: Pace::new(options),
            source,
            gathered: Histogram::default(),
            looked_at: Instant::now(),
            in_flight: 0,
            report: Totals::default(),
        };
        Self {
            state: Mutex::new(state),
            freed: Condvar::new(),
            pieces_max: options.pieces_max.max(1),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // Counters only: sound also after a panic of a latency source.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Most pieces that can ever be in flight.
    pub(super) fn pieces_max(&self) -> usize {
        self.pieces_max as usize
    }

    /// Waits until one more piece may be in flight.
    pub(super) fn enter(&self) {
        let mut state = self.locked();
        while state.in_flight >= state.pace.bound() {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight += 1;
    }

    /// Whether one more piece may be in flight; it is then.
    pub(super) fn try_enter(&self) -> bool {
        let mut state = self.locked();
        let may = state.in_flight < state.pace.bound();
        state.in_flight += u32::from(may);
        may
    }

    /// A piece is no longer in flight.
    pub(super) fn leave(&self, bytes: usize) {
        let mut state = self.locked();
        state.in_flight -= 1;
        state.report.bytes += bytes as u64;
        state.report.pieces += 1;
        state.report.bound_sum += u64::from(state.pace.bound());
        if state.looked_at.elapsed() >= WINDOW {
            state.look();
        }
        drop(state);
        self.freed.notify_all();
    }

    /// Carries out a transfer of `bytes`, best few pieces long, once one more piece may be in flight: for
    /// programs that transfer by themselves. It must be out of the page cache when it returns.
    pub fn pass<T>(&self, bytes: usize, transfer: impl FnOnce() -> T) -> T {
        self.enter();
        let outcome = transfer();
        self.leave(bytes);
        outcome
    }

    /// What has happened so far.
    pub fn report(&self) -> BulkReport {
        let state = self.locked();
        let (windows, windows_over_target) = state.pace.windows();
        BulkReport {
            bytes: state.report.bytes,
            bound_pieces: state.pace.bound(),
            bound_pieces_mean: state.report.bound_sum as f64 / state.report.pieces.max(1) as f64,
            log_latency_ns_p99: state.pace.latency_ns_p99(),
            log_latency_ns_p99_worst: state.report.worst_ns_p99,
            windows,
            windows_over_target,
        }
    }
}

impl State {
    fn look(&mut self) {
        let newest = (self.source)();
        self.gathered.merge(&newest);
        self.looked_at = Instant::now();
        if self.pace.observe(&self.gathered) {
            self.report.worst_ns_p99 = self.report.worst_ns_p99.max(self.pace.latency_ns_p99());
            self.gathered = Histogram::default();
        }
    }
}
