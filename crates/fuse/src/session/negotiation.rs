//! The first exchange with the kernel: version, sizes and abilities of both sides.
//!
//! The kernel's abilities are asked for one by one, so that an older kernel does without those that it lacks. The result is a value that
//! another process can go on with.

use super::{Received, receive, send};
use crate::protocol::answer::Body;
use crate::protocol::wire::{InitIn, InitOut, init_flag};
use crate::protocol::{Operation, Request, decode};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Largest write and longest read ahead, in bytes.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends in the background without waiting for answers.
const REQUESTS_MAX: u16 = 128;
/// Length of the kernel's longest message: a write, and a page for what is in front of its bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX as usize + 4096;
/// Versions of the protocol: the one whose structures are used here (Linux 6.6), and the oldest that has all of them that are needed
/// (Linux 5.4).
const MAJOR: u32 = 7;
const MINOR: u32 = 39;
const MINOR_MIN: u32 = 31;
/// Granularity of times, in nanoseconds.
const TIME_GRANULARITY_NS: u32 = 1;
/// Page of every machine that is supported, in bytes.
const PAGE_BYTES: u32 = 4096;

/// Abilities asked for.
const WANTED: u32 = init_flag::ASYNC_READ
    | init_flag::BIG_WRITES
    | init_flag::MAX_PAGES
    | init_flag::ASYNC_DIO
    | init_flag::PARALLEL_DIROPS
    | init_flag::NO_OPEN_SUPPORT
    | init_flag::NO_OPENDIR_SUPPORT
    | init_flag::CACHE_SYMLINKS
    | init_flag::EXPORT_SUPPORT
    | init_flag::POSIX_ACL
    | init_flag::DONT_MASK
    | init_flag::HAS_IOCTL_DIR
    // Without it the kernel asks for a file's capabilities before each write.
    | init_flag::HANDLE_KILLPRIV_V2;

/// Result of the first exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// Minor version of the protocol that both sides speak.
    pub(crate) minor: u32,
    /// Abilities that both sides have, of `wire::init_flag`.
    pub(crate) flags: u32,
    /// The kernel sends unanswered requests again when it is asked to (Linux 6.9).
    pub(crate) has_resend: bool,
}

/// The answer to the kernel's first request. An error if the kernel is too old.
pub(super) fn agreed(asked: &InitIn) -> Result<(Negotiated, InitOut), Errno> {
    if asked.major != MAJOR || asked.minor < MINOR_MIN {
        return Err(Errno::PROTO);
    }
    let flags = asked.flags & WANTED;
    let minor = asked.minor.min(MINOR);
    let answer = InitOut {
        major: MAJOR,
        minor,
        max_readahead: asked.max_readahead.min(REQUEST_BYTES_MAX),
        flags,
        max_background: REQUESTS_MAX,
        congestion_threshold: REQUESTS_MAX,
        max_write: REQUEST_BYTES_MAX,
        time_gran: TIME_GRANULARITY_NS,
        max_pages: (REQUEST_BYTES_MAX / PAGE_BYTES) as u16,
        ..InitOut::default()
    };
    let has_resend =
        asked.flags & init_flag::INIT_EXT != 0 && asked.flags2 & init_flag::HAS_RESEND_2 != 0;
    Ok((Negotiated { minor, flags, has_resend }, answer))
}

/// Has the first exchange over `device`.
pub(super) fn negotiate(device: &OwnedFd) -> io::Result<Negotiated> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    loop {
        let Received::Message(len) = receive(device.as_fd(), &mut bytes)? else {
            return Err(io::Error::other("it was unmounted before it was used"));
        };
        let message = bytes.get(..len).unwrap_or_default();
        let Some(Request { header, operation: Ok(Operation::Init(asked)) }) = decode(message)
        else {
            return Err(io::Error::other("expected the kernel's first request, found another"));
        };
        if asked.major > MAJOR {
            // The kernel asks again with our major version (linux/fuse.h).
            let ours = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
            send(device.as_fd(), header.unique, Ok(&[&Body::of(&ours).0]))?;
            continue;
        }
        let Ok((negotiated, answer)) = agreed(&asked) else {
            send(device.as_fd(), header.unique, Err(Errno::PROTO))?;
            let (major, minor) = (asked.major, asked.minor);
            return Err(io::Error::other(format!(
                "expected FUSE {MAJOR}.{MINOR_MIN} (Linux 5.4) or later, found {major}.{minor}"
            )));
        };
        send(device.as_fd(), header.unique, Ok(&[&Body::of(&answer).0]))?;
        return Ok(negotiated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(minor: u32, flags: u32) -> InitIn {
        InitIn { major: 7, minor, max_readahead: 128 << 10, flags, ..InitIn::default() }
    }

    #[test]
    fn the_older_version_and_common_abilities_count() {
        let (negotiated, answer) = agreed(&asked(45, u32::MAX)).unwrap();
        assert_eq!((negotiated.minor, negotiated.flags), (MINOR, WANTED));
        assert_eq!((answer.minor, answer.max_readahead, answer.max_pages), (MINOR, 128 << 10, 256));
        let (negotiated, answer) = agreed(&asked(31, init_flag::ASYNC_READ)).unwrap();
        assert_eq!((negotiated.minor, negotiated.flags), (31, init_flag::ASYNC_READ));
        assert_eq!((answer.minor, answer.flags), (31, init_flag::ASYNC_READ));
    }

    #[test]
    fn resending_is_found_where_the_second_flags_count() {
        let both = InitIn { flags2: u32::MAX, ..asked(41, init_flag::INIT_EXT) };
        assert!(agreed(&both).unwrap().0.has_resend);
        assert!(!agreed(&InitIn { flags: 0, ..both }).unwrap().0.has_resend);
        assert!(!agreed(&InitIn { flags2: 0, ..both }).unwrap().0.has_resend);
    }

    #[test]
    fn an_older_kernel_is_refused() {
        assert_eq!(agreed(&asked(30, 0)).unwrap_err(), Errno::PROTO);
    }
}
