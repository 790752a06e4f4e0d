//! The header of a frame between a program and its helper process, byte by byte. No I/O.
//!
//! Both sides check what the other sent before one field is used: the bound of the body, reserved
//! fields, the range of the handle. What fails here cannot be skipped, since nobody knows where the
//! next frame begins. docs/wal-helper.md is the specification.

use crate::error::{Result, WalError, WalErrorKind};
use nearhead_basics::little_endian::{put, u16_at, u32_at, u64_at};

/// Of this protocol. A helper refuses any other.
pub(crate) const VERSION: u16 = 1;
/// First of every `HELLO`.
pub(crate) const MAGIC: [u8; 4] = *b"NHWP";
/// Bytes before the body.
pub const HEADER_BYTES: usize = 20;
/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Streams, logs and files that one helper has open at most.
pub const HANDLES_MAX: u32 = 64;
/// What a reply's kind has that its request's has not.
const REPLY: u16 = 0x8000;
/// The kind of an error.
const ERROR: u16 = 0xFFFF;

/// What a request asks for, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Ask {
    /// The first frame: version, and what would write in a directory.
    Hello = 1,
    /// Opens a stream.
    OpenStream = 2,
    /// Adds bytes to a stream.
    Write = 3,
    /// Makes a stream durable.
    Sync = 4,
    /// Where a stream is.
    Position = 5,
    /// Cuts a stream.
    Truncate = 6,
    /// Closes a stream, log or file.
    Close = 7,
    /// Reads from a stream.
    Read = 8,
    /// Takes up again after there was no room.
    Resume = 9,
    /// Opens a log.
    OpenLog = 16,
    /// Adds a record.
    Append = 17,
    /// Makes all records durable.
    Commit = 18,
    /// Gives up the oldest records.
    TruncatePrefix = 19,
    /// Reads records.
    Records = 20,
    /// Shares an open file.
    OpenFile = 32,
    /// Writes to one, durably.
    WriteAt = 33,
    /// Goes on through rings in shared memory.
    OpenRing = 34,
}

impl Ask {
    /// Every request there is.
    pub(crate) const ALL: [Self; 17] = [
        Self::Hello,
        Self::OpenStream,
        Self::Write,
        Self::Sync,
        Self::Position,
        Self::Truncate,
        Self::Close,
        Self::Read,
        Self::Resume,
        Self::OpenLog,
        Self::Append,
        Self::Commit,
        Self::TruncatePrefix,
        Self::Records,
        Self::OpenFile,
        Self::WriteAt,
        Self::OpenRing,
    ];

    pub(crate) fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|ask| *ask as u16 == number)
    }

    /// Whether it is answered also when it succeeds.
    pub(crate) fn has_reply(self) -> bool {
        !matches!(self, Self::Write | Self::Append)
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Request(Ask),
    Reply(Ask),
    Error,
    /// A request of this number, which is none: it can be refused and skipped.
    Unknown(u16),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Length of what follows.
    pub(crate) body_bytes: u32,
    /// Says how to read it.
    pub(crate) kind: FrameKind,
    /// Tells which request a reply is for.
    pub(crate) tag: u64,
    /// Stream, log or file.
    pub(crate) handle: u32,
}

impl Header {
    /// As it goes over the wire.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            FrameKind::Request(ask) => ask as u16,
            FrameKind::Reply(ask) => ask as u16 | REPLY,
            FrameKind::Error => ERROR,
            FrameKind::Unknown(number) => number,
        };
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &self.body_bytes.to_le_bytes());
        put(&mut bytes, 4, &kind.to_le_bytes());
        put(&mut bytes, 8, &self.tag.to_le_bytes());
        put(&mut bytes, 16, &self.handle.to_le_bytes());
        bytes
    }

    /// The header that the other side sent.
    ///
    /// # Errors
    /// [`WalErrorKind::OutOfRange`]: these bytes are not the header of a frame.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        let body_bytes = u32_at(bytes, 0);
        let (number, zero) = (u16_at(bytes, 4), u16_at(bytes, 6));
        let (tag, handle) = (u64_at(bytes, 8), u32_at(bytes, 16));
        let wrong = |field: &str, expected: &str, found: u64| {
            Err(refused(&format!("frame header: {field}: expected {expected}, found {found}")))
        };
        if body_bytes as usize > BODY_BYTES_MAX {
            return wrong("body_bytes", "at most 1048576", u64::from(body_bytes));
        }
        if zero != 0 {
            return wrong("reserved", "0", u64::from(zero));
        }
        if handle >= HANDLES_MAX {
            return wrong("handle", "0 to 63", u64::from(handle));
        }
        let kind = if number == ERROR {
            FrameKind::Error
        } else if let Some(ask) = Ask::from_number(number) {
            FrameKind::Request(ask)
        } else if let Some(ask) = Ask::from_number(number & !REPLY) {
            FrameKind::Reply(ask)
        } else {
            FrameKind::Unknown(number)
        };
        // An error that belongs to no request has no tag.
        if tag == 0 && kind != FrameKind::Error {
            return wrong("tag", "any number but 0", 0);
        }
        Ok(Self { body_bytes, kind, tag, handle })
    }
}

/// What is against the protocol.
#[cold]
pub(crate) fn refused(what: &str) -> WalError {
    let detail = format!("{what}; both sides must follow docs/wal-helper.md, version {VERSION}");
    WalError::new(WalErrorKind::OutOfRange, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for ask in Ask::ALL {
            for kind in [FrameKind::Request(ask), FrameKind::Reply(ask), FrameKind::Error] {
                let header = Header { body_bytes: 1 << 20, kind, tag: u64::MAX, handle: 63 };
                assert_eq!(Header::decode(&header.encode()), Ok(header));
            }
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        let good = Header { body_bytes: 5, kind: FrameKind::Request(Ask::Sync), tag: 7, handle: 1 };
        let bad = [
            (2, 0x11, "body_bytes"),
            (6, 1, "reserved"),
            (8, 0, "tag"),
            (16, 64, "handle"),
            (19, 1, "handle"),
        ];
        for (at, byte, field) in bad {
            let mut bytes = good.encode();
            bytes[at] = byte;
            let error = Header::decode(&bytes).unwrap_err();
            assert_eq!(error.kind, WalErrorKind::OutOfRange);
            assert!(error.detail.contains(field), "{error}");
        }
        let mut bytes = good.encode();
        bytes[4] = 99;
        assert_eq!(Header::decode(&bytes).unwrap().kind, FrameKind::Unknown(99));
    }
}
