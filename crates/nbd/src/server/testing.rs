//! What the server's tests share: a service that only does what a test says, clients on socket pairs, and turns of the
//! loop without a thread, at times that the test chooses.

use super::byte_access::ByteAccess;
use super::clients::{Clients, Policy};
use super::clock::Clock;
use super::memory::Budget;
use super::poller::{Deadline, Poller};
use crate::protocol::constants::option;
use crate::protocol::testing::{CLIENT_FLAGS, info, info_data, option as opt};
use crate::protocol::{Export, TlsMode};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestError, RequestId};
use nearhead_service::{Extent, Service, ServiceInfo, Wake};
use std::collections::VecDeque;
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// Takes requests and keeps them until the test answers.
pub(crate) struct Recorder {
    pub(crate) info: ServiceInfo,
    pub(crate) taken: VecDeque<Request>,
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) losses: u64,
    /// Everything is answered by the next drive.
    pub(crate) answers_when_driven: bool,
    is_stopping: bool,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let info = ServiceInfo { size_bytes: 64 << 20, ..info() };
        let (taken, replies) = (VecDeque::new(), VecDeque::new());
        Self { info, taken, replies, losses: 0, answers_when_driven: false, is_stopping: false }
    }

    /// Answers the request that came first, a read with zeros.
    pub(crate) fn answer(&mut self) -> Operation {
        let Request { id, operation } = self.taken.pop_front().expect("a request to answer");
        let parts = match &operation {
            Operation::Read { len, .. } => vec![Payload::Zeros(*len as usize)],
            _ => Vec::new(),
        };
        self.replies.push_back(Reply { id, result: Ok(parts) });
        operation
    }

    pub(crate) fn fail(&mut self) {
        let id = self.taken.pop_front().expect("a request to fail").id;
        self.replies.push_back(failed(id));
    }
}

pub(crate) fn failed(id: RequestId) -> Reply {
    Reply { id, result: Err(RequestError::new(ErrorKind::Io, "a bad day")) }
}

impl Service for Recorder {
    fn info(&self) -> ServiceInfo {
        self.info.clone()
    }

    fn submit(&mut self, request: Request, _now: Nanos) {
        self.taken.push_back(request);
    }

    fn drive(&mut self, _now: Nanos) {
        while self.answers_when_driven && !self.taken.is_empty() {
            self.answer();
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake { at: None, is_precise: false, fd: None }
    }

    fn block_status(&self, _offset: u64, len: u64, _runs_max: usize) -> Vec<Extent> {
        vec![Extent::data(len)]
    }

    fn losses(&self) -> u64 {
        self.losses
    }

    fn begin_shutdown(&mut self, _now: Nanos) {
        self.is_stopping = true;
    }

    fn is_shut_down(&self) -> bool {
        self.is_stopping
    }
}

/// The other end of a client's connection; nothing here waits.
pub(crate) struct Peer {
    stream: UnixStream,
}

impl Peer {
    /// Sends as much as the socket takes; how much that was.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> usize {
        match self.stream.write(bytes) {
            Ok(sent) => sent,
            Err(error) if error.kind() == IoErrorKind::WouldBlock => 0,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.send_some(bytes), bytes.len(), "more than a socket takes");
    }

    /// What came so far, at most `most` bytes, and whether that was the end.
    pub(crate) fn receive_some(&mut self, most: usize) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        while bytes.len() < most {
            let room = buffer.len().min(most - bytes.len());
            match self.stream.read(&mut buffer[..room]) {
                Ok(0) => return (bytes, true),
                Ok(len) => bytes.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == IoErrorKind::WouldBlock => break,
                // What it sent was not read.
                Err(_) => return (bytes, true),
            }
        }
        (bytes, false)
    }

    pub(crate) fn receive(&mut self) -> Vec<u8> {
        self.receive_some(usize::MAX).0
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.receive_some(usize::MAX).1
    }
}

/// Greets as a client with simple replies and goes to the default export.
pub(crate) fn hello() -> Vec<u8> {
    [&CLIENT_FLAGS[..], &opt(option::GO, &info_data(b"", &[]))].concat()
}

/// All clients of a recorder.
pub(crate) struct Rig {
    pub(crate) clients: Clients,
    pub(crate) service: Recorder,
    poller: Poller,
    pub(crate) now: Nanos,
}

pub(crate) fn policy(info: ServiceInfo) -> Policy {
    Policy {
        export: Rc::new(Export::new(Vec::new(), info).unwrap().at_any_byte()),
        tls_mode: TlsMode::Off,
        tls: None,
        connections_max: 100,
        stall_max: Nanos::from_secs(10),
        handshake_max: Nanos::from_secs(10),
        handshake_yields: Nanos::from_secs(1),
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|_| (), Budget::new(64 << 20, 1000, 64 << 20, 100))
    }

    pub(crate) fn with(set_up: impl FnOnce(&mut Policy), budget: Budget) -> Self {
        let service = Recorder::new();
        let mut policy = policy(service.info());
        set_up(&mut policy);
        let access = ByteAccess::new(&service.info());
        let clients = Clients::new(policy, budget, access);
        Self { clients, service, poller: Poller::new(Nanos::ZERO).unwrap(), now: Nanos::ZERO }
    }

    /// A client that has said nothing yet. Little fits into its socket.
    pub(crate) fn connect(&mut self) -> Peer {
        let (ours, theirs) = UnixStream::pair().unwrap();
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).unwrap();
        }
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        self.clients.accept(ours.into(), &self.poller, self.now);
        self.settle();
        Peer { stream: theirs }
    }

    /// A client in the transmission phase.
    pub(crate) fn connect_and_go(&mut self) -> Peer {
        let mut peer = self.connect();
        peer.send(&hello());
        self.settle();
        assert!(peer.receive().len() > 18, "a greeting, and replies to GO");
        peer
    }

    /// Turns of the loop until nothing happens any more.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut ready = Vec::new();
            let at_once = Deadline { at: Nanos::ZERO, precise: false };
            self.poller.wait(Some(at_once), &Clock::start(), &mut ready).unwrap();
            for event in &ready {
                self.clients.on_ready(*event, &mut self.service, self.now);
            }
            self.clients.collect_replies(&mut self.service, self.now);
            self.clients.flush(&self.poller, self.now);
            let is_hungry = self.clients.resume_parked(&mut self.service, self.now);
            self.clients.flush(&self.poller, self.now);
            let _ = self.clients.take_submitted();
            if ready.is_empty() && !is_hungry {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}
