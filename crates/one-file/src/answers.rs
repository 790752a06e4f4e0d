//! Which error of Linux an error of a service is.

use nearhead_service::{ErrorKind, RequestError};
use rustix::io::Errno;

/// The number that the kernel is told.
pub(crate) fn errno(error: &RequestError) -> Errno {
    match error.kind {
        ErrorKind::Io => Errno::IO,
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::Invalid => Errno::INVAL,
        ErrorKind::NotSupported => Errno::OPNOTSUPP,
        ErrorKind::ReadOnly => Errno::ROFS,
        ErrorKind::ShuttingDown => Errno::SHUTDOWN,
    }
}
