//! Frames between a program and its helper, whichever way they go: a pipe or socket, or rings in
//! shared memory whose bell is that socket. Adds nothing to either.

use super::frame::{FrameKind, Header};
use super::region::{Direction, Region};
use super::ring_link::{RingIncoming, RingLink, RingOutgoing};
use super::transport;
use crate::error::Result;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// The direction in which frames come.
pub(super) enum Incoming {
    Descriptor(transport::Incoming),
    Ring(RingIncoming),
}

/// The direction in which frames go.
pub(super) enum Outgoing {
    Descriptor(transport::Outgoing),
    Ring(RingOutgoing),
}

/// Both directions over descriptors.
pub(super) fn over_descriptors(input: OwnedFd, output: OwnedFd) -> (Incoming, Outgoing) {
    let incoming = transport::Incoming::new(input);
    (Incoming::Descriptor(incoming), Outgoing::Descriptor(transport::Outgoing::new(output)))
}

/// Both directions over the rings of `region`; `outgoing` is the one that this side fills.
pub(super) fn over_rings(
    region: Region,
    socket: OwnedFd,
    outgoing: Direction,
    deadline: Option<Duration>,
) -> (Incoming, Outgoing) {
    let (incoming, outgoing) = RingLink::ends(region, socket, outgoing, deadline);
    (Incoming::Ring(incoming), Outgoing::Ring(outgoing))
}

impl Incoming {
    /// The next frame, if it has arrived whole.
    pub(super) fn next(&mut self) -> Result<Option<(Header, Range<usize>)>> {
        match self {
            Self::Descriptor(it) => it.next(),
            Self::Ring(it) => it.next(),
        }
    }

    /// The bytes of a body that was just handed out.
    pub(super) fn bytes(&self, body: Range<usize>) -> &[u8] {
        match self {
            Self::Descriptor(it) => it.bytes(body),
            Self::Ring(it) => it.bytes(body),
        }
    }

    /// The oldest open file that arrived and was not taken.
    pub(super) fn take_file(&mut self) -> Option<OwnedFd> {
        match self {
            Self::Descriptor(it) => it.take_file(),
            Self::Ring(it) => it.take_file(),
        }
    }

    /// Waits for more; returns 0 at the end.
    pub(super) fn fill(&mut self) -> io::Result<usize> {
        match self {
            Self::Descriptor(it) => it.fill(),
            Self::Ring(it) => it.fill(),
        }
    }

    /// Tells the other side that nothing more will come.
    pub(super) fn shut_down(&self) {
        match self {
            Self::Descriptor(it) => it.shut_down(),
            Self::Ring(it) => it.shut_down(),
        }
    }

    /// What stands in the way of ending here.
    pub(super) fn check_end(&mut self) -> Result<()> {
        match self {
            Self::Descriptor(it) => it.check_end(),
            Self::Ring(it) => it.check_end(),
        }
    }

    /// The socket, if a move to rings is possible now: nothing else is in it.
    pub(super) fn quiet_socket(&self) -> Option<io::Result<OwnedFd>> {
        match self {
            Self::Descriptor(it) => it.quiet_socket(),
            Self::Ring(_) => None,
        }
    }
}

impl Outgoing {
    /// Sends a frame whose body is `parts`, and an open file beside it.
    pub(super) fn send(
        &self,
        kind: FrameKind,
        tag: u64,
        handle: u32,
        parts: [&[u8]; 2],
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        match self {
            Self::Descriptor(it) => it.send(kind, tag, handle, parts, file),
            Self::Ring(it) => it.send(kind, tag, handle, parts, file),
        }
    }
}
