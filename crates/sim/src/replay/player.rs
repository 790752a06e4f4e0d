//! A trace as a workload: gives out requests when they are due, books their replies.
//!
//! Requests larger than the service takes are split; such a request is done when its last piece is. A write with a flush before it is issued once
//! the flush is answered. Memory is the queue and a few histograms, whatever the length of the trace.

use super::chains::{Chains, Turn};
use super::over_time::OverTime;
use super::points::{Points, Waits};
use super::roles::{Durability, PAUSE_MAX, SMALL_BYTES_MAX};
use super::{ReplayResults, Share};
use crate::latency::{LatencySummary, demerit_pct};
use crate::trace::{TraceError, TraceRequest};
use crate::workload::{Content, Issue, Workload};
use nearhead_basics::{Histogram, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use std::collections::VecDeque;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tempo {
    /// At their arrival in the trace.
    OpenLoop,
    /// At their arrival, or as long as in the trace after what their process waited for before, if that is later.
    Chained,
    /// One at a time: each its think time (zero where the trace has none) after the last reply.
    ClosedLoop,
    /// As soon as fewer than [`ReplayOptions::outstanding_max`] are under way, unless the trace pauses before it for more than a second; then not before
    /// its arrival. What somebody does who takes all the bandwidth there is.
    Bursts,
}

/// How to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// When requests are issued; `None`: as the trace's format suggests.
    pub tempo: Option<Tempo>,
    /// Most requests handed to the service at once, in an open loop.
    pub outstanding_max: u32,
    /// Whether all writes carry FUA, so that a reply means durable; else those that do in the trace.
    pub durable_writes: bool,
    /// Which requests are counted as durable points.
    pub durability: Durability,
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
            durability: Durability::default(),
            small_bytes_max: SMALL_BYTES_MAX,
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
    /// The request that begins next, and when.
    next: Option<(TraceRequest, Nanos)>,
    /// Tells in a closed loop when the next request is due.
    free_at: Nanos,
    /// Requests that wait for others.
    chains: Chains,
    /// Requests that came out of the trace.
    taken: u64,
    trace_error: Option<TraceError>,
    /// Requests at the service.
    running: Slab<Running>,
    /// Those of them with pieces to issue, in the order in which that is done.
    issuing: VecDeque<u64>,
    /// Pieces at the service, each belonging to a running request.
    pieces: Slab<u64>,
    book: Book,
    points: Points,
    waits: Waits,
    over_time: OverTime,
}

/// A request under way.
struct Running {
    due_at: Nanos,
    request: TraceRequest,
    /// Which of the trace's it is.
    number: u64,
    stage: Stage,
    issued_bytes: u32,
    pieces_left: u32,
    /// The durable point that it belongs to.
    point: Option<u64>,
    failure: Option<RequestError>,
}

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The flush before it is to be issued.
    Flush,
    /// That is under way.
    Flushing,
    /// Its pieces are to be issued.
    Pieces,
    /// All that it is was issued.
    Issued,
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
    latest_reply: Nanos,
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
        let points = Points::new(options.durability);
        let mut player = Self {
            requests,
            tempo,
            options: ReplayOptions { outstanding_max, ..options },
            request_bytes_max: request_bytes_max.max(512) / 512 * 512,
            started,
            measured_since: started,
            next: None,
            free_at: started,
            chains: Chains::default(),
            taken: 0,
            trace_error: None,
            running: Slab::with_room(outstanding_max),
            issuing: VecDeque::new(),
            pieces: Slab::with_room(outstanding_max),
            book: Book::default(),
            points,
            waits: Waits::default(),
            over_time: OverTime::new(started),
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
                let goes_on = request.at.since(self.book.latest_arrival) <= PAUSE_MAX;
                let due_at = match self.tempo {
                    Tempo::ClosedLoop => self.free_at,
                    Tempo::Bursts if goes_on => self.started,
                    Tempo::OpenLoop | Tempo::Chained | Tempo::Bursts => self.started + request.at,
                };
                Some((request, due_at))
            }
            Some(Err(error)) => {
                self.trace_error = Some(error);
                None
            }
            None => None,
        };
    }

    /// The next request that is due: when that was, and which of the trace's it is.
    fn due(&mut self, now: Nanos) -> Option<(TraceRequest, Nanos, u64)> {
        if let Some(late) = self.chains.pop(now) {
            return Some(late);
        }
        while !self.chains.are_full() {
            let (request, due_at) = self.next.filter(|(_, due_at)| *due_at <= now)?;
            let number = self.taken;
            self.taken += 1;
            self.book.latest_arrival = request.at;
            self.fetch();
            if self.tempo != Tempo::Chained {
                return Some((request, due_at, number));
            }
            if let Turn::At(due_at) = self.chains.take(request, number, due_at, now) {
                return Some((request, due_at, number));
            }
        }
        None
    }

    /// Makes the next request a running one, if it is due and there is room.
    fn begin(&mut self, now: Nanos) -> Option<()> {
        if self.running.is_full() {
            return None;
        }
        let (request, due_at, number) = self.due(now)?;
        // Whoever takes what there is waits for no arrival.
        let due_at = if self.tempo == Tempo::Bursts { now } else { due_at };
        let book = &mut self.book;
        book.requests += 1;
        book.lag_latest = now - due_at;
        book.lag_max = book.lag_max.max(book.lag_latest);
        book.delayed += u64::from(now > due_at);
        self.waits.begin(now);
        let running = Running {
            due_at,
            request,
            number,
            stage: if request.flush { Stage::Flush } else { Stage::Pieces },
            issued_bytes: 0,
            pieces_left: 0,
            point: self.points.begin(&request, due_at),
            failure: None,
        };
        let tag = self.running.try_insert_tagged(running).ok()?;
        self.issuing.push_back(tag);
        Some(())
    }

    /// The next piece of the request `tag`, and whether that is all for now.
    fn piece(&mut self, tag: u64) -> Option<(Operation, bool)> {
        let running = self.running.get_tagged_mut(tag)?;
        running.pieces_left += 1;
        if running.stage == Stage::Flush {
            let is_alone = running.request.len_bytes == 0;
            running.stage = if is_alone { Stage::Issued } else { Stage::Flushing };
            return Some((Operation::Flush, true));
        }
        let request = running.request;
        let offset = request.offset_bytes + u64::from(running.issued_bytes);
        let len = (request.len_bytes - running.issued_bytes).min(self.request_bytes_max);
        running.issued_bytes += len;
        let is_all = running.issued_bytes >= request.len_bytes;
        if is_all {
            running.stage = Stage::Issued;
        }
        let operation = if request.write {
            let data = self.options.content.payload(len);
            Operation::Write { offset, data, fua: self.options.durable_writes || request.fua }
        } else {
            Operation::Read { offset, len }
        };
        Some((operation, is_all))
    }

    fn finish(&mut self, running: Running, now: Nanos) {
        let request = running.request;
        let latency = now - running.due_at;
        self.free_at = now + request.think.unwrap_or_default();
        self.waits.end(now);
        let started = self.started;
        self.chains.end(request.process, running.number, now, |held| started + held.at);
        if let Some(point) = running.point {
            self.points.end(point, now);
        }
        let book = &mut self.book;
        book.latest_reply = now;
        if let Some(error) = running.failure {
            book.failed += 1;
            book.first_failure.get_or_insert(error.detail);
        } else {
            self.over_time.add(u64::from(request.len_bytes), now);
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
            && let Some((_, due_at)) = &mut self.next
        {
            *due_at = self.free_at;
        }
    }

    /// Times of the durable points, in nanoseconds: how long something of each was waited for.
    pub fn points(&self) -> &Histogram {
        self.points.taken()
    }

    /// How long at least one request was under way.
    pub fn waited(&self) -> Nanos {
        self.waits.waited
    }

    /// Bytes of what succeeded, over time.
    pub fn over_time(&self) -> &OverTime {
        &self.over_time
    }

    /// How long after the last arrival of the trace the last reply came.
    pub fn late(&self) -> Nanos {
        self.book.latest_reply.since(self.started + self.book.latest_arrival)
    }

    /// The latencies of every request that succeeded, for figures that need more of the
    /// distribution than [`ReplayResults`] holds.
    pub fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        self.book.kinds.iter().flatten().for_each(|kind| all.merge(&kind.latency));
        all
    }

    /// Latencies, in nanoseconds, and bytes of what succeeded of one kind: reads or writes, small or large.
    pub fn kind(&self, write: bool, large: bool) -> (&Histogram, u64) {
        let kind = &self.book.kinds[usize::from(write)][usize::from(large)];
        (&kind.latency, kind.bytes)
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
        if self.pieces.is_full() {
            return None;
        }
        if !self.issuing.is_empty() {
            return Some(Nanos::ZERO);
        }
        if self.running.is_full() {
            return None;
        }
        let next = self.next.filter(|_| !self.chains.are_full()).map(|(_, due_at)| due_at);
        next.into_iter().chain(self.chains.next_at()).min()
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if self.pieces.is_full() {
            return None;
        }
        if self.issuing.is_empty() {
            self.begin(now)?;
        }
        let owner = *self.issuing.front()?;
        let due_at = self.running.get_tagged_mut(owner)?.due_at;
        let (operation, is_all) = self.piece(owner)?;
        if is_all {
            self.issuing.pop_front();
        }
        let tag = self.pieces.try_insert_tagged(owner).ok()?;
        Some(Issue { tag, due_at, operation })
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
            // Behind a flush that failed nothing is written.
            if running.stage == Stage::Flushing {
                running.stage = Stage::Issued;
            }
        }
        if running.stage == Stage::Flushing {
            running.stage = Stage::Pieces;
            self.issuing.push_back(owner);
        } else if running.pieces_left == 0
            && running.stage == Stage::Issued
            && let Some(done) = self.running.remove_tagged(owner)
        {
            self.finish(done, now);
        }
        true
    }

    /// A request that is half issued is still finished.
    fn stop(&mut self) {
        self.next = None;
        self.chains.clear();
    }

    fn is_finished(&self) -> bool {
        self.next.is_none() && self.chains.are_empty() && self.running.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        let latest_arrival = self.book.latest_arrival;
        self.book = Book { latest_arrival, ..Book::default() };
        self.measured_since = now;
        self.points.restart();
        self.waits.restart(now);
        self.over_time = OverTime::new(now);
    }
}
