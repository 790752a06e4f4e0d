//! What an operation answers when it does not give a result: blocks that it wants, or why it fails.
//!
//! Whoever gets [`Stop::Wants`] gives these blocks and asks again with the same arguments; until then nothing has
//! changed. [`Errno`] is what the kernel's callers know, the text of an [`Error`] is for people: what, where, expected,
//! found. Nothing here may panic.

use std::fmt;

/// What every operation gives.
pub type Outcome<T> = Result<T, Stop>;

/// Why an operation gave nothing. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// These blocks must be given first; then the same call again.
    Wants(Vec<u64>),
    /// It cannot be done.
    Fails(Error),
}

/// Why something cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// For programs.
    pub errno: Errno,
    /// For people: what, where, expected, found.
    pub detail: String,
}

/// The errors of a Linux file system that this one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errno {
    /// ENOENT.
    NoEntry,
    /// EEXIST.
    Exists,
    /// ENOTDIR.
    NotDirectory,
    /// EISDIR.
    IsDirectory,
    /// ENOTEMPTY.
    NotEmpty,
    /// ENOSPC: no blocks or no inodes.
    NoSpace,
    /// ENOSPC, but room comes once changes that were taken or are running are settled.
    NoSpaceYet,
    /// ENOSPC, but the limit of [`Ext4::limit_changes`](crate::Ext4::limit_changes) leaves more room once the changes are taken.
    NoRoomInChanges,
    /// ENAMETOOLONG.
    NameTooLong,
    /// EMLINK.
    TooManyLinks,
    /// EINVAL.
    Invalid,
    /// ENODATA: no such attribute.
    NoData,
    /// ERANGE.
    Range,
    /// EFBIG.
    FileTooBig,
    /// EROFS.
    ReadOnly,
    /// EPERM: what the flags of an inode forbid.
    NotPermitted,
    /// EUCLEAN: the image contradicts itself.
    Corrupt,
    /// EOPNOTSUPP.
    NotSupported,
    /// EINVAL: a directory would become its own ancestor.
    LoopedRename,
}

impl Errno {
    /// The number that Linux has for it.
    pub fn raw(self) -> i32 {
        match self {
            Self::NotPermitted => 1,
            Self::NoEntry => 2,
            Self::Exists => 17,
            Self::NotDirectory => 20,
            Self::IsDirectory => 21,
            Self::Invalid | Self::LoopedRename => 22,
            Self::FileTooBig => 27,
            Self::NoSpace | Self::NoSpaceYet | Self::NoRoomInChanges => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::Range => 34,
            Self::NameTooLong => 36,
            Self::NotEmpty => 39,
            Self::NoData => 61,
            Self::NotSupported => 95,
            Self::Corrupt => 117,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fails(error)
    }
}

/// A failure with its text.
pub(crate) fn fail(errno: Errno, detail: impl Into<String>) -> Stop {
    Stop::Fails(Error { errno, detail: detail.into() })
}

/// The image contradicts itself; `detail` says where, what was expected and what was found.
pub(crate) fn corrupt(detail: impl fmt::Display) -> Stop {
    fail(Errno::Corrupt, format!("{detail}; run e2fsck on the image while it is not in use"))
}

/// Why an image is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no ext4 superblock.
    NotExt4(String),
    /// It is ext4, with something that this implementation does not have; says what to do.
    Refused(String),
    /// It is ext4 and in need of e2fsck.
    NotClean(String),
    /// The superblock contradicts itself or its checksum.
    Corrupt(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExt4(text)
            | Self::Refused(text)
            | Self::NotClean(text)
            | Self::Corrupt(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for OpenError {}
