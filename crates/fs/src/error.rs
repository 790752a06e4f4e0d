//! Why a file system cannot do something: a number for programs, a sentence for people.

use nearhead_ext4::{Errno, Error, Stop};
use nearhead_service::{ErrorKind, RequestError};
use std::fmt;

/// An error of the system calls, by its number in Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsError {
    /// The number.
    pub errno: i32,
    /// What, where, expected, found.
    pub detail: String,
}

/// The numbers that this crate gives by itself.
pub(crate) const EPERM: i32 = 1;
pub(crate) const EIO: i32 = 5;
pub(crate) const ENXIO: i32 = 6;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EISDIR: i32 = 21;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EFBIG: i32 = 27;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EROFS: i32 = 30;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const ESHUTDOWN: i32 = 108;

impl FsError {
    /// One that says `detail`.
    pub fn new(errno: i32, detail: impl Into<String>) -> Self {
        Self { errno, detail: detail.into() }
    }
}

impl From<Error> for FsError {
    fn from(error: Error) -> Self {
        Self { errno: error.errno.raw(), detail: error.detail }
    }
}

impl From<&RequestError> for FsError {
    fn from(error: &RequestError) -> Self {
        let errno = match error.kind {
            ErrorKind::NoSpace => ENOSPC,
            ErrorKind::ReadOnly => EROFS,
            ErrorKind::ShuttingDown => ESHUTDOWN,
            ErrorKind::Io | ErrorKind::Invalid | ErrorKind::NotSupported => EIO,
        };
        Self { errno, detail: error.detail.clone() }
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.detail)
    }
}

impl std::error::Error for FsError {}

/// Why something does not go on. Each reason has an end that comes: [`Core::park`](crate::core::Core) begins what leads to it, and after a
/// failure of the volume refuses all but reads.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// Until these blocks of metadata are there: their reads are answered, with bytes or an error.
    Blocks(Vec<u64>),
    /// Until this page of a file, stored at this block, is there: the same.
    Page { ino: nearhead_ext4::Ino, page: u64, block: u64 },
    /// Until fewer pages wait to be written: write-outs end, and with half of the pages in none a commit begins.
    Room,
    /// Until what was freed is durable, and may be used again: a commit begins. ext4 says so only while there is such a thing.
    Commit,
    /// Until the metadata that is changed is on its way, as no more fits a record: a commit begins, and makes its record early if it
    /// waits for write-outs itself. What no empty record has room for fails.
    Changes,
    /// Until the record that is about to be made is, as what changes now would go into it without its data: the commit waits only for
    /// write-outs that have their blocks.
    Record,
    /// Until nothing of the file is on its way: write-outs end and a commit begins. While a request waits, only commits that a client
    /// asked for begin bulk of the file; otherwise a steady writer could keep the request waiting for ever.
    Quiet(nearhead_ext4::Ino),
    /// Never.
    Fails(FsError),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Wants(blocks) => Self::Blocks(blocks),
            Stop::Fails(error) if error.errno == Errno::NoSpaceYet => Self::Commit,
            Stop::Fails(error) if error.errno == Errno::NoRoomInChanges => Self::Changes,
            Stop::Fails(error) => Self::Fails(error.into()),
        }
    }
}

impl From<FsError> for Halt {
    fn from(error: FsError) -> Self {
        Self::Fails(error)
    }
}
