//! The duty to answer one request of the kernel.
//!
//! It is spent by answering. One that is dropped answers `EIO`, so no caller of the kernel waits for ever.

use super::Session;
use crate::protocol::answer::{Body, invalidate_attributes};
use rustix::io::Errno;
use std::sync::Arc;

/// The duty.
#[derive(Debug)]
pub(crate) struct Reply {
    session: Option<Arc<Session>>,
    unique: u64,
}

impl Reply {
    pub(crate) fn to(session: &Arc<Session>, unique: u64) -> Self {
        Self { session: Some(Arc::clone(session)), unique }
    }

    /// Answers with bytes, in order.
    pub(crate) fn parts(mut self, parts: &[&[u8]]) {
        self.send(Ok(parts));
    }

    pub(crate) fn body(self, body: &Body) {
        self.parts(&[&body.0]);
    }

    /// Makes the kernel ask again for the attributes of a node, before it has this answer.
    pub(crate) fn forget_attributes(&self, node: u64) {
        if let Some(session) = &self.session {
            // ENOENT: the kernel caches nothing of it.
            let _ = session.notify(&invalidate_attributes(node));
        }
    }

    /// Answers that it is done.
    pub(crate) fn done(self) {
        self.parts(&[]);
    }

    pub(crate) fn error(mut self, errno: Errno) {
        self.send(Err(errno));
    }

    /// The request has no answer.
    pub(crate) fn none(mut self) {
        self.session = None;
    }

    fn send(&mut self, answer: Result<&[&[u8]], Errno>) {
        let Some(session) = self.session.take() else { return };
        let is_success = answer.is_ok();
        if session.answer(self.unique, answer).is_err() && is_success {
            // The kernel did not take the answer as it was.
            let _ = session.answer(self.unique, Err(Errno::IO));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(Err(Errno::IO));
    }
}
