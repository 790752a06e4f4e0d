//! A service shown as one file that can only be read: for programs that look at an image, e2fsck and debugfs among them.
//!
//! `nearhead-one-file` shows emulated disks, which are written and whose replies are due to the microsecond; it waits for a clock, and a volume on
//! a real disk waits for a descriptor.

use crate::carrier::Carrier;
use nearhead_disk::{Nanos, range_of};
use nearhead_ext4::{Attributes, DirectoryEntry, FileKind, Ino, ROOT, Timestamp};
use nearhead_fs::{Answer, FsError, FsOperation, FsReply, FsRequest};
use nearhead_service::{Operation, Request, RequestId, Service, Wake};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The file's name.
pub const IMAGE_NAME: &str = "image";
const FILE: Ino = Ino(11);
/// Numbers of Linux.
const ENOENT: i32 = 2;
const EROFS: i32 = 30;

/// A read under way: its parts in order, and what of them was asked for.
struct Reading {
    id: u64,
    cut: Range<usize>,
}

/// The service, and who waits.
pub(crate) struct Image<S> {
    service: S,
    size: u64,
    block: u64,
    reading: BTreeMap<u64, Reading>,
    next: u64,
    asked: VecDeque<Request>,
    replies: VecDeque<FsReply>,
}

impl<S: Service> Image<S> {
    pub(crate) fn of(service: S) -> Self {
        let info = service.info();
        Self {
            service,
            size: info.size_bytes,
            block: u64::from(info.block_bytes_min),
            reading: BTreeMap::new(),
            next: 0,
            asked: VecDeque::new(),
            replies: VecDeque::new(),
        }
    }

    fn node(&self, ino: Ino) -> Attributes {
        let is_file = ino == FILE;
        let never = Timestamp::default();
        Attributes {
            ino,
            generation: 0,
            kind: if is_file { FileKind::Regular } else { FileKind::Directory },
            mode: if is_file { 0o400 } else { 0o500 },
            links: 1,
            // The user who serves it: a program of that user may read it.
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            size: if is_file { self.size } else { 0 },
            blocks_512: if is_file { self.size / 512 } else { 0 },
            accessed: never,
            modified: never,
            changed: never,
            created: never,
            device: 0,
            flags: 0,
        }
    }

    fn carry_out(&self, operation: &FsOperation) -> Result<Answer, FsError> {
        match operation {
            FsOperation::Lookup { name, .. } if name == IMAGE_NAME.as_bytes() => {
                Ok(Answer::Node(self.node(FILE)))
            }
            FsOperation::Lookup { .. } => Err(FsError::new(ENOENT, "no such file")),
            FsOperation::Attributes { ino } => Ok(Answer::Node(self.node(*ino))),
            FsOperation::Forget { .. } | FsOperation::Sync { .. } => Ok(Answer::Nothing),
            FsOperation::ReadDirectory { after: 0, .. } => Ok(Answer::Entries(vec![
                entry(ROOT, ".", 1),
                entry(ROOT, "..", 2),
                entry(FILE, IMAGE_NAME, 3),
            ])),
            FsOperation::ReadDirectory { .. } => Ok(Answer::Entries(Vec::new())),
            _ => Err(FsError::new(EROFS, "an image that is only looked at")),
        }
    }

    /// Whole blocks around what is asked for.
    fn read(&mut self, id: u64, offset: u64, len: u32) {
        let end = (offset + u64::from(len)).min(self.size);
        if offset >= end {
            return self.replies.push_back(FsReply { id, result: Ok(Answer::Bytes(Vec::new())) });
        }
        let start = offset / self.block * self.block;
        let stop = end.next_multiple_of(self.block).min(self.size);
        self.next += 1;
        let cut = (offset - start) as usize..(end - start) as usize;
        self.reading.insert(self.next, Reading { id, cut });
        let operation = Operation::Read { offset: start, len: (stop - start) as u32 };
        self.asked.push_back(Request { id: RequestId(self.next), operation });
    }
}

fn entry(ino: Ino, name: &str, cookie: u64) -> DirectoryEntry {
    let kind = if ino == FILE { FileKind::Regular } else { FileKind::Directory };
    DirectoryEntry { ino, kind, name: name.as_bytes().to_vec(), cookie }
}

impl<S: Service> Carrier for Image<S> {
    fn submit(&mut self, request: FsRequest) {
        if let FsOperation::Read { ino: FILE, offset, len } = request.operation {
            return self.read(request.id, offset, len);
        }
        let result = self.carry_out(&request.operation);
        self.replies.push_back(FsReply { id: request.id, result });
    }

    fn drive(&mut self, now: Nanos) {
        for request in self.asked.drain(..) {
            self.service.submit(request, now);
        }
        self.service.drive(now);
        while let Some(reply) = self.service.poll_reply() {
            let Some(reading) = self.reading.remove(&reply.id.0) else { continue };
            let result = match reply.result {
                Ok(parts) => Ok(Answer::Bytes(range_of(parts, &reading.cut))),
                Err(error) => Err(FsError::new(5, error.detail)),
            };
            self.replies.push_back(FsReply { id: reading.id, result });
        }
    }

    fn poll_reply(&mut self) -> Option<FsReply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        self.service.wake()
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.service.begin_shutdown(now);
    }

    fn is_shut_down(&self) -> bool {
        self.service.is_shut_down()
    }

    fn failure(&self) -> Option<&FsError> {
        None
    }

    fn note_answered(&mut self, _: &[u64]) {}
}
