//! The socket between the supervisor of a mount and its worker: each message is a line of JSON, some with descriptors.
//!
//! The socket is the standard input of the process that is started. Its end is how one process learns that the other has ended.

use nearhead_fuse::Connection;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Descriptors of one message, at most: the log and the connection.
const DESCRIPTORS_MAX: usize = 2;

/// The volume of a mount: a worker that finds another one, or a changed one, must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeMark {
    /// Names the volume.
    pub(crate) volume_id: [u8; 16],
    /// Newest generation of its devices when the last worker that served opened it; 0 if they have none.
    pub(crate) generation: u64,
    /// Openings by workers since, each of which may have raised the generation once.
    pub(crate) openings: u64,
}

/// What both sides of the kernel agreed on, without the descriptor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Agreed {
    minor: u32,
    flags: u32,
    has_resend: bool,
    /// Device number of the mount; none if the kernel's table did not show it.
    pub(super) mount: Option<u64>,
    pub(super) volume: VolumeMark,
}

impl Agreed {
    pub(super) fn of(connection: &Connection, mount: Option<u64>, volume: VolumeMark) -> Self {
        let Connection { minor, flags, has_resend, .. } = *connection;
        Self { minor, flags, has_resend, mount, volume }
    }

    pub(super) fn connection(self, device: OwnedFd) -> Connection {
        let Self { minor, flags, has_resend, .. } = self;
        Connection { device, minor, flags, has_resend }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// To a worker, with the log: mount the folder, or go on with the connection, which comes behind the log.
    Serve {
        go_on: Option<Agreed>,
    },
    /// Of a worker, with the connection: the folder is mounted.
    Mounted(Agreed),
    /// Of a worker: the folder can be used. The answer follows once `umount` can wait for this supervisor.
    Ready(VolumeMark),
    Noted,
    /// Of a worker that was asked to end: unmount the folder.
    Stop,
    /// Of a worker: no worker can go on, as the survival log is incomplete.
    GiveUp,
    /// To a supervisor that a worker started, with log and connection: supervise this process.
    Supervise {
        worker: u32,
        agreed: Agreed,
    },
}

/// One end of the socket.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Both ends.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), other))
    }

    /// The end that this process was started with.
    pub(super) fn inherited() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Sends a message with descriptors.
    pub(super) fn send(&self, message: &Message, with: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !with.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(with)) {
            return Err(io::Error::other("more descriptors than a message takes (internal error)"));
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next message; none once the other process has ended.
    pub(super) fn receive(&self) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
        let mut text = [0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut into = [IoSliceMut::new(&mut text)];
            match recvmsg(&self.0, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("no descriptor is left for what another process passes"));
        }
        let message = serde_json::from_slice(&text[..received.bytes])?;
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(Some((message, descriptors.flatten().collect())))
    }
}
