//! The words between this crate and whoever drives it: files, attributes, entries, runs, changes.
//!
//! Plain values with public fields; units stand in their names or beside them. Nothing here knows how it lies on disk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Size of every block: the only one supported.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes of one block.
pub type BlockBytes = Arc<[u8; BLOCK_BYTES]>;

/// The number of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u32);

/// The root directory.
pub const ROOT: Ino = Ino(2);

/// Longest name in a directory.
pub const NAME_BYTES_MAX: usize = 255;

/// A moment, since 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; stored from 1901 to 2446.
    pub seconds: i64,
    /// The rest, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// On whose behalf something is done, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The time to be written into inodes.
    pub now: Timestamp,
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl FileKind {
    /// As `st_mode` of Linux has it.
    pub fn mode_bits(self) -> u16 {
        match self {
            Self::Fifo => 0x1000,
            Self::CharDevice => 0x2000,
            Self::Directory => 0x4000,
            Self::BlockDevice => 0x6000,
            Self::Regular => 0x8000,
            Self::Symlink => 0xA000,
            Self::Socket => 0xC000,
        }
    }

    /// From `st_mode`, if it names a kind.
    pub fn from_mode(mode: u16) -> Option<Self> {
        match mode & 0xF000 {
            0x1000 => Some(Self::Fifo),
            0x2000 => Some(Self::CharDevice),
            0x4000 => Some(Self::Directory),
            0x6000 => Some(Self::BlockDevice),
            0x8000 => Some(Self::Regular),
            0xA000 => Some(Self::Symlink),
            0xC000 => Some(Self::Socket),
            _ => None,
        }
    }

    /// As a directory entry has it.
    pub(crate) fn entry_byte(self) -> u8 {
        match self {
            Self::Regular => 1,
            Self::Directory => 2,
            Self::CharDevice => 3,
            Self::BlockDevice => 4,
            Self::Fifo => 5,
            Self::Socket => 6,
            Self::Symlink => 7,
        }
    }

    /// From a directory entry.
    pub(crate) fn from_entry_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Regular),
            2 => Some(Self::Directory),
            3 => Some(Self::CharDevice),
            4 => Some(Self::BlockDevice),
            5 => Some(Self::Fifo),
            6 => Some(Self::Socket),
            7 => Some(Self::Symlink),
            _ => None,
        }
    }
}

/// What is known of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub ino: Ino,
    /// Differs between two uses of the same number.
    pub generation: u32,
    /// What it is.
    pub kind: FileKind,
    /// Permissions with setuid, setgid and sticky: 12 bits.
    pub mode: u16,
    /// Names that lead to it; 0 once it is gone and merely held.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// What it occupies, in units of 512 bytes.
    pub blocks_512: u64,
    /// atime.
    pub accessed: Timestamp,
    /// mtime.
    pub modified: Timestamp,
    /// ctime.
    pub changed: Timestamp,
    /// crtime.
    pub created: Timestamp,
    /// Of device nodes, as Linux encodes it in 32 bits.
    pub device: u32,
    /// As `FS_IOC_GETFLAGS` has them.
    pub flags: u32,
}

/// What [`crate::Ext4::set_attributes`] changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// 12 bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// atime.
    pub accessed: Option<Timestamp>,
    /// mtime.
    pub modified: Option<Timestamp>,
    /// As `FS_IOC_SETFLAGS` has them; what users may not change stays.
    pub flags: Option<u32>,
    /// Setuid, and setgid where a group may execute, are taken away; not of a directory.
    pub clears_privileges: bool,
}

/// Times of a node that [`crate::Ext4::set_times`] sets; those that are `None` stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// atime.
    pub accessed: Option<Timestamp>,
    /// mtime.
    pub modified: Option<Timestamp>,
    /// ctime.
    pub changed: Option<Timestamp>,
}

/// How a file system is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nothing is changed.
    pub read_only: bool,
    /// Clean blocks beyond this many are forgotten; at least 1,024 are kept.
    pub cache_blocks_max: usize,
    /// Generations of inodes, hashes of names and where new directories go follow from it.
    pub seed: u64,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// What it leads to.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// The name; `.` and `..` among them.
    pub name: Vec<u8>,
    /// Where to go on after this entry.
    pub cookie: u64,
}

/// What [`crate::Ext4::make`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// What it is.
    pub kind: FileKind,
    /// 12 bits.
    pub mode: u16,
    /// Bits that are taken from the mode, unless the directory has a default ACL; 0 if the kernel did so already.
    pub umask: u16,
    /// Of device nodes, as Linux encodes it.
    pub device: u32,
    /// Of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// What became of an inode that lost a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Which.
    pub ino: Ino,
    /// No name leads to it any more.
    pub is_gone: bool,
}

/// What a rename does with a name that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// The new name's inode loses it.
    Replace,
    /// EEXIST.
    NoReplace,
    /// Both names change places.
    Exchange,
    /// As `Replace`, and a whiteout stays under the old name: a character device 0/0, which an overlay takes for a name that is gone.
    Whiteout,
    /// As `NoReplace`, and a whiteout stays under the old name.
    WhiteoutNoReplace,
}

impl Rename {
    /// Whether the old name stays, with a whiteout.
    pub fn leaves_whiteout(self) -> bool {
        matches!(self, Self::Whiteout | Self::WhiteoutNoReplace)
    }
}

/// Inodes that a rename removed or made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    /// The inode that lost the new name.
    pub removed: Option<Removed>,
    /// The whiteout under the old name.
    pub whiteout: Option<Ino>,
}

/// Whether setting an extended attribute may make or replace it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrSet {
    /// Either.
    Any,
    /// EEXIST if it is there (`XATTR_CREATE`).
    Create,
    /// ENODATA if it is not (`XATTR_REPLACE`).
    Replace,
}

/// Where blocks of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: they read as zeros.
    Hole,
    /// From this block on, but they read as zeros.
    Unwritten(u64),
    /// From this block on.
    Written(u64),
}

/// Consecutive blocks of a file in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First block of the file.
    pub logical: u64,
    /// Blocks.
    pub len: u64,
    /// Where they are.
    pub place: Place,
}

/// What blocks were before [`crate::Ext4::allocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    /// A hole: the blocks are new.
    Hole,
    /// Unwritten: what is in the blocks must not be read.
    Unwritten,
    /// Written, and they stay where they are.
    Written,
}

/// Consecutive blocks of a file that are now written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// First block of the file.
    pub logical: u64,
    /// Blocks.
    pub len: u64,
    /// First block of the volume.
    pub physical: u64,
    /// Before.
    pub was: Was,
}

/// How far a truncation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Else the size stands where it got: ask again, in this transaction or a later one.
    pub is_complete: bool,
}

/// Names one [`Changes`]; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangesId(pub u64);

/// What one transaction changed.
#[derive(Clone, Debug)]
pub struct Changes {
    /// For [`crate::Ext4::settle`].
    pub id: ChangesId,
    /// Metadata blocks, with their checksums. None at all, if nothing happened but that somebody let go of something.
    pub blocks: BTreeMap<u64, BlockBytes>,
    /// Those of them whose content is known from the disk, as they were given, or among the changes before: what is there once all
    /// changes before these are durable.
    pub before: BTreeMap<u64, BlockBytes>,
    /// Blocks that nothing needs once this is durable: in order, and none twice.
    pub freed: Vec<Range<u64>>,
}

/// For `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsStatistics {
    /// Blocks for files.
    pub blocks: u64,
    /// Of them free.
    pub free: u64,
    /// Of them for everybody, and not for root alone.
    pub available: u64,
    /// Inodes.
    pub inodes: u64,
    /// Of them free.
    pub free_inodes: u64,
    /// Longest name.
    pub name_bytes_max: u32,
    /// From the UUID.
    pub fsid: u64,
}
