//! A bare disk as a [`Service`]: what a front may ask of it. The work is done in [`super`]; here requests come in at the
//! gate, and replies and wake-ups go out.

use super::{BareDisk, REQUEST_BYTES_MAX, Stopping, WAITING_REQUESTS_MAX, Work};
use nearhead_disk::{Disk, Nanos};
use nearhead_service::{
    ErrorKind, Extent, Reply, Request, RequestError, Service, ServiceInfo, Wake,
};

impl<D: Disk> Service for BareDisk<D> {
    fn info(&self) -> ServiceInfo {
        let properties = self.disk.properties();
        ServiceInfo {
            description: properties.name.clone(),
            size_bytes: properties.capacity_bytes,
            block_bytes_min: properties.sector_bytes,
            block_bytes_preferred: properties.physical_sector_bytes.max(4096),
            request_bytes_max: REQUEST_BYTES_MAX,
            read_only: self.read_only,
            rotational: properties.rotational,
            fast_zero: properties.fast_zero,
        }
    }

    fn submit(&mut self, request: Request, _now: Nanos) {
        let Request { id, operation } = request;
        if self.stopping != Stopping::No {
            let error = RequestError::new(ErrorKind::ShuttingDown, "the disk is being closed");
            return self.reply(id, Err(error));
        }
        if let Err(error) = self.validate_request(&operation) {
            return self.reply(id, Err(error));
        }
        if self.waiting.len() >= WAITING_REQUESTS_MAX {
            let problem = format!("{WAITING_REQUESTS_MAX} requests wait already; send fewer");
            return self.reply(id, Err(RequestError::new(ErrorKind::Io, problem)));
        }
        self.waiting.push_back(Work { id, operation, done_bytes: 0, slot: None });
    }

    fn drive(&mut self, now: Nanos) {
        loop {
            self.fill_queue(now);
            self.advance_shutdown(now);
            if std::mem::take(&mut self.submitted_any) {
                self.disk.kick();
            }
            let mut progressed = false;
            while let Some(completion) = self.disk.poll(now) {
                self.complete(completion.id, completion.result, now);
                progressed = true;
            }
            if !progressed && !self.submitted_any {
                break;
            }
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake { at: self.disk.wake_at(), is_precise: true, fd: self.disk.wake_fd() }
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        let (mut extents, mut at, end) = (Vec::new(), offset, offset + len);
        while at < end && extents.len() < runs_max.max(1) {
            let run = self.disk.run_at(at);
            let (len, zero) = (run.len.clamp(1, end - at), run.zero);
            extents.push(Extent { len, hole: zero, zero });
            at += len;
        }
        extents
    }

    /// A flush that failed fails every later one: nothing is forgotten behind anybody's back.
    fn losses(&self) -> u64 {
        0
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Draining;
            self.drive(now);
        }
    }

    fn is_shut_down(&self) -> bool {
        self.stopping == Stopping::Done && self.replies.is_empty()
    }
}
