//! The connection to the kernel behind a mounted folder: its descriptor, and what was agreed on in the first exchange.
//!
//! A session is either made by mounting a folder, or put together from those two values, which another process may have made. It keeps
//! true that each request gets at most one answer, in one `writev`. It must never wait for the kernel while it holds a lock.

mod block_source;
mod mounting;
mod negotiation;
mod receiving;
mod reply;

pub use mounting::{KernelFlags, MountOptions};
pub(crate) use negotiation::Negotiated;
pub(crate) use receiving::{Takes, receive_all};
pub(crate) use reply::Reply;

use crate::protocol::answer::header;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use zerocopy::IntoBytes;

/// Most pieces of one `writev`, with the answer's header (`UIO_MAXIOV` is 1,024).
const PIECES_MAX: usize = 512;

/// A connection to the kernel in the form in which processes pass it on.
#[derive(Debug)]
pub struct Connection {
    /// The mounted folder's descriptor of `/dev/fuse`.
    pub device: OwnedFd,
    /// Minor version of the protocol, agreed on in the first exchange.
    pub minor: u32,
    /// Abilities, agreed on in the first exchange (`linux/fuse.h`).
    pub flags: u32,
    /// The kernel sends requests again that a process left unanswered (Linux 6.9). Without it no process can go on.
    pub has_resend: bool,
}

impl Connection {
    /// Copies the connection, with a descriptor of its own.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let Self { minor, flags, has_resend, .. } = *self;
        Ok(Self { device: self.device.try_clone()?, minor, flags, has_resend })
    }
}

/// A connection whose first exchange is done.
#[derive(Debug)]
pub(crate) struct Session {
    device: OwnedFd,
    negotiated: Negotiated,
}

/// Result of waiting for a request.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    Message(usize),
    /// The folder was unmounted.
    Ended,
}

impl Session {
    /// Mounts a folder and has the first exchange.
    pub(crate) fn mount(folder: &Path, options: &MountOptions) -> io::Result<Self> {
        let device = mounting::mount(folder, options)?;
        match negotiation::negotiate(&device) {
            Ok(negotiated) => Ok(Self::from_parts(device, negotiated)),
            Err(error) => {
                drop(device);
                let _ = nearhead_one_file::unmount(folder);
                Err(error)
            }
        }
    }

    fn from_parts(device: OwnedFd, negotiated: Negotiated) -> Self {
        Self { device, negotiated }
    }

    /// A session that another process began.
    pub(crate) fn of(connection: Connection) -> Self {
        let Connection { device, minor, flags, has_resend } = connection;
        Self::from_parts(device, Negotiated { minor, flags, has_resend })
    }

    /// Connection for another process.
    pub(crate) fn connection(&self) -> io::Result<Connection> {
        let Negotiated { minor, flags, has_resend } = self.negotiated;
        Ok(Connection { device: self.device.try_clone()?, minor, flags, has_resend })
    }

    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Waits for a message of the kernel.
    fn receive(&self, into: &mut [u8]) -> io::Result<Received> {
        receive(self.device.as_fd(), into)
    }

    /// Sends an answer: its body first in `parts`. An error has no body.
    pub(crate) fn answer(&self, unique: u64, answer: Result<&[&[u8]], Errno>) -> io::Result<()> {
        send(self.device.as_fd(), unique, answer)
    }
}

impl Session {
    /// Sends a message that is no answer. The kernel may wait for answers of this process before it returns.
    pub(crate) fn notify(&self, message: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.device, message)?;
        Ok(())
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn receive(device: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Received> {
    loop {
        match rustix::io::readv(device, &mut [IoSliceMut::new(into)]) {
            Ok(len) => return Ok(Received::Message(len)),
            Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Ended),
            // The caller of the request gave up while it was being read.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn send(device: BorrowedFd<'_>, unique: u64, answer: Result<&[&[u8]], Errno>) -> io::Result<()> {
    let parts = answer.unwrap_or_default();
    let joined: Vec<u8>;
    let joined_only: [&[u8]; 1];
    let parts = if parts.len() < PIECES_MAX {
        parts
    } else {
        joined = parts.concat();
        joined_only = [&joined];
        &joined_only
    };
    let result = answer.map(|_| ());
    let front = header(unique, result, parts.iter().map(|part| part.len()).sum());
    let mut pieces = Vec::with_capacity(1 + parts.len());
    pieces.push(IoSlice::new(front.as_bytes()));
    pieces.extend(parts.iter().map(|part| IoSlice::new(part)));
    match rustix::io::writev(device, &pieces) {
        // The caller of the request gave up, or the folder was unmounted.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
