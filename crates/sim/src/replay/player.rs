//! A trace as a workload: gives out requests when they are due, books their replies.
//!
//! Requests larger than the service takes are split; such a request is done when its last piece is.
//! Memory is the queue and four histograms, whatever the length of the trace.

use super::{ReplayResults, Share};
use crate::latency::{LatencySummary, demerit_pct};
use crate::trace::{TraceError, TraceRequest};
use crate::workload::{Content, Issue, Workload};
use nearhead_basics::{Histogram, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tempo {
    /// At their arrival in the trace.
    OpenLoop,
    /// One at a time: each its think time (zero where the trace has none) after the last reply.
    ClosedLoop,
}

/// How to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// When requests are issued; `None`: as the trace's format suggests.
    pub tempo: Option<Tempo>,
    /// Most requests handed to the service at once, in an open loop.
    pub outstanding_max: u32,
    /// Whether writes carry FUA, so that a reply means durable.
    pub durable_writes: bool,
    /// Requests of at most this many bytes are counted as small.
    pub small_bytes_max: u32,
    /// What writes carry.
    pub content: Content,
}

impl Default for ReplayOptions {
    /// Data-less, every write durable, small up to 32 KiB (Manylogs' threshold).
    fn default() -> Self {
        Self {
            tempo: None,
            outstanding_max: 1024,
            durable_writes: true,
            small_bytes_max: 32 << 10,
            content: Content::Phantom,
        }
    }
}

/// A trace being replayed.
pub struct Player<T> {
    requests: T,
    tempo: Tempo,
    options: ReplayOptions,
    request_bytes_max: u32,
    /// When the trace's clock started.
    started: Nanos,
    /// When counting started.
    measured_since: Nanos,
    /// The request whose pieces are issued next, or that is waited for.
    next: Option<Next>,
    /// Tells in a closed loop when the next request is due.
    free_at: Nanos,
    trace_error: Option<TraceError>,
    /// Requests at the service.
    running: Slab<Running>,
    /// Pieces at the service, each belonging to a running request.
    pieces: Slab<u64>,
    book: Book,
}

/// A request of which not all was issued.
struct Next {
    request: TraceRequest,
    due_at: Nanos,
    /// Its place among the running, once its first piece was issued.
    running: Option<u64>,
    issued_bytes: u32,
}

struct Running {
    due_at: Nanos,
    request: TraceRequest,
    pieces_left: u32,
    /// More pieces will come.
    is_split: bool,
    failure: Option<RequestError>,
}

/// What is counted.
#[derive(Default)]
struct Book {
    requests: u64,
    failed: u64,
    first_failure: Option<String>,
    /// Reads and writes, each small and large.
    kinds: [[Kind; 2]; 2],
    measured: Histogram,
    replayed_of_measured: Histogram,
    delayed: u64,
    lag_max: Nanos,
    lag_latest: Nanos,
    latest_arrival: Nanos,
}

#[derive(Default)]
struct Kind {
    bytes: u64,
    latency: Histogram,
}

impl<T: Iterator<Item = Result<TraceRequest, TraceError>>> Player<T> {
    /// Plays `requests` from `started` on.
    pub fn new(
        requests: T,
        tempo: Tempo,
        options: ReplayOptions,
        started: Nanos,
        request_bytes_max: u32,
    ) -> Self {
        let outstanding_max =
            if tempo == Tempo::ClosedLoop { 1 } else { options.outstanding_max.max(1) };
        let mut player = Self {
            requests,
            tempo,
            options: ReplayOptions { outstanding_max, ..options },
            request_bytes_max: request_bytes_max.max(512) / 512 * 512,
            started,
            measured_since: started,
            next: None,
            free_at: started,
            trace_error: None,
            running: Slab::with_room(outstanding_max),
            pieces: Slab::with_room(outstanding_max),
            book: Book::default(),
        };
        player.fetch();
        player
    }

    /// Why the trace ended early, if it did.
    pub fn take_trace_error(&mut self) -> Option<TraceError> {
        self.trace_error.take()
    }

    /// Gets the next request from the trace.
    fn fetch(&mut self) {
        self.next = match self.requests.next() {
            Some(Ok(request)) => {
                let due_at = match self.tempo {
                    Tempo::OpenLoop => self.started + request.at,
                    Tempo::ClosedLoop => self.free_at,
                };
                Some(Next { request, due_at, running: None, issued_bytes: 0 })
            }
            Some(Err(error)) => {
                self.trace_error = Some(error);
                None
            }
            None => None,
        };
    }

    /// Room for a first piece, or for a further one.
    fn has_room(&self, next: &Next) -> bool {
        !self.pieces.is_full() && (next.running.is_some() || !self.running.is_full())
    }

    /// Makes `next` a running request.
    fn begin(&mut self, next: &Next, now: Nanos) -> Option<u64> {
        let book = &mut self.book;
        book.requests += 1;
        book.latest_arrival = next.request.at;
        book.lag_latest = now - next.due_at;
        book.lag_max = book.lag_max.max(book.lag_latest);
        book.delayed += u64::from(now > next.due_at);
        let running = Running {
            due_at: next.due_at,
            request: next.request,
            pieces_left: 0,
            is_split: true,
            failure: None,
        };
        self.running.try_insert_tagged(running).ok()
    }

    fn operation(&self, next: &Next, len: u32) -> Operation {
        let offset = next.request.offset_bytes + u64::from(next.issued_bytes);
        if next.request.write {
            let data = self.options.content.payload(len);
            Operation::Write { offset, data, fua: self.options.durable_writes }
        } else {
            Operation::Read { offset, len }
        }
    }

    fn finish(&mut self, running: Running, now: Nanos) {
        let request = running.request;
        let latency = now - running.due_at;
        self.free_at = now + request.think.unwrap_or_default();
        let book = &mut self.book;
        if let Some(error) = running.failure {
            book.failed += 1;
            book.first_failure.get_or_insert(error.detail);
        } else {
            let large = request.len_bytes > self.options.small_bytes_max;
            let kind = &mut book.kinds[usize::from(request.write)][usize::from(large)];
            kind.bytes = kind.bytes.saturating_add(u64::from(request.len_bytes));
            kind.latency.record(latency.0);
            if let Some(response) = request.response {
                book.measured.record(response.0);
                book.replayed_of_measured.record(latency.0);
            }
        }
        if self.tempo == Tempo::ClosedLoop
            && let Some(next) = &mut self.next
        {
            next.due_at = self.free_at;
        }
    }

    /// The latencies of every request that succeeded, for figures that need more of the
    /// distribution than [`ReplayResults`] holds.
    pub fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        self.book.kinds.iter().flatten().for_each(|kind| all.merge(&kind.latency));
        all
    }

    /// The figures at `now`; names and wall-clock times are left to the caller.
    pub fn results(&self, now: Nanos) -> ReplayResults {
        let book = &self.book;
        let [[small_reads, large_reads], [small_writes, large_writes]] = &book.kinds;
        let all = share(&[small_reads, large_reads, small_writes, large_writes]);
        let simulated_s = (now - self.measured_since).as_secs_f64();
        let per_second = |amount: u64| {
            if simulated_s > 0.0 { amount as f64 / simulated_s } else { 0.0 }
        };
        ReplayResults {
            closed_loop: self.tempo == Tempo::ClosedLoop,
            requests: book.requests,
            failed: book.failed,
            first_failure: book.first_failure.clone(),
            all,
            reads: share(&[small_reads, large_reads]),
            writes: share(&[small_writes, large_writes]),
            small_bytes_max: self.options.small_bytes_max,
            small_reads: share(&[small_reads]),
            large_reads: share(&[large_reads]),
            small_writes: share(&[small_writes]),
            large_writes: share(&[large_writes]),
            outstanding_max: self.options.outstanding_max,
            delayed_requests: book.delayed,
            lag_max_ms: book.lag_max.as_millis_f64(),
            lag_at_end_ms: book.lag_latest.as_millis_f64(),
            measured: (book.measured.count() > 0).then(|| LatencySummary::of(&book.measured)),
            demerit_pct: demerit_pct(&book.replayed_of_measured, &book.measured),
            trace_s: book.latest_arrival.as_secs_f64(),
            simulated_s,
            requests_per_s: per_second(all.requests),
            bytes_per_s: per_second(all.bytes),
            ..ReplayResults::default()
        }
    }
}

fn share(kinds: &[&Kind]) -> Share {
    let mut latency = Histogram::new();
    for kind in kinds {
        latency.merge(&kind.latency);
    }
    let bytes = kinds.iter().fold(0, |sum: u64, kind| sum.saturating_add(kind.bytes));
    Share { requests: latency.count(), bytes, latency: LatencySummary::of(&latency) }
}

impl<T: Iterator<Item = Result<TraceRequest, TraceError>>> Workload for Player<T> {
    fn next_at(&self) -> Option<Nanos> {
        self.next.as_ref().filter(|next| self.has_room(next)).map(|next| next.due_at)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        let mut next = self.next.take()?;
        if next.due_at > now || !self.has_room(&next) {
            self.next = Some(next);
            return None;
        }
        let tag = match next.running {
            Some(tag) => tag,
            None => self.begin(&next, now)?,
        };
        next.running = Some(tag);
        let len = (next.request.len_bytes - next.issued_bytes).min(self.request_bytes_max);
        let operation = self.operation(&next, len);
        next.issued_bytes += len;
        let is_split = next.issued_bytes < next.request.len_bytes;
        let running = self.running.get_tagged_mut(tag)?;
        running.pieces_left += 1;
        running.is_split = is_split;
        if is_split {
            self.next = Some(next);
        } else {
            self.fetch();
        }
        let tag = self.pieces.try_insert_tagged(tag).ok()?;
        Some(Issue { tag, operation })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some(owner) = self.pieces.remove_tagged(tag) else { return false };
        let Some(running) = self.running.get_tagged_mut(owner) else { return false };
        running.pieces_left -= 1;
        if let Err(error) = result {
            running.failure.get_or_insert(error);
        }
        if running.pieces_left == 0
            && !running.is_split
            && let Some(done) = self.running.remove_tagged(owner)
        {
            self.finish(done, now);
        }
        true
    }

    /// A request that is half issued is still finished.
    fn stop(&mut self) {
        self.next = self.next.take().filter(|next| next.running.is_some());
    }

    fn is_finished(&self) -> bool {
        self.next.is_none() && self.running.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        let latest_arrival = self.book.latest_arrival;
        self.book = Book { latest_arrival, ..Book::default() };
        self.measured_since = now;
    }
}
