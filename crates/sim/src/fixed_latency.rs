//! A service that takes the same time for everything: the simplest thing to measure against.
//!
//! Tests of workloads need a service whose answers can be worked out by hand, and benches need one
//! that costs nothing, to see what the simulation itself costs. It keeps no data (reads return
//! phantoms) and forgets nothing: every request gets its reply, in order.

use nearhead_disk::{Nanos, Payload};
use nearhead_service::{
    ErrorKind, Extent, Operation, Reply, Request, RequestError, RequestId, Service, ServiceInfo,
    Wake,
};
use std::collections::VecDeque;

/// Serves every request in the same time.
pub struct FixedLatency {
    latency: Nanos,
    one_at_a_time: bool,
    size_bytes: u64,
    /// What runs, by time of completion.
    running: VecDeque<Running>,
    replies: VecDeque<Reply>,
    shutting_down: bool,
}

struct Running {
    done_at: Nanos,
    id: RequestId,
    result: Result<Vec<Payload>, RequestError>,
}

impl FixedLatency {
    /// One request after the other, each taking `latency`.
    pub fn serial(latency: Nanos) -> Self {
        Self {
            latency,
            one_at_a_time: true,
            size_bytes: 1 << 40,
            running: VecDeque::new(),
            replies: VecDeque::new(),
            shutting_down: false,
        }
    }

    /// All requests at once, each taking `latency`.
    pub fn parallel(latency: Nanos) -> Self {
        Self { one_at_a_time: false, ..Self::serial(latency) }
    }

    /// Serves `size_bytes` (1 TiB otherwise).
    #[must_use]
    pub fn of_size(mut self, size_bytes: u64) -> Self {
        self.size_bytes = size_bytes;
        self
    }

    fn result_of(&self, operation: &Operation) -> Result<Vec<Payload>, RequestError> {
        let (end, result) = match operation {
            Operation::Read { offset, len } => {
                (offset.checked_add(u64::from(*len)), vec![Payload::Phantom(*len as usize)])
            }
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => {
                (offset.checked_add(data.len() as u64), Vec::new())
            }
            _ => (Some(0), Vec::new()),
        };
        if self.shutting_down {
            return Err(RequestError::new(ErrorKind::ShuttingDown, "the service is shutting down"));
        }
        if end.is_none_or(|end| end > self.size_bytes) {
            let detail = format!("expected an end within {} bytes, found {end:?}", self.size_bytes);
            return Err(RequestError::new(ErrorKind::Invalid, detail));
        }
        Ok(result)
    }
}

impl Service for FixedLatency {
    fn info(&self) -> ServiceInfo {
        ServiceInfo {
            description: format!("{} for everything", self.latency),
            size_bytes: self.size_bytes,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: 32 << 20,
            read_only: false,
            rotational: false,
            fast_zero: true,
        }
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        let free_at = match self.running.back() {
            Some(last) if self.one_at_a_time => last.done_at.max(now),
            _ => now,
        };
        let result = self.result_of(&request.operation);
        self.running.push_back(Running { done_at: free_at + self.latency, id: request.id, result });
    }

    fn drive(&mut self, now: Nanos) {
        while self.running.front().is_some_and(|running| running.done_at <= now) {
            let Some(done) = self.running.pop_front() else { break };
            self.replies.push_back(Reply { id: done.id, result: done.result });
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake::precisely(self.running.front().map(|running| running.done_at))
    }

    fn block_status(&self, _offset: u64, len: u64, _runs_max: usize) -> Vec<Extent> {
        vec![Extent::data(len)]
    }

    fn losses(&self) -> u64 {
        0
    }

    fn begin_shutdown(&mut self, _now: Nanos) {
        self.shutting_down = true;
    }

    fn is_shut_down(&self) -> bool {
        self.shutting_down && self.running.is_empty() && self.replies.is_empty()
    }
}
