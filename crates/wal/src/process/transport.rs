//! Frames in and out of descriptors: a pipe, or a Unix stream socket that can carry open files.
//!
//! One frame's memory and a little more is all that is ever held of what the other side sends.
//! Frames are handed out where they lie, so that a body is copied once, by the kernel. Writing to
//! somebody who is gone is an error, never a signal.

use super::frame::{BODY_BYTES_MAX, FrameKind, HEADER_BYTES, Header, refused};
use crate::error::Result;
use nearhead_basics::little_endian::array_at;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Room for a frame and for what arrives behind it.
const BUFFER_BYTES: usize = HEADER_BYTES + BODY_BYTES_MAX + (64 << 10);
/// Open files that wait for their frames; more than that are closed unused.
const FILES_MAX: usize = 8;
/// Open files beside one message.
const FILES_AT_ONCE: usize = 4;

/// The direction in which frames come.
pub(super) struct Incoming {
    source: OwnedFd,
    is_socket: bool,
    buffer: Vec<u8>,
    /// What has arrived and was not handed out.
    filled: Range<usize>,
    files: VecDeque<OwnedFd>,
}

/// Whether it is one of the descriptors that carry open files, too.
pub(super) fn is_socket(fd: impl AsFd) -> bool {
    let mode = rustix::fs::fstat(fd).map(|stat| stat.st_mode);
    mode.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::Socket)
}

impl Incoming {
    pub(super) fn new(source: OwnedFd) -> Self {
        Self {
            is_socket: is_socket(&source),
            source,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0..0,
            files: VecDeque::new(),
        }
    }

    /// The next frame, if it has arrived whole: its header, and where its body lies until more is
    /// taken in.
    pub(super) fn next(&mut self) -> Result<Option<(Header, Range<usize>)>> {
        let Range { start, end } = self.filled;
        if end - start < HEADER_BYTES {
            return Ok(None);
        }
        let header = Header::decode(&array_at(&self.buffer, start))?;
        let body = start + HEADER_BYTES..start + HEADER_BYTES + header.body_bytes as usize;
        if end < body.end {
            return Ok(None);
        }
        self.filled.start = body.end;
        Ok(Some((header, body)))
    }

    /// The bytes of a body that was just handed out.
    pub(super) fn bytes(&self, body: Range<usize>) -> &[u8] {
        &self.buffer[body]
    }

    /// The oldest open file that arrived and was not taken.
    pub(super) fn take_file(&mut self) -> Option<OwnedFd> {
        self.files.pop_front()
    }

    /// Waits for more; returns how much came, 0 at the end.
    pub(super) fn fill(&mut self) -> io::Result<usize> {
        // Only what does not fit behind is moved: usually there is nothing left to move.
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.filled.start > 0 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let room = &mut self.buffer[self.filled.end..];
        let read = loop {
            let outcome = if self.is_socket {
                receive(&self.source, room, &mut self.files, RecvFlags::empty())
            } else {
                rustix::io::read(&self.source, &mut *room)
            };
            match outcome {
                Err(Errno::INTR) => {}
                outcome => break outcome?,
            }
        };
        self.filled.end += read;
        Ok(read)
    }

    /// Tells the other side that nothing more will come, whoever else holds this descriptor.
    pub(super) fn shut_down(&self) {
        if self.is_socket {
            // It may be gone already, which is as good.
            let _ = rustix::net::shutdown(&self.source, rustix::net::Shutdown::Write);
        }
    }

    /// Another descriptor of the socket, if it is one and everything that came was handed out.
    pub(super) fn quiet_socket(&self) -> Option<io::Result<OwnedFd>> {
        let is_quiet = self.is_socket && self.filled.is_empty() && self.files.is_empty();
        is_quiet.then(|| self.source.try_clone())
    }

    /// What stands in the way of ending here: part of a frame.
    pub(super) fn check_end(&self) -> Result<()> {
        if self.filled.is_empty() {
            return Ok(());
        }
        let found = self.filled.len();
        Err(refused(&format!("end of input: expected whole frames, found {found} bytes of one")))
    }
}

/// Receives bytes, and open files beside them.
pub(super) fn receive(
    socket: &OwnedFd,
    room: &mut [u8],
    files: &mut VecDeque<OwnedFd>,
    flags: RecvFlags,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_AT_ONCE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut rooms = [IoSliceMut::new(room)];
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let message = rustix::net::recvmsg(socket, &mut rooms, &mut control, flags)?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            // Taken out of the message whether kept or not: what is not kept is closed.
            let received: Vec<OwnedFd> = received.collect();
            let room = FILES_MAX.saturating_sub(files.len());
            files.extend(received.into_iter().take(room));
        }
    }
    Ok(message.bytes)
}

/// The direction in which frames go.
pub(super) struct Outgoing {
    sink: OwnedFd,
    is_socket: bool,
}

impl Outgoing {
    pub(super) fn new(sink: OwnedFd) -> Self {
        Self { is_socket: is_socket(&sink), sink }
    }

    /// Sends a frame whose body is `parts`, and an open file beside it.
    pub(super) fn send(
        &self,
        kind: FrameKind,
        tag: u64,
        handle: u32,
        parts: [&[u8]; 2],
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let body_bytes = (parts[0].len() + parts[1].len()) as u32;
        let header = Header { body_bytes, kind, tag, handle }.encode();
        let mut rest = [&header[..], parts[0], parts[1]];
        let mut file = file;
        while rest.iter().any(|part| !part.is_empty()) {
            let slices = rest.map(IoSlice::new);
            let outcome = if self.is_socket {
                send_message(&self.sink, &slices, file, SendFlags::empty())
            } else {
                rustix::io::writev(&self.sink, &slices)
            };
            match outcome {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(mut sent) => {
                    // It went with the first byte.
                    file = None;
                    for part in &mut rest {
                        let gone = sent.min(part.len());
                        *part = &part[gone..];
                        sent -= gone;
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Sends bytes, and an open file beside them.
pub(super) fn send_message(
    socket: &OwnedFd,
    slices: &[IoSlice<'_>],
    file: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(Errno::NOBUFS);
    }
    rustix::net::sendmsg(socket, slices, &mut control, flags | SendFlags::NOSIGNAL)
}
