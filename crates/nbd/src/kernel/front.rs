//! The front at the other end of the kernel's socket: requests as they come, simple replies in any order.
//!
//! It keeps to the module's promise: a connection that ends before the kernel said so is an error, after which the process that serves is
//! followed by another one with another connection; what it had not answered is then sent again. Content that is under way is
//! bounded: past [`CONTENT_BYTES_MAX`] nothing more is read until some is answered.

use crate::protocol::constants::{REQUEST_HEADER_BYTES, REQUEST_MAGIC, command};
use crate::protocol::{
    Agreed, ClientCommand, ClientRequest, Export, Form, Handle, Header, Outbox, ReadAsked, Replies,
    SLICES_MAX, errno_of, validate_request,
};
use crate::server::send_some;
use nearhead_disk::{Buffer, BufferMut, BufferPool, Payload};
use nearhead_service::{
    ErrorKind, LASTING_FRONT_IDS, LastingFront, Operation, Reply, Request, RequestError, RequestId,
    ServiceInfo,
};
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Content of requests under way, in bytes: what 128 requests of the usual largest size (`max_sectors_kb` of 1280) have, less or more.
const CONTENT_BYTES_MAX: usize = 128 << 20;
/// What the socket is called at the poller; the service is [`SERVICE`].
const SOCKET: u64 = 0;
const SERVICE: u64 = 1;

/// A request that the service has.
struct Waiting {
    handle: Handle,
    read_len: Option<u32>,
    content: Option<Buffer>,
    content_bytes: usize,
}

/// What is being received.
enum Receiving {
    Header {
        bytes: [u8; REQUEST_HEADER_BYTES],
        filled: usize,
    },
    /// The content of a write; one that is refused is read all the same.
    Content {
        request: Result<ClientRequest, (Handle, u32)>,
        memory: BufferMut,
        len: usize,
        filled: usize,
    },
}

impl Receiving {
    const BEGINNING: Self = Self::Header { bytes: [0; REQUEST_HEADER_BYTES], filled: 0 };
}

/// The front.
pub struct KernelFront {
    socket: OwnedFd,
    export: Export,
    poller: OwnedFd,
    receiving: Receiving,
    outbox: Outbox,
    waiting: HashMap<u64, Waiting>,
    newest: u64,
    content_bytes: usize,
    pool: BufferPool,
    is_taking: bool,
    has_ended: bool,
    /// What the poller tells of the socket.
    interest: epoll::EventFlags,
    losses_told: u64,
}

impl KernelFront {
    /// Serves whoever is at the other end of `socket`. `of_service` is what the service wants to be driven for, and `losses` what it has
    /// told of so far.
    pub fn new(
        socket: OwnedFd,
        info: ServiceInfo,
        of_service: Option<BorrowedFd<'_>>,
        losses: u64,
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let interest = epoll::EventFlags::IN;
        epoll::add(&poller, &socket, epoll::EventData::new_u64(SOCKET), interest)?;
        if let Some(fd) = of_service {
            let data = epoll::EventData::new_u64(SERVICE);
            epoll::add(&poller, fd, data, epoll::EventFlags::IN)?;
        }
        let export = Export::new(Vec::new(), info);
        let export = export.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self {
            socket,
            export,
            poller,
            receiving: Receiving::BEGINNING,
            outbox: Outbox::default(),
            waiting: HashMap::new(),
            newest: LASTING_FRONT_IDS,
            content_bytes: 0,
            pool: BufferPool::default(),
            is_taking: true,
            has_ended: false,
            interest,
            losses_told: losses,
        })
    }

    fn listens(&self) -> bool {
        self.is_taking && self.content_bytes < CONTENT_BYTES_MAX
    }

    /// Has the poller tell of what is waited for.
    fn look_out(&mut self) -> io::Result<()> {
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, self.listens());
        wanted.set(epoll::EventFlags::OUT, !self.outbox.is_empty());
        if wanted != self.interest {
            let data = epoll::EventData::new_u64(SOCKET);
            epoll::modify(&self.poller, &self.socket, data, wanted)?;
            self.interest = wanted;
        }
        Ok(())
    }

    /// Reads on; whether more bytes were there.
    fn read(&mut self) -> io::Result<bool> {
        let into = match &mut self.receiving {
            Receiving::Header { bytes, filled } => &mut bytes[*filled..],
            Receiving::Content { memory, len, filled, .. } => &mut memory[*filled..*len],
        };
        let read = match rustix::io::read(&self.socket, into) {
            Ok(0) => {
                let what = "the kernel's connection ended before the device did";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
            Ok(read) => read,
            Err(Errno::INTR) => 0,
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        match &mut self.receiving {
            Receiving::Header { filled, .. } | Receiving::Content { filled, .. } => *filled += read,
        }
        Ok(true)
    }

    /// The request that is complete, if one is.
    fn completed(&mut self) -> io::Result<Option<ClientRequest>> {
        match &self.receiving {
            Receiving::Header { bytes, filled } if *filled == REQUEST_HEADER_BYTES => {
                let header = Header::decode(bytes, Form::Simple);
                self.receiving = Receiving::BEGINNING;
                self.begun(&header.ok_or_else(|| {
                    io::Error::other(
                        "the kernel's connection: expected a request, found something else",
                    )
                })?)
            }
            Receiving::Content { len, filled, .. } if filled == len => {
                let whole = std::mem::replace(&mut self.receiving, Receiving::BEGINNING);
                let Receiving::Content { request, memory, len, .. } = whole else {
                    return Ok(None);
                };
                Ok(match request {
                    Ok(mut request) => {
                        request.payload = Payload::Bytes(memory.freeze().slice(0..len));
                        Some(request)
                    }
                    Err((handle, errno)) => {
                        self.replies().put_error(handle, errno, "");
                        None
                    }
                })
            }
            _ => Ok(None),
        }
    }

    /// A header was read.
    fn begun(&mut self, header: &Header) -> io::Result<Option<ClientRequest>> {
        if header.kind == command::DISC {
            self.has_ended = true;
            self.is_taking = false;
            return Ok(None);
        }
        let validated = validate_request(header, &self.export, Agreed::default());
        let validated = validated.map_err(|refusal| (header.handle(), refusal.errno));
        if header.carries_payload(Form::Simple) {
            let len = header.len as usize;
            if len == 0 || len > crate::protocol::REQUEST_BYTES_MAX as usize {
                return Err(io::Error::other(format!(
                    "the kernel's connection: expected a write of 1 byte to 32 MiB, found {len} bytes"
                )));
            }
            let memory = self.pool.take(len);
            self.receiving = Receiving::Content { request: validated, memory, len, filled: 0 };
            return Ok(None);
        }
        match validated {
            Ok(request) => Ok(Some(request)),
            Err((handle, errno)) => {
                self.replies().put_error(handle, errno, "");
                Ok(None)
            }
        }
    }

    fn replies(&mut self) -> Replies<'_> {
        Replies { outbox: &mut self.outbox, form: Form::Simple }
    }

    /// The request as the service knows it; none if it is answered at once.
    fn for_service(&mut self, request: ClientRequest, losses: u64) -> Option<Request> {
        let ClientRequest { handle, command, fua, offset, len, payload } = request;
        let content = match &payload {
            Payload::Bytes(bytes) if !bytes.is_empty() => Some(bytes.clone()),
            _ => None,
        };
        let mut read_len = None;
        let operation = match command {
            ClientCommand::Read { .. } => {
                read_len = Some(len as u32);
                Operation::Read { offset, len: len as u32 }
            }
            ClientCommand::Write => Operation::Write { offset, data: payload, fua },
            ClientCommand::Flush if losses > self.losses_told => {
                self.losses_told = losses;
                self.replies().put_error(handle, errno_of(ErrorKind::Io), "");
                return None;
            }
            ClientCommand::Flush => Operation::Flush,
            ClientCommand::Trim => Operation::Trim { offset, len, fua },
            ClientCommand::WriteZeroes { no_hole, fast_only } => {
                let may_unmap = !no_hole;
                Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap }
            }
            ClientCommand::Cache | ClientCommand::BlockStatus { .. } => {
                self.replies().put_done(handle);
                return None;
            }
        };
        let content_bytes = match operation {
            Operation::Read { .. } | Operation::Write { .. } => len as usize,
            _ => 0,
        };
        self.content_bytes += content_bytes;
        self.newest += 1;
        self.waiting.insert(self.newest, Waiting { handle, read_len, content, content_bytes });
        Some(Request { id: RequestId(self.newest), operation })
    }

    fn put(&mut self, waiting: &Waiting, result: Result<Vec<Payload>, RequestError>) {
        let Waiting { handle, read_len, .. } = *waiting;
        match (result, read_len) {
            (Ok(parts), Some(len)) => {
                self.replies().put_read(ReadAsked { handle, len, one_chunk: true }, parts);
            }
            (Ok(_), None) => self.replies().put_done(handle),
            (Err(error), _) => {
                self.replies().put_error(handle, errno_of(error.kind), &error.detail);
            }
        }
    }
}

impl LastingFront for KernelFront {
    fn resized(&mut self, info: &ServiceInfo) {
        if let Ok(export) = Export::new(Vec::new(), info.clone()) {
            self.export = export;
        }
    }

    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    fn is_mine(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id.0)
    }

    fn receive(&mut self, losses: u64) -> io::Result<Option<Request>> {
        while self.listens() {
            if !self.read()? {
                break;
            }
            if let Some(request) = self.completed()?
                && let Some(request) = self.for_service(request, losses)
            {
                return Ok(Some(request));
            }
        }
        self.send()?;
        Ok(None)
    }

    fn reply(&mut self, reply: Reply) -> io::Result<()> {
        let Some(mut waiting) = self.waiting.remove(&reply.id.0) else { return Ok(()) };
        self.content_bytes -= waiting.content_bytes;
        let is_too_late = |error: &RequestError| error.kind == ErrorKind::ShuttingDown;
        if reply.result.as_ref().is_err_and(is_too_late) && !self.has_ended {
            // It is for the successor, who is asked again.
            return Ok(());
        }
        let content = waiting.content.take();
        self.put(&waiting, reply.result);
        if let Some(content) = content {
            self.pool.recycle(content);
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.outbox.slices(&mut slices);
            match send_some(&self.socket, &slices[..count]) {
                Ok(Some(sent)) => self.outbox.advance(sent),
                Ok(None) => break,
                // After its end nobody waits for answers.
                Err(_) if self.has_ended => self.outbox = Outbox::default(),
                Err(error) => return Err(error),
            }
        }
        self.look_out()
    }

    fn leave(&mut self) {
        self.is_taking = false;
        // If it cannot be told, it tells of requests in vain.
        let _ = self.look_out();
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }
}

/// A connection of which the kernel has said that it ends: a front of it ends at once.
pub fn ended_connection() -> io::Result<OwnedFd> {
    let (kernels, ours) = UnixStream::pair()?;
    let mut request = [0; REQUEST_HEADER_BYTES];
    request[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    request[6..8].copy_from_slice(&command::DISC.to_be_bytes());
    (&kernels).write_all(&request)?;
    Ok(ours.into())
}
