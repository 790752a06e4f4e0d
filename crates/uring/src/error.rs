//! Why a real disk could not be opened, and how kernel errors become disk errors.
//!
//! Every message says what was tried, where, what was expected, what was found and what to do.

use nearhead_disk::{DiskError, DiskErrorKind};
use rustix::io::Errno;
use std::fmt;
use std::os::unix::fs::FileTypeExt;

/// What kind of failure [`crate::open`] or [`crate::create_image`] met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenErrorKind {
    /// No such path.
    NotFound,
    /// The image to create is already there.
    AlreadyExists,
    /// Somebody else has it open, mounted, or part of another device.
    InUse,
    /// Only reading is possible, and writing was asked for.
    ReadOnly,
    /// This user may not open it.
    Permission,
    /// Neither a regular file nor a block device, or with facts that cannot be worked with.
    NotADisk,
    /// Smaller than one sector, or a size no image can have.
    Size,
    /// `io_uring` was insisted on and is not available here.
    NoUring,
    /// Anything else the kernel said.
    Io,
}

/// Why a disk could not be opened or created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// For decisions.
    pub kind: OpenErrorKind,
    /// For people: what, where, expected, found, what to do.
    pub detail: String,
}

impl OpenError {
    pub(crate) fn new(kind: OpenErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// The error for a failed `action` (a verb phrase) on `path`.
    pub(crate) fn from_errno(action: &str, path: &str, errno: Errno) -> Self {
        let (kind, advice) = match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV | Errno::NOTDIR => {
                (OpenErrorKind::NotFound, "check the path")
            }
            Errno::EXIST => (OpenErrorKind::AlreadyExists, "choose another path or remove it"),
            Errno::BUSY => (OpenErrorKind::InUse, "stop whoever uses it"),
            Errno::ROFS => (OpenErrorKind::ReadOnly, "open it read-only"),
            Errno::ACCESS | Errno::PERM => {
                (OpenErrorKind::Permission, "run as a user who may, or open it read-only")
            }
            Errno::ISDIR => (OpenErrorKind::NotADisk, "give a regular file or a block device"),
            _ => (OpenErrorKind::Io, "see the kernel log"),
        };
        Self::new(kind, format!("cannot {action} {path}: found {}; {advice}", name_of(errno)))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.detail)
    }
}

impl std::error::Error for OpenError {}

/// The decision an errno of a disk command calls for.
pub(crate) fn kind_of(errno: Errno) -> DiskErrorKind {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskErrorKind::OutOfSpace,
        Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM | Errno::SHUTDOWN | Errno::STALE => {
            DiskErrorKind::Gone
        }
        Errno::INVAL => DiskErrorKind::Invalid,
        Errno::ROFS | Errno::PERM | Errno::BADF => DiskErrorKind::ReadOnly,
        _ => DiskErrorKind::Io,
    }
}

/// A disk error for `errno`, met while doing `what`.
pub(crate) fn disk_error(what: &str, expected: &str, errno: Errno) -> DiskError {
    let kind = kind_of(errno);
    let advice = match kind {
        DiskErrorKind::OutOfSpace => "free space on the file system that holds the image",
        DiskErrorKind::Gone => "the device left; reconnect it and open the volume again",
        DiskErrorKind::Io => "see the kernel log for the medium's own report",
        DiskErrorKind::Invalid => "the device's limits do not match what it reported at open",
        DiskErrorKind::ReadOnly => "the medium became write-protected",
    };
    let detail = format!("{what}: expected {expected}, found {}; {advice}", name_of(errno));
    DiskError { kind, detail }
}

/// The kernel's words for an errno, with its number.
pub(crate) fn name_of(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// What is there instead of a disk.
pub(crate) fn name_of_type(kind: std::fs::FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "something else"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_errno_leads_to_the_decision_the_engine_needs() {
        for (errno, kind) in [
            (Errno::NOSPC, DiskErrorKind::OutOfSpace),
            (Errno::DQUOT, DiskErrorKind::OutOfSpace),
            (Errno::NODEV, DiskErrorKind::Gone),
            (Errno::NXIO, DiskErrorKind::Gone),
            (Errno::IO, DiskErrorKind::Io),
            (Errno::NODATA, DiskErrorKind::Io),
            (Errno::INVAL, DiskErrorKind::Invalid),
            (Errno::ROFS, DiskErrorKind::ReadOnly),
        ] {
            assert_eq!(kind_of(errno), kind, "{errno:?}");
        }
    }

    #[test]
    fn each_errno_of_an_open_leads_to_what_its_owner_can_do() {
        for (errno, kind, advice) in [
            (Errno::NOENT, OpenErrorKind::NotFound, "check the path"),
            (Errno::EXIST, OpenErrorKind::AlreadyExists, "choose another path"),
            (Errno::BUSY, OpenErrorKind::InUse, "stop whoever uses it"),
            (Errno::ROFS, OpenErrorKind::ReadOnly, "open it read-only"),
            (Errno::ACCESS, OpenErrorKind::Permission, "as a user who may"),
            (Errno::PERM, OpenErrorKind::Permission, "as a user who may"),
            (Errno::ISDIR, OpenErrorKind::NotADisk, "a regular file or a block device"),
            (Errno::IO, OpenErrorKind::Io, "kernel log"),
        ] {
            let error = OpenError::from_errno("open", "a.img", errno);
            let told = error.to_string();
            assert_eq!(error.kind, kind, "{errno:?}");
            assert!(
                told.starts_with("cannot open a.img: found ") && told.contains(advice),
                "{told}"
            );
        }
    }

    #[test]
    fn a_message_names_what_was_expected_and_found() {
        let error = disk_error("write of 4096 bytes at 8192 on a.img", "4096 bytes", Errno::NOSPC);
        for part in ["a.img", "8192", "expected 4096 bytes", "No space left"] {
            assert!(error.detail.contains(part), "{part:?} missing in {:?}", error.detail);
        }
    }
}
