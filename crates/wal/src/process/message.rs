//! The bodies of the frames between a program and its helper, byte by byte. No I/O.
//!
//! A body is decoded once, here, into what it means; nobody else looks at its bytes. Every field is
//! checked: reserved bytes are zero, flags are 0 or 1, paths are paths. No input makes anything
//! here panic, and memory is taken for what did arrive only. docs/wal-helper.md is the
//! specification, and its golden bytes are the test's.

use super::frame::{Ask, MAGIC, VERSION, refused};
use crate::error::{Result, WalError, WalErrorKind};
use crate::log::{LogOptions, Lsn};
use crate::open_stream::{Begin, OpenStream};
use crate::stream::StreamOptions;
use nearhead_basics::little_endian::{array_at, u16_at, u32_at, u64_at};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest path, as for the kernel (`PATH_MAX` less the terminator).
const PATH_BYTES_MAX: usize = 4095;
/// Longest text in a reply.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;
/// Largest record that `RECORDS` can carry in a frame.
pub(crate) const RECORD_BYTES_MAX: u32 = 1_048_000;
/// Before each record of a `RECORDS` reply.
pub(crate) const RECORD_PREFIX_BYTES: usize = 16;
/// Of `OPEN_STREAM`, before the path.
const STREAM_BYTES: usize = 32;
/// Of `OPEN_LOG`, before the path.
const LOG_BYTES: usize = 16;
/// Of `ERROR`, before the text.
const ERROR_BYTES: usize = 24;
/// Most memory that an opening may ask for.
const BUFFER_BYTES_MAX: u32 = 16 << 20;

/// The log that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLog {
    /// Its directory.
    pub path: PathBuf,
    /// Whether it is made if it is not there.
    pub create: bool,
    /// Sizes and bounds.
    pub options: LogOptions,
}

/// A request, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Hello { directory: Option<PathBuf> },
    OpenStream(OpenStream),
    Write(&'a [u8]),
    Sync,
    Position,
    Truncate(u64),
    Close,
    Read { offset: u64, len: u32 },
    Resume,
    OpenLog(OpenLog),
    Append(&'a [u8]),
    Commit,
    TruncatePrefix(Lsn),
    Records { from: Lsn },
    OpenFile,
    WriteAt { offset: u64, bytes: &'a [u8] },
    OpenRing { ring_bytes: u32 },
}

impl<'a> Request<'a> {
    /// What `ask` with this body means.
    ///
    /// # Errors
    /// [`WalErrorKind::OutOfRange`]; the frame can be skipped.
    pub(crate) fn decode(ask: Ask, body: &'a [u8]) -> Result<Self> {
        let fixed = match ask {
            Ask::Hello
            | Ask::Truncate
            | Ask::TruncatePrefix
            | Ask::OpenFile
            | Ask::WriteAt
            | Ask::OpenRing => 8,
            Ask::OpenStream => STREAM_BYTES,
            Ask::OpenLog | Ask::Read | Ask::Records => LOG_BYTES,
            _ => 0,
        };
        let has_rest = matches!(
            ask,
            Ask::Hello | Ask::OpenStream | Ask::OpenLog | Ask::Write | Ask::Append | Ask::WriteAt
        );
        if body.len() < fixed || (body.len() > fixed && !has_rest) {
            let found = body.len();
            return Err(refused(&format!("{ask:?}: body: expected {fixed} bytes, found {found}")));
        }
        let rest = &body[fixed..];
        Ok(match ask {
            Ask::Hello => {
                check_hello(body)?;
                let directory = (!rest.is_empty()).then(|| path_of(rest)).transpose()?;
                Self::Hello { directory }
            }
            Ask::OpenStream => Self::OpenStream(OpenStream::decode(body, rest)?),
            Ask::Write => Self::Write(rest),
            Ask::Sync => Self::Sync,
            Ask::Position => Self::Position,
            Ask::Truncate => Self::Truncate(u64_at(body, 0)),
            Ask::Close => Self::Close,
            Ask::Read => {
                zero("Read", u32_at(body, 12))?;
                Self::Read { offset: u64_at(body, 0), len: u32_at(body, 8) }
            }
            Ask::Resume => Self::Resume,
            Ask::OpenLog => Self::OpenLog(OpenLog::decode(body, rest)?),
            Ask::Append => Self::Append(rest),
            Ask::Commit => Self::Commit,
            Ask::TruncatePrefix => Self::TruncatePrefix(Lsn(u64_at(body, 0))),
            Ask::Records => {
                zero("Records", u64_at(body, 8))?;
                Self::Records { from: Lsn(u64_at(body, 0)) }
            }
            Ask::OpenFile => {
                zero("OpenFile", u64_at(body, 0))?;
                Self::OpenFile
            }
            Ask::WriteAt => Self::WriteAt { offset: u64_at(body, 0), bytes: rest },
            Ask::OpenRing => {
                zero("OpenRing", u32_at(body, 4))?;
                Self::OpenRing { ring_bytes: u32_at(body, 0) }
            }
        })
    }

    /// Its number and its body.
    pub(crate) fn encode(&self) -> (Ask, Vec<u8>) {
        match self {
            Self::Hello { directory } => {
                let mut body = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 2]].concat();
                body.extend(directory.iter().flat_map(|path| path.as_os_str().as_bytes()));
                (Ask::Hello, body)
            }
            Self::OpenStream(open) => (Ask::OpenStream, open.encode()),
            Self::Write(bytes) => (Ask::Write, bytes.to_vec()),
            Self::Sync => (Ask::Sync, Vec::new()),
            Self::Position => (Ask::Position, Vec::new()),
            Self::Truncate(len) => (Ask::Truncate, len.to_le_bytes().to_vec()),
            Self::Close => (Ask::Close, Vec::new()),
            Self::Read { offset, len } => {
                (Ask::Read, [&offset.to_le_bytes()[..], &len.to_le_bytes(), &[0; 4]].concat())
            }
            Self::Resume => (Ask::Resume, Vec::new()),
            Self::OpenLog(open) => (Ask::OpenLog, open.encode()),
            Self::Append(record) => (Ask::Append, record.to_vec()),
            Self::Commit => (Ask::Commit, Vec::new()),
            Self::TruncatePrefix(lsn) => (Ask::TruncatePrefix, lsn.0.to_le_bytes().to_vec()),
            Self::Records { from } => (Ask::Records, [from.0.to_le_bytes(), [0; 8]].concat()),
            Self::OpenFile => (Ask::OpenFile, vec![0; 8]),
            Self::WriteAt { offset, bytes } => {
                (Ask::WriteAt, [&offset.to_le_bytes()[..], bytes].concat())
            }
            Self::OpenRing { ring_bytes } => {
                (Ask::OpenRing, [ring_bytes.to_le_bytes(), [0; 4]].concat())
            }
        }
    }
}

impl OpenStream {
    fn decode(body: &[u8], rest: &[u8]) -> Result<Self> {
        zero("OpenStream", u16_at(body, 2))?;
        zero("OpenStream", u32_at(body, 12))?;
        let (mode, buffer_bytes) = (u32_at(body, 4), u32_at(body, 8));
        let (ahead_bytes, position) = (u64_at(body, 16), u64_at(body, 24));
        let begin = match (body[0], position) {
            (0, 0) => Begin::New,
            (1, 0) => Begin::End,
            (2, position) => Begin::Position(position),
            (3, 0) => Begin::Emptied,
            (4, 0) => Begin::EndOrNew,
            (at, position) => {
                let found = format!("at {at} with position {position}");
                return Err(refused(&format!("OpenStream: expected at 0 to 4, found {found}")));
            }
        };
        let bounds = [
            ("mode", u64::from(mode), 0, 0o7777),
            ("buffer_bytes", u64::from(buffer_bytes), 4096, u64::from(BUFFER_BYTES_MAX)),
            ("ahead_bytes", ahead_bytes, 0, 1 << 40),
        ];
        for (name, found, least, most) in bounds {
            if !(least..=most).contains(&found) {
                let detail =
                    format!("OpenStream: {name}: expected {least} to {most}, found {found}");
                return Err(refused(&detail));
            }
        }
        let options = StreamOptions {
            ahead_bytes,
            ahead_by_thread: flag("OpenStream", body[1])?,
            buffer_bytes: buffer_bytes as usize,
        };
        Ok(OpenStream { path: path_of(rest)?, begin, permissions: mode, options })
    }

    fn encode(&self) -> Vec<u8> {
        let (at, position) = match self.begin {
            Begin::New => (0, 0),
            Begin::End => (1, 0),
            Begin::Position(position) => (2, position),
            Begin::Emptied => (3, 0),
            Begin::EndOrNew => (4, 0),
        };
        let mut body = vec![at, u8::from(self.options.ahead_by_thread), 0, 0];
        body.extend(self.permissions.to_le_bytes());
        body.extend((self.options.buffer_bytes as u32).to_le_bytes());
        body.extend([0; 4]);
        body.extend(self.options.ahead_bytes.to_le_bytes());
        body.extend(u64::to_le_bytes(position));
        body.extend(self.path.as_os_str().as_bytes());
        body
    }
}

impl OpenLog {
    fn decode(body: &[u8], rest: &[u8]) -> Result<Self> {
        zero("OpenLog", body[1])?;
        zero("OpenLog", u16_at(body, 2))?;
        let mut options =
            LogOptions { record_bytes_max: RECORD_BYTES_MAX, ..LogOptions::default() };
        let [segment, record, segments] = [4, 8, 12].map(|at| u32_at(body, at));
        if segment != 0 {
            options.geometry.segment_bytes = segment;
        }
        if record != 0 {
            options.record_bytes_max = record;
        }
        if options.record_bytes_max > RECORD_BYTES_MAX {
            let found = options.record_bytes_max;
            let detail =
                format!("record_bytes_max: expected at most {RECORD_BYTES_MAX}, found {found}");
            return Err(refused(&detail));
        }
        if segments != 0 {
            options.segments_max = segments as usize;
        }
        Ok(Self { path: path_of(rest)?, create: flag("OpenLog", body[0])?, options })
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = vec![u8::from(self.create), 0, 0, 0];
        body.extend(self.options.geometry.segment_bytes.to_le_bytes());
        body.extend(self.options.record_bytes_max.to_le_bytes());
        body.extend((self.options.segments_max as u32).to_le_bytes());
        body.extend(self.path.as_os_str().as_bytes());
        body
    }
}

/// What a helper says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloReply {
    /// Its process.
    pub pid: u32,
    /// How many handles it has.
    pub handles: u32,
    /// Who writes in the directory asked about, and what would be better; one line.
    pub choice: String,
}

impl HelloReply {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 2]].concat();
        body.extend(self.pid.to_le_bytes());
        body.extend(self.handles.to_le_bytes());
        body.extend(clipped(&self.choice).as_bytes());
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self> {
        if body.len() < 16 {
            return Err(refused("Hello reply: expected 16 bytes or more, found fewer"));
        }
        check_hello(body)?;
        let choice = String::from_utf8_lossy(&body[16..]).into_owned();
        Ok(Self { pid: u32_at(body, 8), handles: u32_at(body, 12), choice })
    }
}

fn check_hello(body: &[u8]) -> Result<()> {
    let (magic, version): ([u8; 4], _) = (array_at(body, 0), u16_at(body, 4));
    if magic != MAGIC || version != VERSION {
        let detail = format!(
            "Hello: expected \"NHWP\" and version {VERSION}, found {:?} and version {version}; use a helper of the same release",
            String::from_utf8_lossy(&magic)
        );
        return Err(WalError::new(WalErrorKind::OutOfRange, detail));
    }
    zero("Hello", u16_at(body, 6))
}

/// An error as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReply {
    /// What it was.
    pub(crate) error: WalError,
    /// The number of the request that failed; 0 for none.
    pub(crate) ask: u16,
    /// What is taken in: position, or next number.
    pub(crate) position: u64,
    /// What of it is durable.
    pub(crate) durable: u64,
}

/// The kinds in the order of their numbers, from 1 on.
const KINDS: [WalErrorKind; 15] = [
    WalErrorKind::NotFound,
    WalErrorKind::AlreadyExists,
    WalErrorKind::InUse,
    WalErrorKind::ReadOnly,
    WalErrorKind::Permission,
    WalErrorKind::NoSpace,
    WalErrorKind::Full,
    WalErrorKind::WouldBlock,
    WalErrorKind::OutOfRange,
    WalErrorKind::NotALog,
    WalErrorKind::SegmentMissing,
    WalErrorKind::Corrupt,
    WalErrorKind::Truncated,
    WalErrorKind::Io,
    WalErrorKind::Stopped,
];

/// The number of a kind of error: on this wire and for programs in other languages.
pub fn code_of(kind: WalErrorKind) -> u16 {
    // Every kind is in the list: a test counts them.
    KINDS.iter().position(|other| *other == kind).map_or(0, |index| index as u16 + 1)
}

impl ErrorReply {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = code_of(self.error.kind).to_le_bytes().to_vec();
        body.extend(self.ask.to_le_bytes());
        body.extend([0; 4]);
        body.extend(self.position.to_le_bytes());
        body.extend(self.durable.to_le_bytes());
        body.extend(clipped(&self.error.detail).as_bytes());
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self> {
        if body.len() < ERROR_BYTES {
            return Err(refused("Error: expected 24 bytes or more, found fewer"));
        }
        let code = usize::from(u16_at(body, 0));
        let kind = code.checked_sub(1).and_then(|index| KINDS.get(index)).copied();
        let detail = String::from_utf8_lossy(&body[ERROR_BYTES..]).into_owned();
        Ok(Self {
            // A code of a later version is some error all the same.
            error: WalError::new(kind.unwrap_or(WalErrorKind::Io), detail),
            ask: u16_at(body, 2),
            position: u64_at(body, 8),
            durable: u64_at(body, 16),
        })
    }
}

/// At most [`TEXT_BYTES_MAX`] of a text, whole characters.
pub(crate) fn clipped(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn path_of(bytes: &[u8]) -> Result<PathBuf> {
    if bytes.is_empty() || bytes.len() > PATH_BYTES_MAX || bytes.contains(&0) {
        let found = bytes.len();
        return Err(refused(&format!(
            "path: expected 1 to {PATH_BYTES_MAX} bytes, none of them 0, found {found}"
        )));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)).to_owned())
}

fn flag(what: &str, byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(refused(&format!("{what}: flag: expected 0 or 1, found {byte}"))),
    }
}

fn zero(what: &str, found: impl Into<u64>) -> Result<()> {
    match found.into() {
        0 => Ok(()),
        found => Err(refused(&format!("{what}: reserved: expected 0, found {found}"))),
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
