//! A disk that refuses to read some bytes, and notes what it was asked to read and write.

use nearhead_disk::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Submission, total_len,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

pub(crate) const UNREADABLE: &str = "these bytes cannot be read";

/// Bytes of each read or write so far, in order, shared with the disk.
pub(crate) type Asked = Rc<RefCell<Vec<Range<u64>>>>;

pub(crate) struct Watched<D> {
    disk: D,
    /// Reads that touch these fail.
    bad: Vec<Range<u64>>,
    reads: Asked,
    writes: Asked,
    refused: VecDeque<Completion>,
}

impl<D: Disk> Watched<D> {
    pub(crate) fn new(disk: D, bad: Vec<Range<u64>>) -> Self {
        let (reads, writes) = (Asked::default(), Asked::default());
        Self { disk, bad, reads, writes, refused: VecDeque::new() }
    }

    pub(crate) fn reads(&self) -> Asked {
        Rc::clone(&self.reads)
    }

    pub(crate) fn writes(&self) -> Asked {
        Rc::clone(&self.writes)
    }
}

impl<D: Disk> Disk for Watched<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        if let Command::Read { offset, len } = submission.command {
            let read = offset..offset + u64::from(len);
            let is_bad = |bad: &Range<u64>| read.start < bad.end && bad.start < read.end;
            let fails = self.bad.iter().any(is_bad);
            self.reads.borrow_mut().push(read);
            if fails {
                let detail = UNREADABLE.to_owned();
                let error = DiskError { kind: DiskErrorKind::Io, detail };
                return self.refused.push_back(submission.ticket.complete(Err(error)));
            }
        }
        if let Command::Write { offset, parts, .. } = &submission.command {
            self.writes.borrow_mut().push(*offset..offset + total_len(parts) as u64);
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.refused.pop_front().or_else(|| self.disk.poll(now))
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.refused.is_empty() { self.disk.wake_at() } else { Some(Nanos::ZERO) }
    }
}
