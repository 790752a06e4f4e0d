//! What a trace is made of: how many durable points and how much bulk, over which time, and how long its own device took. One pass, constant memory.

use super::points::{Points, Waits};
use super::roles::{Durability, Role, Roles};
use crate::trace::{Counts, Format, TraceError, TraceReader, TraceRequest};
use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Most bulk requests under way at once.
const BULK_OUTSTANDING_MAX: u32 = 256;
/// Requests of a trace whose responses are waited for at once; of more the earliest are taken as answered.
const UNDER_WAY_MAX: usize = 1 << 16;
/// Devices told apart.
const DEVICES_MAX: usize = 1 << 12;

/// What is in a trace.
#[derive(Clone, Debug)]
pub struct Makeup {
    /// Its format.
    pub format: Format,
    /// What became of its lines.
    pub counts: Counts,
    /// What it says of itself.
    pub notes: Vec<String>,
    /// All its requests.
    pub requests: u64,
    /// From the first arrival to the last.
    pub duration: Nanos,
    /// Different devices, at most 4,096.
    pub devices: usize,
    /// Which of its requests are to be durable.
    pub durability: Durability,
    /// Flushes, alone or before a write.
    pub flushes: u64,
    /// Writes with FUA.
    pub fua_writes: u64,
    /// Durable points.
    pub points: u64,
    /// Bulk requests.
    pub bulk_requests: u64,
    /// Their bytes.
    pub bulk_bytes: u64,
    /// How its own device did, if it says that of nearly all requests.
    pub recorded: Option<Recorded>,
    /// Whether it says who asked.
    pub has_processes: bool,
}

/// What the device that was traced took.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Times of the durable points, in nanoseconds.
    pub points: Histogram,
    /// Bytes a second of bulk while any of it was under way.
    pub bulk_bytes_per_s: f64,
    /// How many requests of bulk were under way at once, on average while any was.
    pub bulk_outstanding: u32,
}

impl Makeup {
    /// Reads `trace` to its end.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn of(trace: &mut TraceReader) -> Result<Self, TraceError> {
        let mut counted = Counted::default();
        for request in &mut *trace {
            counted.add(&request?);
        }
        Ok(counted.end(trace))
    }

    /// Whether there is any bulk.
    pub fn has_bulk(&self) -> bool {
        self.bulk_requests > 0
    }
}

struct Counted {
    requests: u64,
    answered: u64,
    latest: Nanos,
    devices: BTreeSet<u32>,
    flushes: u64,
    fua_writes: u64,
    has_processes: bool,
    by_asking: Replica,
    by_writing: Replica,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            requests: 0,
            answered: 0,
            latest: Nanos::ZERO,
            devices: BTreeSet::new(),
            flushes: 0,
            fua_writes: 0,
            has_processes: false,
            by_asking: Replica::new(Durability::Asked),
            by_writing: Replica::new(Durability::EveryWrite),
        }
    }
}

impl Counted {
    fn add(&mut self, request: &TraceRequest) {
        self.requests += 1;
        self.answered += u64::from(request.response.is_some());
        self.latest = request.at;
        if self.devices.len() < DEVICES_MAX {
            self.devices.insert(request.device);
        }
        self.flushes += u64::from(request.flush);
        self.fua_writes += u64::from(request.fua);
        self.has_processes |= request.process != 0;
        self.by_asking.add(request);
        self.by_writing.add(request);
    }

    fn end(self, trace: &TraceReader) -> Makeup {
        let is_asked = self.flushes + self.fua_writes > 0;
        let mut replica = if is_asked { self.by_asking } else { self.by_writing };
        replica.answer_until(Nanos::MAX);
        let says = self.answered * 100 >= self.requests * RECORDED_PCT_MIN && self.answered > 0;
        let bulk_waited_s = replica.bulk.waited.as_secs_f64();
        let outstanding = replica.bulk_response_s / bulk_waited_s.max(1e-9);
        Makeup {
            format: trace.format(),
            counts: trace.counts(),
            notes: trace.notes().to_vec(),
            requests: self.requests,
            duration: self.latest,
            devices: self.devices.len(),
            durability: replica.durability,
            flushes: self.flushes,
            fua_writes: self.fua_writes,
            points: replica.points_ended,
            has_processes: self.has_processes,
            bulk_requests: replica.bulk_requests,
            bulk_bytes: replica.bulk_bytes,
            recorded: says.then(|| Recorded {
                points: replica.points.taken().clone(),
                bulk_bytes_per_s: replica.bulk_bytes as f64 / bulk_waited_s.max(1e-9),
                bulk_outstanding: (outstanding.round() as u32).clamp(1, BULK_OUTSTANDING_MAX),
            }),
        }
    }
}

/// So many of a hundred requests must say how long they took.
const RECORDED_PCT_MIN: u64 = 95;

/// The trace as it was recorded: each request is answered when the trace says, at once if it does not.
struct Replica {
    durability: Durability,
    roles: Roles,
    points: Points,
    points_ended: u64,
    bulk: Waits,
    bulk_requests: u64,
    bulk_bytes: u64,
    bulk_response_s: f64,
    /// When each is answered, and the point that it belongs to; of bulk none.
    under_way: BinaryHeap<Reverse<(Nanos, Option<u64>)>>,
}

impl Replica {
    fn new(durability: Durability) -> Self {
        Self {
            durability,
            roles: Roles::new(durability),
            points: Points::new(durability),
            points_ended: 0,
            bulk: Waits::default(),
            bulk_requests: 0,
            bulk_bytes: 0,
            bulk_response_s: 0.0,
            under_way: BinaryHeap::new(),
        }
    }

    fn add(&mut self, request: &TraceRequest) {
        self.answer_until(request.at);
        let response = request.response.unwrap_or_default();
        let point = match self.roles.of(request) {
            Role::Bulk => {
                self.bulk_requests += 1;
                self.bulk_bytes = self.bulk_bytes.saturating_add(u64::from(request.len_bytes));
                self.bulk_response_s += response.as_secs_f64();
                self.bulk.begin(request.at);
                None
            }
            Role::Other => return,
            role => {
                self.points_ended += u64::from(role == Role::Durable);
                let point = self.points.begin(request, request.at);
                if point.is_none() {
                    return;
                }
                point
            }
        };
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.answer_first(Nanos::MAX);
        }
        let answered_at = Nanos(request.at.0.saturating_add(response.0));
        self.under_way.push(Reverse((answered_at, point)));
    }

    fn answer_until(&mut self, now: Nanos) {
        while self.answer_first(now) {}
    }

    /// Answers the first that is due by `now`, if there is one.
    fn answer_first(&mut self, now: Nanos) -> bool {
        let Some(&Reverse((at, point))) = self.under_way.peek().filter(|first| first.0.0 <= now)
        else {
            return false;
        };
        self.under_way.pop();
        match point {
            Some(tag) => self.points.end(tag, at),
            None => self.bulk.end(at),
        }
        true
    }
}
