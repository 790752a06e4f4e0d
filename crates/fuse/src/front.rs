//! What the kernel asks, as requests of the file system. It decides nothing: each is handed on with whom to answer.

use crate::answers::Waiting;
use crate::ioctls;
use crate::serve::{Asked, Takes};
use crate::words::{ino, time_or_now, timestamp};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use nearhead_disk::BufferMut;
use nearhead_ext4::{AttributeChange, Caller, FileKind, NewNode, Rename, XattrSet};
use nearhead_fs::{FsOperation, FsRequest, RoomChange, Sought};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest write and longest read ahead, in bytes.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends in the background without waiting for replies.
const REQUESTS_MAX: u16 = 128;
/// Entries asked for at once: more than the kernel takes in one reply of a page for names of usual length.
const ENTRIES_MAX: usize = 128;
/// `O_DSYNC`: also a part of `O_SYNC` (fcntl.h).
const O_DSYNC: i32 = 0o10000;
/// Bits of a mode that are no kind.
const PERMISSIONS: u32 = 0o7777;

/// The front.
pub(crate) struct Front {
    to: Arc<dyn Takes>,
}

impl Front {
    pub(crate) fn new(to: Arc<dyn Takes>) -> Self {
        Self { to }
    }

    fn ask(&self, request: &Request, operation: FsOperation, waiting: Waiting) {
        self.to.ask(Asked { request: told(request, operation), waiting });
    }
}

/// The operation with who wants it, and now.
fn told(request: &Request, operation: FsOperation) -> FsRequest {
    let now = timestamp(SystemTime::now(), UNIX_EPOCH);
    let caller = Caller { uid: request.uid(), gid: request.gid(), now };
    // Whoever carries it out numbers it.
    FsRequest { id: 0, caller, operation }
}

fn bytes(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

fn node(kind: FileKind, mode: u32, umask: u32) -> NewNode {
    NewNode {
        kind,
        mode: (mode & PERMISSIONS) as u16,
        umask: (umask & PERMISSIONS) as u16,
        device: 0,
        target: None,
    }
}

impl Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_readahead(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(REQUESTS_MAX);
        let _ = config.set_congestion_threshold(REQUESTS_MAX);
        // Each alone: an older kernel does without those that it does not have.
        for wanted in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPORT_SUPPORT,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_HAS_IOCTL_DIR,
            // Without it the kernel asks for a file's capabilities before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let operation = FsOperation::Lookup { parent: ino(parent), name: bytes(name) };
        self.ask(request, operation, Waiting::Entry(reply));
    }

    fn forget(&self, request: &Request, inode: INodeNo, count: u64) {
        let operation = FsOperation::Forget { ino: ino(inode), count };
        self.ask(request, operation, Waiting::Nobody);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let operation = FsOperation::Attributes { ino: ino(inode) };
        self.ask(request, operation, Waiting::Attributes(reply));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let now = timestamp(SystemTime::now(), UNIX_EPOCH);
        // With `FUSE_HANDLE_KILLPRIV_V2` the kernel leaves it to us to take setuid and setgid away (fuse.h): with another owner, and with
        // another size where whoever cuts may not keep them. Before it lets such a user write, it asks for no change at all, and takes the
        // mode from the answer.
        let is_owner = uid.is_some() || gid.is_some();
        let is_cut = size.is_some() && request.uid() != 0;
        let is_other = mode.is_some() || accessed.is_some() || modified.is_some();
        let is_empty = !is_owner && size.is_none() && !is_other && flags.is_none();
        let change = AttributeChange {
            clears_privileges: is_owner || is_cut || is_empty,
            mode: mode.map(|mode| (mode & PERMISSIONS) as u16),
            uid,
            gid,
            accessed: accessed.map(|time| time_or_now(time, now)),
            modified: modified.map(|time| time_or_now(time, now)),
            flags: flags.map(|flags| flags.bits()),
        };
        let operation = FsOperation::SetAttributes { ino: ino(inode), change, size };
        self.ask(request, operation, Waiting::Attributes(reply));
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        self.ask(request, FsOperation::ReadLink { ino: ino(inode) }, Waiting::Data(reply));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = FileKind::from_mode(mode as u16) else {
            return reply.error(Errno::EINVAL);
        };
        let new = NewNode { device, ..node(kind, mode, umask) };
        let operation = FsOperation::Make { parent: ino(parent), name: bytes(name), new };
        self.ask(request, operation, Waiting::Entry(reply));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let new = node(FileKind::Directory, mode, umask);
        let operation = FsOperation::Make { parent: ino(parent), name: bytes(name), new };
        self.ask(request, operation, Waiting::Entry(reply));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let operation = FsOperation::Unlink { parent: ino(parent), name: bytes(name) };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let operation = FsOperation::RemoveDirectory { parent: ino(parent), name: bytes(name) };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = Some(bytes(target.as_os_str()));
        let new = NewNode { target, ..node(FileKind::Symlink, 0o777, 0) };
        let operation = FsOperation::Make { parent: ino(parent), name: bytes(name), new };
        self.ask(request, operation, Waiting::Entry(reply));
    }

    fn rename(
        &self,
        request: &Request,
        from: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            flags if flags.is_empty() => Rename::Replace,
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let operation = FsOperation::Rename {
            from: ino(from),
            name: bytes(name),
            to: ino(to),
            new_name: bytes(new_name),
            how,
        };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let operation =
            FsOperation::Link { ino: ino(inode), parent: ino(parent), name: bytes(name) };
        self.ask(request, operation, Waiting::Entry(reply));
    }

    /// Nothing has to be opened: the kernel asks once, and then no more.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let new = node(FileKind::Regular, mode, umask);
        let operation = FsOperation::Make { parent: ino(parent), name: bytes(name), new };
        self.ask(request, operation, Waiting::Created(reply));
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let operation = FsOperation::Read { ino: ino(inode), offset, len };
        self.ask(request, operation, Waiting::Data(reply));
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // What the kernel writes of a mapping has nobody's flags.
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let is_durable = !is_cached && flags.0 & O_DSYNC != 0;
        if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            let clears_privileges = true;
            let change = AttributeChange { clears_privileges, ..AttributeChange::default() };
            let operation = FsOperation::SetAttributes { ino: ino(inode), change, size: None };
            self.to.put(Asked { request: told(request, operation), waiting: Waiting::Nobody });
        }
        let data = BufferMut::copy_of(data).freeze();
        let operation = FsOperation::Write { ino: ino(inode), offset, data, is_durable };
        self.ask(request, operation, Waiting::Written(reply));
    }

    /// Closing makes nothing durable: the kernel asks once, and then no more.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let operation = FsOperation::Sync { ino: ino(inode), data_only };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn fsyncdir(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, inode, handle, data_only, reply);
    }

    fn readdir(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        after: u64,
        reply: ReplyDirectory,
    ) {
        let operation =
            FsOperation::ReadDirectory { ino: ino(inode), after, entries_max: ENTRIES_MAX };
        self.ask(request, operation, Waiting::Directory(reply));
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.ask(request, FsOperation::Statistics, Waiting::Statistics(reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        // XATTR_CREATE and XATTR_REPLACE (setxattr(2)).
        let how = match flags & 3 {
            1 => XattrSet::Create,
            2 => XattrSet::Replace,
            _ => XattrSet::Any,
        };
        let (name, value) = (bytes(name), value.to_vec());
        let operation = FsOperation::SetXattr { ino: ino(inode), name, value, how };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn getxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let operation = FsOperation::GetXattr { ino: ino(inode), name: bytes(name) };
        self.ask(request, operation, Waiting::Value(reply, room));
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        let operation = FsOperation::ListXattrs { ino: ino(inode) };
        self.ask(request, operation, Waiting::Value(reply, room));
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let operation = FsOperation::RemoveXattr { ino: ino(inode), name: bytes(name) };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // FALLOC_FL_KEEP_SIZE 1, PUNCH_HOLE 2, ZERO_RANGE 16 (fallocate(2)).
        let change = match mode {
            0 => RoomChange::Reserve,
            1 => RoomChange::ReserveBeyond,
            3 => RoomChange::Punch,
            16 => RoomChange::Zero,
            17 => RoomChange::ZeroBeyond,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let operation = FsOperation::ChangeRoom { ino: ino(inode), offset, len, change };
        self.ask(request, operation, Waiting::Empty(reply));
    }

    fn ioctl(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        bytes: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        match ioctls::asked(ino(inode), command, bytes) {
            Ok((operation, told)) => self.ask(request, operation, Waiting::Ioctl(reply, told)),
            Err(errno) => reply.error(errno),
        }
    }

    fn lseek(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // SEEK_DATA 3 and SEEK_HOLE 4 (lseek(2)); the kernel does the others by itself.
        let sought = match whence {
            3 => Sought::Data,
            4 => Sought::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let operation = FsOperation::Seek { ino: ino(inode), offset, sought };
        self.ask(request, operation, Waiting::Offset(reply));
    }
}
