//! A disk that refuses to read some bytes, and notes what it was asked to read and write.

use nearhead_disk::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Submission, total_len,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

pub(crate) const UNREADABLE: &str = "these bytes cannot be read";

/// Bytes of each read and write so far, in order, and whether it is a write; shared with the disk.
#[derive(Clone, Default)]
pub(crate) struct Asked(Rc<RefCell<Vec<One>>>);

type One = (bool, Range<u64>);

impl Asked {
    pub(crate) fn all(&self) -> Vec<One> {
        self.0.borrow().clone()
    }

    fn of(&self, writes: bool) -> Vec<Range<u64>> {
        self.all().into_iter().filter(|one| one.0 == writes).map(|one| one.1).collect()
    }

    pub(crate) fn reads(&self) -> Vec<Range<u64>> {
        self.of(false)
    }

    pub(crate) fn writes(&self) -> Vec<Range<u64>> {
        self.of(true)
    }
}

pub(crate) struct Watched<D> {
    disk: D,
    /// Reads that touch these fail.
    bad: Vec<Range<u64>>,
    asked: Asked,
    refused: VecDeque<Completion>,
}

impl<D: Disk> Watched<D> {
    pub(crate) fn new(disk: D, bad: Vec<Range<u64>>) -> Self {
        Self { disk, bad, asked: Asked::default(), refused: VecDeque::new() }
    }

    pub(crate) fn asked(&self) -> Asked {
        self.asked.clone()
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
            self.asked.0.borrow_mut().push((false, read));
            if fails {
                let detail = UNREADABLE.to_owned();
                let error = DiskError { kind: DiskErrorKind::Io, detail };
                return self.refused.push_back(submission.ticket.complete(Err(error)));
            }
        }
        if let Command::Write { offset, parts, .. } = &submission.command {
            let write = *offset..offset + total_len(parts) as u64;
            self.asked.0.borrow_mut().push((true, write));
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
