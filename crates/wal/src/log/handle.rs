//! [`Log`], the handle that programs hold: what they may ask of a log, and its threads.
//!
//! Any number of threads use one handle. It owns the log's two threads and ends them when it goes;
//! waiting, batching and writing are `shared.rs`.

use super::queue::Queue;
use super::reader::Records;
use super::serial::check_truncation;
use super::shared::{Driver, Shared, Wish, locked};
use super::{LogOptions, Lsn, Recovered, SerialLog, Ticket};
use crate::error::{Result, WalError, WalErrorKind};
use crate::metrics::LogMetrics;
use crate::storage::Storage;
use nearhead_basics::Histogram;
use nearhead_uring::{Opener, block_signals};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// Called at the start of each of the log's threads: to set its priority.
#[derive(Clone, Copy)]
pub struct ThreadStart {
    /// Of the thread that writes.
    pub writer: fn(),
    /// Of the thread that makes segments ready.
    pub segments: fn(),
}

impl Default for ThreadStart {
    fn default() -> Self {
        Self { writer: || {}, segments: || {} }
    }
}

/// A log open for writing, for any number of threads.
pub struct Log {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Log {
    /// Opens a log; `replay` gets every record, in order.
    ///
    /// # Errors
    /// As [`SerialLog::open`]; [`WalErrorKind::Io`] if threads cannot be started.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: &LogOptions,
        driver: Driver,
        start: ThreadStart,
        replay: impl FnMut(Lsn, &[u8]),
    ) -> Result<(Self, Recovered)> {
        let (serial, recovered) = SerialLog::open(storage, options, replay)?;
        let shared = Arc::new(Shared {
            options: *serial.options(),
            driver,
            pool: Arc::clone(serial.pool()),
            queue: Mutex::new(Queue::new(serial.placer(), serial.next_lsn())),
            serial: Mutex::new(serial),
            work: Condvar::new(),
            segment_work: Condvar::new(),
            progress: Condvar::new(),
            metrics: Mutex::default(),
            window: Mutex::default(),
            opener: Opener::this_process(),
        });
        let mut log = Self { shared, threads: Vec::new() };
        log.start("nearhead-wal", start.writer, Shared::write_loop)?;
        log.start("nearhead-wal-seg", start.segments, Shared::segment_loop)?;
        Ok((log, recovered))
    }

    fn start(&mut self, name: &str, first: fn(), run: fn(&Shared)) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            block_signals();
            first();
            run(&shared);
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        let thread = started.map_err(|error| {
            let detail = format!("cannot start the thread {name}: {error}; raise the limits");
            WalError::new(WalErrorKind::Io, detail)
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Adds a record without asking for durability: it goes out with the next write, at the latest
    /// when half of the memory for waiting records is used. Waits for room.
    ///
    /// # Errors
    /// [`WalErrorKind::Full`] and [`WalErrorKind::NoSpace`] take nothing in.
    pub fn append(&self, record: &[u8]) -> Result<Lsn> {
        self.shared.enqueue(record, Wish::None, true, None)
    }

    /// Adds a record and waits until it is durable.
    pub fn append_durable(&self, record: &[u8]) -> Result<Lsn> {
        let lsn = self.shared.enqueue(record, Wish::CallerWaits, true, None)?;
        self.shared.wait_for(lsn)
    }

    /// Adds a record that is to become durable; the ticket tells when. Waits for room only.
    pub fn submit(&self, record: &[u8]) -> Result<Ticket> {
        let lsn = self.shared.enqueue(record, Wish::SomeTime, true, None)?;
        Ok(self.ticket(lsn))
    }

    /// The same, but rather than wait for room it returns [`WalErrorKind::WouldBlock`].
    pub fn try_submit(&self, record: &[u8]) -> Result<Ticket> {
        let lsn = self.shared.enqueue(record, Wish::SomeTime, false, None)?;
        Ok(self.ticket(lsn))
    }

    /// Adds a record and has `done` called once it is durable, or may never be. The thread that
    /// wrote calls it: it must not block, nor wait for this log.
    pub fn submit_then(
        &self,
        record: &[u8],
        done: impl FnOnce(Result<Lsn>) + Send + 'static,
    ) -> Result<Lsn> {
        self.shared.enqueue(record, Wish::SomeTime, true, Some(Box::new(done)))
    }

    /// Refuses a child of `fork`: the log is its parent's, and a lock in it may be held for ever.
    ///
    /// # Errors
    /// [`WalErrorKind::Stopped`] in such a child.
    pub fn check_opener(&self) -> Result<()> {
        self.shared.check_opener()
    }

    fn ticket(&self, lsn: Lsn) -> Ticket {
        Ticket::new(lsn, Arc::clone(&self.shared))
    }

    /// Waits until every record so far is durable. Returns the number that the next one will have.
    pub fn sync(&self) -> Result<Lsn> {
        self.check_opener()?;
        let next = self.shared.queue().next_lsn;
        if next > Lsn::FIRST {
            self.shared.wait_for(Lsn(next.0 - 1))?;
        }
        Ok(next)
    }

    /// Gives up all records before `lsn`, durably. Their space is used again.
    pub fn truncate_prefix(&self, lsn: Lsn) -> Result<()> {
        self.check_opener()?;
        let durable_next = {
            let queue = self.shared.queue();
            queue.check_open()?;
            queue.durable_next
        };
        check_truncation(lsn, durable_next)?;
        self.shared.pool.release_before(lsn)
    }

    /// Reads the durable records from `from` on.
    pub fn records(&self, from: Lsn) -> Result<Records> {
        self.check_opener()?;
        let end = self.shared.queue().durable_next;
        Records::new(Arc::clone(&self.shared.pool), self.shared.options, from, end)
    }

    /// The oldest record that may be read.
    pub fn first_lsn(&self) -> Lsn {
        self.shared.pool.first_lsn()
    }

    /// The first record that is not durable yet.
    pub fn durable_next(&self) -> Lsn {
        self.shared.queue().durable_next
    }

    /// The number that the next record will have.
    pub fn next_lsn(&self) -> Lsn {
        self.shared.queue().next_lsn
    }

    /// Segments on disk: in use, ready, free.
    pub fn segments(&self) -> usize {
        self.shared.pool.segments()
    }

    /// What it has done so far.
    pub fn metrics(&self) -> LogMetrics {
        locked(&self.shared.metrics).clone()
    }

    /// The latencies of appends, in nanoseconds, since this was last called: what paces bulk I/O.
    pub fn take_latency_window(&self) -> Histogram {
        std::mem::take(&mut *locked(&self.shared.window))
    }

    /// Makes everything durable and says durably that the log ends here.
    pub fn close(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        if let Err(error) = self.check_opener() {
            // Neither the threads nor the lock of the queue, which one may hold, are this process's.
            std::mem::forget(std::mem::take(&mut self.threads));
            return Err(error);
        }
        if self.threads.is_empty() {
            return Ok(());
        }
        self.shared.queue().is_closing = true;
        self.shared.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has been reported by the thread itself; what it left undone shows below.
            let _ = thread.join();
        }
        if let Some(cause) = &self.shared.queue().stopped {
            return Err(WalError::stopped_by(cause));
        }
        locked(&self.shared.serial).close_in_place()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to know the outcome calls `close`.
        let _ = self.stop();
    }
}
