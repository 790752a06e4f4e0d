//! A program that reads or writes a large file from start to end, over and over, with so many calls under way: each call is a thread.

use super::{Act, Bench, Counted, Script, filler};
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::Ino;
use nearhead_fs::{Answer, FsOperation};
use std::cell::Cell;
use std::rc::Rc;

/// What it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkFileOptions {
    /// The file.
    pub(crate) ino: Ino,
    /// Its length, a multiple of a call's.
    pub(crate) file_bytes: u64,
    /// Of a call.
    pub(crate) call_bytes: u32,
    /// Calls under way.
    pub(crate) threads: u32,
    /// Whether it writes.
    pub(crate) writes: bool,
}

/// A program that is running.
pub(crate) struct BulkFile {
    counted: Counted,
}

/// One of its threads.
struct Thread {
    options: BulkFileOptions,
    next: Rc<Cell<u64>>,
    data: Option<Buffer>,
    counted: Counted,
    issued: Nanos,
    /// The first thread starts the measurement.
    is_first: bool,
}

impl BulkFile {
    /// Starts it.
    pub(crate) fn start(bench: &mut Bench, options: BulkFileOptions) -> Self {
        let (counted, next) = (Counted::default(), Rc::new(Cell::new(0)));
        let data = options.writes.then(|| filler(options.call_bytes as usize));
        for thread in 0..options.threads {
            bench.add(Thread {
                options,
                next: Rc::clone(&next),
                data: data.clone(),
                counted: Rc::clone(&counted),
                issued: Nanos::ZERO,
                is_first: thread == 0,
            });
        }
        Self { counted }
    }

    /// Bytes a second until `now`.
    pub(crate) fn bytes_per_s(&self, now: Nanos) -> f64 {
        self.counted.borrow().summary(now).bytes_per_s
    }
}

impl Script for Thread {
    fn act(&mut self, now: Nanos, answer: Option<Answer>) -> Act {
        let BulkFileOptions { ino, file_bytes, call_bytes, .. } = self.options;
        if answer.is_some() {
            let bytes = u64::from(call_bytes);
            self.counted.borrow_mut().book(&Ok(Vec::new()), bytes, self.issued, now);
        }
        self.issued = now;
        let offset = self.next.get();
        self.next.set((offset + u64::from(call_bytes)) % file_bytes);
        Act::Do(match &self.data {
            Some(data) => FsOperation::Write { ino, offset, data: data.clone(), is_durable: false },
            None => FsOperation::Read { ino, offset, len: call_bytes },
        })
    }

    fn start_measuring(&mut self, now: Nanos) {
        if self.is_first {
            self.counted.borrow_mut().restart(now);
        }
    }
}
