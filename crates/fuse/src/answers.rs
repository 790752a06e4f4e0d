//! Whom to answer, and how each answer is said to the kernel.

use crate::ioctls::{Told, told};
use crate::words::{attributes, file_type, inode};
use fuser::{
    Errno, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use nearhead_disk::Payload;
use nearhead_ext4::{Attributes, BLOCK_BYTES, DirectoryEntry};
use nearhead_fs::{Answer, FsError};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How long the kernel may believe what it was told: nobody else changes it.
const VALID: Duration = Duration::from_secs(3600);

/// Who waits for an answer.
pub(crate) enum Waiting {
    Entry(ReplyEntry),
    Created(ReplyCreate),
    Attributes(ReplyAttr),
    Empty(ReplyEmpty),
    Data(ReplyData),
    Written(ReplyWrite),
    Directory(ReplyDirectory),
    /// With how many bytes the kernel takes; 0 asks for their number.
    Value(ReplyXattr, u32),
    Statistics(ReplyStatfs),
    Offset(ReplyLseek),
    Ioctl(ReplyIoctl, Told),
    /// A thread of this process.
    Inside(Sender<Result<Answer, FsError>>),
    Nobody,
}

impl Waiting {
    /// Says it to the kernel.
    pub(crate) fn answer(self, result: Result<Answer, FsError>) {
        if let Self::Inside(to) = self {
            // Who has gone away needs none.
            return drop(to.send(result));
        }
        match result {
            Ok(answer) => self.succeed(answer),
            Err(error) => self.fail(Errno::from_i32(error.errno)),
        }
    }

    fn succeed(self, answer: Answer) {
        match (self, answer) {
            (Self::Entry(to), Answer::Node(node)) => {
                to.entry(&VALID, &attributes(&node), generation(&node));
            }
            (Self::Created(to), Answer::Node(node)) => {
                let (told, flags) = (attributes(&node), FopenFlags::FOPEN_KEEP_CACHE);
                to.created(&VALID, &told, generation(&node), FileHandle(0), flags);
            }
            (Self::Attributes(to), Answer::Node(node)) => to.attr(&VALID, &attributes(&node)),
            (Self::Empty(to), _) => to.ok(),
            (Self::Data(to), Answer::Bytes(parts)) => send_bytes(to, &parts),
            (Self::Data(to), Answer::Value(bytes)) => to.data(&bytes),
            (Self::Written(to), Answer::Written(len)) => to.written(len),
            (Self::Directory(to), Answer::Entries(entries)) => send_entries(to, &entries),
            (Self::Value(to, room), Answer::Value(bytes)) => send_value(to, room, &bytes),
            (Self::Value(to, room), Answer::Names(names)) => {
                let list: Vec<u8> =
                    names.into_iter().flat_map(|name| [name, vec![0]]).flatten().collect();
                send_value(to, room, &list);
            }
            (Self::Statistics(to), Answer::Statistics(of)) => to.statfs(
                of.blocks,
                of.free,
                of.available,
                of.inodes,
                of.free_inodes,
                BLOCK_BYTES as u32,
                of.name_bytes_max,
                BLOCK_BYTES as u32,
            ),
            (Self::Offset(to), Answer::Offset(offset)) => to.offset(offset as i64),
            (Self::Ioctl(to, shape), answer) => to.ioctl(0, &told(shape, &answer)),
            (Self::Nobody, _) => {}
            (other, _) => other.fail(Errno::EIO),
        }
    }

    fn fail(self, errno: Errno) {
        match self {
            Self::Entry(to) => to.error(errno),
            Self::Created(to) => to.error(errno),
            Self::Attributes(to) => to.error(errno),
            Self::Empty(to) => to.error(errno),
            Self::Data(to) => to.error(errno),
            Self::Written(to) => to.error(errno),
            Self::Directory(to) => to.error(errno),
            Self::Value(to, _) => to.error(errno),
            Self::Statistics(to) => to.error(errno),
            Self::Offset(to) => to.error(errno),
            Self::Ioctl(to, _) => to.error(errno),
            Self::Inside(_) | Self::Nobody => {}
        }
    }
}

fn generation(node: &Attributes) -> Generation {
    Generation(u64::from(node.generation))
}

fn send_bytes(to: ReplyData, parts: &[Payload]) {
    if let [Payload::Bytes(bytes)] = parts {
        return to.data(bytes);
    }
    to.data(&nearhead_disk::bytes_of(parts));
}

fn send_entries(mut to: ReplyDirectory, entries: &[DirectoryEntry]) {
    for entry in entries {
        let name = OsStr::from_bytes(&entry.name);
        if to.add(inode(entry.ino), entry.cookie, file_type(entry.kind), name) {
            break;
        }
    }
    to.ok();
}

fn send_value(to: ReplyXattr, room: u32, bytes: &[u8]) {
    if room == 0 {
        to.size(bytes.len() as u32);
    } else if bytes.len() > room as usize {
        to.error(Errno::ERANGE);
    } else {
        to.data(bytes);
    }
}
