//! Receivers of the file system's answers: the kernel, each answer in the shape that its request wants, or a thread of this process.

use crate::ioctls::{Told, told};
use crate::protocol::answer::{Body, Listing};
use crate::protocol::wire::{GetxattrOut, LseekOut, OPEN_KEEP_CACHE, OpenOut, StatfsOut, WriteOut};
use crate::session::Reply;
use crate::words::{attributes, entry, node, statx};
use nearhead_disk::Payload;
use nearhead_ext4::{BLOCK_BYTES, DirectoryEntry, FsStatistics};
use nearhead_fs::{Answer, FsError};
use rustix::io::Errno;
use std::sync::mpsc::Sender;

/// Bits of a mode below those that an entry of a listing has.
const KIND_SHIFT: u32 = 12;

/// Receiver of an answer.
pub(crate) enum Waiting {
    Kernel(Reply, Shape),
    /// A thread of this process.
    Inside(Sender<Result<Answer, FsError>>),
    /// The answer is dropped.
    None,
}

/// Shape of an answer for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Entry,
    Created,
    Attributes,
    Statx,
    Empty,
    Data,
    Written,
    /// A listing of at most so many bytes.
    Directory {
        room: u32,
    },
    /// A value of at most so many bytes; 0 asks for its length.
    Value {
        room: u32,
    },
    Statistics,
    Offset,
    Ioctl(Told),
    /// The flags of this node were set by an ioctl, after which the kernel keeps the attributes that it caches.
    FlagsSet {
        node: u64,
    },
}

impl Waiting {
    /// Hands the answer over.
    pub(crate) fn answer(self, result: Result<Answer, FsError>) {
        match (self, result) {
            // A receiver that has gone away needs none.
            (Self::Inside(to), result) => drop(to.send(result)),
            (Self::Kernel(to, shape), Ok(answer)) => succeed(to, shape, answer),
            (Self::Kernel(to, _), Err(error)) => {
                to.error(Errno::from_raw_os_error(error.errno));
            }
            (Self::None, _) => {}
        }
    }
}

fn succeed(to: Reply, shape: Shape, answer: Answer) {
    match (shape, answer) {
        (Shape::Entry, Answer::Node(of)) => to.body(&Body::of(&entry(&of))),
        (Shape::Created, Answer::Node(of)) => {
            let opened = OpenOut { open_flags: OPEN_KEEP_CACHE, ..OpenOut::default() };
            to.body(&Body::of(&entry(&of)).and(&opened));
        }
        (Shape::Attributes, Answer::Node(of)) => to.body(&Body::of(&attributes(&of))),
        (Shape::Statx, Answer::Node(of)) => to.body(&Body::of(&statx(&of))),
        (Shape::Empty, _) => to.done(),
        (Shape::Data, Answer::Bytes(parts)) => send_bytes(to, &parts),
        (Shape::Data, Answer::Value(bytes)) => to.parts(&[&bytes]),
        (Shape::Written, Answer::Written(size)) => {
            to.body(&Body::of(&WriteOut { size, padding: 0 }));
        }
        (Shape::Directory { room }, Answer::Entries(entries)) => to.body(&listing(room, &entries)),
        (Shape::Value { room }, Answer::Value(bytes)) => send_value(to, room, &bytes),
        (Shape::Value { room }, Answer::Names(names)) => {
            let list: Vec<u8> =
                names.into_iter().flat_map(|name| [name, vec![0]]).flatten().collect();
            send_value(to, room, &list);
        }
        (Shape::Statistics, Answer::Statistics(of)) => to.body(&Body::of(&statistics(&of))),
        (Shape::Offset, Answer::Offset(offset)) => to.body(&Body::of(&LseekOut { offset })),
        (Shape::FlagsSet { node }, answer) => {
            to.forget_attributes(node);
            to.body(&Body::ioctl(&told(Told::Nothing, &answer)));
        }
        (Shape::Ioctl(shape), answer) => to.body(&Body::ioctl(&told(shape, &answer))),
        _ => to.error(Errno::IO),
    }
}

fn statistics(of: &FsStatistics) -> StatfsOut {
    StatfsOut {
        blocks: of.blocks,
        bfree: of.free,
        bavail: of.available,
        files: of.inodes,
        ffree: of.free_inodes,
        bsize: BLOCK_BYTES as u32,
        namelen: of.name_bytes_max,
        frsize: BLOCK_BYTES as u32,
        ..StatfsOut::default()
    }
}

/// Without a copy, unless a part has no bytes of its own.
fn send_bytes(to: Reply, parts: &[Payload]) {
    let slices: Option<Vec<&[u8]>> = parts
        .iter()
        .map(|part| match part {
            Payload::Bytes(bytes) => Some(&bytes[..]),
            _ => None,
        })
        .collect();
    match slices {
        Some(slices) => to.parts(&slices),
        None => to.parts(&[&nearhead_disk::bytes_of(parts)]),
    }
}

fn listing(room: u32, entries: &[DirectoryEntry]) -> Body {
    let mut listing = Listing::new(room);
    for entry in entries {
        let kind = u32::from(entry.kind.mode_bits()) >> KIND_SHIFT;
        if !listing.push(node(entry.ino), entry.cookie, kind, &entry.name) {
            break;
        }
    }
    listing.into_body()
}

fn send_value(to: Reply, room: u32, bytes: &[u8]) {
    if room == 0 {
        to.body(&Body::of(&GetxattrOut { size: bytes.len() as u32, padding: 0 }));
    } else if bytes.len() > room as usize {
        to.error(Errno::RANGE);
    } else {
        to.parts(&[bytes]);
    }
}
