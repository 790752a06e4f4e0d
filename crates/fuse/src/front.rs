//! Requests of the kernel as operations of the file system. It decides nothing: each is handed on with the receiver of its answer.

use crate::answers::{Shape, Waiting};
use crate::ioctls;
use crate::protocol::wire::{
    CreateIn, FallocateIn, ForgetOne, InHeader, IoctlIn, LseekIn, SetattrIn, UNIQUE_RESEND,
    WRITE_CACHE, WRITE_KILL_SUIDGID, WriteIn, init_flag, set,
};
use crate::protocol::{Operation, Request};
use crate::seeking::{Search, Seeking};
use crate::serve::{self, Asked};
use crate::session::{Reply, Session, Takes};
use crate::words::{ino, now, timestamp};
use nearhead_disk::BufferMut;
use nearhead_ext4::{AttributeChange, Caller, FileKind, Ino, NewNode, Rename, Timestamp, XattrSet};
use nearhead_fs::{FsOperation, FsRequest, RoomChange, Sought};
use rustix::io::Errno;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries asked for at once: more than the kernel takes in one reply of a page for names of usual length.
const ENTRIES_MAX: usize = 128;
/// `O_DSYNC`: also a part of `O_SYNC` (fcntl.h).
const O_DSYNC: u32 = 0o10000;
/// Bits of a mode that are no kind.
const PERMISSIONS: u32 = 0o7777;

/// The front.
pub(crate) struct Front {
    to: Arc<dyn serve::Takes>,
    /// The kernel leaves it to us to take setuid and setgid away.
    clears_privileges: bool,
    seeking: Seeking,
    /// Nodes that were cut to nothing and not closed since. The closing of any other needs no turn of the file system.
    cut: Mutex<HashSet<u64>>,
}

impl Front {
    pub(crate) fn new(to: Arc<dyn serve::Takes>, session: &Arc<Session>) -> io::Result<Self> {
        let flags = session.negotiated().flags;
        let clears_privileges = flags & init_flag::HANDLE_KILLPRIV_V2 != 0;
        let seeking = Seeking::start(session, &to)?;
        Ok(Self { to, clears_privileges, seeking, cut: Mutex::default() })
    }

    fn cut(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self, header: &InHeader, reply: Reply) {
        // Closing makes nothing durable.
        if !self.cut().remove(&header.nodeid) {
            return reply.done();
        }
        let operation = FsOperation::Closed { ino: ino(header.nodeid) };
        let waiting = Waiting::Kernel(reply, Shape::Empty);
        self.to.ask(Asked { request: request(header, operation), waiting });
    }

    fn forget(&self, header: &InHeader, references: &[ForgetOne]) {
        for one in references {
            self.cut().remove(&one.nodeid);
            let operation = FsOperation::Forget { ino: ino(one.nodeid), count: one.nlookup };
            let asked = Asked { request: unnumbered(header, operation), waiting: Waiting::None };
            self.to.ask(asked);
        }
    }

    fn set_attributes(&self, header: &InHeader, of: &SetattrIn) -> Result<FsOperation, Errno> {
        let has = |bit| of.valid & bit != 0;
        let time = |bit, now_bit, seconds, nanoseconds| -> Result<Option<Timestamp>, Errno> {
            match (has(bit), has(now_bit)) {
                (_, true) => Ok(Some(now())),
                (true, false) => timestamp(seconds, nanoseconds).map(Some).ok_or(Errno::INVAL),
                (false, false) => Ok(None),
            }
        };
        let mode = has(set::MODE).then_some((of.mode & PERMISSIONS) as u16);
        let (uid, gid) = (has(set::UID).then_some(of.uid), has(set::GID).then_some(of.gid));
        let accessed = time(set::ATIME, set::ATIME_NOW, of.atime, of.atimensec)?;
        let modified = time(set::MTIME, set::MTIME_NOW, of.mtime, of.mtimensec)?;
        let size = has(set::SIZE).then_some(of.size);
        if size == Some(0) {
            self.cut().insert(header.nodeid);
        }
        // With `FUSE_HANDLE_KILLPRIV_V2` setuid and setgid end with another owner, and with another size where the caller may not keep
        // them (fuse.h). Before it lets such a user write, it asks for no change at all, and takes the
        // mode from the answer.
        let is_owner = uid.is_some() || gid.is_some();
        let is_cut = size.is_some() && header.uid != 0;
        let is_other = mode.is_some() || accessed.is_some() || modified.is_some();
        let is_empty = !is_owner && size.is_none() && !is_other;
        let clears_privileges = self.clears_privileges && (is_owner || is_cut || is_empty);
        let change =
            AttributeChange { mode, uid, gid, accessed, modified, flags: None, clears_privileges };
        Ok(FsOperation::SetAttributes { ino: ino(header.nodeid), change, size })
    }

    fn write(&self, header: &InHeader, of: &WriteIn, data: &[u8], reply: Reply) {
        // What the kernel writes of a mapping has no file's flags.
        let is_cached = of.write_flags & WRITE_CACHE != 0;
        let is_durable = !is_cached && of.flags & O_DSYNC != 0;
        let ino = ino(header.nodeid);
        if of.write_flags & WRITE_KILL_SUIDGID != 0 {
            let clears_privileges = true;
            let change = AttributeChange { clears_privileges, ..AttributeChange::default() };
            let operation = FsOperation::SetAttributes { ino, change, size: None };
            self.to.put(Asked { request: unnumbered(header, operation), waiting: Waiting::None });
        }
        let data = BufferMut::copy_of(data).freeze();
        let operation = FsOperation::Write { ino, offset: of.offset, data, is_durable };
        let waiting = Waiting::Kernel(reply, Shape::Written);
        self.to.ask(Asked { request: request(header, operation), waiting });
    }
}

impl Takes for Front {
    fn take(&self, of: Request<'_>, reply: Reply) {
        let header = of.header;
        let asked = match of.operation {
            Ok(Operation::Forget(references)) => {
                reply.none();
                return self.forget(&header, &references);
            }
            Ok(Operation::Write { of, data }) => return self.write(&header, &of, data, reply),
            Ok(Operation::Release | Operation::Destroy) => return reply.done(),
            Ok(Operation::Flush) => return self.flush(&header, reply),
            Ok(Operation::SetAttributes(of)) => {
                self.set_attributes(&header, &of).map(|operation| (operation, Shape::Attributes))
            }
            Ok(operation) => asked(&header, &operation),
            Err(errno) => Err(errno),
        };
        match asked {
            Ok((operation, shape)) => {
                let offset = match operation {
                    FsOperation::Seek { offset, .. } => Some(offset),
                    _ => None,
                };
                let waiting = Waiting::Kernel(reply, shape);
                let asked = Asked { request: request(&header, operation), waiting };
                match offset {
                    Some(offset) => {
                        self.seeking.search(Search { node: header.nodeid, offset, asked });
                    }
                    None => self.to.ask(asked),
                }
            }
            Err(errno) => reply.error(errno),
        }
    }
}

/// The operation with its caller, and now. It has the kernel's number, by which it is known if the kernel sends it again.
fn request(header: &InHeader, operation: FsOperation) -> FsRequest {
    FsRequest { id: header.unique & !UNIQUE_RESEND, ..unnumbered(header, operation) }
}

/// Request that the kernel does not send again: it is numbered when it is carried out.
fn unnumbered(header: &InHeader, operation: FsOperation) -> FsRequest {
    let caller = Caller { uid: header.uid, gid: header.gid, now: now() };
    FsRequest { id: 0, caller, operation }
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

fn make(parent: Ino, name: &[u8], new: NewNode) -> FsOperation {
    FsOperation::Make { parent, name: name.to_vec(), new }
}

/// The operation that a request is, and the shape of its answer.
fn asked(header: &InHeader, operation: &Operation<'_>) -> Result<(FsOperation, Shape), Errno> {
    use FsOperation as Fs;
    use Operation as Op;
    let ino = ino(header.nodeid);
    Ok(match operation {
        Op::Lookup { name } => (Fs::Lookup { parent: ino, name: name.to_vec() }, Shape::Entry),
        Op::GetAttributes => (Fs::Attributes { ino }, Shape::Attributes),
        Op::ReadLink => (Fs::ReadLink { ino }, Shape::Data),
        Op::Symlink { name, target } => {
            let target = Some(target.to_vec());
            let new = NewNode { target, ..node(FileKind::Symlink, 0o777, 0) };
            (make(ino, name, new), Shape::Entry)
        }
        Op::MakeNode { of, name } => {
            let kind = FileKind::from_mode(of.mode as u16).ok_or(Errno::INVAL)?;
            let new = NewNode { device: of.rdev, ..node(kind, of.mode, of.umask) };
            (make(ino, name, new), Shape::Entry)
        }
        Op::MakeDirectory { of, name } => {
            (make(ino, name, node(FileKind::Directory, of.mode, of.umask)), Shape::Entry)
        }
        Op::Unlink { name } => (Fs::Unlink { parent: ino, name: name.to_vec() }, Shape::Empty),
        Op::RemoveDirectory { name } => {
            (Fs::RemoveDirectory { parent: ino, name: name.to_vec() }, Shape::Empty)
        }
        Op::Rename { to, flags, name, new_name } => {
            (rename(ino, *to, *flags, name, new_name)?, Shape::Empty)
        }
        Op::Link { node, name } => {
            let linked = crate::words::ino(*node);
            (Fs::Link { ino: linked, parent: ino, name: name.to_vec() }, Shape::Entry)
        }
        Op::Create { of, name } => (make(ino, name, new_file(of)), Shape::Created),
        Op::Read(of) => (Fs::Read { ino, offset: of.offset, len: of.size }, Shape::Data),
        Op::ReadDirectory(of) => {
            let listed = Fs::ReadDirectory { ino, after: of.offset, entries_max: ENTRIES_MAX };
            (listed, Shape::Directory { room: of.size })
        }
        Op::Statx(_) => (Fs::Attributes { ino }, Shape::Statx),
        Op::MakeNameless { of } => {
            (Fs::MakeNameless { parent: ino, new: new_file(of) }, Shape::Created)
        }
        Op::SyncAll => (Fs::SyncAll, Shape::Empty),
        Op::Sync { data_only } => (Fs::Sync { ino, data_only: *data_only }, Shape::Empty),
        Op::Statistics => (Fs::Statistics, Shape::Statistics),
        Op::SetXattr { name, value, flags } => {
            let (name, value) = (name.to_vec(), value.to_vec());
            (Fs::SetXattr { ino, name, value, how: xattr_set(*flags) }, Shape::Empty)
        }
        Op::GetXattr { name, room } => {
            (Fs::GetXattr { ino, name: name.to_vec() }, Shape::Value { room: *room })
        }
        Op::ListXattrs { room } => (Fs::ListXattrs { ino }, Shape::Value { room: *room }),
        Op::RemoveXattr { name } => (Fs::RemoveXattr { ino, name: name.to_vec() }, Shape::Empty),
        Op::Allocate(of) => (allocate(ino, of)?, Shape::Empty),
        Op::Ioctl { of: IoctlIn { cmd, .. }, bytes } => {
            let (operation, shape) = ioctls::asked(ino, *cmd, bytes)?;
            let sets_flags = matches!(operation, Fs::SetFlags { .. });
            let shape = if sets_flags {
                Shape::FlagsSet { node: header.nodeid }
            } else {
                Shape::Ioctl(shape)
            };
            (operation, shape)
        }
        Op::Seek(of) => (seek(ino, of)?, Shape::Offset),
        Op::Init(_)
        | Op::Forget(_)
        | Op::SetAttributes(_)
        | Op::Write { .. }
        | Op::Flush
        | Op::Release
        | Op::Destroy => return Err(Errno::IO),
    })
}

fn new_file(of: &CreateIn) -> NewNode {
    node(FileKind::Regular, of.mode, of.umask)
}

fn rename(
    from: Ino,
    to: u64,
    flags: u32,
    name: &[u8],
    new_name: &[u8],
) -> Result<FsOperation, Errno> {
    // RENAME_NOREPLACE 1, RENAME_EXCHANGE 2 and RENAME_WHITEOUT 4 (rename(2)).
    let how = match flags {
        0 => Rename::Replace,
        1 => Rename::NoReplace,
        2 => Rename::Exchange,
        4 => Rename::Whiteout,
        5 => Rename::WhiteoutNoReplace,
        _ => return Err(Errno::INVAL),
    };
    let (name, new_name) = (name.to_vec(), new_name.to_vec());
    Ok(FsOperation::Rename { from, name, to: ino(to), new_name, how })
}

/// `XATTR_CREATE` and `XATTR_REPLACE` (setxattr(2)).
fn xattr_set(flags: u32) -> XattrSet {
    match flags & 3 {
        1 => XattrSet::Create,
        2 => XattrSet::Replace,
        _ => XattrSet::Any,
    }
}

fn allocate(ino: Ino, of: &FallocateIn) -> Result<FsOperation, Errno> {
    // FALLOC_FL_KEEP_SIZE 1, PUNCH_HOLE 2, ZERO_RANGE 16 (fallocate(2)).
    let change = match of.mode {
        0 => RoomChange::Reserve,
        1 => RoomChange::ReserveBeyond,
        3 => RoomChange::Punch,
        16 => RoomChange::Zero,
        17 => RoomChange::ZeroBeyond,
        _ => return Err(Errno::OPNOTSUPP),
    };
    Ok(FsOperation::ChangeRoom { ino, offset: of.offset, len: of.length, change })
}

fn seek(ino: Ino, of: &LseekIn) -> Result<FsOperation, Errno> {
    // SEEK_DATA 3 and SEEK_HOLE 4 (lseek(2)); the kernel does the others itself.
    let sought = match of.whence {
        3 => Sought::Data,
        4 => Sought::Hole,
        _ => return Err(Errno::INVAL),
    };
    if i64::try_from(of.offset).is_err() {
        return Err(Errno::NXIO);
    }
    Ok(FsOperation::Seek { ino, offset: of.offset, sought })
}
