//! A bare emulated disk that says in the log what goes wrong: each error of its medium, and at the end whether what was
//! written is on it. Requests and replies pass as they are.

use nearhead_disk::Nanos;
use nearhead_models::Model;
use nearhead_output::note;
use nearhead_service::{Extent, Reply, Request, Service, ServiceInfo, Wake};
use nearhead_volume::BareDisk;
use std::sync::{Arc, OnceLock};

/// The disk.
pub(super) struct Told {
    bare: BareDisk<Box<dyn Model>>,
    failure: Failure,
}

/// Why the disk did not keep all that was written, if so; for who gave the disk away.
#[derive(Clone, Default)]
pub(super) struct Failure(Arc<OnceLock<String>>);

impl Failure {
    /// What to say of a disk that ended in order.
    pub(super) fn ending(&self, disk: &str) -> Result<String, String> {
        match self.0.get() {
            None => Ok(format!("stopped {disk}: what was written is on the medium")),
            Some(why) => Err(format!(
                "stopped after a failure, {why}; take what was written since the flush before that for lost"
            )),
        }
    }
}

impl Told {
    pub(super) fn new(bare: BareDisk<Box<dyn Model>>) -> Self {
        Self { bare, failure: Failure::default() }
    }

    pub(super) fn failure(&self) -> Failure {
        self.failure.clone()
    }

    pub(super) fn bare(&self) -> &BareDisk<Box<dyn Model>> {
        &self.bare
    }

    pub(super) fn bare_mut(&mut self) -> &mut BareDisk<Box<dyn Model>> {
        &mut self.bare
    }

    /// Says what happened since the last call.
    pub(super) fn tell(&mut self, now: Nanos) {
        while let Some(event) = self.bare.poll_disk_event(now) {
            note(&event.to_string());
        }
        if let Some(why) = self.bare.failure() {
            // The first one stays.
            let _ = self.failure.0.set(why.to_owned());
        }
    }
}

impl Service for Told {
    fn info(&self) -> ServiceInfo {
        self.bare.info()
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        self.bare.submit(request, now);
    }

    fn drive(&mut self, now: Nanos) {
        self.bare.drive(now);
        self.tell(now);
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.bare.poll_reply()
    }

    fn wake(&self) -> Wake<'_> {
        self.bare.wake()
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        self.bare.block_status(offset, len, runs_max)
    }

    fn losses(&self) -> u64 {
        self.bare.losses()
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.bare.begin_shutdown(now);
        self.tell(now);
    }

    fn is_shut_down(&self) -> bool {
        self.bare.is_shut_down()
    }
}
