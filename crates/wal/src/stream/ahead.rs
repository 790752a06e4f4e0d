//! Zeros ahead of a stream's content, so that appending changes bytes and no metadata.
//!
//! Only what lies behind everything ever written is zeroed, so content is never touched. The thread
//! that zeroes has the file open for itself: the kernel tells each opener of a write-back error
//! once, and the stream must not miss one.
//!
//! Where a thread zeroes, nobody who syncs waits for more than a little of it: a new file gets its
//! zeros in steps that grow, and a thread that is outrun gives up its step. Measured with ZooKeeper, which
//! begins new log files on all servers at once: 8 MiB at a time held its writes up for 0.1 to 0.3 s.

use super::StreamOptions;
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage};
use nearhead_disk::BufferMut;
use nearhead_uring::{IoPriority, Opener, block_signals, set_thread_priority};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// One write of zeros.
const PIECE_BYTES: u64 = 128 << 10;
/// What the caller zeroes itself where a thread zeroes the rest: at the beginning, and when it is outrun.
const FIRST_STEP_BYTES: u64 = 256 << 10;
/// Each step of the thread is so many times the one before, up to the whole lead: while one is zeroed the
/// one before is used up only if the disk is not four times as fast as the program writes.
const STEP_GROWTH: u64 = 4;

/// Where the zeros are, and who writes more.
pub(super) struct Ahead {
    storage: Arc<dyn Storage>,
    name: String,
    lead_bytes: u64,
    by_thread: bool,
    /// Everything before this is written.
    written_to: u64,
    /// How much the thread zeroed last.
    step_bytes: u64,
    thread: Option<JoinHandle<Result<u64>>>,
    /// Tells the thread to leave it at what it has.
    give_up: Arc<AtomicBool>,
    opener: Opener,
}

impl Ahead {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        name: &str,
        options: &StreamOptions,
        written_to: u64,
    ) -> Self {
        Self {
            storage,
            name: name.to_owned(),
            lead_bytes: options.ahead_bytes.next_multiple_of(PIECE_BYTES),
            by_thread: options.ahead_by_thread,
            written_to,
            step_bytes: FIRST_STEP_BYTES,
            thread: None,
            give_up: Arc::default(),
            opener: Opener::this_process(),
        }
    }

    /// Sees to it that everything before `end` is written, and that there will be more.
    pub(super) fn make_room(&mut self, end: u64) -> Result<()> {
        if self.lead_bytes == 0 {
            return Ok(());
        }
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) || end > self.written_to {
            // What the thread could not do is tried again below, and told if it fails here.
            self.stop();
        }
        if end > self.written_to {
            let at_once = if self.by_thread { FIRST_STEP_BYTES } else { self.lead_bytes };
            let to = end.next_multiple_of(PIECE_BYTES) + at_once.min(self.lead_bytes);
            let go_on = AtomicBool::new(false);
            self.written_to = zero(&*self.storage, &self.name, self.written_to..to, &go_on)?;
        }
        let is_low = self.written_to - end < self.lead_bytes / 2;
        if self.by_thread && is_low && self.thread.is_none() {
            self.start();
        }
        Ok(())
    }

    fn start(&mut self) {
        let (storage, name) = (Arc::clone(&self.storage), self.name.clone());
        self.step_bytes = (self.step_bytes * STEP_GROWTH).min(self.lead_bytes);
        let range = self.written_to..self.written_to + self.step_bytes;
        self.give_up = Arc::default();
        let give_up = Arc::clone(&self.give_up);
        let started =
            std::thread::Builder::new().name("nearhead-zeros".to_owned()).spawn(move || {
                block_signals();
                // A hint: whoever writes may have a priority that zeros must not inherit.
                let _ = set_thread_priority(IoPriority::BEST_EFFORT_LAST);
                zero(&*storage, &name, range, &give_up)
            });
        // Without a thread the caller zeroes when it is needed.
        self.thread = started.ok();
    }

    /// Ends the thread, if there is one, at what it has zeroed by now.
    pub(super) fn stop(&mut self) {
        if !self.opener.is_this_process() {
            // The thread is the parent's.
            std::mem::forget(self.thread.take());
            return;
        }
        self.give_up.store(true, Ordering::Relaxed);
        if let Some(Ok(Ok(to))) = self.thread.take().map(JoinHandle::join) {
            self.written_to = to;
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes zeros, durably, and returns up to where: the end of `range`, or less if told to give up.
fn zero(storage: &dyn Storage, name: &str, range: Range<u64>, give_up: &AtomicBool) -> Result<u64> {
    let file = storage.open(name, Access::Write)?;
    let zeros = BufferMut::zeroed(PIECE_BYTES as usize);
    let mut at = range.start;
    while at < range.end && !give_up.load(Ordering::Relaxed) {
        let piece = (range.end - at).min(PIECE_BYTES);
        file.write(at, &zeros[..piece as usize])?;
        at += piece;
    }
    file.sync()?;
    if file.len_bytes()? < at {
        let detail = format!("{name}: expected {at} bytes after zeroing, found fewer");
        return Err(WalError::new(WalErrorKind::Io, detail));
    }
    Ok(at)
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
