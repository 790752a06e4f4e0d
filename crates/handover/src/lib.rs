//! What a process that is killed would take with it, kept where its successor finds it.
//!
//! A disk with a write cache answers a write before it is durable, and loses it when the power goes: then everybody who relied on it is
//! gone as well. A process that serves a disk is killed while they live. So [`Kept`] puts each write that is answered and not flushed into a
//! file in memory first, and whoever serves the volume next carries them out again before anything else. What it keeps true:
//!
//! - **nothing that was answered is lost by the end of the process**, however it ends: an answer to a write is given once the file has it,
//!   or once a flush covers it;
//! - entries are in the order of their answers and forgotten from the front: so no older write is carried out again over a newer one
//!   that is not, also not one that was durable at once;
//! - a flush is answered once the file has forgotten what it covered. It is asked again if the process is killed in between;
//! - the file is bounded: past [`FLUSH_BYTES`] a flush is begun here, past [`KEPT_BYTES_MAX`], or where the file cannot take more, answers
//!   wait for one;
//! - if what was kept cannot be carried out again, it counts as a loss ([`Service::losses`]), which fails the next flush of each client.
//!
//! The machine's own end is none of its business. It must never be used where two processes may have the service at once.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod kept_file;
#[cfg(test)]
mod tests;

use kept_file::{Cut, KeptFile};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Extent, Operation, Reply, Request, RequestId, Service, ServiceInfo, Wake};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;

/// Names requests of our own; fronts number theirs from far below.
const FLUSH: RequestId = RequestId(u64::MAX - 1);
const AGAIN: RequestId = RequestId(u64::MAX - 2);

/// So many bytes are kept before a flush is begun for them.
pub const FLUSH_BYTES: u64 = 32 << 20;
/// So many at most, but for what was answered at the same moment.
pub const KEPT_BYTES_MAX: u64 = 96 << 20;

/// What a request changes, until it is answered.
#[derive(Debug)]
enum Changes {
    Bytes(Vec<(u64, Payload)>),
    Zeros(u64, u64),
    /// A flush that covers what the file has before this place.
    Flush(Cut),
}

/// What was kept by a process before this one, as far as it is carried out again.
#[derive(Debug)]
struct Again {
    /// Where the next entry begins.
    at: u64,
    entries: u64,
    /// All of it is carried out, and on its way to be durable.
    is_flushing: bool,
}

#[derive(Debug)]
struct Keeping {
    file: KeptFile,
    changes: HashMap<u64, Changes>,
    again: Option<Again>,
    /// Requests that came meanwhile. Fronts bound them.
    held: VecDeque<Request>,
    /// A flush of our own that is under way: what it covers.
    flush: Option<Flush>,
    /// The last one failed: no other is begun but for answers that wait.
    is_failing: bool,
    /// Answers that wait for the next one.
    unkept: Vec<Reply>,
}

#[derive(Debug)]
struct Flush {
    cut: Cut,
    answers: Vec<Reply>,
}

/// A service whose answers outlive the process.
#[derive(Debug)]
pub struct Kept<S> {
    service: S,
    keeping: Option<Keeping>,
    replies: VecDeque<Reply>,
    losses: u64,
    told: Option<String>,
    is_stopping: bool,
}

impl<S: Service> Kept<S> {
    /// The service as it is: nothing is kept.
    pub fn nothing(service: S) -> Self {
        let (replies, losses, told, is_stopping) = (VecDeque::new(), 0, None, false);
        Self { service, keeping: None, replies, losses, told, is_stopping }
    }

    /// Keeps what is answered in the file at `path`, and carries out first what is kept there already.
    ///
    /// # Errors
    /// The file cannot be made or written. One that cannot be read is a loss, and begun anew.
    pub fn in_file(service: S, path: &Path) -> io::Result<Self> {
        let mut kept = Self::nothing(service);
        let file = match KeptFile::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                kept.lose(&format!("{}: {error}", path.display()));
                std::fs::remove_file(path)?;
                KeptFile::open(path)?
            }
            Err(error) => return Err(error),
        };
        let is_empty = file.len_bytes() == 0;
        let again = (!is_empty).then(|| Again { at: file.start(), entries: 0, is_flushing: false });
        kept.keeping = Some(Keeping {
            file,
            changes: HashMap::new(),
            again,
            held: VecDeque::new(),
            flush: None,
            is_failing: false,
            unkept: Vec::new(),
        });
        Ok(kept)
    }

    /// The service.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// The service, for what is no request.
    pub fn service_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Whether what an earlier process had answered is still being carried out.
    pub fn is_catching_up(&self) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| keeping.again.is_some())
    }

    /// What people are to be told, once.
    pub fn take_told(&mut self) -> Option<String> {
        self.told.take()
    }

    /// The service ended with everything durable: nothing has to be kept any more.
    pub fn everything_is_durable(&mut self) -> io::Result<()> {
        match &mut self.keeping {
            Some(keeping) if keeping.again.is_none() => keeping.file.clear(),
            _ => Ok(()),
        }
    }

    fn lose(&mut self, why: &str) {
        self.losses += 1;
        self.told = Some(format!(
            "what an earlier process had answered and not flushed cannot all be carried out: {why}; the next flush of each client \
             fails, once"
        ));
    }

    /// Whether the first entry of an earlier process is still to be taken in hand.
    fn is_to_begin(&self) -> bool {
        let again = self.keeping.as_ref().and_then(|keeping| keeping.again.as_ref());
        again.is_some_and(|again| again.entries == 0 && !again.is_flushing) && !self.is_stopping
    }

    /// Takes the next entry of an earlier process in hand, one at a time and in order, or ends that.
    fn carry_on(&mut self, now: Nanos) {
        let Some(keeping) = &mut self.keeping else { return };
        let Some(again) = keeping.again.as_mut().filter(|again| !again.is_flushing) else { return };
        match keeping.file.entry_at(again.at) {
            Ok(Some((operation, next))) => {
                (again.at, again.entries) = (next, again.entries + 1);
                self.service.submit(Request { id: AGAIN, operation }, now);
            }
            end => {
                again.is_flushing = true;
                self.service.submit(Request { id: AGAIN, operation: Operation::Flush }, now);
                if let Err(error) = end {
                    self.lose(&error.to_string());
                }
            }
        }
    }

    /// An entry of an earlier process was carried out, or all of them are durable.
    fn carried_out(&mut self, reply: &Reply, now: Nanos) {
        if self.is_stopping {
            // It stays in the file, for the next process.
            return;
        }
        if let Err(error) = &reply.result {
            self.lose(&error.to_string());
        }
        let Some(keeping) = &mut self.keeping else { return };
        if keeping.again.as_ref().is_some_and(|again| !again.is_flushing) {
            self.carry_on(now);
            return;
        }
        let entries = keeping.again.take().map_or(0, |again| again.entries);
        let cleared = keeping.file.clear();
        for request in std::mem::take(&mut keeping.held) {
            self.pass_on(request, now);
        }
        match cleared {
            Err(error) => self.lose(&error.to_string()),
            Ok(()) if self.losses == 0 => {
                self.told = Some(format!(
                    "what the process before had answered and not flushed is carried out again, and durable; writes: {entries}"
                ));
            }
            Ok(()) => {}
        }
    }

    fn pass_on(&mut self, request: Request, now: Nanos) {
        if let Some(keeping) = &mut self.keeping {
            keeping.note(&request);
        }
        self.service.submit(request, now);
    }

    /// Takes what the service answered; whether there is something new for it.
    fn collect(&mut self, now: Nanos) -> bool {
        let mut is_new = false;
        while let Some(reply) = self.service.poll_reply() {
            let Some(keeping) = &mut self.keeping else {
                self.replies.push_back(reply);
                continue;
            };
            match reply.id {
                AGAIN => {
                    self.carried_out(&reply, now);
                    is_new = true;
                }
                FLUSH => keeping.flushed(&reply, &mut self.replies),
                _ => keeping.answered(reply, &mut self.replies),
            }
        }
        let wants = self.keeping.as_ref().is_some_and(Keeping::wants_flush);
        if let Some(keeping) = self.keeping.as_mut().filter(|_| wants) {
            let (cut, answers) = (keeping.file.cut(), std::mem::take(&mut keeping.unkept));
            keeping.flush = Some(Flush { cut, answers });
            self.service.submit(Request { id: FLUSH, operation: Operation::Flush }, now);
        }
        is_new || wants
    }
}

impl Keeping {
    fn note(&mut self, request: &Request) {
        let changes = match &request.operation {
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => {
                Changes::Bytes(vec![(*offset, data.clone())])
            }
            Operation::WriteAtomic { extents, .. } => Changes::Bytes(extents.clone()),
            Operation::WriteZeroes { offset, len, .. } => Changes::Zeros(*offset, *len),
            Operation::Flush => Changes::Flush(self.file.cut()),
            // Who trims does not rely on what is read then, and a hint changes nothing.
            Operation::Read { .. } | Operation::Trim { .. } | Operation::Hint { .. } => return,
        };
        self.changes.insert(request.id.0, changes);
    }

    /// Whether a flush of our own is due.
    fn wants_flush(&self) -> bool {
        let is_long = self.file.len_bytes() > FLUSH_BYTES && !self.is_failing;
        let is_due = !self.unkept.is_empty() || is_long;
        self.again.is_none() && self.flush.is_none() && is_due
    }

    /// Keeps what was answered, and gives the answer.
    fn answered(&mut self, reply: Reply, replies: &mut VecDeque<Reply>) {
        let changes = self.changes.remove(&reply.id.0).filter(|_| reply.result.is_ok());
        let is_kept = match changes {
            None => Ok(()),
            Some(Changes::Flush(cut)) => self.file.forget_before(cut),
            // What is put aside is put aside whole and in order: behind it nothing can be kept that may lie over it.
            _ if self.file.len_bytes() > KEPT_BYTES_MAX => Err(io::ErrorKind::StorageFull.into()),
            Some(Changes::Zeros(offset, len)) => self.file.keep_zeros(offset, len),
            Some(Changes::Bytes(parts)) => {
                parts.iter().try_for_each(|(offset, data)| self.file.keep_write(*offset, data))
            }
        };
        match is_kept {
            Ok(()) => replies.push_back(reply),
            Err(_) => self.unkept.push(reply),
        }
    }

    /// A flush of our own came back.
    fn flushed(&mut self, reply: &Reply, replies: &mut VecDeque<Reply>) {
        let Some(Flush { cut, answers }) = self.flush.take() else { return };
        self.is_failing = reply.result.is_err();
        match &reply.result {
            Ok(_) => {
                // If this fails the old entries stay: they are carried out again for nothing.
                let _ = self.file.forget_before(cut);
                replies.extend(answers);
            }
            Err(error) => {
                let failed = |answer: Reply| Reply { id: answer.id, result: Err(error.clone()) };
                replies.extend(answers.into_iter().map(failed));
            }
        }
    }
}

impl<S: Service> Service for Kept<S> {
    fn info(&self) -> ServiceInfo {
        self.service.info()
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        match &mut self.keeping {
            Some(keeping) if keeping.again.is_some() && !self.is_stopping => {
                keeping.held.push_back(request);
            }
            _ => self.pass_on(request, now),
        }
    }

    fn drive(&mut self, now: Nanos) {
        if self.is_to_begin() {
            self.carry_on(now);
        }
        loop {
            self.service.drive(now);
            if !self.collect(now) {
                return;
            }
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        let mut wake = self.service.wake();
        if self.is_to_begin() {
            wake.at = Some(Nanos::ZERO);
        }
        wake
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        self.service.block_status(offset, len, runs_max)
    }

    fn losses(&self) -> u64 {
        self.service.losses() + self.losses
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.service.begin_shutdown(now);
        self.is_stopping = true;
        let held = self.keeping.as_mut().map(|keeping| std::mem::take(&mut keeping.held));
        for request in held.into_iter().flatten() {
            self.pass_on(request, now);
        }
    }

    fn is_shut_down(&self) -> bool {
        self.service.is_shut_down() && self.replies.is_empty()
    }
}
