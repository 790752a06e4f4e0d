//! Zeros ahead of a stream's content, so that appending changes bytes and no metadata.
//!
//! Only what lies behind everything ever written is zeroed, so content is never touched. The thread
//! that zeroes has the file open for itself: the kernel tells each opener of a write-back error
//! once, and the stream must not miss one.

use super::StreamOptions;
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage};
use nearhead_disk::BufferMut;
use nearhead_uring::{IoPriority, set_thread_priority};
use std::sync::Arc;
use std::thread::JoinHandle;

/// One write of zeros.
const PIECE_BYTES: u64 = 128 << 10;

/// Where the zeros are, and who writes more.
pub(super) struct Ahead {
    storage: Arc<dyn Storage>,
    name: String,
    lead_bytes: u64,
    by_thread: bool,
    /// Everything before this is written.
    written_to: u64,
    thread: Option<JoinHandle<Result<u64>>>,
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
            thread: None,
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
            let to = end.next_multiple_of(PIECE_BYTES) + self.lead_bytes;
            self.written_to = zero(&*self.storage, &self.name, self.written_to, to)?;
        }
        let is_low = self.written_to - end < self.lead_bytes / 2;
        if self.by_thread && is_low && self.thread.is_none() {
            let (storage, name) = (Arc::clone(&self.storage), self.name.clone());
            let (from, to) = (self.written_to, self.written_to + self.lead_bytes);
            let started =
                std::thread::Builder::new().name("nearhead-zeros".to_owned()).spawn(move || {
                    // A hint: whoever writes may have a priority that zeros must not inherit.
                    let _ = set_thread_priority(IoPriority::BEST_EFFORT_LAST);
                    zero(&*storage, &name, from, to)
                });
            // Without a thread the caller zeroes when it is needed.
            self.thread = started.ok();
        }
        Ok(())
    }

    /// Waits for the thread.
    pub(super) fn stop(&mut self) {
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

fn zero(storage: &dyn Storage, name: &str, from: u64, to: u64) -> Result<u64> {
    let file = storage.open(name, Access::Write)?;
    let zeros = BufferMut::zeroed(PIECE_BYTES as usize);
    let mut at = from;
    while at < to {
        let piece = (to - at).min(PIECE_BYTES);
        file.write(at, &zeros[..piece as usize])?;
        at += piece;
    }
    file.sync()?;
    if file.len_bytes()? < to {
        let detail = format!("{name}: expected {to} bytes after zeroing, found fewer");
        return Err(WalError::new(WalErrorKind::Io, detail));
    }
    Ok(to)
}
