//! What a bare disk says to its clients in the words of a service, and of its commands to who watches it.

use nearhead_disk::{Command, DiskError, DiskErrorKind};
use nearhead_engine::DiskWork;
use nearhead_service::{ErrorKind, Operation, RequestError};

pub(super) fn not_supported(disk: &str, what: &str) -> RequestError {
    RequestError::new(ErrorKind::NotSupported, format!("disk {disk} does not offer {what}"))
}

pub(super) fn request_error(error: &DiskError) -> RequestError {
    let kind = match error.kind {
        DiskErrorKind::Io | DiskErrorKind::Gone => ErrorKind::Io,
        DiskErrorKind::OutOfSpace => ErrorKind::NoSpace,
        DiskErrorKind::Invalid => ErrorKind::Invalid,
        DiskErrorKind::ReadOnly => ErrorKind::ReadOnly,
    };
    RequestError::new(kind, error.detail.clone())
}

/// What `command` is, should it fail.
pub(super) fn work_of(command: &Command) -> DiskWork {
    match command {
        Command::Read { .. } => DiskWork::Read,
        Command::Write { .. } | Command::WriteZeroes { .. } => DiskWork::HomeWrite,
        Command::Trim { .. } => DiskWork::Trim,
        Command::Flush => DiskWork::Flush,
    }
}

/// First byte and length of what it does; none of a flush.
pub(super) fn extent_of(command: &Command) -> Option<(u64, u64)> {
    match command {
        Command::Read { offset, len } => Some((*offset, u64::from(*len))),
        Command::Write { offset, parts, .. } => {
            Some((*offset, nearhead_disk::total_len(parts) as u64))
        }
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
            Some((*offset, *len))
        }
        Command::Flush => None,
    }
}

pub(super) fn operation_bytes(operation: &Operation) -> u64 {
    match operation {
        Operation::Read { len, .. } => u64::from(*len),
        Operation::Write { data, .. } | Operation::WriteInPlace { data, .. } => data.len() as u64,
        Operation::Trim { len, .. } | Operation::WriteZeroes { len, .. } => *len,
        Operation::Flush | Operation::WriteAtomic { .. } | Operation::Hint { .. } => 0,
    }
}
