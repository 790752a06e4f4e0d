//! Requests at any byte, over a service that knows only whole sectors.
//!
//! What is whole sectors passes through as it is. The rest is put together here: a read reads the
//! sectors around it and is cut down; a write reads the sectors that it covers in part, then writes
//! whole ones; trims and zeros leave their whole sectors to the service, and what they cover of the
//! sectors at their ends is overwritten with zeros. What it keeps true:
//!
//! - from its read to its write nobody else changes the sectors of such a request: changes that
//!   overlap it wait for it, and it waits for those before it, in the order in which they came;
//!   changes of whole sectors never wait for each other;
//! - it gets one answer, after its last part, with the first error if there was one. FUA is asked of
//!   every part that changes something, so the answer promises what it does for whole sectors;
//! - nothing is changed by a request of which a sector could not be read, or of which the whole
//!   sectors could not be trimmed or zeroed.
//!
//! The owner bounds the number of requests, and so everything here; memory for copies is part of
//! what the protocol's `memory_bytes` charges.

use super::byte_job::{Job, Piece};
use nearhead_basics::Slab;
use nearhead_disk::Nanos;
use nearhead_service::{Extent, Operation, Reply, Request, RequestId, Service, ServiceInfo};
use std::collections::VecDeque;
use std::ops::Range;

/// Most requests put together at once; more wait. It bounds what a look for overlaps costs.
const JOBS_MAX: usize = 256;

/// Most waiting requests that are looked at when one ends; those behind are looked at later.
const LOOKED_AT_MAX: usize = 256;

/// What one of the service's replies is for.
enum Part {
    /// A request that passed through, and which sectors it changes.
    Whole(RequestId, Option<Range<u64>>),
    /// A piece of a job.
    Piece(u32, Piece),
}

/// A change that waits until it may begin.
struct Waiting {
    request: Request,
    /// The sectors that it touches.
    sectors: Range<u64>,
    is_whole: bool,
}

/// Takes requests at any byte to a service.
pub(crate) struct ByteAccess {
    sector_bytes: u64,
    transfer_bytes_max: u64,
    at_service: Slab<Part>,
    jobs: Slab<Job>,
    waiting: VecDeque<Waiting>,
    /// A reply that belongs to no request.
    stray: Option<RequestId>,
    submitted: bool,
}

impl ByteAccess {
    /// For a service with these facts.
    pub(crate) fn new(info: &ServiceInfo) -> Self {
        let sector_bytes = u64::from(info.block_bytes_min.max(1));
        let transfer = u64::from(info.request_bytes_max);
        Self {
            sector_bytes,
            transfer_bytes_max: (transfer - transfer % sector_bytes).max(sector_bytes),
            at_service: Slab::new(),
            jobs: Slab::new(),
            waiting: VecDeque::new(),
            stray: None,
            submitted: false,
        }
    }

    /// Whether something went to the service since the last call.
    pub(crate) fn take_submitted(&mut self) -> bool {
        std::mem::take(&mut self.submitted)
    }

    /// A reply of the service that belonged to no request, since the last call.
    pub(crate) fn take_stray(&mut self) -> Option<RequestId> {
        self.stray.take()
    }

    /// Takes a request that lies inside the service; [`ByteAccess::poll_reply`] will answer it.
    pub(crate) fn submit<S: Service + ?Sized>(
        &mut self,
        request: Request,
        service: &mut S,
        now: Nanos,
    ) {
        let Some((bytes, changes)) = bytes_of(&request.operation) else {
            return self.pass(request, None, service, now);
        };
        let sectors = self.around(&bytes);
        let is_whole = sectors == bytes;
        if !changes {
            if is_whole {
                return self.pass(request, None, service, now);
            }
            return self.start_job(request, sectors, service, now);
        }
        let waiting = Waiting { request, sectors, is_whole };
        // Almost always nobody is in the way, and nothing is to be looked at.
        let alone = is_whole && self.jobs.is_empty() && self.waiting.is_empty();
        if alone || self.may_start(&waiting, self.waiting.iter().map(|earlier| &earlier.sectors)) {
            return self.start(waiting, service, now);
        }
        self.waiting.push_back(waiting);
    }

    /// The next answer that is ready.
    pub(crate) fn poll_reply<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        now: Nanos,
    ) -> Option<Reply> {
        loop {
            let Reply { id, result } = service.poll_reply()?;
            match self.at_service.remove_tagged(id.0) {
                None => self.stray = Some(id),
                Some(Part::Whole(id, change)) => {
                    if change.is_some() {
                        self.start_waiting(service, now);
                    }
                    return Some(Reply { id, result });
                }
                Some(Part::Piece(place, piece)) => {
                    let Some(job) = self.jobs.get_mut(place) else { continue };
                    job.took(piece, result);
                    if let Some(reply) = self.advance(place, service, now) {
                        self.start_waiting(service, now);
                        return Some(reply);
                    }
                }
            }
        }
    }

    /// Allocation status of any bytes; extents may be empty.
    pub(crate) fn block_status<S: Service + ?Sized>(
        &self,
        service: &S,
        (offset, len): (u64, u64),
        runs_max: usize,
    ) -> Vec<Extent> {
        let sectors = self.around(&(offset..offset + len));
        let mut ahead = offset - sectors.start;
        let found = service.block_status(sectors.start, sectors.end - sectors.start, runs_max);
        let cut = |mut extent: Extent| {
            let gone = extent.len.min(ahead);
            ahead -= gone;
            extent.len -= gone;
            extent
        };
        found.into_iter().map(cut).collect()
    }

    /// The whole sectors around `bytes`.
    fn around(&self, bytes: &Range<u64>) -> Range<u64> {
        let sector = self.sector_bytes;
        let start = bytes.start - bytes.start % sector;
        // The end lies inside the service, whose size is whole sectors.
        start..bytes.end.next_multiple_of(sector)
    }

    /// Whether nobody who came before is in the way of a change.
    fn may_start<'a>(
        &self,
        change: &Waiting,
        mut earlier: impl Iterator<Item = &'a Range<u64>>,
    ) -> bool {
        let overlaps = |other: &Range<u64>| {
            other.start < change.sectors.end && change.sectors.start < other.end
        };
        let in_the_way = |part: &Part| match part {
            Part::Whole(_, sectors) => sectors.as_ref().is_some_and(overlaps),
            Part::Piece(..) => false,
        };
        if self.jobs.iter().any(|job| job.changes() && overlaps(job.sectors())) {
            return false;
        }
        if !change.is_whole
            && (self.jobs.len() >= JOBS_MAX || self.at_service.iter().any(in_the_way))
        {
            return false;
        }
        !earlier.any(overlaps)
    }

    fn start<S: Service + ?Sized>(&mut self, change: Waiting, service: &mut S, now: Nanos) {
        let Waiting { request, sectors, is_whole } = change;
        if is_whole {
            return self.pass(request, Some(sectors), service, now);
        }
        self.start_job(request, sectors, service, now);
    }

    /// Starts what waited for something that ended.
    fn start_waiting<S: Service + ?Sized>(&mut self, service: &mut S, now: Nanos) {
        let mut at = 0;
        while at < self.waiting.len().min(LOOKED_AT_MAX) {
            let earlier = self.waiting.range(..at).map(|earlier| &earlier.sectors);
            let may_start = self.may_start(&self.waiting[at], earlier);
            if !may_start {
                at += 1;
            } else if let Some(change) = self.waiting.remove(at) {
                self.start(change, service, now);
            }
        }
    }

    fn pass<S: Service + ?Sized>(
        &mut self,
        request: Request,
        changes: Option<Range<u64>>,
        service: &mut S,
        now: Nanos,
    ) {
        self.submitted = true;
        let tag = self.at_service.insert_tagged(Part::Whole(request.id, changes));
        service.submit(Request { id: RequestId(tag), operation: request.operation }, now);
    }

    fn start_job<S: Service + ?Sized>(
        &mut self,
        request: Request,
        sectors: Range<u64>,
        service: &mut S,
        now: Nanos,
    ) {
        let job = Job::new(request, sectors, self.sector_bytes, self.transfer_bytes_max);
        let place = self.jobs.insert(job);
        // A job begins with at least one piece, so this answers nothing yet.
        let answered = self.advance(place, service, now);
        debug_assert!(answered.is_none(), "a job without pieces");
    }

    /// Submits what a job wants next; its answer once it wants nothing more.
    fn advance<S: Service + ?Sized>(
        &mut self,
        place: u32,
        service: &mut S,
        now: Nanos,
    ) -> Option<Reply> {
        let job = self.jobs.get_mut(place)?;
        for (piece, operation) in job.next_pieces() {
            self.submitted = true;
            let tag = self.at_service.insert_tagged(Part::Piece(place, piece));
            service.submit(Request { id: RequestId(tag), operation }, now);
        }
        if job.is_running() { None } else { self.jobs.remove(place).map(Job::into_reply) }
    }
}

/// The bytes that an operation is about, and whether it changes them; none for those without.
fn bytes_of(operation: &Operation) -> Option<(Range<u64>, bool)> {
    let (offset, len, changes) = match operation {
        Operation::Read { offset, len } => (*offset, u64::from(*len), false),
        Operation::Write { offset, data, .. } | Operation::WriteInPlace { offset, data, .. } => {
            (*offset, data.len() as u64, true)
        }
        Operation::Trim { offset, len, .. } | Operation::WriteZeroes { offset, len, .. } => {
            (*offset, *len, true)
        }
        Operation::Flush | Operation::WriteAtomic { .. } | Operation::Hint { .. } => return None,
    };
    Some((offset..offset + len, changes))
}

#[cfg(test)]
#[path = "byte_access_order_tests.rs"]
mod order_tests;
#[cfg(test)]
#[path = "byte_access_tests.rs"]
mod tests;
