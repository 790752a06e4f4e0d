//! The connection behind a disk: requests out, replies back, and what the server knows of blanks.
//!
//! Nothing here blocks but [`Link::run_at`], for a bounded time. What is not sent yet waits in one buffer, bounded by
//! the queue depth times the largest transfer. A connection that ends, or a server that breaks the protocol, ends the
//! link: all that was outstanding fails as [`DiskErrorKind::Gone`], and so does what comes later.

use super::awaited::{Awaited, Ranged, What};
use super::error_of;
use super::replies::{DROPPED_BYTES, Fact, Replies, Target};
use super::status::Status;
use super::stream::Stream;
use crate::protocol::Form;
use crate::protocol::constants::{
    EXTENDED_REQUEST_HEADER_BYTES, EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, command, command_flag,
};
use nearhead_disk::{Completion, DiskError, DiskErrorKind, Payload, Run, Ticket};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes that were sent and may still be kept before what waits.
const SENT_BYTES_MAX: usize = 4 << 20;
/// Most bytes zeroed or trimmed, or whose status is asked for, by one request whose length has 32 bits.
const RANGE_BYTES_MAX: u64 = 1 << 30;
/// How long an answer about blanks is waited for; a server that takes longer is not asked again.
const STATUS_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long all of these answers together are waited for: what no server that tells long runs takes a part of.
const STATUS_WAITS_MAX: Duration = Duration::from_secs(30);

/// A connection in its transmission phase.
pub(super) struct Link {
    name: String,
    stream: Stream,
    /// Readable when replies came, or room to send.
    epoll: OwnedFd,
    wants_room: bool,
    form: Form,
    outgoing: Vec<u8>,
    sent: usize,
    awaited: BTreeMap<u64, Awaited>,
    next_cookie: u64,
    replies: Replies,
    told: Vec<Fact>,
    done: VecDeque<Completion>,
    gone: Option<String>,
    /// What the server calls the context `base:allocation`, if it may be asked.
    context: Option<u32>,
    /// Its last answer, as long as nothing changed since.
    known: Option<Status>,
    waited: Duration,
}

impl Link {
    /// Goes on with a connection whose handshake is over.
    pub(super) fn new(
        name: String,
        stream: Stream,
        form: Form,
        context: Option<u32>,
    ) -> io::Result<Self> {
        stream.set_nonblocking()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stream.as_fd(), EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self {
            name,
            stream,
            epoll,
            wants_room: false,
            form,
            outgoing: Vec::new(),
            sent: 0,
            awaited: BTreeMap::new(),
            next_cookie: 0,
            replies: Replies::new(form),
            told: Vec::new(),
            done: VecDeque::new(),
            gone: None,
            context,
            known: None,
            waited: Duration::ZERO,
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn next_done(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// A command that needs no server.
    pub(super) fn answer(&mut self, ticket: Ticket, result: Result<Payload, DiskError>) {
        self.done.push_back(ticket.complete(result));
    }

    /// Asks for bytes.
    pub(super) fn read(&mut self, ticket: Ticket, offset: u64, len: u32) {
        self.ask(command::READ, 0, offset, u64::from(len), Awaited::read(ticket, offset, len));
    }

    /// Asks for a change of `len` bytes, which are in `parts` if it is a write, or for a flush.
    pub(super) fn change(
        &mut self,
        ticket: Ticket,
        (kind, flags, offset, len): Ranged,
        parts: &[Payload],
    ) {
        self.known = None;
        self.ask(kind, flags, offset, len, Awaited::change(ticket, None));
        for part in parts {
            let at = self.outgoing.len();
            self.outgoing.resize(at + part.len(), 0);
            part.copy_to(&mut self.outgoing[at..]);
        }
    }

    /// Asks for a range as long as it may be, or for the first part of it.
    pub(super) fn change_range(&mut self, ticket: Ticket, (kind, flags, offset, len): Ranged) {
        self.known = None;
        let part = len.min(self.range_bytes_max());
        let rest = (part < len).then(|| (kind, flags, offset + part, len - part));
        self.ask(kind, flags, offset, part, Awaited::change(ticket, rest));
    }

    fn range_bytes_max(&self) -> u64 {
        if self.form == Form::Extended { u64::MAX } else { RANGE_BYTES_MAX }
    }

    fn ask(&mut self, kind: u16, flags: u16, offset: u64, len: u64, awaited: Awaited) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let is_extended = self.form == Form::Extended;
        let counted =
            if is_extended && kind == command::WRITE { command_flag::PAYLOAD_LEN } else { 0 };
        let magic = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        self.outgoing.reserve(EXTENDED_REQUEST_HEADER_BYTES);
        self.outgoing.extend(magic.to_be_bytes());
        self.outgoing.extend((flags | counted).to_be_bytes());
        self.outgoing.extend(kind.to_be_bytes());
        self.outgoing.extend(cookie.to_be_bytes());
        self.outgoing.extend(offset.to_be_bytes());
        if is_extended {
            self.outgoing.extend(len.to_be_bytes());
        } else {
            self.outgoing.extend((len as u32).to_be_bytes());
        }
        self.awaited.insert(cookie, awaited);
    }

    /// Sends and receives as much as goes without waiting.
    pub(super) fn pump(&mut self) {
        if self.gone.is_some() {
            return;
        }
        let moved = self.send().and_then(|()| self.receive()).and_then(|()| self.watch());
        if let Err(error) = moved {
            self.end(&error.to_string());
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // What was sent must not pile up before what never quite is.
                    if self.sent > SENT_BYTES_MAX {
                        self.outgoing.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        loop {
            let mut dropped = [0; DROPPED_BYTES];
            let target = match self.replies.target() {
                Target::Own(bytes) => bytes,
                Target::Data(cookie, left) => {
                    self.awaited.get_mut(&cookie).map_or(&mut [][..], |awaited| awaited.room(left))
                }
                Target::Nowhere(left) => &mut dropped[..(left as usize).min(DROPPED_BYTES)],
            };
            let count = match self.stream.read(target) {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.take(count).map_err(io::Error::other)?;
        }
    }

    /// `count` more bytes came in.
    fn take(&mut self, count: usize) -> Result<(), String> {
        match self.replies.target() {
            Target::Own(_) => self.replies.take(count, &mut self.told)?,
            Target::Data(cookie, _) => {
                if let Some(awaited) = self.awaited.get_mut(&cookie) {
                    awaited.came(count);
                }
                self.replies.take_data(count as u64, &mut self.told);
            }
            Target::Nowhere(_) => self.replies.take_data(count as u64, &mut self.told),
        }
        for fact in std::mem::take(&mut self.told) {
            self.judge(fact)?;
        }
        Ok(())
    }

    fn judge(&mut self, fact: Fact) -> Result<(), String> {
        let (Fact::Simple { cookie, .. }
        | Fact::Data { cookie, .. }
        | Fact::Hole { cookie, .. }
        | Fact::Extent { cookie, .. }
        | Fact::Error { cookie, .. }
        | Fact::Done { cookie }) = fact;
        let awaited = self.awaited.get_mut(&cookie).ok_or_else(|| {
            format!("expected a reply to a request, found one to cookie {cookie}, which none has")
        })?;
        match fact {
            Fact::Simple { error: 0, .. } => return self.simple(cookie),
            Fact::Simple { error, .. } => {
                awaited.error = Some(error);
                return self.finish(cookie);
            }
            Fact::Data { offset, len, .. } | Fact::Hole { offset, len, .. } => {
                awaited.piece(offset, len)?;
            }
            Fact::Extent { context, len, flags, .. } => awaited.extent(context, len, flags)?,
            Fact::Error { error, .. } => {
                awaited.error.get_or_insert(error);
            }
            Fact::Done { .. } => return self.finish(cookie),
        }
        Ok(())
    }

    /// A simple reply says that a command went well.
    fn simple(&mut self, cookie: u64) -> Result<(), String> {
        let Some(awaited) = self.awaited.get_mut(&cookie) else { return Ok(()) };
        if awaited.is_change() {
            return self.finish(cookie);
        }
        if self.form != Form::Simple {
            return Err(format!(
                "expected a reply in chunks to cookie {cookie}, found a simple one"
            ));
        }
        let len = awaited.whole()?;
        self.replies.data_follows(cookie, len);
        Ok(())
    }

    /// A reply is over.
    fn finish(&mut self, cookie: u64) -> Result<(), String> {
        let Some(Awaited { what, error }) = self.awaited.remove(&cookie) else { return Ok(()) };
        let failed = error.map(|number| error_of(&self.name, number));
        match (what, failed) {
            (What::Change { ticket, .. } | What::Read(ticket, _), Some(error)) => {
                self.answer(ticket, Err(error));
            }
            (What::Change { ticket, rest: Some(rest) }, None) => self.change_range(ticket, rest),
            (What::Change { ticket, rest: None }, None) => self.answer(ticket, Ok(Payload::EMPTY)),
            (What::Read(ticket, reading), None) => match reading.end() {
                Ok(bytes) => self.answer(ticket, Ok(bytes)),
                Err(problem) => {
                    // It is answered like all others when the link ends, which follows.
                    self.awaited.insert(cookie, Awaited::change(ticket, None));
                    return Err(problem);
                }
            },
            (What::Status { status, .. }, failed) => {
                let is_of_use = failed.is_none() && !status.is_empty();
                self.context = self.context.filter(|_| is_of_use);
                self.known = self.context.is_some().then_some(status);
            }
        }
        Ok(())
    }

    /// Waits for room to send exactly while something is to be sent.
    fn watch(&mut self) -> io::Result<()> {
        let wants_room = !self.outgoing.is_empty();
        if wants_room != self.wants_room {
            self.wants_room = wants_room;
            let room = if wants_room { EventFlags::OUT } else { EventFlags::empty() };
            let flags = EventFlags::IN | room;
            epoll::modify(&self.epoll, self.stream.as_fd(), EventData::new_u64(0), flags)?;
        }
        Ok(())
    }

    /// The disk is gone.
    fn end(&mut self, why: &str) {
        // Else its descriptor would stay ready for ever.
        let _ = epoll::delete(&self.epoll, self.stream.as_fd());
        self.gone.get_or_insert_with(|| why.to_owned());
        self.outgoing = Vec::new();
        self.sent = 0;
        self.known = None;
        let error = self.gone_error();
        for awaited in std::mem::take(&mut self.awaited).into_values() {
            if let Some(ticket) = awaited.into_ticket() {
                self.done.push_back(ticket.complete(Err(error.clone())));
            }
        }
    }

    /// Bytes kept for sending, sent ones included.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.outgoing.len()
    }

    pub(super) fn gone_error(&self) -> DiskError {
        let why = self.gone.as_deref().unwrap_or("closed");
        let detail = format!("{}: the connection is lost: {why}", self.name);
        DiskError { kind: DiskErrorKind::Gone, detail }
    }

    /// What the server knows of the bytes from `offset` on, on a disk that ends at `end`. Nothing while a change is
    /// under way: the answer could be older than the change.
    pub(super) fn run_at(&mut self, offset: u64, end: u64, sector_bytes: u32) -> Run {
        let known = |link: &Self| link.known.as_ref().and_then(|status| status.run_at(offset));
        if offset >= end || self.awaited.values().any(Awaited::is_change) {
            return Run::UNKNOWN;
        }
        if let Some(run) = known(self) {
            return run;
        }
        let Some(context) = self.context.filter(|_| self.gone.is_none()) else {
            return Run::UNKNOWN;
        };
        let from = offset - offset % u64::from(sector_bytes);
        let len = (end - from).min(self.range_bytes_max());
        let awaited = Awaited::status(context, Status::of(from, from + len));
        self.ask(command::BLOCK_STATUS, 0, from, len, awaited);
        self.wait_for_status();
        known(self).unwrap_or(Run::UNKNOWN)
    }

    fn wait_for_status(&mut self) {
        let cookie = self.next_cookie - 1;
        let start = Instant::now();
        self.pump();
        while self.awaited.contains_key(&cookie) && self.gone.is_none() {
            let most = STATUS_WAIT_MAX.min(STATUS_WAITS_MAX.saturating_sub(self.waited));
            let left = most.saturating_sub(start.elapsed());
            if left.is_zero() {
                // Its answer is taken when it comes, and no other is asked for.
                self.context = None;
                break;
            }
            if let Err(error) = self.stream.wait(self.wants_room, left) {
                self.end(&error.to_string());
            }
            self.pump();
        }
        self.waited += start.elapsed();
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let awaited = std::mem::take(&mut self.awaited).into_values();
        awaited.filter_map(Awaited::into_ticket).for_each(Ticket::abandon);
    }
}
