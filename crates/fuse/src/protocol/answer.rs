//! Answers to the kernel, encoded as bytes.
//!
//! An answer has a header and a body of structures. Bytes of files are no part of the encoding: the sender of an answer puts them behind its
//! header without a copy. A listing is never longer than the kernel has room for.

use super::wire::{
    Dirent, InvalidateInode, IoctlOut, NOTIFY_INVAL_INODE, NOTIFY_RESEND, OutHeader,
};
use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

/// Alignment of the entries of a listing.
const ENTRY_ALIGN_BYTES: usize = 8;

/// The header of the answer to request `unique` with a body of `body_bytes`.
pub fn header(unique: u64, result: Result<(), Errno>, body_bytes: usize) -> OutHeader {
    let error = result.map_or_else(|errno| -errno.raw_os_error(), |()| 0);
    OutHeader { len: (size_of::<OutHeader>() + body_bytes) as u32, error, unique }
}

/// A body of structures, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl Body {
    /// The body of one structure.
    pub fn of(structure: &(impl IntoBytes + Immutable)) -> Self {
        Self(structure.as_bytes().to_vec())
    }

    /// The same with one more structure at its end.
    #[must_use]
    pub fn and(mut self, structure: &(impl IntoBytes + Immutable)) -> Self {
        self.0.extend_from_slice(structure.as_bytes());
        self
    }

    /// The answer to an `ioctl(2)` that succeeded, with the bytes that its caller gets.
    pub fn ioctl(bytes: &[u8]) -> Self {
        let mut body = Self::of(&IoctlOut::default());
        body.0.extend_from_slice(bytes);
        body
    }
}

/// A listing under construction.
#[derive(Clone, Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    room: usize,
}

impl Listing {
    /// An empty listing of at most `room` bytes.
    pub fn new(room: u32) -> Self {
        Self { bytes: Vec::new(), room: room as usize }
    }

    /// Appends an entry. False if it does not fit, and then nothing was appended. `kind` is the upper four bits of the mode.
    pub fn push(&mut self, ino: u64, cookie: u64, kind: u32, name: &[u8]) -> bool {
        let bytes = (size_of::<Dirent>() + name.len()).next_multiple_of(ENTRY_ALIGN_BYTES);
        if self.bytes.len() + bytes > self.room {
            return false;
        }
        let entry = Dirent { ino, off: cookie, namelen: name.len() as u32, kind };
        let end = self.bytes.len() + bytes;
        self.bytes.extend_from_slice(entry.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }

    /// The listing as the body of an answer.
    pub fn into_body(self) -> Body {
        Body(self.bytes)
    }
}

fn notification(code: i32, body: &[u8]) -> Vec<u8> {
    let len = (size_of::<OutHeader>() + body.len()) as u32;
    let mut bytes = OutHeader { len, error: code, unique: 0 }.as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// Makes the kernel send all requests again that no process has answered.
pub fn resend() -> Vec<u8> {
    notification(NOTIFY_RESEND, &[])
}

/// Lets the kernel forget the attributes that it caches of a node. It waits for no answer of this process.
pub fn invalidate_attributes(node: u64) -> Vec<u8> {
    invalidate_from(node, -1)
}

/// Lets the kernel write out and forget its cache of a file from `offset` on, and the attributes.
pub fn invalidate_from(node: u64, offset: i64) -> Vec<u8> {
    let range = InvalidateInode { ino: node, offset, len: 0 };
    notification(NOTIFY_INVAL_INODE, range.as_bytes())
}
