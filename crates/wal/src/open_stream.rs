//! From a path to a stream: the file made if it is to be made, the writer that suits its place.
//!
//! A file that is made has its name durable before the stream is handed out: a program that synced
//! must find its file again.

use crate::error::{Result, WalError, WalErrorKind};
use crate::open::writer_for;
use crate::process::HelperOptions;
use crate::storage::{Directory, from_io, sync_directory};
use crate::stream::{At, Stream, StreamOptions};
use crate::writer::{Choice, DurableWriter, JobThread, Mode, Permitted, Place};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a stream begins to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// In a new file, which must not exist.
    New,
    /// At the end of one that exists.
    End,
    /// At an offset of one that exists; the rest is cut off.
    Position(u64),
    /// In an empty file: a new one, or one cut to nothing.
    Emptied,
    /// At the end, of a new file if there is none.
    EndOrNew,
}

/// The stream that a program wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenStream {
    /// Its file.
    pub path: PathBuf,
    /// Where it begins.
    pub begin: Begin,
    /// Permissions of a new file, less the umask, as for `open(2)`.
    pub permissions: u32,
    /// How it is written.
    pub options: StreamOptions,
}

impl OpenStream {
    /// Opens it, written as `mode` says; in the mode [`Mode::Process`] by such a helper.
    ///
    /// # Errors
    /// As [`Stream::open`], and those of making the file.
    pub fn open(&self, mode: Mode, helper: &HelperOptions) -> Result<(Stream, Choice)> {
        let place = Place::of(self.directory())?;
        let mut choice = Choice::make(mode, &place, Permitted::find_out());
        let writer = writer_for(&mut choice, self.directory(), helper)?;
        let thread = match (choice.mode, choice.priority) {
            (Mode::Thread, Some(priority)) => Some(JobThread::start(priority)?),
            _ => None,
        };
        Ok((self.open_by(writer, thread)?, choice))
    }

    /// Opens it, written by `writer`, in `thread` if there is one.
    pub(crate) fn open_by(
        &self,
        writer: Arc<dyn DurableWriter>,
        thread: Option<JobThread>,
    ) -> Result<Stream> {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let Some(name) = name else {
            let shown = self.path.display();
            let detail = format!("{shown}: expected a file whose name is text");
            return Err(WalError::new(WalErrorKind::OutOfRange, detail));
        };
        let storage = Arc::new(Directory::open(self.directory(), true, writer)?);
        let at = self.make_file()?;
        Stream::open(storage, name, at, &self.options, thread)
    }

    /// The directory of its file.
    pub(crate) fn directory(&self) -> &Path {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn make_file(&self) -> Result<At> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).mode(self.permissions);
        let (options, at) = match self.begin {
            Begin::Position(position) => return Ok(At::Position(position)),
            Begin::End => return Ok(At::End),
            Begin::New => (options.create_new(true), At::End),
            // What is there is cut off by the stream, under its lock: another writer may have it.
            Begin::Emptied => (options.create(true), At::Position(0)),
            Begin::EndOrNew => (options.create(true), At::End),
        };
        let shown = self.path.display();
        options.open(&self.path).map_err(|error| from_io("create", &shown, &error))?;
        sync_directory(self.directory())?;
        Ok(at)
    }
}
