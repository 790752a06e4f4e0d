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
    /// Workers that opened the volume since, each of which may have raised the generation once.
    pub(crate) openings: u64,
}

/// Connection of a mount without its descriptor, with the mount and the volume.
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

    /// The same for a worker that opens the volume once more.
    pub(super) fn opened_again(mut self) -> Self {
        self.volume.openings += 1;
        self
    }

    pub(super) fn connection(self, device: OwnedFd) -> Connection {
        let Self { minor, flags, has_resend, .. } = self;
        Connection { device, minor, flags, has_resend }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// Orders a worker to mount the folder, or to go on with a connection. The log comes with it, then the connection.
    Serve { go_on: Option<Agreed> },
    /// Reports that the folder is mounted. The connection comes with it.
    Mounted(Agreed),
    /// Reports that the folder can be used. The answer follows once `umount` can wait for this supervisor.
    Ready(VolumeMark),
    /// Answers [`Message::Ready`].
    Noted,
    /// Asks for the end of the mount, as the worker got a signal or a command.
    Stop,
    /// Reports that no worker can go on: the survival log or the volume does not allow it.
    GiveUp,
    /// Orders a supervisor that a worker started to supervise that worker. Log and connection come with it.
    Supervise { worker: u32, agreed: Agreed },
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
