//! What a bare disk says to its clients in the words of a service.

use nearhead_disk::{DiskError, DiskErrorKind};
use nearhead_engine::{ErrorKind, Operation, RequestError};

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

pub(super) fn operation_bytes(operation: &Operation) -> u64 {
    match operation {
        Operation::Read { len, .. } => u64::from(*len),
        Operation::Write { data, .. } => data.len() as u64,
        Operation::Trim { len, .. } | Operation::WriteZeroes { len, .. } => *len,
        Operation::Flush | Operation::WriteAtomic { .. } | Operation::Hint { .. } => 0,
    }
}
