//! What a front asks of the engine, and what it gets back.
//!
//! Every request gets exactly one reply, also when the volume is failing or shutting down.

use nearhead_disk::Payload;
use std::fmt;
use std::ops::Range;

/// Names a request among those outstanding; chosen by the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request from a client. Offsets and lengths are bytes of the volume, multiples of its block.
#[derive(Clone, Debug)]
pub struct Request {
    /// Comes back in the reply.
    pub id: RequestId,
    /// What to do.
    pub operation: Operation,
}

/// The operations a volume offers.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Read `len` bytes at `offset`.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Write `data` at `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// Contents.
        data: Payload,
        /// Reply only once the bytes are durable.
        fua: bool,
    },
    /// The same to where the bytes belong, whatever their size, by a client that orders its own writes; where the volume has no such place
    /// it is a plain write.
    WriteInPlace {
        /// First byte.
        offset: u64,
        /// Contents.
        data: Payload,
        /// Reply only once the bytes are durable.
        fua: bool,
    },
    /// Write several extents so that after a crash either all or none of them are there.
    /// Always durable when replied to.
    WriteAtomic {
        /// `(first byte, contents)` of each; they must not overlap.
        extents: Vec<(u64, Payload)>,
        /// Which of these bytes are new.
        changed: Changed,
    },
    /// Make everything replied to before this durable.
    Flush,
    /// The content of these bytes is no longer needed.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// As for `Write`.
        fua: bool,
    },
    /// Make these bytes read as zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// As for `Write`.
        fua: bool,
        /// Fail with [`ErrorKind::NotSupported`] rather than be as slow as a write.
        fast_only: bool,
        /// The space of these bytes may be given back to whatever is below the volume.
        may_unmap: bool,
    },
    /// Tell what a range is used for.
    Hint {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// The use.
        hint: Hint,
    },
}

/// Which bytes of what is written may differ from what a read would have returned before.
///
/// A client that knows it lets the volume log those alone (Okeanos, section 3: *wasteless journaling*). What it says must be true, or what is
/// there after a crash is neither the old nor the new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// All of them.
    #[default]
    All,
    /// These bytes of the volume alone: not empty, in ascending order, none twice, each within the extents.
    Only(Vec<Range<u64>>),
}

/// What a range is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Needed only after a crash, never read otherwise, soon trimmed (`O_DUR`, Manylogs IV-D):
    /// always logged, checkpointed only when every log is full.
    DurabilityOnly,
    /// No special use.
    Normal,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// Which request.
    pub id: RequestId,
    /// For a read the bytes in order; for everything else nothing.
    pub result: Result<Vec<Payload>, RequestError>,
}

/// Kind of failure, for fronts that must translate it (errno, NBD error).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The disk failed, or bytes did not match their checksum (EIO).
    Io,
    /// No room (ENOSPC).
    NoSpace,
    /// Misaligned, out of range or too large (EINVAL).
    Invalid,
    /// Not offered here (ENOTSUP).
    NotSupported,
    /// The volume is read-only (EPERM).
    ReadOnly,
    /// The volume is shutting down (ESHUTDOWN).
    ShuttingDown,
}

impl ErrorKind {
    /// Its number on Linux (`asm-generic/errno-base.h`, `errno.h`), positive.
    pub fn errno(self) -> i32 {
        match self {
            Self::Io => 5,
            Self::NoSpace => 28,
            Self::Invalid => 22,
            Self::NotSupported => 95,
            Self::ReadOnly => 30,
            Self::ShuttingDown => 108,
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// For decisions.
    pub kind: ErrorKind,
    /// For people: what, where, expected, found.
    pub detail: String,
}

impl RequestError {
    /// An error of `kind` saying `detail`.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.detail)
    }
}

impl std::error::Error for RequestError {}
