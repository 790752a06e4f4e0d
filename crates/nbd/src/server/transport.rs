//! Between a socket and a machine, in the clear or through TLS.
//!
//! In the clear a payload goes from the socket straight into its aligned buffer, and from a
//! service's buffers straight to the socket. Nothing here ever blocks.

use super::tls::{Pulled, Session, Sessions, TlsSession};
use crate::protocol::{Machine, SLICES_MAX};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most encrypted bytes taken from a socket at once.
const ENCRYPTED_BYTES: usize = 16 * 1024;

/// A client's socket.
pub(crate) struct Transport {
    socket: OwnedFd,
    tls: Option<TlsSession>,
}

/// What a receive gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes for the machine.
    Bytes {
        /// Whether there may be more at once.
        more: bool,
    },
    /// Nothing for now.
    Nothing,
    /// The client will send nothing more.
    End,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }

    /// Encrypts from here on.
    pub(crate) fn start_tls(&mut self, sessions: &dyn Sessions) -> io::Result<()> {
        self.tls = Some(sessions.begin()?);
        Ok(())
    }

    /// Whether TLS is on.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Receives once into `machine`.
    pub(crate) fn receive(
        &mut self,
        machine: &mut Machine,
        staging: &mut Vec<u8>,
    ) -> io::Result<Received> {
        match &mut self.tls {
            None => receive_plain(&self.socket, machine, staging),
            Some(session) => receive_tls(&self.socket, &mut **session, machine, staging),
        }
    }

    /// Sends what waits in `machine`; true when nothing is left.
    pub(crate) fn send(&mut self, machine: &mut Machine) -> io::Result<bool> {
        match &mut self.tls {
            None => send_plain(&self.socket, machine),
            Some(session) => send_tls(&self.socket, &mut **session, machine),
        }
    }

    /// Says goodbye as far as the socket takes it at once.
    pub(crate) fn close(&mut self) {
        if let Some(session) = &mut self.tls {
            session.close();
            // Best effort: a client that left does not hear it.
            let _ = session.send(&mut Socket(&self.socket));
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive_plain(
    socket: &OwnedFd,
    machine: &mut Machine,
    staging: &mut Vec<u8>,
) -> io::Result<Received> {
    let [payload, headers] = machine.receive_slices(staging);
    let room = payload.len() + headers.len();
    let found = if payload.is_empty() {
        if headers.is_empty() {
            return Ok(Received::Nothing);
        }
        rustix::io::read(socket, headers)
    } else {
        rustix::io::readv(socket, &mut [IoSliceMut::new(payload), IoSliceMut::new(headers)])
    };
    match found {
        Ok(0) => Ok(Received::End),
        Ok(len) => {
            machine.received(len);
            Ok(Received::Bytes { more: len == room })
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
        Err(errno) => Err(errno.into()),
    }
}

fn receive_tls(
    socket: &OwnedFd,
    session: &mut dyn Session,
    machine: &mut Machine,
    staging: &mut Vec<u8>,
) -> io::Result<Received> {
    let mut looked = false;
    loop {
        let [payload, headers] = machine.receive_slices(staging);
        let target = if payload.is_empty() { headers } else { payload };
        match session.pull(target)? {
            Pulled::Bytes(0) => return Ok(Received::Nothing),
            Pulled::Bytes(len) => {
                machine.received(len);
                return Ok(Received::Bytes { more: true });
            }
            Pulled::End => return Ok(Received::End),
            Pulled::Starved if looked => return Ok(Received::Nothing),
            Pulled::Starved => {}
        }
        looked = true;
        let mut encrypted = [0; ENCRYPTED_BYTES];
        match rustix::io::read(socket, &mut encrypted[..]) {
            Ok(0) => return Ok(Received::End),
            Ok(len) => session.take_encrypted(&encrypted[..len]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends what the socket takes at this moment; none if that is nothing.
pub(crate) fn send_some(socket: &OwnedFd, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    let mut ancillary = SendAncillaryBuffer::default();
    match rustix::net::sendmsg(socket, slices, &mut ancillary, SendFlags::NOSIGNAL) {
        Ok(sent) => Ok(Some(sent)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn send_plain(socket: &OwnedFd, machine: &mut Machine) -> io::Result<bool> {
    let outbox = machine.outbox();
    while !outbox.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = outbox.slices(&mut slices);
        let Some(sent) = send_some(socket, &slices[..count])? else { return Ok(false) };
        outbox.advance(sent);
    }
    Ok(true)
}

fn send_tls(
    socket: &OwnedFd,
    session: &mut dyn Session,
    machine: &mut Machine,
) -> io::Result<bool> {
    let outbox = machine.outbox();
    loop {
        while !outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = outbox.slices(&mut slices);
            let taken = session.push(&slices[..count])?;
            if taken == 0 {
                break;
            }
            outbox.advance(taken);
        }
        if !session.wants_send() {
            return Ok(outbox.is_empty());
        }
        match session.send(&mut Socket(socket)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// A socket as TLS writes to it.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send_some(self.0, slices)?.ok_or(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
