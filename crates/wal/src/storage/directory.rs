//! A real directory: files opened past the page cache where that works.
//!
//! It only translates: every promise is kept by `nearhead_uring::DurableFile` and the kernel, every
//! error gets the path it happened at. Writes may be sent through another [`DurableWriter`], which is
//! how a request gets a priority of its own.

use super::{Access, Storage, StoredFile};
use crate::error::{Result, WalError, WalErrorKind};
use crate::writer::DurableWriter;
use nearhead_uring::{Access as FileAccess, DurableFile, OpenError, OpenErrorKind};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory with a log's files.
pub struct Directory {
    path: PathBuf,
    direct: bool,
    writer: Arc<dyn DurableWriter>,
}

impl Directory {
    /// The directory at `path`, whose files are written by `writer`.
    ///
    /// `direct` asks to bypass the page cache; where a file system cannot, it is used.
    pub fn open(path: &Path, direct: bool, writer: Arc<dyn DurableWriter>) -> Result<Self> {
        let shown = path.display();
        let kind = std::fs::metadata(path).map_err(|error| from_io("open", &shown, &error))?;
        if !kind.is_dir() {
            let detail = format!(
                "cannot open {shown}: expected a directory, found a file; a log is a directory of its own"
            );
            return Err(WalError::new(WalErrorKind::NotALog, detail));
        }
        Ok(Self { path: path.to_owned(), direct, writer })
    }

    /// Makes the directory at `path`, with its name durable, unless it is there.
    pub fn create(path: &Path) -> Result<()> {
        match std::fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(from_io("create", &path.display(), &error)),
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        sync_directory(parent)
    }

    fn failed(&self, action: &str, name: &str, error: &io::Error) -> WalError {
        from_io(action, &self.path.join(name).display(), error)
    }
}

impl Storage for Directory {
    fn names(&self) -> Result<Vec<String>> {
        let failed = |error: io::Error| self.failed("list", "", &error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            // A name that is not text is none of ours.
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn StoredFile>> {
        let access = match access {
            Access::Read => FileAccess::Read,
            Access::Write => FileAccess::Write,
            Access::Create => FileAccess::Create,
        };
        let path = self.path.join(name);
        let file = DurableFile::open(&path, access, self.direct).map_err(from_open)?;
        Ok(Arc::new(RealFile { file, writer: Arc::clone(&self.writer) }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
            .map_err(|error| self.failed("rename", from, &error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.path.join(name))
            .map_err(|error| self.failed("remove", name, &error))
    }

    fn sync_names(&self) -> Result<()> {
        sync_directory(&self.path)
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}

/// Makes every change of names in the directory at `path` durable.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| from_io("make names durable in", &path.display(), &error))
}

struct RealFile {
    file: DurableFile,
    writer: Arc<dyn DurableWriter>,
}

impl RealFile {
    fn outcome<T>(&self, action: &str, outcome: io::Result<T>) -> Result<T> {
        outcome.map_err(|error| from_io(action, &self.file.name(), &error))
    }
}

impl StoredFile for RealFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn lock(&self) -> Result<()> {
        self.file.lock().map_err(from_open)?;
        self.outcome("share the lock of", self.writer.hold(&self.file))
    }

    fn len_bytes(&self) -> Result<u64> {
        self.outcome("look at", self.file.len_bytes())
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> Result<usize> {
        self.outcome("read", self.file.read_at(memory, offset))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.outcome("write", self.file.write_at(bytes, offset))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.outcome("write", self.writer.write_durable(&self.file, bytes, offset))
    }

    fn sync(&self) -> Result<()> {
        self.outcome("sync", self.file.sync())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.outcome("resize", self.file.set_len(bytes))
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        self.writer.forget(&self.file);
    }
}

/// An error of the kernel, at `place`, with advice.
pub(crate) fn from_io(action: &str, place: &dyn std::fmt::Display, error: &io::Error) -> WalError {
    use io::ErrorKind as Kind;
    let (kind, advice) = match error.kind() {
        Kind::NotFound => (WalErrorKind::NotFound, "check the path"),
        Kind::AlreadyExists => (WalErrorKind::AlreadyExists, "choose another path or remove it"),
        Kind::PermissionDenied => (WalErrorKind::Permission, "run as a user who may"),
        Kind::ReadOnlyFilesystem => (WalErrorKind::ReadOnly, "open it for reading only"),
        Kind::StorageFull | Kind::QuotaExceeded => {
            (WalErrorKind::NoSpace, "make room on the file system, or truncate the log")
        }
        _ => (WalErrorKind::Io, "see the kernel log"),
    };
    WalError::new(kind, format!("cannot {action} {place}: {error}; {advice}"))
}

/// An error of opening a file, which explains itself already.
pub(crate) fn from_open(error: OpenError) -> WalError {
    let kind = match error.kind {
        OpenErrorKind::NotFound => WalErrorKind::NotFound,
        OpenErrorKind::AlreadyExists => WalErrorKind::AlreadyExists,
        OpenErrorKind::InUse => WalErrorKind::InUse,
        OpenErrorKind::ReadOnly => WalErrorKind::ReadOnly,
        OpenErrorKind::Permission => WalErrorKind::Permission,
        OpenErrorKind::NotADisk => WalErrorKind::NotALog,
        OpenErrorKind::Size => WalErrorKind::OutOfRange,
        OpenErrorKind::NoUring | OpenErrorKind::Io => WalErrorKind::Io,
    };
    WalError::new(kind, error.detail)
}
