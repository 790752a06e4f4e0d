//! Whoever carries out what the kernel asks of a mounted folder: a file system, or a service shown as one file.

use nearhead_disk::Nanos;
use nearhead_fs::{FsError, FsReply, FsRequest, Mounted, Phase};
use nearhead_service::{Service, Wake};

/// One of them. Each request gets exactly one reply.
pub(crate) trait Carrier {
    fn submit(&mut self, request: FsRequest);
    /// Moves everything on as far as it goes.
    fn drive(&mut self, now: Nanos);
    fn poll_reply(&mut self) -> Option<FsReply>;
    /// When to drive it again.
    fn wake(&self) -> Wake<'_>;
    /// Nothing new comes; what was written is to be durable.
    fn begin_shutdown(&mut self, now: Nanos);
    fn is_shut_down(&self) -> bool;
    /// Why it cannot go on.
    fn failure(&self) -> Option<&FsError>;
    /// The kernel has the answers to these requests.
    fn note_answered(&mut self, requests: &[u64]);
}

impl<S: Service> Carrier for Mounted<S> {
    fn submit(&mut self, request: FsRequest) {
        Self::submit(self, request);
    }

    fn drive(&mut self, now: Nanos) {
        Self::drive(self, now);
    }

    fn poll_reply(&mut self) -> Option<FsReply> {
        Self::poll_reply(self)
    }

    fn wake(&self) -> Wake<'_> {
        Self::wake(self)
    }

    fn begin_shutdown(&mut self, _: Nanos) {
        Self::begin_shutdown(self);
    }

    fn is_shut_down(&self) -> bool {
        Self::is_shut_down(self)
    }

    fn failure(&self) -> Option<&FsError> {
        match self.phase() {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    fn note_answered(&mut self, requests: &[u64]) {
        Self::note_answered(self, requests);
    }
}
