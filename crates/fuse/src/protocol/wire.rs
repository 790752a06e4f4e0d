//! Structures of the FUSE protocol (`linux/fuse.h`, major version 7) as they are in the kernel's messages.
//!
//! All numbers are in the machine's own byte order. The size of each structure is asserted when it is compiled. Nothing here decides
//! anything, and no structure has padding: reading or writing one can never expose memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares structures of the protocol, each with its size in bytes.
macro_rules! wire {
    ($($(#[$about:meta])* $name:ident: $bytes:literal { $($field:ident: $kind:ty,)* })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[allow(missing_docs, reason = "the fields are those of linux/fuse.h")]
            pub struct $name { $(pub $field: $kind,)* }

            const _: () = assert!(size_of::<$name>() == $bytes);
        )*
    };
}

wire! {
    /// `fuse_in_header`: the beginning of every request.
    InHeader: 40 {
        len: u32,
        opcode: u32,
        unique: u64,
        nodeid: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        extension_words: u16,
        padding: u16,
    }
    /// `fuse_out_header`: the beginning of every answer.
    OutHeader: 16 {
        len: u32,
        error: i32,
        unique: u64,
    }
    /// `fuse_attr`.
    Attr: 88 {
        ino: u64,
        size: u64,
        blocks: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }
    /// `fuse_entry_out`.
    EntryOut: 128 {
        nodeid: u64,
        generation: u64,
        entry_valid: u64,
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: Attr,
    }
    /// `fuse_attr_out`.
    AttrOut: 104 {
        attr_valid: u64,
        attr_valid_nsec: u32,
        padding: u32,
        attr: Attr,
    }
    /// `fuse_sx_time`.
    StatxTime: 16 {
        seconds: i64,
        nanoseconds: u32,
        reserved: i32,
    }
    /// `fuse_statx`.
    Statx: 256 {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        padding: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: StatxTime,
        btime: StatxTime,
        ctime: StatxTime,
        mtime: StatxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        spare: [u64; 14],
    }
    /// `fuse_statx_out`.
    StatxOut: 288 {
        attr_valid: u64,
        attr_valid_nsec: u32,
        flags: u32,
        spare: [u64; 2],
        stat: Statx,
    }
    /// `fuse_statx_in`.
    StatxIn: 24 {
        getattr_flags: u32,
        reserved: u32,
        fh: u64,
        sx_flags: u32,
        sx_mask: u32,
    }
    /// `fuse_kstatfs`, which is all of `fuse_statfs_out`.
    StatfsOut: 80 {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }
    /// `fuse_forget_one`.
    ForgetOne: 16 {
        nodeid: u64,
        nlookup: u64,
    }
    /// `fuse_batch_forget_in`.
    BatchForgetIn: 8 {
        count: u32,
        padding: u32,
    }
    /// `fuse_mknod_in`.
    MknodIn: 16 {
        mode: u32,
        rdev: u32,
        umask: u32,
        padding: u32,
    }
    /// `fuse_mkdir_in`.
    MkdirIn: 8 {
        mode: u32,
        umask: u32,
    }
    /// `fuse_rename2_in`.
    Rename2In: 16 {
        newdir: u64,
        flags: u32,
        padding: u32,
    }
    /// `fuse_setattr_in`.
    SetattrIn: 88 {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused: u32,
        uid: u32,
        gid: u32,
        unused_too: u32,
    }
    /// `fuse_create_in`.
    CreateIn: 16 {
        flags: u32,
        mode: u32,
        umask: u32,
        open_flags: u32,
    }
    /// `fuse_open_out`.
    OpenOut: 16 {
        fh: u64,
        open_flags: u32,
        backing_id: i32,
    }
    /// `fuse_read_in`, also of `READDIR`.
    ReadIn: 40 {
        fh: u64,
        offset: u64,
        size: u32,
        read_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    /// `fuse_write_in`.
    WriteIn: 40 {
        fh: u64,
        offset: u64,
        size: u32,
        write_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    /// `fuse_write_out`.
    WriteOut: 8 {
        size: u32,
        padding: u32,
    }
    /// `fuse_fsync_in`.
    FsyncIn: 16 {
        fh: u64,
        fsync_flags: u32,
        padding: u32,
    }
    /// `fuse_setxattr_in` without the part that `FUSE_SETXATTR_EXT` adds.
    SetxattrIn: 8 {
        size: u32,
        flags: u32,
    }
    /// `fuse_getxattr_in`, also of `LISTXATTR`.
    GetxattrIn: 8 {
        size: u32,
        padding: u32,
    }
    /// `fuse_getxattr_out`.
    GetxattrOut: 8 {
        size: u32,
        padding: u32,
    }
    /// `fuse_init_in` of the protocol 7.36 and later; before it ended after `flags`.
    InitIn: 64 {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        flags2: u32,
        unused: [u32; 11],
    }
    /// `fuse_init_out`.
    InitOut: 64 {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        max_stack_depth: u32,
        unused: [u32; 6],
    }
    /// `fuse_ioctl_in`.
    IoctlIn: 32 {
        fh: u64,
        flags: u32,
        cmd: u32,
        arg: u64,
        in_size: u32,
        out_size: u32,
    }
    /// `fuse_ioctl_out`.
    IoctlOut: 16 {
        result: i32,
        flags: u32,
        in_iovs: u32,
        out_iovs: u32,
    }
    /// `fuse_fallocate_in`.
    FallocateIn: 32 {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
        padding: u32,
    }
    /// `fuse_lseek_in`.
    LseekIn: 24 {
        fh: u64,
        offset: u64,
        whence: u32,
        padding: u32,
    }
    /// `fuse_lseek_out`.
    LseekOut: 8 {
        offset: u64,
    }
    /// `fuse_dirent` without its name.
    Dirent: 24 {
        ino: u64,
        off: u64,
        namelen: u32,
        kind: u32,
    }
    /// `fuse_notify_inval_inode_out`.
    InvalidateInode: 24 {
        ino: u64,
        offset: i64,
        len: i64,
    }
}

/// Numbers of requests (`enum fuse_opcode`).
#[allow(missing_docs, reason = "the names are those of linux/fuse.h")]
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
}

/// Flags of the first exchange; those from bit 32 on are in `flags2`.
pub mod init_flag {
    /// Reads of one file may overlap.
    pub const ASYNC_READ: u32 = 1 << 0;
    /// Look-ups of `.` and `..`, for NFS.
    pub const EXPORT_SUPPORT: u32 = 1 << 4;
    /// Writes of more than a page.
    pub const BIG_WRITES: u32 = 1 << 5;
    /// The umask comes with the request, and is not in the mode.
    pub const DONT_MASK: u32 = 1 << 6;
    /// Requests of `ioctl(2)` also for directories.
    pub const HAS_IOCTL_DIR: u32 = 1 << 11;
    /// Direct reads and writes of one file may overlap.
    pub const ASYNC_DIO: u32 = 1 << 15;
    /// `OPEN` may be answered once for all with `ENOSYS`.
    pub const NO_OPEN_SUPPORT: u32 = 1 << 17;
    /// Look-ups and listings of one directory may overlap.
    pub const PARALLEL_DIROPS: u32 = 1 << 18;
    /// POSIX access lists.
    pub const POSIX_ACL: u32 = 1 << 20;
    /// The answer has the most pages of a request.
    pub const MAX_PAGES: u32 = 1 << 22;
    /// Targets of symbolic links are cached.
    pub const CACHE_SYMLINKS: u32 = 1 << 23;
    /// `OPENDIR` may be answered once for all with `ENOSYS`.
    pub const NO_OPENDIR_SUPPORT: u32 = 1 << 24;
    /// The file system takes setuid and setgid away.
    pub const HANDLE_KILLPRIV_V2: u32 = 1 << 28;
    /// `flags2` counts.
    pub const INIT_EXT: u32 = 1 << 30;
    /// In `flags2`: the kernel sends unanswered requests again when it is asked to (`FUSE_NOTIFY_RESEND`).
    pub const HAS_RESEND_2: u32 = 1 << 7;
}

/// Bits of [`SetattrIn::valid`].
#[allow(missing_docs, reason = "the names are those of linux/fuse.h")]
pub mod set {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
}

/// Written from the page cache: the request has flags of no open file.
pub const WRITE_CACHE: u32 = 1 << 0;
/// Setuid and setgid end with this write.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `FOPEN_KEEP_CACHE`: what is cached of the file stays when it is opened.
pub const OPEN_KEEP_CACHE: u32 = 1 << 1;
/// `FUSE_FSYNC_FDATASYNC`.
pub const FSYNC_DATA_ONLY: u32 = 1 << 0;
/// `FUSE_UNIQUE_RESEND`: the kernel sent the request before, to a process that did not answer it.
pub const UNIQUE_RESEND: u64 = 1 << 63;
/// `FUSE_NOTIFY_RESEND` (Linux 6.9).
pub const NOTIFY_RESEND: i32 = 7;
/// `FUSE_NOTIFY_INVAL_INODE`.
pub const NOTIFY_INVAL_INODE: i32 = 2;
