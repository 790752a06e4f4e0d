//! The group commit: what the threads of a [`super::Log`] do over one [`SerialLog`].
//!
//! Whoever writes takes everything that waits and makes it durable with as few writes as possible;
//! what arrives meanwhile is the next batch. So batches grow with load and nobody waits for a timer.
//! The writer is a thread of its own, with a priority of its own, or, if [`Driver::Callers`] says so,
//! one of those who wait: then a lone caller pays no change of threads. Making segments ready is
//! another thread's work. Locks are taken in the order queue, then nothing; or serial log, then
//! queue: never the log under the queue.

use super::queue::{Callback, Entry, Queue, Waiting};
use super::{LogOptions, Lsn, Pool, SerialLog};
use crate::error::{Result, WalError, WalErrorKind};
use crate::metrics::{LogMetrics, nanos_of};
use nearhead_basics::Histogram;
use nearhead_format::crc::crc32c;
use nearhead_uring::Opener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Which threads write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// One of the log's own, for everybody.
    OwnThread,
    /// Those who wait for durability; the log's own only for those who do not.
    Callers,
}

/// What an append asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing yet.
    None,
    /// Durability, for which the caller waits at once.
    CallerWaits,
    /// Durability, without anybody waiting now.
    SomeTime,
}

/// What all handles and threads of a log share.
pub(super) struct Shared {
    pub(super) options: LogOptions,
    pub(super) driver: Driver,
    pub(super) pool: Arc<Pool>,
    pub(super) serial: Mutex<SerialLog>,
    pub(super) queue: Mutex<Queue>,
    /// Something to write, or a segment to make.
    pub(super) work: Condvar,
    pub(super) segment_work: Condvar,
    /// Something became durable, or room.
    pub(super) progress: Condvar,
    pub(super) metrics: Mutex<LogMetrics>,
    pub(super) window: Mutex<Histogram>,
    pub(super) opener: Opener,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in a callback must not take the log with it; each change under these locks is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    fn wait<'a>(condition: &Condvar, guard: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a child of `fork`: it has no thread that writes, and a lock may be held for ever.
    pub(super) fn check_opener(&self) -> Result<()> {
        if self.opener.is_this_process() { Ok(()) } else { Err(WalError::inherited()) }
    }

    pub(super) fn notify_all(&self) {
        self.work.notify_all();
        self.segment_work.notify_all();
        self.progress.notify_all();
    }

    pub(super) fn enqueue(
        &self,
        record: &[u8],
        wish: Wish,
        may_wait: bool,
        callback: Option<Callback>,
    ) -> Result<Lsn> {
        self.check_opener()?;
        self.options.check_record(record.len())?;
        let crc = crc32c(record);
        let appended_at = Instant::now();
        let mut queue = self.queue();
        let mut has_asked = false;
        loop {
            queue.check_open()?;
            let would_be = queue.waiting.memory_bytes() + record.len();
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
        self.check_opener()?;
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

    pub(super) fn write_loop(&self) {
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

    pub(super) fn segment_loop(&self) {
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
        {
            // Counted first: whoever was told that a record is durable finds it in the figures.
            let mut metrics = locked(&self.metrics);
            let mut window = locked(&self.window);
            metrics.write_latency_ns.record(nanos_of(now - began));
            metrics.batch_records.record(entries.len() as u64);
            metrics.batch_bytes.record(entries.iter().map(|entry| entry.bytes as u64).sum());
            for entry in entries.iter() {
                let latency_ns = nanos_of(now.saturating_duration_since(entry.appended_at));
                metrics.append_latency_ns.record(latency_ns);
                window.record(latency_ns);
            }
        }
        self.queue().durable_next = serial.durable_next();
        self.progress.notify_all();
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
