//! The connection to the kernel behind a mounted folder: made once, and handed from one process to the next.
//!
//! Whoever has a descriptor of it keeps the folder mounted; the kernel does not care who reads and answers. What was read by a process that
//! is no more is sent again when its successor asks for it ([`Connection::resend`], Linux 6.9), under the same number with a mark in it.
//! Answers are sent as they are, once; it never waits for the kernel.

use super::words::{self, Question};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSliceMut};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Largest request, in bytes: what a loop device sends at most.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Most requests that the kernel sends without waiting for replies: the depth of a loop device's queue.
const REQUESTS_MAX: u16 = 128;
const DEVICE: &str = "/dev/fuse";

/// A connection whose first exchange is done.
#[derive(Debug)]
pub struct Connection {
    device: OwnedFd,
}

/// A folder that was mounted.
#[derive(Debug)]
pub struct Joined {
    /// The connection behind it.
    pub connection: Connection,
    /// Whether another process can go on where one was killed: the kernel sends again what that one had not answered.
    pub can_resend: bool,
}

/// What came of asking the kernel for a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// None at the moment.
    Nothing,
    /// It was unmounted: there will be no more.
    Ended,
}

impl Connection {
    /// Mounts a folder that holds nothing yet but what whoever serves this connection says.
    pub fn mount(folder: &Path) -> Result<Joined, String> {
        let failed = |error: io::Error| {
            let place = folder.display();
            format!(
                "cannot mount a file system at {place}: {error}; expected root, an empty folder and {DEVICE}"
            )
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device = rustix::fs::open(DEVICE, flags, Mode::empty());
        let device = device.map_err(|errno| failed(errno.into()))?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let options = format!(
            "fd={},rootmode=40000,user_id={},group_id={}",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        let options = CString::new(options).map_err(|error| failed(error.into()))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("nearhead", folder, "fuse.disk", flags, options.as_c_str())
            .map_err(|errno| failed(errno.into()))?;
        let connection = Self { device };
        match connection.shake_hands() {
            Ok(can_resend) => Ok(Joined { connection, can_resend }),
            Err(error) => {
                let _ = rustix::mount::unmount(folder, UnmountFlags::DETACH);
                Err(failed(error))
            }
        }
    }

    /// The one that another process made and hands over.
    pub fn inherited(device: OwnedFd) -> Self {
        Self { device }
    }

    /// Another descriptor of it, for another process.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.device.try_clone()
    }

    /// Whether the folder was unmounted.
    pub fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut descriptors = [PollFd::new(&self.device, PollFlags::IN)];
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = poll(&mut descriptors, Some(&none));
        descriptors[0].revents().contains(PollFlags::ERR)
    }

    /// The first question, which the kernel asks when it mounts, and its answer; whether it can send again.
    fn shake_hands(&self) -> io::Result<bool> {
        let mut bytes = vec![0; 8192 + REQUEST_BYTES_MAX];
        let len = rustix::io::read(&self.device, bytes.as_mut_slice())?;
        let asked = words::asked(bytes.get(..len).unwrap_or_default());
        let Some(words::Asked { unique, question }) = asked else {
            return Err(io::Error::other("expected the kernel's first question, found less"));
        };
        let Question::Init { minor, readahead_max, flags } = question else {
            return Err(io::Error::other(format!(
                "expected the kernel's first question, found {question:?}"
            )));
        };
        if !words::is_new_enough(minor, flags) {
            self.answer(unique, Err(Errno::PROTO))?;
            return Err(io::Error::other(format!(
                "expected FUSE 7.31 (Linux 5.4) with asynchronous direct I/O or later, found 7.{minor}"
            )));
        }
        let answer = words::init(readahead_max, flags, REQUEST_BYTES_MAX as u32, REQUESTS_MAX);
        self.answer(unique, Ok(&[&answer]))?;
        Ok(words::can_resend(flags))
    }

    /// The next question: its first [`words::WRITE_HEADER_BYTES`] in `front`, the rest in `rest`, which has room for the largest.
    pub(super) fn receive(&self, front: &mut [u8], rest: &mut [u8]) -> io::Result<Received> {
        loop {
            let mut into = [IoSliceMut::new(front), IoSliceMut::new(rest)];
            match rustix::io::readv(&self.device, &mut into) {
                Ok(len) => return Ok(Received::Bytes(len)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Ended),
                // Somebody gave up waiting for it meanwhile.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Answers a question: with bytes, which may be none, or with an error.
    pub(super) fn answer(&self, unique: u64, answer: Result<&[&[u8]], Errno>) -> io::Result<()> {
        let (error, parts) = match answer {
            Ok(parts) => (0, parts),
            Err(errno) => (-errno.raw_os_error(), &[] as &[&[u8]]),
        };
        let front = words::front(unique, error, parts.iter().map(|part| part.len()).sum());
        let whole: Vec<IoSlice<'_>> = std::iter::once(front.as_slice())
            .chain(parts.iter().copied())
            .map(IoSlice::new)
            .collect();
        match rustix::io::writev(&self.device, &whole) {
            // Nobody waits for it any more, or nobody at all.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Lets the kernel send again all that was read and not answered, by whomever. Whoever asks has answered nothing yet.
    pub fn resend(&self) -> io::Result<()> {
        rustix::io::write(&self.device, &words::resend())?;
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
