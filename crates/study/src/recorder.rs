//! A workload whose every request is written down: what, where, since when it was waited for, when it was issued and answered.
//!
//! It changes nothing of what the workload does. A request that a workload cuts into pieces is as many rows. Memory is 44 bytes a request, and ends at
//! [`RECORDED_MAX`] of them; those beyond are counted.

use nearhead_basics::NumberHash;
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use nearhead_sim::workload::{Issue, Workload};
use std::collections::HashMap;

/// Rows that are kept at most: 1.5 GB of requests.
pub const RECORDED_MAX: usize = 1 << 25;

/// What [`Recorded::operation`] counts.
pub const OPERATIONS: [&str; 5] = ["read", "write", "flush", "trim", "other"];

/// When a request is answered that is not answered yet.
const UNANSWERED_NS: u64 = u64::MAX;

/// Requests, a column for each fact, in the order in which they were issued; times in ns of virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Which of the experiment's workloads.
    pub load: Vec<u8>,
    /// Place in [`OPERATIONS`].
    pub operation: Vec<u8>,
    /// 1 if it is durable when it is answered.
    pub fua: Vec<u8>,
    /// 1 if it failed.
    pub failed: Vec<u8>,
    /// First byte; 0 of a flush.
    pub offset_bytes: Vec<u64>,
    /// Number of bytes; 0 of a flush.
    pub len_bytes: Vec<u64>,
    /// Since when it is waited for.
    pub due_ns: Vec<u64>,
    /// When it was issued.
    pub issued_ns: Vec<u64>,
    /// When it was answered; the largest number if it was not.
    pub answered_ns: Vec<u64>,
    /// Requests that were not written down any more.
    pub left_out: u64,
}

impl Recorded {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.load.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.load.is_empty()
    }

    fn push(&mut self, load: u8, issue: &Issue, now: Nanos) -> Option<usize> {
        if self.len() >= RECORDED_MAX {
            self.left_out += 1;
            return None;
        }
        let (operation, offset, len, fua) = match &issue.operation {
            Operation::Read { offset, len } => (0, *offset, u64::from(*len), false),
            Operation::Write { offset, data, fua } => (1, *offset, data.len() as u64, *fua),
            Operation::Flush => (2, 0, 0, false),
            Operation::Trim { offset, len, fua } => (3, *offset, *len, *fua),
            Operation::WriteInPlace { .. }
            | Operation::WriteAtomic { .. }
            | Operation::WriteZeroes { .. }
            | Operation::Hint { .. } => (4, 0, 0, false),
        };
        self.load.push(load);
        self.operation.push(operation);
        self.fua.push(u8::from(fua));
        self.failed.push(0);
        self.offset_bytes.push(offset);
        self.len_bytes.push(len);
        self.due_ns.push(issue.due_at.0);
        self.issued_ns.push(now.0);
        self.answered_ns.push(UNANSWERED_NS);
        Some(self.len() - 1)
    }
}

/// Writes down what a workload does.
pub(crate) struct Recorder<'a> {
    load: u8,
    workload: &'a mut dyn Workload,
    /// Rows of requests under way, by their tags.
    rows: HashMap<u64, usize, NumberHash>,
    book: &'a std::cell::RefCell<Recorded>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        load: u8,
        workload: &'a mut dyn Workload,
        book: &'a std::cell::RefCell<Recorded>,
    ) -> Self {
        Self { load, workload, rows: HashMap::default(), book }
    }
}

impl Workload for Recorder<'_> {
    fn next_at(&self) -> Option<Nanos> {
        self.workload.next_at()
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        let issue = self.workload.poll_issue(now)?;
        if let Some(row) = self.book.borrow_mut().push(self.load, &issue, now) {
            self.rows.insert(issue.tag, row);
        }
        Some(issue)
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        if let Some(row) = self.rows.remove(&tag) {
            let mut book = self.book.borrow_mut();
            book.answered_ns[row] = now.0;
            book.failed[row] = u8::from(result.is_err());
        }
        self.workload.on_reply(tag, result, now)
    }

    fn stop(&mut self) {
        self.workload.stop();
    }

    fn is_finished(&self) -> bool {
        self.workload.is_finished()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.workload.start_measuring(now);
    }
}
