//! A service of which every request is timed, and counted by kind and size.
//!
//! It changes nothing about requests and replies, and keeps no more than one note for each request that is under way.

use crate::report::{Latencies, Latency, RequestCounts, Sizes};
use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use nearhead_engine::Ack;
use nearhead_service::{Extent, Operation, Reply, Request, Service, ServiceInfo, Wake};
use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy)]
enum Kind {
    Durable,
    Write,
    Read,
}

/// A service whose requests are timed.
pub struct Timed<S> {
    service: S,
    /// Bounded by what is let in to the service.
    running: HashMap<u64, (Kind, Nanos)>,
    replies: VecDeque<Reply>,
    every_write_is_durable: bool,
    durable: Histogram,
    write: Histogram,
    read: Histogram,
    read_bytes: Sizes,
    written_bytes: Sizes,
    flushes: u64,
    trims: u64,
}

impl<S> Timed<S> {
    /// Times the requests of `service`, which answers writes as `ack` says.
    pub fn new(service: S, ack: Ack) -> Self {
        Self {
            service,
            running: HashMap::new(),
            replies: VecDeque::new(),
            every_write_is_durable: ack == Ack::Durable,
            durable: Histogram::new(),
            write: Histogram::new(),
            read: Histogram::new(),
            read_bytes: Sizes::default(),
            written_bytes: Sizes::default(),
            flushes: 0,
            trims: 0,
        }
    }

    /// The service.
    pub fn inner(&self) -> &S {
        &self.service
    }

    /// The same, for what is no request.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Requests under way.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Latencies so far.
    pub fn latencies(&self) -> Latencies {
        let [durable, write, read] = [&self.durable, &self.write, &self.read].map(Latency::of);
        Latencies { durable, write, read }
    }

    /// Requests so far.
    pub fn counts(&self) -> RequestCounts {
        RequestCounts::of(&self.read_bytes, &self.written_bytes, self.flushes, self.trims)
    }

    fn count(&mut self, operation: &Operation) -> Option<Kind> {
        let write = |fua: bool| {
            if fua || self.every_write_is_durable { Kind::Durable } else { Kind::Write }
        };
        match operation {
            Operation::Read { len, .. } => {
                self.read_bytes.record(u64::from(*len));
                Some(Kind::Read)
            }
            Operation::Write { fua, data, .. } | Operation::WriteInPlace { fua, data, .. } => {
                self.written_bytes.record(data.len() as u64);
                Some(write(*fua))
            }
            Operation::WriteAtomic { extents, .. } => {
                let bytes = extents.iter().map(|(_, data)| data.len() as u64).sum();
                self.written_bytes.record(bytes);
                Some(Kind::Durable)
            }
            Operation::Flush => {
                self.flushes += 1;
                Some(Kind::Durable)
            }
            Operation::Trim { .. } | Operation::WriteZeroes { .. } => {
                self.trims += 1;
                None
            }
            Operation::Hint { .. } => None,
        }
    }
}

impl<S: Service> Service for Timed<S> {
    fn info(&self) -> ServiceInfo {
        self.service.info()
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        if let Some(kind) = self.count(&request.operation) {
            self.running.insert(request.id.0, (kind, now));
        }
        self.service.submit(request, now);
    }

    fn drive(&mut self, now: Nanos) {
        self.service.drive(now);
        while let Some(reply) = self.service.poll_reply() {
            if let Some((kind, since)) = self.running.remove(&reply.id.0) {
                let histogram = match kind {
                    Kind::Durable => &mut self.durable,
                    Kind::Write => &mut self.write,
                    Kind::Read => &mut self.read,
                };
                histogram.record(now.since(since).0);
            }
            self.replies.push_back(reply);
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        self.service.wake()
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        self.service.block_status(offset, len, runs_max)
    }

    fn losses(&self) -> u64 {
        self.service.losses()
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.service.begin_shutdown(now);
    }

    fn is_shut_down(&self) -> bool {
        self.service.is_shut_down() && self.replies.is_empty()
    }
}
