//! The log for many threads: group commit over [`SerialLog`].
//!
//! Whoever writes takes everything that waits and makes it durable with as few writes as possible;
//! what arrives meanwhile is the next batch. So batches grow with load and nobody waits for a timer.
//! The writer is a thread of its own, with a priority of its own, or, if [`Driver::Callers`] says so,
//! one of those who wait: then a lone caller pays no change of threads. Making segments ready is
//! another thread's work. Locks are taken in the order queue, then nothing; or serial log, then
//! queue: never the log under the queue.

use super::queue::{Callback, Entry, Queue, Waiting};
use super::reader::Records;
use super::serial::check_truncation;
use super::{LogOptions, Lsn, Pool, Recovered, SerialLog, Ticket};
use crate::error::{Result, WalError, WalErrorKind};
use crate::metrics::{Histogram, LogMetrics};
use crate::storage::Storage;
use nearhead_format::crc::crc32c;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Which threads write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// One of the log's own, for everybody.
    OwnThread,
    /// Those who wait for durability; the log's own only for those who do not.
    Callers,
}

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

/// What an append asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Nothing yet.
    None,
    /// Durability, for which the caller waits at once.
    CallerWaits,
    /// Durability, without anybody waiting now.
    SomeTime,
}

/// What all handles and threads of a log share.
pub(super) struct Shared {
    options: LogOptions,
    driver: Driver,
    pool: Arc<Pool>,
    serial: Mutex<SerialLog>,
    queue: Mutex<Queue>,
    /// Something to write, or a segment to make.
    work: Condvar,
    segment_work: Condvar,
    /// Something became durable, or room.
    progress: Condvar,
    metrics: Mutex<LogMetrics>,
    window: Mutex<Histogram>,
}

/// A log open for writing, for any number of threads.
pub struct Log {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in a callback must not take the log with it; each change under these locks is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        });
        let mut log = Self { shared, threads: Vec::new() };
        log.start("nearhead-wal", start.writer, Shared::write_loop)?;
        log.start("nearhead-wal-seg", start.segments, Shared::segment_loop)?;
        Ok((log, recovered))
    }

    fn start(&mut self, name: &str, first: fn(), run: fn(&Shared)) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
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

    fn ticket(&self, lsn: Lsn) -> Ticket {
        Ticket::new(lsn, Arc::clone(&self.shared))
    }

    /// Waits until every record so far is durable. Returns the number that the next one will have.
    pub fn sync(&self) -> Result<Lsn> {
        let next = self.shared.queue().next_lsn;
        if next > Lsn::FIRST {
            self.shared.wait_for(Lsn(next.0 - 1))?;
        }
        Ok(next)
    }

    /// Gives up all records before `lsn`, durably. Their space is used again.
    pub fn truncate_prefix(&self, lsn: Lsn) -> Result<()> {
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

impl Shared {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    fn wait<'a>(condition: &Condvar, guard: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_all(&self) {
        self.work.notify_all();
        self.segment_work.notify_all();
        self.progress.notify_all();
    }

    fn enqueue(
        &self,
        record: &[u8],
        wish: Wish,
        may_wait: bool,
        callback: Option<Callback>,
    ) -> Result<Lsn> {
        self.options.check_record(record.len())?;
        let crc = crc32c(record);
        let appended_at = Instant::now();
        let mut queue = self.queue();
        let mut has_asked = false;
        loop {
            queue.check_open()?;
            let would_be = queue.waiting.bytes.len() + record.len();
            let has_memory =
                queue.waiting.entries.is_empty() || would_be <= self.options.waiting_bytes_max;
            let mut placer = queue.placer;
            let fits = placer.place(record.len() as u32);
            let segment = if has_memory && !fits { self.pool.take_ready() } else { None };
            if has_memory && (fits || segment.is_some()) {
                if segment.is_some() {
                    placer.start_segment();
                    placer.place(record.len() as u32);
                    queue.reserved += 1;
                    queue.wants_segment = true;
                    queue.segment_error = None;
                    self.segment_work.notify_one();
                }
                queue.placer = placer;
                let entry = Entry { bytes: record.len(), crc, appended_at, segment, callback };
                let lsn = queue.push(record, entry);
                if wish != Wish::None {
                    queue.wanted_next = queue.next_lsn;
                }
                // A caller who waits will write by himself, where callers do.
                let by_thread = self.driver == Driver::OwnThread || wish != Wish::CallerWaits;
                if by_thread && queue.should_write(self.options.waiting_bytes_max) {
                    self.work.notify_one();
                }
                return Ok(lsn);
            }
            if has_memory {
                // What failed before anybody needed the segment is worth another attempt, if the
                // caller has the time.
                if let Some(error) = queue.segment_error.take()
                    && (has_asked || !may_wait)
                {
                    return Err(error);
                }
                has_asked = true;
                queue.wants_segment = true;
                self.segment_work.notify_one();
            } else {
                queue.wanted_next = queue.next_lsn;
                self.work.notify_one();
            }
            if !may_wait {
                let detail = "no room for a record now; wait for earlier ones";
                return Err(WalError::new(WalErrorKind::WouldBlock, detail));
            }
            queue = self.stall(queue, has_memory);
        }
    }

    #[cold]
    fn stall<'a>(&self, queue: MutexGuard<'a, Queue>, for_segment: bool) -> MutexGuard<'a, Queue> {
        let since = Instant::now();
        let queue = Self::wait(&self.progress, queue);
        let mut metrics = locked(&self.metrics);
        metrics.stalled += since.elapsed();
        if for_segment {
            metrics.stalls_for_segment += 1;
        } else {
            metrics.stalls_for_memory += 1;
        }
        queue
    }

    /// Waits until a record is durable; writes it if nobody does and callers may.
    pub(super) fn wait_for(&self, lsn: Lsn) -> Result<Lsn> {
        let mut queue = self.queue();
        if queue.wanted_next <= lsn {
            queue.wanted_next = lsn.next();
            self.work.notify_one();
        }
        loop {
            if let Some(outcome) = queue.outcome(lsn) {
                return outcome;
            }
            let may_write = self.driver == Driver::Callers;
            queue = if may_write && queue.should_write(self.options.waiting_bytes_max) {
                self.write_once(queue)
            } else {
                Self::wait(&self.progress, queue)
            };
        }
    }

    fn write_loop(&self) {
        let mut queue = self.queue();
        loop {
            if queue.should_write(self.options.waiting_bytes_max) {
                queue = self.write_once(queue);
                continue;
            }
            let is_done = queue.waiting.entries.is_empty() || queue.stopped.is_some();
            if queue.is_closing && is_done && !queue.is_writing {
                return;
            }
            queue = Self::wait(&self.work, queue);
        }
    }

    fn segment_loop(&self) {
        let mut queue = self.queue();
        while !queue.is_closing {
            if !queue.wants_segment || queue.stopped.is_some() {
                queue = Self::wait(&self.segment_work, queue);
                continue;
            }
            queue.wants_segment = false;
            let reserved = queue.reserved;
            drop(queue);
            let outcome = self.pool.prepare(reserved);
            queue = self.queue();
            queue.segment_error = outcome.err();
            self.progress.notify_all();
        }
    }

    /// Takes what waits and makes it durable.
    fn write_once<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.is_writing = true;
        let spare = std::mem::take(&mut queue.spare);
        let mut waiting = std::mem::replace(&mut queue.waiting, spare);
        drop(queue);
        let outcome = self.write_out(&mut waiting);
        let mut queue = self.queue();
        queue.is_writing = false;
        if let Err(error) = outcome {
            queue.stopped = Some(error);
        }
        let callbacks: Vec<Callback> =
            waiting.entries.drain(..).filter_map(|entry| entry.callback).collect();
        waiting.bytes.clear();
        queue.spare = waiting;
        let error = queue.stopped.as_ref().map(WalError::stopped_by);
        if let Some(error) = error {
            let never_written = std::mem::take(&mut queue.waiting).entries;
            drop(queue);
            let late = never_written.into_iter().filter_map(|entry| entry.callback);
            callbacks
                .into_iter()
                .chain(late)
                .for_each(|callback| call(callback, Err(error.clone())));
            queue = self.queue();
        }
        let wakers = queue.take_wakers();
        let goes_on = queue.should_write(self.options.waiting_bytes_max) || queue.is_closing;
        drop(queue);
        self.progress.notify_all();
        if goes_on && self.driver == Driver::Callers {
            self.work.notify_one();
        }
        wakers.into_iter().for_each(std::task::Waker::wake);
        self.queue()
    }

    fn write_out(&self, waiting: &mut Waiting) -> Result<()> {
        let mut serial = locked(&self.serial);
        let mut at = 0;
        let mut settled = 0;
        for index in 0..waiting.entries.len() {
            let entry = &mut waiting.entries[index];
            let record = &waiting.bytes[at..at + entry.bytes];
            at += entry.bytes;
            let (crc, before) = (entry.crc, serial.durable_next());
            let began = Instant::now();
            if let Some(ready) = entry.segment.take() {
                serial.roll(ready)?;
                self.queue().reserved -= 1;
            }
            serial.stage(record, crc)?;
            if serial.durable_next() != before {
                self.settle(waiting, &mut settled, index, &serial, began);
            }
        }
        let began = Instant::now();
        serial.commit()?;
        let all = waiting.entries.len();
        self.settle(waiting, &mut settled, all, &serial, began);
        Ok(())
    }

    /// The entries up to `end` are durable: says so to everybody.
    fn settle(
        &self,
        waiting: &mut Waiting,
        settled: &mut usize,
        end: usize,
        serial: &SerialLog,
        began: Instant,
    ) {
        let now = Instant::now();
        let first = serial.durable_next().0 - (end - *settled) as u64;
        let entries = &mut waiting.entries[*settled..end];
        if entries.is_empty() {
            return;
        }
        self.queue().durable_next = serial.durable_next();
        self.progress.notify_all();
        {
            let mut metrics = locked(&self.metrics);
            let mut window = locked(&self.window);
            metrics.write_latency_ns.record_duration(now - began);
            metrics.batch_records.record(entries.len() as u64);
            metrics.batch_bytes.record(entries.iter().map(|entry| entry.bytes as u64).sum());
            for entry in entries.iter() {
                let latency = now.saturating_duration_since(entry.appended_at);
                metrics.append_latency_ns.record_duration(latency);
                window.record_duration(latency);
            }
        }
        for (lsn, entry) in (first..).zip(entries) {
            if let Some(callback) = entry.callback.take() {
                call(callback, Ok(Lsn(lsn)));
            }
        }
        *settled = end;
    }
}

/// A callback that panics must not end the thread that writes for everybody.
fn call(callback: Callback, outcome: Result<Lsn>) {
    // The panic has been reported by the panic hook; there is nobody else to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| callback(outcome)));
}
