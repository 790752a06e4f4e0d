//! A bulk file: written by the kernel as ever, but in pieces that leave the page cache before too
//! many are under way.
//!
//! What lies in the page cache is in flight as soon as the kernel writes it back, and then it
//! stands before every log write. So each 128 KiB written are waited for (`sync_file_range`, no
//! barrier, no metadata) inside a gate, whose bound follows the latency of this process's logs.

use crate::raw;
use libc::c_int;
use nearhead_wal::Histogram;
use nearhead_wal::bulk::{Gate, PaceOptions};
use std::sync::{Mutex, OnceLock, PoisonError};

/// One piece.
const PIECE_BYTES: u64 = 128 << 10;

/// Latencies of the syncs since the gate last looked.
static WINDOW: Mutex<Option<Histogram>> = Mutex::new(None);

/// A log's sync took this long.
pub(crate) fn record_sync(latency_ns: u64) {
    // One sample fewer where another thread is here, or this one, below a signal handler.
    if let Ok(mut window) = WINDOW.try_lock() {
        window.get_or_insert_default().record(latency_ns);
    }
}

fn gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(|| {
        let take = || WINDOW.lock().unwrap_or_else(PoisonError::into_inner).take();
        Gate::new(PaceOptions::default(), Box::new(move || take().unwrap_or_default()))
    })
}

/// A file that is written in bulk.
pub(crate) struct Bulk {
    identity: (u64, u64),
    /// What was written and not waited for: an offset and an end.
    waiting: Mutex<(u64, u64)>,
}

impl Bulk {
    pub(crate) fn new(identity: (u64, u64)) -> Self {
        Self { identity, waiting: Mutex::new((0, 0)) }
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// `len` bytes were written behind each other, up to `end`. Waits for whole pieces of them.
    pub(crate) fn wrote(&self, fd: c_int, end: u64, len: u64) {
        let start = end.saturating_sub(len);
        let (from, to) = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // Elsewhere in the file: what waits there is left to the kernel.
            let from = if waiting.1 == start { waiting.0 } else { start };
            let whole = from + (end - from) / PIECE_BYTES * PIECE_BYTES;
            *waiting = (whole, end);
            (from, whole)
        };
        let mut at = from;
        while at < to {
            gate().pass(PIECE_BYTES as usize, || push_out(fd, at, PIECE_BYTES));
            at += PIECE_BYTES;
        }
    }
}

/// Waits until a range has left the page cache. An error shows at the program's own sync.
fn push_out(fd: c_int, offset: u64, len: u64) {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let before = raw::errno();
    let arguments = [fd as usize, offset as usize, len as usize, flags as usize, 0, 0];
    if raw::call(libc::SYS_sync_file_range, arguments) != 0 {
        raw::fail(before);
    }
}
