//! Why an operation on a log, a stream or a bulk transfer failed: a kind for programs to decide
//! by, and a text for people that says what, where, expected, found and what to do.

use std::fmt;

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalErrorKind {
    /// No log, or no file, at that path.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// Another writer, in this process or another, holds it.
    InUse,
    /// It was opened for reading, or its file system is read-only.
    ReadOnly,
    /// This user may not.
    Permission,
    /// The file system has no room. Nothing was taken in; room made, it can be tried again.
    NoSpace,
    /// The log has as many segments as it may have. Truncate its prefix, then try again.
    Full,
    /// A bounded buffer is full, and the caller asked not to wait.
    WouldBlock,
    /// A record, offset or option is outside what is allowed.
    OutOfRange,
    /// Not a log, or one of another version.
    NotALog,
    /// A segment that must be there is not.
    SegmentMissing,
    /// Something that was durable no longer reads as it was written.
    Corrupt,
    /// What was asked for has been truncated away.
    Truncated,
    /// The device or file system failed. Whether what was under way is durable is unknown.
    Io,
    /// An earlier I/O error stopped this log: open it again to find out what is durable.
    Stopped,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalError {
    /// For decisions.
    pub kind: WalErrorKind,
    /// For people.
    pub detail: String,
}

impl WalError {
    /// A failure of `kind`, explained by `detail`.
    #[cold]
    pub fn new(kind: WalErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// The failure of a child of `fork` that uses what its parent opened.
    #[cold]
    pub(crate) fn inherited() -> Self {
        let detail = "it was opened by the parent process, which goes on writing it; a child of fork must open its own";
        Self::new(WalErrorKind::Stopped, detail)
    }

    /// The failure that everything after `cause` meets.
    #[cold]
    pub(crate) fn stopped_by(cause: &Self) -> Self {
        let detail = format!(
            "the log was stopped by an earlier error; open it again to learn what is durable. The error: {}",
            cause.detail
        );
        Self::new(WalErrorKind::Stopped, detail)
    }
}

impl fmt::Display for WalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.detail)
    }
}

impl std::error::Error for WalError {}

/// What operations here return.
pub type Result<T> = std::result::Result<T, WalError>;
