//! The file system of one file: names and attributes; reads and writes go to the front.

use crate::allocation;
use crate::front::Front;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nearhead_service::{Operation, Service, ServiceInfo};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file's name.
pub const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Nothing about it ever changes.
const VALID: Duration = Duration::from_secs(86_400);
/// Largest request, in bytes: what a loop device sends at most.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Most requests that the kernel sends without waiting for replies: the depth of a loop device's queue.
const REQUESTS_MAX: u16 = 128;

/// The file system.
pub(crate) struct OneFile<S> {
    pub(crate) front: Arc<Front<S>>,
    pub(crate) info: ServiceInfo,
    /// Whether a write that was answered may still be lost.
    pub(crate) flushes: bool,
}

impl<S> OneFile<S> {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o500, 0),
            FILE if self.info.read_only => (FileType::RegularFile, 0o400, self.info.size_bytes),
            FILE => (FileType::RegularFile, 0o600, self.info.size_bytes),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: self.info.block_bytes_preferred,
            flags: 0,
        })
    }

    fn tell_attributes(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&VALID, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl<S: Service + Send + 'static> Filesystem for OneFile<S> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(REQUESTS_MAX);
        let _ = config.set_congestion_threshold(REQUESTS_MAX);
        // Without it direct writes would wait for each other.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| {
            io::Error::other("expected a kernel with asynchronous direct I/O in FUSE, found none")
        })
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == NAME => {
                reply.entry(&VALID, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.tell_attributes(inode, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A disk has one size. Times, owners and modes are accepted and stay what they are.
        if size.is_some_and(|size| size != self.info.size_bytes) {
            return reply.error(Errno::EPERM);
        }
        self.tell_attributes(inode, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != FILE {
            return reply.error(Errno::EISDIR);
        }
        // Every request reaches the disk as it was made, as many at a time as there are.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.info.size_bytes.saturating_sub(offset);
        match u64::from(size).min(left) as u32 {
            0 => reply.data(&[]),
            len => self.front.read(offset, len, reply),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset >= self.info.size_bytes {
            return reply.error(Errno::ENOSPC);
        }
        self.front.write(offset, data, reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.flushes {
            self.front.carry_out(Operation::Flush, reply);
        } else {
            // The kernel remembers that and asks no more: what is written is durable.
            reply.error(Errno::ENOSYS);
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // The emulated disk takes the time that its zeros take, also where that is the time of a write.
        match allocation::operation((offset, len), mode as u32, true) {
            Some((operation, _)) => self.front.carry_out(operation, reply),
            None => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries =
            [(INodeNo::ROOT, ".", FileType::Directory), (INodeNo::ROOT, "..", FileType::Directory)];
        let entries = entries.into_iter().chain([(FILE, NAME, FileType::RegularFile)]);
        for (number, (inode, name, kind)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(inode, number, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
