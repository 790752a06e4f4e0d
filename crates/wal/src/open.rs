//! From a path to a log: the directory, the writer that suits it, the line that says which.

use crate::codec::LogId;
use crate::error::{Result, WalError, WalErrorKind};
use crate::log::{Driver, Log, LogOptions, Lsn, Recovered, SerialLog, ThreadStart, block_bytes_of};
use crate::process::{HelperOptions, ProcessWriter};
use crate::storage::{Directory, Storage, from_io};
use crate::writer::{
    Choice, DurableWriter, LendingWriter, Mode, Permitted, Place, PlainWriter, RequestWriter,
};
use nearhead_uring::{IoPriority, set_thread_priority};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// How a log is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Sizes and bounds.
    pub log: LogOptions,
    /// Who writes.
    pub mode: Mode,
    /// Bypass the page cache where that works.
    pub direct: bool,
    /// Make the log if the directory is not there or empty.
    pub create: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { log: LogOptions::default(), mode: Mode::Thread, direct: true, create: true }
    }
}

/// A log that was opened.
pub struct Opened {
    /// The log.
    pub log: Log,
    /// What was found.
    pub recovered: Recovered,
    /// Who writes, and what would be better; one line when displayed.
    pub choice: Choice,
}

impl OpenOptions {
    /// Opens the log in the directory at `path`; `replay` gets every record, in order.
    ///
    /// # Errors
    /// [`WalErrorKind::ReadOnly`] or [`WalErrorKind::Permission`] where it cannot be written,
    /// [`WalErrorKind::InUse`] where somebody else writes it; the rest as [`Log::open`].
    pub fn open(&self, path: &Path, replay: impl FnMut(Lsn, &[u8])) -> Result<Opened> {
        self.open_through(path, &HelperOptions::default(), replay)
    }

    /// The same; in the mode [`Mode::Process`] with this helper.
    pub fn open_through(
        &self,
        path: &Path,
        helper: &HelperOptions,
        replay: impl FnMut(Lsn, &[u8]),
    ) -> Result<Opened> {
        if self.create {
            Directory::create(path)?;
        }
        let first = Directory::open(path, self.direct, Arc::new(PlainWriter))?;
        let mut place = Place::of(path)?;
        if self.create && is_empty_of_log(&first)? {
            SerialLog::create(&first, &self.log, new_log_id()?)?;
        }
        if !self.direct || block_bytes_of(&first)? < place.align_bytes {
            place.is_direct = false;
        }
        let mut choice = Choice::make(self.mode, &place, Permitted::find_out());
        let writer = writer_for(&mut choice, path, helper)?;
        let storage = Arc::new(Directory::open(path, place.is_direct, writer)?);
        let driver = if choice.mode == Mode::Thread { Driver::OwnThread } else { Driver::Callers };
        let start = ThreadStart {
            writer: if choice.mode == Mode::Caller { || {} } else { go_first },
            segments: go_last,
        };
        let (log, recovered) = Log::open(storage, &self.log, driver, start, replay)?;
        Ok(Opened { log, recovered, choice })
    }
}

/// Who makes the writes that `choice` names, in the directory at `path`; how a helper is told what to
/// write is added to `choice`.
pub(crate) fn writer_for(
    choice: &mut Choice,
    path: &Path,
    helper: &HelperOptions,
) -> Result<Arc<dyn DurableWriter>> {
    Ok(match (choice.mode, choice.priority) {
        (Mode::Process, _) => {
            let writer = ProcessWriter::start(helper.clone())?;
            if let Some(told) = writer.told() {
                choice.add(&told);
            }
            Arc::new(writer)
        }
        (Mode::Request, Some(priority)) => {
            let writer = RequestWriter::new(priority);
            let place = path.display();
            Arc::new(writer.map_err(|error| from_io("start an io_uring for", &place, &error))?)
        }
        (Mode::Caller, Some(priority)) => Arc::new(LendingWriter { priority }),
        _ => Arc::new(PlainWriter),
    })
}

fn is_empty_of_log(directory: &Directory) -> Result<bool> {
    Ok(!directory.names()?.iter().any(|name| name == crate::log::CONTROL_NAME))
}

/// Sixteen bytes that no other log has.
fn new_log_id() -> Result<LogId> {
    let mut id = LogId::default();
    let source = "/dev/urandom";
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut id))
        .map_err(|error| from_io("draw a name from", &source, &error))?;
    Ok(id)
}

fn go_first() {
    // What is not permitted was told by the choice; without either, writes are only slower.
    if set_thread_priority(IoPriority::REAL_TIME).is_err() {
        let _ = set_thread_priority(IoPriority::BEST_EFFORT_FIRST);
    }
}

fn go_last() {
    // A hint: without it zeroing is less polite.
    let _ = set_thread_priority(IoPriority::BEST_EFFORT_LAST);
}

/// Opens nothing for writing: reads the log at `path`, each record handed to `replay`.
///
/// # Errors
/// As [`crate::log::read_only`].
pub fn read_log(path: &Path, replay: impl FnMut(Lsn, &[u8])) -> Result<Recovered> {
    let directory = Directory::open(path, false, Arc::new(PlainWriter))?;
    if is_empty_of_log(&directory)? {
        let detail = format!("{}: expected a log, found a directory without one", path.display());
        return Err(WalError::new(WalErrorKind::NotFound, detail));
    }
    crate::log::read_only(&directory, replay)
}
