//! What a handle of the helper stands for: a stream, a log, or an open file that is shared.
//!
//! Each keeps what the protocol promises: bytes and records are taken in without a gap. After the
//! first that could not be, everything is refused until the client takes up again; after an error
//! of the device, for good.

use super::frame::{Ask, BODY_BYTES_MAX, refused};
use super::message::{ErrorReply, OpenLog, RECORD_PREFIX_BYTES, Request};
use crate::error::{Result, WalError, WalErrorKind};
use crate::log::{Log, Lsn};
use crate::open::OpenOptions;
use crate::open_stream::OpenStream;
use crate::storage::from_io;
use crate::stream::Stream;
use crate::writer::{Choice, Mode, Permitted, Place, PlainWriter};
use nearhead_disk::{ALIGN_BYTES, BufferMut};
use nearhead_uring::DurableFile;
use rustix::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Memory for one shared write, aligned for the file.
const WRITE_BYTES_MAX: usize = BODY_BYTES_MAX;

/// The thing behind a handle.
enum Thing {
    Stream(Box<Stream>),
    Log(Log),
    File { file: DurableFile, memory: Option<BufferMut> },
}

/// A handle in use.
pub(super) struct Handle {
    thing: Thing,
    /// Why nothing more is taken in.
    refused: Option<WalError>,
}

/// Who would write in a directory, and what would be better.
pub(super) fn choice_of(directory: &Path) -> Result<String> {
    let place = Place::of(directory)?;
    Ok(Choice::make(Mode::Process, &place, Permitted::find_out()).to_string())
}

impl Handle {
    /// Opens a stream. Returns the reply's text, too.
    pub(super) fn stream(open: &OpenStream) -> Result<(Self, String)> {
        // This process is the helper: its own thread writes, with its own priority.
        let stream = open.open_by(Arc::new(PlainWriter), None)?;
        let choice = choice_of(open.directory())?;
        Ok((Self { thing: Thing::Stream(Box::new(stream)), refused: None }, choice))
    }

    /// Opens a log.
    pub(super) fn log(open: &OpenLog) -> Result<(Self, String)> {
        let mode = Mode::Caller;
        let options = OpenOptions { log: open.options, mode, direct: true, create: open.create };
        let opened = options.open(&open.path, |_, _| {})?;
        let choice = choice_of(&open.path)?;
        Ok((Self { thing: Thing::Log(opened.log), refused: None }, choice))
    }

    /// Shares an open file.
    pub(super) fn file(fd: OwnedFd) -> Self {
        let file = DurableFile::from_open(fd, "a shared file");
        Self { thing: Thing::File { file, memory: None }, refused: None }
    }

    /// Takes bytes or a record in. After the first failure everything is dropped: `Ok`, since the
    /// client has been told.
    pub(super) fn take_in(&mut self, request: &Request<'_>) -> Result<()> {
        if self.refused.is_some() {
            return Ok(());
        }
        let outcome = match (&mut self.thing, request) {
            (Thing::Stream(stream), Request::Write(bytes)) => stream.write(bytes),
            (Thing::Log(log), Request::Append(record)) => log.append(record).map(drop),
            _ => Err(refused("a WRITE goes to a stream, an APPEND to a log; found the other")),
        };
        if let Err(error) = &outcome {
            self.refused = Some(error.clone());
        }
        outcome
    }

    /// Makes everything taken in durable.
    pub(super) fn settle(&mut self) -> Result<()> {
        match &mut self.thing {
            Thing::Stream(stream) => stream.sync().map(drop),
            Thing::Log(log) => log.sync().map(drop),
            Thing::File { .. } => Ok(()),
        }
    }

    /// Whether it is one that `ask` goes to, and everything that came before it was taken in.
    pub(super) fn check_may_settle(&self, ask: Ask) -> Result<()> {
        match (&self.thing, ask) {
            (Thing::Stream(_), Ask::Sync) | (Thing::Log(_), Ask::Commit) => self.check_complete(),
            _ => Err(refused("a SYNC goes to a stream, a COMMIT to a log; found the other")),
        }
    }

    fn check_complete(&self) -> Result<()> {
        let Some(cause) = &self.refused else { return Ok(()) };
        let detail = format!(
            "something before this was not taken in; make room and RESUME, or close. The error: {}",
            cause.detail
        );
        Err(WalError::new(WalErrorKind::Stopped, detail))
    }

    /// Carries out any other request. Returns the reply's body.
    pub(super) fn answer(&mut self, request: &Request<'_>) -> Result<Vec<u8>> {
        match (&mut self.thing, request) {
            (Thing::Stream(_) | Thing::Log(_), Request::Resume) => match &self.refused {
                Some(cause) if matches!(cause.kind, WalErrorKind::Io | WalErrorKind::Stopped) => {
                    return Err(WalError::stopped_by(cause));
                }
                _ => self.refused = None,
            },
            (Thing::Stream(_), Request::Position) => {}
            (Thing::Stream(stream), Request::Truncate(len)) => {
                stream.truncate(*len)?;
                self.refused = None;
            }
            (Thing::Stream(stream), Request::Read { offset, len }) => {
                let len = (*len as usize).min(BODY_BYTES_MAX);
                // Not more than there is: memory is taken for what will be sent.
                let there = stream.position().saturating_sub(*offset);
                let mut memory = vec![0; len.min(there as usize)];
                let read = stream.read_at(*offset, &mut memory)?;
                memory.truncate(read);
                return Ok(memory);
            }
            (Thing::Log(log), Request::TruncatePrefix(lsn)) => log.truncate_prefix(*lsn)?,
            (Thing::Log(log), Request::Records { from }) => return records(log, *from),
            (Thing::File { file, memory }, Request::WriteAt { offset, bytes }) => {
                let is_aligned = bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES);
                let outcome = if is_aligned {
                    // As those of a ring are.
                    file.write_durable_at(bytes, *offset)
                } else {
                    let memory = memory.get_or_insert_with(|| BufferMut::zeroed(WRITE_BYTES_MAX));
                    memory[..bytes.len()].copy_from_slice(bytes);
                    file.write_durable_at(&memory[..bytes.len()], *offset)
                };
                outcome.map_err(|error| from_io("write", &file.name(), &error))?;
                return Ok(Vec::new());
            }
            _ => return Err(refused("this request is for another kind of handle")),
        }
        Ok(self.progress())
    }

    /// Ends it. Returns the reply's body.
    pub(super) fn close(self) -> Result<Vec<u8>> {
        self.check_complete()?;
        let progress = match self.thing {
            Thing::Stream(stream) => {
                let len = stream.close()?;
                pair(len, len)
            }
            Thing::Log(log) => {
                let (first, next) = (log.first_lsn(), log.sync()?);
                log.close()?;
                [&first.0.to_le_bytes()[..], &pair(next.0, next.0)].concat()
            }
            Thing::File { .. } => Vec::new(),
        };
        Ok(progress)
    }

    /// How far it is, as replies say it.
    pub(super) fn progress(&self) -> Vec<u8> {
        let (position, durable) = self.position();
        match &self.thing {
            Thing::Log(log) => {
                [&log.first_lsn().0.to_le_bytes()[..], &pair(position, durable)].concat()
            }
            Thing::Stream(_) => pair(position, durable),
            Thing::File { .. } => Vec::new(),
        }
    }

    fn position(&self) -> (u64, u64) {
        match &self.thing {
            Thing::Stream(stream) => (stream.position(), stream.durable_position()),
            Thing::Log(log) => (log.next_lsn().0, log.durable_next().0),
            Thing::File { .. } => (0, 0),
        }
    }

    /// An error, with how far it is in spite of it.
    pub(super) fn error(&self, error: WalError, ask: Ask) -> ErrorReply {
        let (position, durable) = self.position();
        ErrorReply { error, ask: ask as u16, position, durable }
    }
}

fn pair(first: u64, second: u64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

fn records(log: &Log, from: Lsn) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    for record in log.records(from)? {
        let (lsn, bytes) = record?;
        if body.len() + RECORD_PREFIX_BYTES + bytes.len() > BODY_BYTES_MAX {
            if body.is_empty() {
                return Err(refused("a record is larger than a frame; read it with the library"));
            }
            break;
        }
        body.extend(lsn.0.to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend([0; 4]);
        body.extend(bytes);
    }
    Ok(body)
}
