//! A service as one file whose server may change: one process may go on where another was killed, and programs that use the file wait
//! meanwhile.
//!
//! It is a [`LastingFront`]. What it keeps true besides:
//!
//! - every request reaches the service as the kernel made it, no cache between; what is no whole block is refused by the service (EINVAL);
//! - a question gets at most one answer, and none that is early;
//! - **names, attributes and handles are the same in every process**, so nothing has to be told to a successor but the connection;
//! - **what was read from the kernel and not answered is asked again** by the successor. Carrying out a request twice is harmless: until
//!   it is answered its bytes may be old or new, the kernel sends no two that overlap unless a program did, and that program was promised
//!   no order. A flush that is asked again covers all that it covered before;
//! - a write that was answered and not flushed is none of its business: the service under it must outlive its process
//!   (`nearhead-handover`), or is one that answers what is durable only.
//!
//! Requests under way are bounded by the kernel. Never use the file from the process that serves it, and give the kernel memory that is
//! there: a copy that is broken off by a page fault when the process is killed ends as an error for whoever asked.

mod connection;
mod words;

pub use connection::{Connection, Joined};

use crate::{NAME, allocation};
use connection::{REQUEST_BYTES_MAX, Received};
use nearhead_disk::{ALIGN_BYTES, BufferMut, BufferPool, Payload, bytes_of};
use nearhead_service::{
    ErrorKind, LASTING_FRONT_IDS, LastingFront, Operation, Reply, Request, RequestId, ServiceInfo,
};
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use words::{Asked, FILE, FOLDER, Facts, Question, WRITE_HEADER_BYTES};

/// A write of so many bytes keeps the memory that it was received in; a smaller one would keep far more than it needs.
const KEPT_BYTES_MIN: usize = 64 << 10;
/// Parts of a read that are given to the kernel one by one; more are put together first.
const PARTS_MAX: usize = 64;

/// Who waits for what.
#[derive(Debug)]
enum Waiting {
    Read,
    Write(Payload),
    Nothing,
    /// The service frees what it can. The kernel gets a refusal and writes zeros itself where it needs them.
    Advice,
}

/// The front.
#[derive(Debug)]
pub struct LastingFile {
    connection: Connection,
    facts: Facts,
    /// Whether large ranges become zeros without being written.
    zeroes_fast: bool,
    /// Readable when the kernel or the service has something.
    poller: OwnedFd,
    /// By our number: under which one the kernel waits. The kernel bounds how many.
    waiting: HashMap<u64, (u64, Waiting)>,
    newest: u64,
    pool: BufferPool,
    front: [u8; WRITE_HEADER_BYTES],
    rest: BufferMut,
    is_reading: bool,
    has_ended: bool,
    losses_told: u64,
}

/// Memory that the kernel can fill without a page fault.
fn room(pool: &mut BufferPool) -> BufferMut {
    let mut room = pool.take(REQUEST_BYTES_MAX);
    room.iter_mut().step_by(ALIGN_BYTES).for_each(|byte| *byte = 1);
    room
}

impl LastingFile {
    /// Shows a service behind `connection`. `of_service` is what the service wants to be driven for ([`nearhead_service::Wake::fd`]), and
    /// `losses` what it has told of so far.
    pub fn new(
        connection: Connection,
        info: &ServiceInfo,
        of_service: Option<BorrowedFd<'_>>,
        losses: u64,
    ) -> io::Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = || epoll::EventFlags::IN;
        epoll::add(&poller, &connection, epoll::EventData::new_u64(0), readable())?;
        if let Some(fd) = of_service {
            epoll::add(&poller, fd, epoll::EventData::new_u64(1), readable())?;
        }
        let facts = Facts {
            size_bytes: info.size_bytes,
            block_bytes: info.block_bytes_preferred.max(4096),
            read_only: info.read_only,
            owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        };
        let mut pool = BufferPool::default();
        Ok(Self {
            connection,
            facts,
            zeroes_fast: info.fast_zero,
            poller,
            waiting: HashMap::new(),
            newest: LASTING_FRONT_IDS,
            rest: room(&mut pool),
            pool,
            front: [0; WRITE_HEADER_BYTES],
            is_reading: true,
            has_ended: false,
            losses_told: losses,
        })
    }

    /// What a question of `len` bytes asks the service; everything else is answered here.
    fn take(&mut self, len: usize, losses: u64) -> io::Result<Option<Request>> {
        let Some(Asked { unique, question }) = self.asked(len) else { return Ok(None) };
        let (operation, waiting) = match question {
            Question::Read { offset, len } => {
                let left = self.facts.size_bytes.saturating_sub(offset);
                let len = u64::from(len).min(left) as u32;
                if len == 0 {
                    self.connection.answer(unique, Ok(&[]))?;
                    return Ok(None);
                }
                (Operation::Read { offset, len }, Waiting::Read)
            }
            Question::Write { offset, len: claimed } => {
                let there = len.saturating_sub(WRITE_HEADER_BYTES);
                let is_whole = claimed as usize == there && there > 0;
                if !is_whole || offset >= self.facts.size_bytes {
                    let errno = if is_whole { Errno::NOSPC } else { Errno::INVAL };
                    self.connection.answer(unique, Err(errno))?;
                    return Ok(None);
                }
                let data = Payload::Bytes(self.received(there));
                (Operation::Write { offset, data: data.clone(), fua: false }, Waiting::Write(data))
            }
            Question::Sync if losses > self.losses_told => {
                self.losses_told = losses;
                self.connection.answer(unique, Err(Errno::IO))?;
                return Ok(None);
            }
            Question::Sync => (Operation::Flush, Waiting::Nothing),
            Question::Allocate { offset, len, mode } => {
                let Some((operation, is_advice)) =
                    allocation::operation((offset, len), mode, self.zeroes_fast)
                else {
                    self.connection.answer(unique, Err(Errno::OPNOTSUPP))?;
                    return Ok(None);
                };
                (operation, if is_advice { Waiting::Advice } else { Waiting::Nothing })
            }
            other => {
                self.tell(unique, len, &other)?;
                return Ok(None);
            }
        };
        self.newest += 1;
        self.waiting.insert(self.newest, (unique, waiting));
        Ok(Some(Request { id: RequestId(self.newest), operation }))
    }

    fn asked(&self, len: usize) -> Option<Asked> {
        if len <= WRITE_HEADER_BYTES {
            return words::asked(&self.front[..len]);
        }
        let asked = words::asked(&self.front)?;
        if matches!(asked.question, Question::Write { .. }) {
            return Some(asked);
        }
        words::asked(&self.whole(len))
    }

    /// A question that is no write, in one piece.
    fn whole(&self, len: usize) -> Vec<u8> {
        let mut whole = self.front[..len.min(WRITE_HEADER_BYTES)].to_vec();
        whole.extend_from_slice(&self.rest[..len.saturating_sub(WRITE_HEADER_BYTES)]);
        whole
    }

    /// The bytes of a write that was received.
    fn received(&mut self, len: usize) -> nearhead_disk::Buffer {
        if len >= KEPT_BYTES_MIN {
            let next = room(&mut self.pool);
            return std::mem::replace(&mut self.rest, next).freeze().slice(0..len);
        }
        let mut own = self.pool.take(len);
        own[..len].copy_from_slice(&self.rest[..len]);
        own.freeze().slice(0..len)
    }

    /// Answers what needs no service.
    fn tell(&self, unique: u64, len: usize, question: &Question) -> io::Result<()> {
        let facts = &self.facts;
        let is_known = |node: u64| node == FILE || node == FOLDER;
        let answer = match question {
            Question::Forget => return Ok(()),
            Question::Lookup { parent: FOLDER, name }
                if self.whole(len).get(name.clone()) == Some(NAME.as_bytes()) =>
            {
                Ok(words::entry(facts))
            }
            Question::Attributes { node } if is_known(*node) => Ok(words::attributes(*node, facts)),
            // A disk has one size. Times, owners and modes are accepted and stay what they are.
            Question::SetAttributes { size: Some(size), .. } if *size != facts.size_bytes => {
                Err(Errno::PERM)
            }
            Question::SetAttributes { node, .. } if is_known(*node) => {
                Ok(words::attributes(*node, facts))
            }
            Question::Open { node: FILE } => Ok(words::opened(true)),
            Question::Open { .. } => Err(Errno::ISDIR),
            Question::OpenFolder => Ok(words::opened(false)),
            Question::ReadFolder { offset } => Ok(words::entries(*offset, NAME)),
            Question::Statistics => Ok(words::statistics(facts)),
            Question::Close => Ok(Vec::new()),
            Question::Lookup { .. }
            | Question::Attributes { .. }
            | Question::SetAttributes { .. } => Err(Errno::NOENT),
            _ => Err(Errno::NOSYS),
        };
        match answer {
            Ok(bytes) => self.connection.answer(unique, Ok(&[&bytes])),
            Err(errno) => self.connection.answer(unique, Err(errno)),
        }
    }

    fn give(&self, unique: u64, parts: &[Payload]) -> io::Result<()> {
        let as_they_are: Option<Vec<&[u8]>> = parts
            .iter()
            .map(|part| match part {
                Payload::Bytes(bytes) => Some(&**bytes),
                Payload::Zeros(_) | Payload::Phantom(_) => None,
            })
            .collect();
        match as_they_are.filter(|parts| parts.len() <= PARTS_MAX) {
            Some(parts) => self.connection.answer(unique, Ok(&parts)),
            None => self.connection.answer(unique, Ok(&[&bytes_of(parts)])),
        }
    }
}

impl LastingFront for LastingFile {
    fn resized(&mut self, info: &ServiceInfo) {
        self.facts.size_bytes = info.size_bytes;
    }

    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    fn is_mine(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id.0)
    }

    fn receive(&mut self, losses: u64) -> io::Result<Option<Request>> {
        while self.is_reading {
            match self.connection.receive(&mut self.front, &mut self.rest)? {
                Received::Nothing => return Ok(None),
                Received::Ended => {
                    self.has_ended = true;
                    self.leave();
                }
                Received::Bytes(len) => {
                    if let Some(request) = self.take(len, losses)? {
                        return Ok(Some(request));
                    }
                }
            }
        }
        Ok(None)
    }

    fn reply(&mut self, reply: Reply) -> io::Result<()> {
        let Some((unique, waiting)) = self.waiting.remove(&reply.id.0) else { return Ok(()) };
        let parts = match reply.result {
            Ok(parts) => parts,
            // It came too late for this process: it is for whoever has the connection next, who is asked again.
            Err(error) if error.kind == ErrorKind::ShuttingDown && !self.has_ended => return Ok(()),
            Err(error) => {
                return self
                    .connection
                    .answer(unique, Err(Errno::from_raw_os_error(error.kind.errno())));
            }
        };
        match waiting {
            Waiting::Read => self.give(unique, &parts),
            Waiting::Write(data) => {
                let answer = words::written(data.len() as u32);
                let given = self.connection.answer(unique, Ok(&[&answer]));
                if let Payload::Bytes(buffer) = data {
                    self.pool.recycle(buffer);
                }
                given
            }
            Waiting::Nothing => self.connection.answer(unique, Ok(&[])),
            Waiting::Advice => self.connection.answer(unique, Err(Errno::OPNOTSUPP)),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        // Each is handed over at once.
        Ok(())
    }

    fn leave(&mut self) {
        if self.is_reading {
            self.is_reading = false;
            let _ = epoll::delete(&self.poller, &self.connection);
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }
}
