//! Answered writes that a killed process would take with it, kept where its successor finds them.
//!
//! A disk with a write cache answers a write before it is durable, and loses it when the power goes: then every client that relied on it is
//! gone as well. A process that serves a disk is killed while its clients live. So [`Kept`] puts each write into a file in memory before the
//! service gets it, and the process that serves the volume next carries out again what was not flushed. What it keeps true:
//!
//! - **no answered write is lost by the end of the process**, however it ends: the file has each write before it is answered, until a flush
//!   covers it;
//! - entries are in the order of their submission, which is the order in which the service applies writes that overlap. They are forgotten
//!   from the front, up to the oldest request that was not answered when the flush began. So no older write is carried out over a newer one;
//! - a write that failed counts for nothing; one that was not answered may be carried out, as its client asks for it again;
//! - a flush is answered once the file has forgotten what it covered. It is asked again if the process is killed in between;
//! - the file is bounded: past [`FLUSH_BYTES`] a flush is begun here; past [`KEPT_BYTES_MAX`], or where the file cannot take more, changes
//!   wait for one before the service gets them;
//! - **entries are never carried out on another volume**, nor on theirs if anything else opened it since ([`KeptFor`]);
//! - entries that the service refuses stay in the file, and each flush carries them out again first, and fails until that works;
//! - entries that cannot be read are a loss ([`Service::losses`]), which fails the next flush of each client.
//!
//! The end of the machine is out of scope. It must never be used where two processes may have the service at once.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod kept_file;
mod owner;
mod requests;
mod summary;
#[cfg(test)]
mod tests;

pub use owner::KeptFor;
pub use summary::{
    KeptWrites, begin_opening, kept_writes, refuse_another_generation, refuse_another_volume,
};

use kept_file::{Cut, KeptFile};
use nearhead_disk::Nanos;
use nearhead_service::{
    ErrorKind, Extent, Operation, Reply, Request, RequestError, RequestId, Service, ServiceInfo,
    Wake,
};
use owner::Owner;
use requests::{made_durable, not_carried_out};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::Path;

/// Names requests of our own; fronts number theirs from far below.
const FLUSH: RequestId = RequestId(u64::MAX - 1);
const AGAIN: RequestId = RequestId(u64::MAX - 2);

/// So many bytes are kept before a flush is begun for them.
pub const FLUSH_BYTES: u64 = 32 << 20;
/// So many at most, but for what was answered at the same moment.
pub const KEPT_BYTES_MAX: u64 = 96 << 20;

/// A request under way that the file knows of.
#[derive(Clone, Copy, Debug)]
enum UnderWay {
    /// A change: its first entry, and how many it has.
    Change(Cut, usize),
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
    under_way: HashMap<u64, UnderWay>,
    /// First entries of changes that are not answered.
    unanswered: BTreeSet<Cut>,
    again: Option<Again>,
    /// Requests that came while entries were carried out again. Fronts bound them.
    held: VecDeque<Request>,
    /// Changes for which the file has no room yet, in the order of their submission. Fronts bound them.
    waiting: VecDeque<Request>,
    /// A flush of our own that is under way: what it covers.
    flush: Option<Cut>,
    /// The last one failed: no other is begun but for changes that wait.
    is_failing: bool,
    /// An entry of an earlier process could not be carried out: all of them stay until a later attempt carries them out.
    has_left: bool,
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

    /// Keeps changes in the file at `path` for the volume `of`, which is open, and carries out first what is kept there already.
    ///
    /// With `may_raise` the first change of this opening is still to come, and raises the generation.
    ///
    /// # Errors
    /// The file cannot be made or written, or its entries are kept for another volume, or for this one before something else changed it: then
    /// it stays as it is. One that cannot be read is a loss, and begun again.
    pub fn in_file(service: S, path: &Path, of: KeptFor, may_raise: bool) -> io::Result<Self> {
        let mut kept = Self::nothing(service);
        let mut file = match KeptFile::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                kept.lose(&format!("{}: {error}", path.display()));
                std::fs::remove_file(path)?;
                KeptFile::open(path)?
            }
            Err(error) => return Err(error),
        };
        let is_empty = file.len_bytes() == 0;
        if let Some(owner) = file.owner().filter(|_| !is_empty) {
            summary::refuse_another(&owner, &of)
                .map_err(|why| io::Error::other(summary::refused(&file, &why)))?;
        }
        file.set_owner(Owner { of, begun: u64::from(may_raise) })?;
        let again = (!is_empty).then(|| Again { at: file.start(), entries: 0, is_flushing: false });
        kept.keeping = Some(Keeping {
            file,
            under_way: HashMap::new(),
            unanswered: BTreeSet::new(),
            again,
            held: VecDeque::new(),
            waiting: VecDeque::new(),
            flush: None,
            is_failing: false,
            has_left: false,
        });
        Ok(kept)
    }

    /// Notes that the generation of the volume is `generation` now: this process changed the volume.
    /// With `may_raise` the next change raises it.
    pub fn set_generation(&mut self, generation: u64, may_raise: bool) {
        let Some(keeping) = self.keeping.as_mut().filter(|_| !self.is_stopping) else { return };
        let Some(before) = keeping.file.owner() else { return };
        let now = Owner { of: KeptFor { generation, ..before.of }, begun: u64::from(may_raise) };
        if now != before {
            // If this fails, a successor refuses the entries and says so.
            let _ = keeping.file.set_owner(now);
        }
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
            Some(Keeping { file, has_left: true, .. }) => Err(io::Error::other(format!(
                "{} could not be carried out, and stay where they are",
                KeptWrites::of(file).in_words()
            ))),
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
            self.told = Some(format!(
                "writes that an earlier process had answered and not flushed cannot be carried out yet: {error}; they stay kept, and flushes fail \
                 until they are"
            ));
        }
        let Some(keeping) = &mut self.keeping else { return };
        keeping.has_left |= reply.result.is_err();
        if keeping.again.as_ref().is_some_and(|again| !again.is_flushing) {
            self.carry_on(now);
            return;
        }
        let entries = keeping.again.take().map_or(0, |again| again.entries);
        // Nothing is thrown away that was answered: a process after this one may find a disk that takes it.
        let has_left = keeping.has_left;
        let cleared = if has_left { Ok(()) } else { keeping.file.clear() };
        for request in std::mem::take(&mut keeping.held) {
            if has_left && matches!(request.operation, Operation::Flush) {
                self.replies.push_back(Reply { id: request.id, result: Err(not_carried_out()) });
            } else {
                self.pass_on(request, now);
            }
        }
        match cleared {
            Err(error) => self.lose(&error.to_string()),
            Ok(()) if !has_left && self.losses == 0 => {
                self.told = Some(format!(
                    "what the process before had answered and not flushed is carried out again, and durable; writes: {entries}"
                ));
            }
            Ok(()) => {}
        }
    }

    fn pass_on(&mut self, request: Request, now: Nanos) {
        let request = match &mut self.keeping {
            Some(keeping) => keeping.keep(request),
            None => Some(request),
        };
        if let Some(request) = request {
            self.service.submit(request, now);
        }
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
                FLUSH => {
                    let waiting = keeping.flushed(&reply, &mut self.replies);
                    is_new |= !waiting.is_empty();
                    for request in waiting {
                        self.pass_on(request, now);
                    }
                }
                _ => self.replies.push_back(keeping.answered(reply)),
            }
        }
        let Some(keeping) = self.keeping.as_mut().filter(|keeping| keeping.wants_flush()) else {
            return is_new;
        };
        keeping.flush = Some(keeping.covered());
        self.service.submit(Request { id: FLUSH, operation: Operation::Flush }, now);
        true
    }
}

impl Keeping {
    /// Keeps a change, and gives back what the service gets now; nothing if the change has to wait for room.
    fn keep(&mut self, request: Request) -> Option<Request> {
        if matches!(request.operation, Operation::Flush) {
            if self.has_left && self.unanswered.is_empty() {
                // All entries again, in their order: every later change is among them.
                let (at, entries, is_flushing) = (self.file.start(), 0, false);
                (self.again, self.has_left) = (Some(Again { at, entries, is_flushing }), false);
                self.held.push_back(request);
                return None;
            }
            let _ = self.under_way.insert(request.id.0, UnderWay::Flush(self.covered()));
            return Some(request);
        }
        if matches!(request.operation, Operation::Read { .. } | Operation::Hint { .. }) {
            return Some(request);
        }
        let from = self.file.cut();
        let is_full = self.file.len_bytes() > KEPT_BYTES_MAX || !self.waiting.is_empty();
        let entries = if is_full { None } else { self.append(&request.operation) };
        let Some(entries) = entries else {
            if self.file.len_bytes() == 0 && self.waiting.is_empty() {
                // No flush makes room: the change is durable when it is answered instead.
                return Some(made_durable(request));
            }
            self.waiting.push_back(request);
            return None;
        };
        self.under_way.insert(request.id.0, UnderWay::Change(from, entries));
        self.unanswered.insert(from);
        Some(request)
    }

    /// Appends a change: how many entries that made; none if the file cannot take it.
    fn append(&mut self, operation: &Operation) -> Option<usize> {
        let from = self.file.cut();
        let file = &mut self.file;
        let (entries, kept) = match operation {
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => (1, file.keep_write(*offset, data)),
            Operation::WriteAtomic { extents, .. } => {
                let all = extents.iter().try_for_each(|(at, data)| file.keep_write(*at, data));
                (extents.len(), all)
            }
            Operation::WriteZeroes { offset, len, .. } => (1, file.keep_zeros(*offset, *len)),
            Operation::Trim { offset, len, .. } => (1, file.keep_trim(*offset, *len)),
            Operation::Read { .. } | Operation::Hint { .. } | Operation::Flush => (0, Ok(())),
        };
        if kept.is_err() {
            let _ = file.take_back(from);
            return None;
        }
        Some(entries)
    }

    /// What a flush covers that begins now: entries before the oldest change without an answer.
    fn covered(&self) -> Cut {
        self.unanswered.first().copied().unwrap_or_else(|| self.file.cut())
    }

    /// Whether a flush of our own is due, and would let something be forgotten.
    fn wants_flush(&self) -> bool {
        let bytes = self.file.bytes_before(self.covered());
        let is_due = !self.waiting.is_empty() && bytes > 0;
        let is_long = bytes > FLUSH_BYTES && !self.is_failing;
        self.again.is_none() && self.flush.is_none() && (is_due || is_long)
    }

    /// Takes an answer of the service, and gives the one for the client.
    fn answered(&mut self, reply: Reply) -> Reply {
        match self.under_way.remove(&reply.id.0) {
            Some(UnderWay::Flush(_)) if self.has_left && reply.result.is_ok() => {
                return Reply { id: reply.id, result: Err(not_carried_out()) };
            }
            Some(UnderWay::Flush(cut)) if reply.result.is_ok() => {
                if let Err(error) = self.file.forget_before(cut) {
                    let problem = format!("what is kept for a successor: {error}");
                    return Reply {
                        id: reply.id,
                        result: Err(RequestError::new(ErrorKind::Io, problem)),
                    };
                }
            }
            Some(UnderWay::Change(from, entries)) => {
                self.unanswered.remove(&from);
                if reply.result.is_err() {
                    // If this fails it is carried out again: the client must expect the old bytes and the new.
                    let _ = self.file.cancel(from, entries);
                }
            }
            _ => {}
        }
        reply
    }

    /// A flush of our own came back: changes that the service may get now.
    fn flushed(&mut self, reply: &Reply, replies: &mut VecDeque<Reply>) -> VecDeque<Request> {
        let Some(cut) = self.flush.take() else { return VecDeque::new() };
        self.is_failing = reply.result.is_err();
        let waiting = std::mem::take(&mut self.waiting);
        let Err(error) = &reply.result else {
            // If this fails the old entries stay: they are carried out again for nothing.
            if !self.has_left {
                let _ = self.file.forget_before(cut);
            }
            return waiting;
        };
        let failed = |request: Request| Reply { id: request.id, result: Err(error.clone()) };
        replies.extend(waiting.into_iter().map(failed));
        VecDeque::new()
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
            _ if self.is_stopping => self.service.submit(request, now),
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
        if let Some(keeping) = self.keeping.as_mut().filter(|_| !self.is_stopping)
            && let Some(Owner { of, begun }) = keeping.file.owner()
        {
            // An orderly stop raises the generation before the entries are forgotten.
            let _ = keeping.file.set_owner(Owner { of, begun: begun + 1 });
        }
        self.service.begin_shutdown(now);
        self.is_stopping = true;
        let Some(keeping) = &mut self.keeping else { return };
        let (held, waiting) =
            (std::mem::take(&mut keeping.held), std::mem::take(&mut keeping.waiting));
        // The service refuses them.
        for request in held.into_iter().chain(waiting) {
            self.service.submit(request, now);
        }
    }

    fn is_shut_down(&self) -> bool {
        self.service.is_shut_down() && self.replies.is_empty()
    }
}
