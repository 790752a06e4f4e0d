//! The program's side: a connection to the guardian, and the files that it watches.

use super::mark::Mark;
use super::serve::{Message, address};
use super::tail::{Ending, Tail};
use nearhead_uring::{Lease, take_lease};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, connect, recv, send, sendmsg, socket_with,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Longest wait for the guardian's greeting: it settles what an earlier program of this process left.
const GREETING_WAIT_SECONDS: i64 = 10;

/// The connection.
pub struct Client {
    socket: OwnedFd,
}

impl Client {
    /// Connects to the guardian called `name`, and waits until it knows this process.
    ///
    /// # Errors
    /// Errors of the system calls; `TimedOut` if the guardian does not answer.
    pub fn connect(name: &[u8]) -> io::Result<Arc<Self>> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &address(name)?)?;
        let timeout = Timespec { tv_sec: GREETING_WAIT_SECONDS, tv_nsec: 0 };
        let mut event = [PollFd::new(&socket, PollFlags::IN)];
        while poll(&mut event, Some(&timeout)) == Err(rustix::io::Errno::INTR) {}
        let mut greeting = [0; 1];
        let read = recv(&socket, &mut greeting, RecvFlags::DONTWAIT)?;
        if read.0 == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(Arc::new(Self { socket }))
    }

    /// Has the guardian watch `file`, an open file of `len` bytes that this process writes: from now on
    /// zeros may follow its content, and the mark on it says so durably.
    ///
    /// # Errors
    /// Where marks or leases do not work, or the guardian is gone: the file is as before.
    pub fn watch(self: &Arc<Self>, file: OwnedFd, len: u64) -> io::Result<Watched> {
        // It is open here, so a lease is refused: for that reason and no other.
        if take_lease(&file)? == Lease::Taken {
            return Err(io::Error::other("another thread has closed it"));
        }
        let stream = new_number()?;
        let ending = Ending { durable: len, end: len, size: len, dirty_end: len };
        let tail = Tail::create(ending)?;
        let mark = Mark { stream, end_min: len };
        let watched = Watched { client: Arc::clone(self), file, mark, ending, tail };
        // The guardian first: a mark that it does not know would stay after the program's death.
        watched.register()?;
        let marked = mark.set(&watched.file);
        let marked = marked.and_then(|()| Ok(rustix::fs::fsync(&watched.file)?));
        if let Err(error) = marked {
            // There are no zeros, and so no mark.
            let _ = Mark::remove(&watched.file);
            return Err(error);
        }
        Ok(watched)
    }

    /// The number of its descriptor: a program that closes descriptors it does not know must leave it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A number that no other stream has.
fn new_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

/// A file that the guardian watches.
pub struct Watched {
    client: Arc<Client>,
    file: OwnedFd,
    mark: Mark,
    ending: Ending,
    tail: Tail,
}

impl Watched {
    fn register(&self) -> io::Result<()> {
        let message = Message::Watch(self.mark.stream).encode();
        // By a descriptor that does not count as an opening: the guardian takes a lease.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let named = rustix::fs::open(path, flags, Mode::empty())?;
        let files = [named.as_fd(), self.tail.file()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        sendmsg(&self.client.socket, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Bytes are about to be added at the end.
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tail.put(self.ending.end, bytes)?;
        let end = self.ending.end + bytes.len() as u64;
        let dirty_end = self.ending.dirty_end.max(end);
        self.change(Ending { end, size: self.ending.size.max(end), dirty_end, ..self.ending })
    }

    /// The content ends at `end`, of which `durable` bytes are durable, and the program sees `size`.
    pub fn set(&mut self, durable: u64, end: u64, size: u64) -> io::Result<()> {
        let ending = Ending { durable, end, size: size.max(end), dirty_end: end };
        if ending == self.ending { Ok(()) } else { self.change(ending) }
    }

    /// The content is about to be cut to `len`, or to grow by zeros up to `size`.
    pub fn cut(&mut self, len: u64, size: u64) -> io::Result<()> {
        let dirty_end = self.ending.dirty_end.max(self.ending.end);
        let durable = self.ending.durable.min(len);
        self.change(Ending { durable, end: len, size: size.max(len), dirty_end })
    }

    fn change(&mut self, ending: Ending) -> io::Result<()> {
        self.tail.set(ending)?;
        self.ending = ending;
        Ok(())
    }

    /// The newest byte that is about to be durable is a zero: moves the mark's offset to `end` first.
    pub fn reach(&mut self, end: u64) -> io::Result<()> {
        let mark = Mark { end_min: end, ..self.mark };
        mark.set(&self.file)?;
        rustix::fs::fsync(&self.file)?;
        self.mark = mark;
        Ok(())
    }

    /// The file has been cut to its content, durably: no mark is needed any more.
    pub fn end(self) -> io::Result<()> {
        Mark::remove(&self.file)?;
        rustix::fs::fsync(&self.file)?;
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let message = Message::Leave(self.mark.stream).encode();
        // A guardian that is gone has nothing to leave.
        let _ = send(&self.client.socket, &message, SendFlags::NOSIGNAL);
    }
}
