//! Records that wait for the next durable write, and everything that waits for them.
//!
//! Room in a segment is found *before* a record gets its number: so an append that finds the disk
//! full fails alone, and what has a number can only be lost with the whole log stopped. Bounds: the
//! bytes of waiting records; a waker for each ticket that is polled; nothing else grows.

use super::Lsn;
use super::batch::Placer;
use super::pool::Ready;
use crate::error::{Result, WalError, WalErrorKind};
use std::task::Waker;
use std::time::Instant;

/// Called once, with the record's number when it is durable, or with why it may never be.
pub type Callback = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// A record that waits.
pub(super) struct Entry {
    pub(super) bytes: usize,
    pub(super) crc: u32,
    pub(super) appended_at: Instant,
    /// The segment that begins with it.
    pub(super) segment: Option<Ready>,
    pub(super) callback: Option<Callback>,
}

/// Records in the order of their numbers, their bytes behind each other.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

impl Waiting {
    /// The memory it takes: a record without content takes some, too.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }
}

/// What the threads of a log share.
pub(super) struct Queue {
    pub(super) waiting: Waiting,
    /// Emptied, its memory kept for the next.
    pub(super) spare: Waiting,
    pub(super) placer: Placer,
    /// Segments that waiting records begin: taken, not yet entered.
    pub(super) reserved: usize,
    /// The number of the next record.
    pub(super) next_lsn: Lsn,
    /// The first record that is not durable.
    pub(super) durable_next: Lsn,
    /// Somebody wants every record before this one to be durable.
    pub(super) wanted_next: Lsn,
    /// Somebody is writing.
    pub(super) is_writing: bool,
    /// Somebody wants another segment.
    pub(super) wants_segment: bool,
    /// Why the last attempt to make one failed.
    pub(super) segment_error: Option<WalError>,
    pub(super) is_closing: bool,
    pub(super) stopped: Option<WalError>,
    pub(super) wakers: Vec<(Lsn, Waker)>,
}

impl Queue {
    pub(super) fn new(placer: Placer, next_lsn: Lsn) -> Self {
        Self {
            waiting: Waiting::default(),
            spare: Waiting::default(),
            placer,
            reserved: 0,
            next_lsn,
            durable_next: next_lsn,
            wanted_next: next_lsn,
            is_writing: false,
            wants_segment: true,
            segment_error: None,
            is_closing: false,
            stopped: None,
            wakers: Vec::new(),
        }
    }

    /// Whether appends are still taken.
    pub(super) fn check_open(&self) -> Result<()> {
        if let Some(cause) = &self.stopped {
            return Err(WalError::stopped_by(cause));
        }
        if self.is_closing {
            return Err(WalError::new(WalErrorKind::Stopped, "the log is being closed"));
        }
        Ok(())
    }

    /// Whether it is time to write, with `bytes_max` as the bound on waiting bytes.
    pub(super) fn should_write(&self, bytes_max: usize) -> bool {
        let is_wanted = self.wanted_next > self.durable_next || self.is_closing;
        let is_half_full = self.waiting.memory_bytes() >= bytes_max / 2;
        !self.is_writing
            && self.stopped.is_none()
            && !self.waiting.entries.is_empty()
            && (is_wanted || is_half_full)
    }

    /// What has become of a record: `None` while nobody knows.
    pub(super) fn outcome(&self, lsn: Lsn) -> Option<Result<Lsn>> {
        if lsn < self.durable_next {
            return Some(Ok(lsn));
        }
        self.stopped.as_ref().map(|cause| Err(WalError::stopped_by(cause)))
    }

    /// Adds a record for which there is room.
    pub(super) fn push(&mut self, record: &[u8], entry: Entry) -> Lsn {
        let lsn = self.next_lsn;
        self.waiting.bytes.extend_from_slice(record);
        self.waiting.entries.push(entry);
        self.next_lsn = lsn.next();
        lsn
    }

    /// Who is to be woken now that something has changed.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        let (durable_next, is_stopped) = (self.durable_next, self.stopped.is_some());
        let due = |waiter: &mut (Lsn, Waker)| is_stopped || waiter.0 < durable_next;
        self.wakers.extract_if(.., due).map(|(_, waker)| waker).collect()
    }
}
