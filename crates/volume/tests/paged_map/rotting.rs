//! A disk of which some bytes rot while it runs, and on which some writes fail.

use nearhead_disk::{
    BufferMut, Command, CommandId, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload,
    Properties, Submission, Ticket,
};
use nearhead_models::CrashDisk;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// A disk of which some bytes rot while it runs.
pub(super) struct Rotting {
    pub(super) disk: CrashDisk,
    rotten: Rc<RefCell<Vec<Range<u64>>>>,
    /// Writes that begin here fail.
    failing: Rc<RefCell<Vec<Range<u64>>>>,
    pub(super) reads: BTreeMap<CommandId, u64>,
    failed: Vec<Ticket>,
}

impl Rotting {
    pub(super) fn of(
        disk: CrashDisk,
        rotten: &Rc<RefCell<Vec<Range<u64>>>>,
        failing: &Rc<RefCell<Vec<Range<u64>>>>,
    ) -> Self {
        let (rotten, failing) = (Rc::clone(rotten), Rc::clone(failing));
        Self { disk, rotten, failing, reads: BTreeMap::new(), failed: Vec::new() }
    }
}

impl Disk for Rotting {
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
        match submission.command {
            Command::Read { offset, .. } => {
                self.reads.insert(submission.ticket.id(), offset);
            }
            Command::Write { offset, .. }
                if self.failing.borrow().iter().any(|range| range.contains(&offset)) =>
            {
                return self.failed.push(submission.ticket);
            }
            _ => {}
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if let Some(ticket) = self.failed.pop() {
            let detail = "it failed".to_owned();
            return Some(ticket.complete(Err(DiskError { kind: DiskErrorKind::Io, detail })));
        }
        let mut done = self.disk.poll(now)?;
        let read_at = self.reads.remove(&done.id);
        if let (Some(offset), Ok(Payload::Bytes(bytes))) = (read_at, &done.result) {
            let mut bytes = bytes.to_vec();
            for (at, byte) in (offset..).zip(&mut bytes) {
                let is_rotten = |range: &Range<u64>| range.contains(&at);
                *byte ^= u8::from(self.rotten.borrow().iter().any(is_rotten));
            }
            done.result = Ok(Payload::Bytes(BufferMut::copy_of(&bytes).freeze()));
        }
        Some(done)
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.failed.is_empty() { self.disk.wake_at() } else { Some(Nanos::ZERO) }
    }
}
