//! An export as a disk: commands out as requests, replies back as completions.
//!
//! Nothing blocks once it is connected. What is not sent yet waits in one buffer, bounded by the queue
//! depth times the largest transfer. A connection that ends, or a server that breaks the protocol,
//! takes the disk with it: all that was outstanding fails as [`DiskErrorKind::Gone`], and so does what
//! comes later, because nobody knows what became of it. It never connects again by itself: behind
//! the same name may be a disk that lost what its cache held.

use super::address::Place;
use super::handshake::{self, Facts};
use super::{Address, error_of};
use crate::protocol::constants::{
    REQUEST_HEADER_BYTES, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, command, command_flag, flag,
};
use crate::protocol::wire::{Fields, Truncated};
use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission, Ticket,
};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a server may take for each step of the handshake.
const HANDSHAKE_STEP_MAX: Duration = Duration::from_secs(10);
/// Most commands outstanding: far below what any server takes from one client.
const QUEUE_DEPTH: u16 = 64;
/// Largest read or write sent, if the server takes as much.
const TRANSFER_BYTES_MAX: u32 = 4 << 20;
/// Most bytes zeroed or trimmed by one request: their length has 32 bits.
const RANGE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a simple reply before its data.
const REPLY_BYTES: usize = 16;

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A command of which a reply is outstanding.
struct Running {
    ticket: Ticket,
    /// Bytes that a successful reply carries.
    read_bytes: u32,
    /// What is still to be asked for once this reply is there: kind, flags, offset, length.
    rest: Option<(u16, u16, u64, u64)>,
}

/// A read's reply on its way in.
struct Body {
    running: Running,
    buffer: BufferMut,
    filled: usize,
}

/// A disk behind an NBD connection.
pub struct RemoteDisk {
    stream: Stream,
    /// Readable when replies came, or room to send.
    epoll: OwnedFd,
    wants_room: bool,
    properties: Properties,
    read_only: bool,
    outgoing: Vec<u8>,
    sent: usize,
    running: BTreeMap<u64, Running>,
    next_cookie: u64,
    header: [u8; REPLY_BYTES],
    header_filled: usize,
    body: Option<Body>,
    done: VecDeque<Completion>,
    gone: Option<String>,
}

impl RemoteDisk {
    /// Connects to an export and learns what it is. Errors name the export.
    pub fn connect(address: &Address) -> Result<Self, String> {
        let failed = |problem: String| format!("{address}: {problem}");
        let told = |error: io::Error| failed(error.to_string());
        let mut stream = match &address.place {
            Place::Unix(path) => Stream::Unix(UnixStream::connect(path).map_err(told)?),
            Place::Tcp(host) => Stream::Tcp(TcpStream::connect(host).map_err(told)?),
        };
        stream.bound(Some(HANDSHAKE_STEP_MAX)).map_err(told)?;
        let facts = handshake::choose(&mut stream, &address.export).map_err(failed)?;
        if let Some(problem) = handshake::what_is_missing(&facts) {
            return Err(failed(problem));
        }
        let properties = properties(address, &facts);
        properties.validate().map_err(|error| failed(error.to_string()))?;
        stream.bound(None).and_then(|()| stream.set_nonblocking()).map_err(told)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| told(error.into()))?;
        epoll::add(&epoll, stream.as_fd(), EventData::new_u64(0), EventFlags::IN)
            .map_err(|error| told(error.into()))?;
        Ok(Self {
            stream,
            epoll,
            wants_room: false,
            properties,
            read_only: facts.offers(flag::READ_ONLY),
            outgoing: Vec::new(),
            sent: 0,
            running: BTreeMap::new(),
            next_cookie: 0,
            header: [0; REPLY_BYTES],
            header_filled: 0,
            body: None,
            done: VecDeque::new(),
            gone: None,
        })
    }

    /// Whether the server refuses every change.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn ask(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.outgoing.reserve(REQUEST_HEADER_BYTES);
        self.outgoing.extend(REQUEST_MAGIC.to_be_bytes());
        self.outgoing.extend(flags.to_be_bytes());
        self.outgoing.extend(kind.to_be_bytes());
        self.outgoing.extend(cookie.to_be_bytes());
        self.outgoing.extend(offset.to_be_bytes());
        self.outgoing.extend(len.to_be_bytes());
        cookie
    }

    /// Asks for a range as long as it may be, or for the first part of it.
    fn ask_range(&mut self, ticket: Ticket, (kind, flags, offset, len): (u16, u16, u64, u64)) {
        let part = len.min(RANGE_BYTES_MAX);
        let rest = (part < len).then(|| (kind, flags, offset + part, len - part));
        let cookie = self.ask(kind, flags, offset, part as u32);
        self.running.insert(cookie, Running { ticket, read_bytes: 0, rest });
    }

    /// Sends and receives as much as goes without waiting.
    fn pump(&mut self) {
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
                    if self.sent > TRANSFER_BYTES_MAX as usize {
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
            let target = match &mut self.body {
                Some(body) => {
                    let end = body.running.read_bytes as usize;
                    &mut body.buffer[body.filled..end]
                }
                None => &mut self.header[self.header_filled..],
            };
            let count = match self.stream.read(target) {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.take(count)?;
        }
    }

    /// `count` more bytes came in.
    fn take(&mut self, count: usize) -> io::Result<()> {
        if let Some(body) = &mut self.body {
            body.filled += count;
            if body.filled == body.running.read_bytes as usize
                && let Some(Body { running, buffer, filled }) = self.body.take()
            {
                let bytes = Payload::Bytes(buffer.freeze().slice(0..filled));
                self.done.push_back(running.ticket.complete(Ok(bytes)));
            }
            return Ok(());
        }
        self.header_filled += count;
        if self.header_filled < REPLY_BYTES {
            return Ok(());
        }
        self.header_filled = 0;
        let header = self.header;
        let mut fields = Fields::new(&header);
        let mut read = || Ok((fields.u32("magic")?, fields.u32("error")?, fields.u64("cookie")?));
        let (magic, error, cookie) =
            read().map_err(|error: Truncated| io::Error::other(error.to_string()))?;
        let is_reply = magic == SIMPLE_REPLY_MAGIC;
        let Some(running) = is_reply.then(|| self.running.remove(&cookie)).flatten() else {
            return Err(io::Error::other(format!(
                "expected a simple reply to a request, found magic {magic:#x}, cookie {cookie}"
            )));
        };
        self.replied(running, error);
        Ok(())
    }

    fn replied(&mut self, running: Running, error: u32) {
        if error != 0 {
            let error = error_of(&self.properties.name, error);
            self.done.push_back(running.ticket.complete(Err(error)));
        } else if running.read_bytes > 0 {
            let buffer = BufferMut::zeroed(running.read_bytes as usize);
            self.body = Some(Body { running, buffer, filled: 0 });
        } else if let Some(rest) = running.rest {
            self.ask_range(running.ticket, rest);
        } else {
            self.done.push_back(running.ticket.complete(Ok(Payload::EMPTY)));
        }
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
        let unread = self.body.take().map(|body| body.running);
        let error = self.gone_error();
        let running = std::mem::take(&mut self.running).into_values();
        for running in unread.into_iter().chain(running) {
            self.done.push_back(running.ticket.complete(Err(error.clone())));
        }
    }

    fn gone_error(&self) -> DiskError {
        let why = self.gone.as_deref().unwrap_or("closed");
        let detail = format!("{}: the connection is lost: {why}", self.properties.name);
        DiskError { kind: DiskErrorKind::Gone, detail }
    }
}

impl Disk for RemoteDisk {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        let Submission { ticket, command: asked, .. } = submission;
        if self.gone.is_some() {
            let error = self.gone_error();
            return self.done.push_back(ticket.complete(Err(error)));
        }
        let fua = |durable: bool| {
            // Without a volatile cache there is nothing to ask for.
            if durable && self.properties.volatile_cache { command_flag::FUA } else { 0 }
        };
        match asked {
            Command::Read { offset, len } => {
                let cookie = self.ask(command::READ, 0, offset, len);
                self.running.insert(cookie, Running { ticket, read_bytes: len, rest: None });
            }
            Command::Write { offset, parts, durable } => {
                let (flags, len) = (fua(durable), nearhead_disk::total_len(&parts));
                let cookie = self.ask(command::WRITE, flags, offset, len as u32);
                for part in &parts {
                    let at = self.outgoing.len();
                    self.outgoing.resize(at + part.len(), 0);
                    part.copy_to(&mut self.outgoing[at..]);
                }
                self.running.insert(cookie, Running { ticket, read_bytes: 0, rest: None });
            }
            Command::WriteZeroes { offset, len, durable } => {
                let flags = fua(durable);
                self.ask_range(ticket, (command::WRITE_ZEROES, flags, offset, len));
            }
            Command::Trim { offset, len } => {
                self.ask_range(ticket, (command::TRIM, 0, offset, len));
            }
            Command::Flush if self.properties.volatile_cache => {
                let cookie = self.ask(command::FLUSH, 0, 0, 0);
                self.running.insert(cookie, Running { ticket, read_bytes: 0, rest: None });
            }
            Command::Flush => self.done.push_back(ticket.complete(Ok(Payload::EMPTY))),
        }
    }

    fn kick(&mut self) {
        if self.gone.is_none() {
            self.pump();
        }
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        if self.done.is_empty() && self.gone.is_none() {
            self.pump();
        }
        self.done.pop_front()
    }

    fn wake_at(&self) -> Option<Nanos> {
        (!self.done.is_empty()).then_some(Nanos::ZERO)
    }

    fn trouble(&self) -> Option<String> {
        self.gone.is_some().then(|| self.gone_error().detail)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }
}

impl Drop for RemoteDisk {
    fn drop(&mut self) {
        let unread = self.body.take().map(|body| body.running);
        let running = std::mem::take(&mut self.running).into_values();
        unread.into_iter().chain(running).for_each(|running| running.ticket.abandon());
    }
}

fn properties(address: &Address, facts: &Facts) -> Properties {
    let sector_bytes = if facts.block_bytes_min <= 512 { 512 } else { 4096 };
    let transfer = facts.request_bytes_max.min(TRANSFER_BYTES_MAX);
    Properties {
        name: address.to_string(),
        capacity_bytes: facts.size_bytes / u64::from(sector_bytes) * u64::from(sector_bytes),
        sector_bytes,
        physical_sector_bytes: facts.block_bytes_preferred.clamp(sector_bytes, 4096),
        rotational: facts.offers(flag::ROTATIONAL),
        rotation_period: None,
        volatile_cache: facts.offers(flag::SEND_FLUSH),
        // A server may ignore a trim, and its client cannot tell.
        trim_reads_zero: false,
        fast_zero: facts.offers(flag::SEND_FAST_ZERO),
        transfer_bytes_max: transfer / sector_bytes * sector_bytes,
        queue_depth_max: QUEUE_DEPTH,
    }
}

impl Stream {
    fn bound(&self, step_max: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(step_max)?;
                stream.set_write_timeout(step_max)
            }
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(step_max)?;
                stream.set_write_timeout(step_max)
            }
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
