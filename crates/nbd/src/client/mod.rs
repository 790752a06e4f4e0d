//! The other side of the protocol: an export of somebody else's, used as a disk.
//!
//! It is there so that a volume can live on a disk in another process, above all on an emulated one
//! that `nearhead disk serve` can cut the power of. One connection, no TLS; extended headers where the server
//! has them, else structured replies, else simple ones. What a server says is as hostile as what a client says: lengths are checked before memory is taken, and
//! anything unexpected ends the connection, after which every command fails.

mod address;
mod awaited;
mod handshake;
#[cfg(test)]
mod handshake_tests;
mod link;
#[cfg(test)]
mod link_tests;
mod remote;
mod replies;
mod status;
mod stream;

pub use address::{Address, Place, uri_escaped};
pub use handshake::Facts;
pub use remote::RemoteDisk;

use crate::protocol::constants::errno;
use nearhead_disk::{DiskError, DiskErrorKind};

/// What an error number in a reply means for who asked.
fn error_of(name: &str, number: u32) -> DiskError {
    let kind = match number {
        errno::PERM => DiskErrorKind::ReadOnly,
        errno::INVAL | errno::NOTSUP => DiskErrorKind::Invalid,
        errno::NOSPC => DiskErrorKind::OutOfSpace,
        errno::SHUTDOWN => DiskErrorKind::Gone,
        _ => DiskErrorKind::Io,
    };
    DiskError { kind, detail: format!("{name}: the server answered with NBD error {number}") }
}
