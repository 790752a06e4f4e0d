//! Programs that each replay the writes and syncs of a database's log on a file of their own, at the times at which the database made them.
//!
//! A program has one call under way. One that is late goes on without a pause until it has caught up, so what it is late by counts as waiting:
//! a flush takes from when it was due until it is durable.

use super::{Act, Bench, Counted, Image, Script, filler};
use crate::error::FigureError;
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::Ino;
use nearhead_fs::{Answer, FsOperation};
use std::rc::Rc;

/// What a database does to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogCall {
    /// Bytes to a place of the file.
    Write { offset: u64, bytes: u32 },
    /// What was written is to be durable.
    Sync,
}

/// Calls in order, each with its time since the start.
pub(crate) type LogTrace = Rc<Vec<(Nanos, LogCall)>>;

/// What all programs together count.
#[derive(Clone, Default)]
pub(crate) struct Flushes {
    /// From when a flush was due: the sync's, or that of the write that is synced at once.
    pub(crate) from_due: Counted,
    /// From when it was begun.
    pub(crate) from_begun: Counted,
}

/// So many logs of so many bytes, all of them written, each in a folder of its own.
pub(crate) fn prepare_logs(
    image: &mut Image,
    count: u32,
    bytes: u64,
) -> Result<Vec<Ino>, FigureError> {
    let one = |nth| {
        let folder = image.folder(&format!("database{nth}"))?;
        image.file(folder, "log", bytes)
    };
    (0..count).map(one).collect()
}

/// Starts a program on each of these logs, so long after now.
pub(crate) fn start_replay(
    bench: &mut Bench,
    logs: &[(Ino, Nanos)],
    trace: &LogTrace,
    flushes: &Flushes,
) {
    let write_bytes = |(_, call): &(Nanos, LogCall)| match call {
        LogCall::Write { bytes, .. } => *bytes,
        LogCall::Sync => 0,
    };
    let data = filler(trace.iter().map(write_bytes).max().unwrap_or(0) as usize);
    for (ino, after) in logs {
        let begins = bench.now() + *after;
        bench.add(Replay {
            ino: *ino,
            begins,
            trace: Rc::clone(trace),
            next: 0,
            data: data.clone(),
            flush: None,
            flushes: flushes.clone(),
        });
    }
}

struct Replay {
    ino: Ino,
    begins: Nanos,
    trace: LogTrace,
    next: usize,
    data: Buffer,
    /// When the flush under way was due, and when it was begun.
    flush: Option<(Nanos, Nanos)>,
    flushes: Flushes,
}

impl Replay {
    fn book(&self, due: Nanos, begun: Nanos, now: Nanos) {
        for (counted, since) in [(&self.flushes.from_due, due), (&self.flushes.from_begun, begun)] {
            counted.borrow_mut().book(&Ok(Vec::new()), 0, since, now);
        }
    }
}

impl Script for Replay {
    fn act(&mut self, now: Nanos, answer: Option<Answer>) -> Act {
        let before = self.next.checked_sub(1).and_then(|before| self.trace.get(before));
        let was_sync = before.is_some_and(|(_, call)| *call == LogCall::Sync);
        if let Some((due, begun)) = self.flush.filter(|_| answer.is_some() && was_sync) {
            self.book(due, begun, now);
            self.flush = None;
        }
        let Some((at, call)) = self.trace.get(self.next).copied() else { return Act::End };
        let due = self.begins + at;
        if now < due {
            return Act::Wait(due);
        }
        self.next += 1;
        let ino = self.ino;
        // A write that is synced at the same time is part of that flush.
        let is_flush = call == LogCall::Sync
            || self
                .trace
                .get(self.next)
                .is_some_and(|(next, call)| *next == at && *call == LogCall::Sync);
        if is_flush && self.flush.is_none() {
            self.flush = Some((due, now));
        }
        match call {
            LogCall::Sync => Act::Do(FsOperation::Sync { ino, data_only: false }),
            LogCall::Write { offset, bytes } => {
                let data = self.data.slice(0..bytes as usize);
                Act::Do(FsOperation::Write { ino, offset, data, is_durable: false })
            }
        }
    }
}
