//! One helper process, as the program sees it: started, asked, watched, ended.
//!
//! It is a child started with [`Command`]: nothing is forked into, so any number of threads may be
//! running. A helper that ended is told from one that is slow by its socket, one that hangs by a
//! deadline. After either nothing more is asked of it: what it was asked last may be done or not.

use super::frame::{Ask, BODY_BYTES_MAX, FrameKind};
use super::link::{Incoming, Outgoing, over_descriptors, over_rings};
use super::message::{ErrorReply, HelloReply, Request};
use super::region::{Direction, RING_BYTES, Region};
use super::transport_choice::{Taken, Transport};
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::from_io;
use nearhead_uring::Opener;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Names the program to start, when nothing else does.
const PROGRAM_VARIABLE: &str = "NEARHEAD_WAL_HELPER";
/// How long a helper that was told to end, or killed, may take.
const END_WAIT: Duration = Duration::from_secs(5);

/// What is done when a helper dies or hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDeath {
    /// Another one is started, so many times at most, and what was under way is written again,
    /// whole. Never while the old one may still be writing.
    Restart(u32),
    /// The write fails, and with it the log or stream.
    Fail,
}

/// How a helper is started and watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperOptions {
    /// The program.
    pub program: PathBuf,
    /// What it is told to be a helper.
    pub arguments: Vec<OsString>,
    /// What is done when it dies.
    pub on_death: OnDeath,
    /// How long one answer may take; `None` waits for ever, as for a disk.
    pub deadline: Option<Duration>,
    /// Which way requests go.
    pub transport: Transport,
}

impl Default for HelperOptions {
    /// The program that `NEARHEAD_WAL_HELPER` names; else `nearhead-wal-helper` beside this
    /// program; else `nearhead wal helper`, found as the shell finds it.
    fn default() -> Self {
        let named = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
        let beside = || {
            let own = std::env::current_exe().ok()?;
            let path = own.with_file_name("nearhead-wal-helper");
            path.is_file().then_some(path)
        };
        let (program, arguments) = match named.or_else(beside) {
            Some(program) => (program, Vec::new()),
            None => (PathBuf::from("nearhead"), vec!["wal".into(), "helper".into()]),
        };
        let transport = Transport::Automatic;
        Self { program, arguments, on_death: OnDeath::Restart(3), deadline: None, transport }
    }
}

/// A running helper.
pub struct Helper {
    child: Child,
    incoming: Incoming,
    outgoing: Option<Outgoing>,
    hello: HelloReply,
    last_tag: u64,
    taken: Taken,
    opener: Opener,
}

impl Helper {
    /// Starts one.
    ///
    /// # Errors
    /// [`WalErrorKind::NotFound`] if there is no such program; [`WalErrorKind::OutOfRange`] if it is of
    /// another version, or does not know the ring that was insisted on.
    pub fn start(options: &HelperOptions) -> Result<Self> {
        let wished = options.transport.resolved()?;
        let mut helper = Self::start_with_socket(options)?;
        if wished == Transport::Socket {
            return Ok(helper);
        }
        match helper.go_over_to_ring(options.deadline) {
            Ok(()) => Ok(helper),
            Err(error) if wished == Transport::Ring => Err(error),
            Err(error) => {
                // Another one: this one may hold a memory file that it takes for a file of ours.
                drop(helper);
                let mut helper = Self::start_with_socket(options)?;
                helper.taken = Taken::Socket { instead: Some(error.detail) };
                Ok(helper)
            }
        }
    }

    fn start_with_socket(options: &HelperOptions) -> Result<Self> {
        let shown = options.program.display();
        let failed = |error: io::Error| from_io("start the helper", &shown, &error);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_read_timeout(options.deadline).map_err(failed)?;
        ours.set_write_timeout(options.deadline).map_err(failed)?;
        let output = OwnedFd::from(theirs.try_clone().map_err(failed)?);
        let mut command = Command::new(&options.program);
        command.args(&options.arguments).stdin(OwnedFd::from(theirs)).stdout(Stdio::from(output));
        let child = command.spawn().map_err(failed)?;
        // Now only the child has the other end: when it ends, ours does.
        drop(command);
        let sending = OwnedFd::from(ours.try_clone().map_err(failed)?);
        let (incoming, outgoing) = over_descriptors(OwnedFd::from(ours), sending);
        let mut helper = Self {
            child,
            incoming,
            outgoing: Some(outgoing),
            taken: Taken::Socket { instead: None },
            hello: HelloReply { pid: 0, handles: 0, choice: String::new() },
            last_tag: 0,
            opener: Opener::this_process(),
        };
        let greeting = helper.ask(0, &Request::Hello { directory: None }, None)?;
        helper.hello = HelloReply::decode(&greeting)?;
        Ok(helper)
    }

    /// From here on frames go through shared memory, and the socket is only their bell.
    fn go_over_to_ring(&mut self, deadline: Option<Duration>) -> Result<()> {
        let created = Region::create(RING_BYTES);
        let (region, file) =
            created.map_err(|error| from_io("create", &"a ring in shared memory", &error))?;
        self.ask(0, &Request::OpenRing { ring_bytes: RING_BYTES }, Some(file.as_fd()))?;
        let Some(socket) = self.incoming.quiet_socket() else {
            return Err(gone("the helper sent more than its answer"));
        };
        let socket = socket.map_err(|error| from_io("share", &"the helper's socket", &error))?;
        let (incoming, outgoing) = over_rings(region, socket, Direction::ToHelper, deadline);
        (self.incoming, self.outgoing) = (incoming, Some(outgoing));
        self.taken = Taken::Ring;
        Ok(())
    }

    /// Which way requests go, in words.
    pub fn told(&self) -> String {
        self.taken.told()
    }

    /// What it said of itself.
    pub fn hello(&self) -> &HelloReply {
        &self.hello
    }

    /// Sends a request, and a file beside it, and waits for the answer.
    ///
    /// # Errors
    /// The helper's own; [`WalErrorKind::Stopped`] if it is gone, or its connection to us.
    pub(super) fn ask(
        &mut self,
        handle: u32,
        request: &Request<'_>,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<u8>> {
        let (ask, body) = request.encode();
        self.exchange(handle, ask, [&body, &[]], file)
    }

    /// The same for a durable write, whose bytes are not copied. At most [`Helper::WRITE_BYTES_MAX`].
    pub(super) fn write_at(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let parts = [&offset.to_le_bytes()[..], bytes];
        self.exchange(handle, Ask::WriteAt, parts, None).map(drop)
    }

    /// Most bytes of one write.
    pub(super) const WRITE_BYTES_MAX: usize = BODY_BYTES_MAX / 2;

    fn exchange(
        &mut self,
        handle: u32,
        ask: Ask,
        parts: [&[u8]; 2],
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<u8>> {
        self.last_tag += 1;
        let tag = self.last_tag;
        let Some(outgoing) = &self.outgoing else {
            return Err(gone("the helper was told to end"));
        };
        let sent = outgoing.send(FrameKind::Request(ask), tag, handle, parts, file);
        if let Err(error) = sent {
            return Err(self.why_gone(&error));
        }
        loop {
            // One that sends what is no frame is not asked again, and must not go on writing.
            let next = self.incoming.next();
            let next =
                next.map_err(|error| gone(&format!("the helper's answer: {}", error.detail)))?;
            if let Some((header, body)) = next {
                let body = self.incoming.bytes(body).to_vec();
                if header.kind == FrameKind::Error && (header.tag == tag || header.tag == 0) {
                    return Err(ErrorReply::decode(&body)?.error);
                }
                if header.kind == FrameKind::Reply(ask) && header.tag == tag {
                    return Ok(body);
                }
                let found = format!("{:?} with tag {}", header.kind, header.tag);
                return Err(gone(&format!("expected the answer to request {tag}, found {found}")));
            }
            match self.incoming.fill() {
                Ok(0) => return Err(self.why_gone(&io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(self.why_gone(&error)),
            }
        }
    }

    /// What became of it, in words.
    #[cold]
    fn why_gone(&mut self, error: &io::Error) -> WalError {
        let pid = self.child.id();
        let hangs = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        if hangs {
            return gone(&format!("helper process {pid} did not answer within its deadline"));
        }
        if error.kind() == io::ErrorKind::InvalidData {
            return gone(&format!("helper process {pid}: {error}"));
        }
        match self.wait(END_WAIT) {
            Some(status) => gone(&format!("helper process {pid} ended: {status}")),
            None => gone(&format!("helper process {pid} closed its socket: {error}")),
        }
    }

    /// Makes sure that it never writes again: kills it and waits until it is no more.
    ///
    /// # Errors
    /// [`WalErrorKind::Io`]: it is inside a system call that does not end.
    pub(super) fn end_for_good(mut self) -> Result<()> {
        // It may have ended by itself.
        let _ = self.child.kill();
        let pid = self.child.id();
        if self.wait(END_WAIT).is_some() {
            return Ok(());
        }
        let detail = format!(
            "helper process {pid}: expected it to end when killed, found it still inside a write; the disk does not answer, see the kernel log"
        );
        Err(WalError::new(WalErrorKind::Io, detail))
    }

    /// Waits for its end, without reaping more than it.
    fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        let pid = Pid::from_raw(self.child.id() as i32)?;
        if let Ok(watched) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: 0 };
            let mut event = [PollFd::new(&watched, PollFlags::IN)];
            while rustix::event::poll(&mut event, Some(&timeout)) == Err(rustix::io::Errno::INTR) {}
        }
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if !self.opener.is_this_process() {
            // The helper and its socket are the parent's, which goes on using them.
            return;
        }
        // The end of its input tells it to finish.
        self.outgoing = None;
        self.incoming.shut_down();
        self.wait(END_WAIT);
    }
}

/// Why nobody answers any more.
#[cold]
fn gone(why: &str) -> WalError {
    WalError::new(WalErrorKind::Stopped, why.to_owned())
}
