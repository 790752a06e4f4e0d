//! The guardian: waits for the death of programs, and settles the files they leave.
//!
//! Every process of the program connects when it begins, also a child of `fork` and a program that
//! another one became: its end shows by a descriptor of the process (`pidfd_open(2)`). A second
//! connection of one process means that it became another program, and so ended as the first. The
//! guardian ends when the program that it was started for and every connected process has.
//!
//! The guardian never ends a program, and never writes to a file that another process has open.

use super::mark::{Settled, settle};
use super::tail::Tail;
use nearhead_basics::little_endian::u64_at;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, recvmsg, send, socket_with, sockopt,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Processes that may be connected at a time.
const PROCESSES_MAX: usize = 4096;
/// Files of one process.
const FILES_MAX: usize = 4096;
/// First and longest pause between two attempts at a file that another process has open.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Time for which attempts at such a file go on; after that its mark stays.
const ATTEMPTS_TIME: Duration = Duration::from_secs(600);

/// A message of a process, 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Watch the file that comes with it, for the stream of this number.
    Watch(u64),
    /// Forget it: it is settled.
    Leave(u64),
}

impl Message {
    pub(super) fn encode(self) -> [u8; 16] {
        let (kind, stream) = match self {
            Self::Watch(stream) => (1_u64, stream),
            Self::Leave(stream) => (2, stream),
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&stream.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != 16 {
            return None;
        }
        let stream = u64_at(bytes, 8);
        match u64_at(bytes, 0) {
            1 => Some(Self::Watch(stream)),
            2 => Some(Self::Leave(stream)),
            _ => None,
        }
    }
}

/// The address of the guardian called `name`, in the abstract name space.
pub(super) fn address(name: &[u8]) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(name)?)
}

/// A socket at which processes reach the guardian called `name`.
pub fn listen(name: &[u8]) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &address(name)?)?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

/// A file that a process writes.
struct File {
    /// A descriptor with `O_PATH`.
    named: OwnedFd,
    tail: Tail,
}

struct Process {
    number: i32,
    socket: OwnedFd,
    /// Readable when it has ended.
    end: OwnedFd,
    files: BTreeMap<u64, File>,
    has_ended: bool,
}

/// A file of a process that has ended, to be settled.
struct Left {
    stream: u64,
    file: File,
    since: Instant,
    pause: Duration,
    next: Instant,
}

struct Guardian<'a> {
    listener: OwnedFd,
    processes: Vec<Process>,
    left: Vec<Left>,
    report: &'a mut dyn FnMut(&str),
}

/// Serves until `program` and every process that connected has ended. `report` gets a line about each
/// file that could not be settled.
///
/// # Errors
/// Errors of `poll`.
pub fn serve(listener: OwnedFd, program: u32, report: &mut dyn FnMut(&str)) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let program = i32::try_from(program).ok().and_then(Pid::from_raw);
    let program = program.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut guardian = Guardian { listener, processes: Vec::new(), left: Vec::new(), report };
    let mut program = program;
    loop {
        if program.is_none() && guardian.processes.is_empty() && guardian.left.is_empty() {
            return Ok(());
        }
        let ready = guardian.wait(program.as_ref())?;
        if ready.program {
            program = None;
        }
        for (process, is_ended) in guardian.processes.iter_mut().zip(&ready.ended) {
            process.take_messages();
            process.has_ended |= is_ended;
        }
        if ready.listener {
            guardian.accept(user);
        }
        guardian.settle_ended();
        guardian.try_left();
    }
}

struct Ready {
    program: bool,
    listener: bool,
    ended: Vec<bool>,
}

impl Guardian<'_> {
    /// Waits until something happens, or the next attempt at a file is due.
    fn wait(&self, program: Option<&OwnedFd>) -> io::Result<Ready> {
        let mut events = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for process in &self.processes {
            events.push(PollFd::new(&process.end, PollFlags::IN));
            events.push(PollFd::new(&process.socket, PollFlags::IN));
        }
        events.extend(program.map(|program| PollFd::new(program, PollFlags::IN)));
        let due = self.left.iter().map(|left| left.next).min();
        let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        match poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |event: &PollFd<'_>| !event.revents().is_empty();
        let ended = events[1..].chunks(2).take(self.processes.len()).map(|pair| is_ready(&pair[0]));
        Ok(Ready {
            program: program.is_some() && events.last().is_some_and(is_ready),
            listener: is_ready(&events[0]),
            ended: ended.collect(),
        })
    }

    fn accept(&mut self, user: u32) {
        let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { return };
        let Ok(peer) = sockopt::socket_peercred(&socket) else { return };
        let is_trusted = [0, user].contains(&peer.uid.as_raw()) || user == 0;
        if !is_trusted || self.processes.len() >= PROCESSES_MAX {
            return;
        }
        let number = peer.pid.as_raw_nonzero().get();
        for process in self.processes.iter_mut().filter(|process| process.number == number) {
            // It became another program: the one that it was has ended.
            process.take_messages();
            process.has_ended = true;
        }
        self.settle_ended();
        self.try_left();
        let Ok(end) = pidfd_open(peer.pid, PidfdFlags::empty()) else { return };
        // It waits for this: what it was is settled.
        if send(&socket, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok() {
            let files = BTreeMap::new();
            self.processes.push(Process { number, socket, end, files, has_ended: false });
        }
    }

    /// Takes over the files of processes that have ended.
    fn settle_ended(&mut self) {
        let now = Instant::now();
        for process in self.processes.extract_if(.., |process| process.has_ended) {
            self.left.extend(process.files.into_iter().map(|(stream, file)| Left {
                stream,
                file,
                since: now,
                pause: PAUSE_FIRST,
                next: now,
            }));
        }
    }

    /// Tries to settle the files for which it is time.
    fn try_left(&mut self) {
        let now = Instant::now();
        let report = &mut self.report;
        self.left.retain_mut(|left| {
            if left.next > now {
                return true;
            }
            let path = PathBuf::from(format!("/proc/self/fd/{}", left.file.named.as_raw_fd()));
            let name = std::fs::read_link(&path).unwrap_or_else(|_| path.clone());
            let name = name.display();
            match settle(&path, left.stream, &left.file.tail) {
                Ok(Settled::OpenElsewhere) if now - left.since < ATTEMPTS_TIME => {
                    left.next = now + left.pause;
                    left.pause = (left.pause * 2).min(PAUSE_MAX);
                    return true;
                }
                Ok(Settled::Cut(_) | Settled::Unmarked) => {}
                Ok(Settled::OpenElsewhere) => report(&format!(
                    "{name} still has zeros behind its content, since another process has it open; when it is closed: nearhead run --repair"
                )),
                Ok(Settled::Changed) => report(&format!(
                    "{name} was changed by another process after the program's end, and is left as it is"
                )),
                Err(error) => report(&format!(
                    "{name} still has zeros behind its content: {error}; when that is mended: nearhead run --repair"
                )),
            }
            false
        });
    }
}

impl Process {
    /// Takes in what it has sent.
    fn take_messages(&mut self) {
        loop {
            let mut bytes = [0; 17];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let parts = &mut [IoSliceMut::new(&mut bytes)];
            let Ok(received) = recvmsg(self.socket.as_fd(), parts, &mut control, flags) else {
                return;
            };
            let mut files = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    files.extend(rights);
                }
            }
            if received.bytes == 0 {
                // Every copy is closed: it became another program. If it did not, the lease shows it.
                self.has_ended = true;
                return;
            }
            let mut files = files.into_iter();
            match (Message::decode(&bytes[..received.bytes]), files.next(), files.next()) {
                (Some(Message::Watch(stream)), Some(named), Some(tail))
                    if self.files.len() < FILES_MAX =>
                {
                    self.files.insert(stream, File { named, tail: Tail::of(tail) });
                }
                (Some(Message::Leave(stream)), ..) => {
                    self.files.remove(&stream);
                }
                _ => {}
            }
        }
    }
}
