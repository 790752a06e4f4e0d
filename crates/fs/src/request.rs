//! What a front asks of a mounted file system, and what it gets back: exactly one reply for each request.

use crate::error::FsError;
use nearhead_disk::{Buffer, Payload};
use nearhead_ext4::{
    AttributeChange, Attributes, Caller, DirectoryEntry, FsStatistics, Ino, NewNode, Rename,
    XattrSet,
};
use nearhead_service::Hint;

/// A request of a client.
#[derive(Clone, Debug)]
pub struct FsRequest {
    /// Comes back in the reply. A client may ask again with the same even number after the process that serves it has ended.
    pub id: u64,
    /// Who asks, and when.
    pub caller: Caller,
    /// What to do.
    pub operation: FsOperation,
}

/// How room is given to a file or taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomChange {
    /// Blocks that read as zeros; the file grows over them if it has to.
    Reserve,
    /// The same, and the file keeps its length.
    ReserveBeyond,
    /// They become holes.
    Punch,
    /// They read as zeros, and have blocks; the file grows over them if it has to.
    Zero,
    /// The same, and the file keeps its length.
    ZeroBeyond,
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The next byte that is stored.
    Data,
    /// The next one that is not.
    Hole,
}

/// What can be asked.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are the system calls' own")]
pub enum FsOperation {
    /// The node of this name; it is held until it is forgotten.
    Lookup { parent: Ino, name: Vec<u8> },
    /// So many references of look-ups, makes and links end.
    Forget { ino: Ino, count: u64 },
    /// What is known of a node.
    Attributes { ino: Ino },
    /// Changes what is known of it; `size` cuts or extends a file.
    SetAttributes { ino: Ino, change: AttributeChange, size: Option<u64> },
    /// Where a symbolic link leads.
    ReadLink { ino: Ino },
    /// A new node, which is held as by a look-up.
    Make { parent: Ino, name: Vec<u8>, new: NewNode },
    /// A new file without a name, which is held as by a look-up and gone with its last reference, unless it is linked.
    MakeNameless { parent: Ino, new: NewNode },
    /// One name of a node less.
    Unlink { parent: Ino, name: Vec<u8> },
    /// An empty directory less.
    RemoveDirectory { parent: Ino, name: Vec<u8> },
    /// Another name for a node.
    Rename { from: Ino, name: Vec<u8>, to: Ino, new_name: Vec<u8>, how: Rename },
    /// One more name for a node, which is held as by a look-up.
    Link { ino: Ino, parent: Ino, name: Vec<u8> },
    /// Bytes of a file; fewer where it ends.
    Read { ino: Ino, offset: u64, len: u32 },
    /// Bytes into a file; `is_durable` as after an `fdatasync`.
    Write { ino: Ino, offset: u64, data: Buffer, is_durable: bool },
    /// All that was done to a node is to be durable; `data_only` without its times.
    Sync { ino: Ino, data_only: bool },
    /// All that was done is to be durable.
    SyncAll,
    /// A descriptor of a file was closed (`FUSE_FLUSH` or `FUSE_RELEASE`): if its old content was cut away (`O_TRUNC`), the new one is
    /// written out at once. It makes nothing durable, and is answered without a commit.
    Closed { ino: Ino },
    /// Entries of a directory behind the one with this cookie.
    ReadDirectory { ino: Ino, after: u64, entries_max: usize },
    /// The value of an extended attribute.
    GetXattr { ino: Ino, name: Vec<u8> },
    /// Sets one.
    SetXattr { ino: Ino, name: Vec<u8>, value: Vec<u8>, how: XattrSet },
    /// The names of all.
    ListXattrs { ino: Ino },
    /// One less.
    RemoveXattr { ino: Ino, name: Vec<u8> },
    /// Room for a file, or from it.
    ChangeRoom { ino: Ino, offset: u64, len: u64, change: RoomChange },
    /// The next data or hole of a file.
    Seek { ino: Ino, offset: u64, sought: Sought },
    /// Flags as `FS_IOC_GETFLAGS` has them, with [`crate::DURABILITY_ONLY_FLAG`].
    Flags { ino: Ino },
    /// Those flags of a node that `mask` has become as in `flags`.
    SetFlags { ino: Ino, flags: u32, mask: u32 },
    /// How full it is.
    Statistics,
    /// Tells the volume under it of free runs of at least so many bytes, within these bytes of the file system.
    Trim { offset: u64, len: u64, run_bytes_min: u64 },
    /// Tells the volume under it what a range of its bytes is used for.
    Hint { offset: u64, len: u64, hint: Hint },
}

impl FsOperation {
    /// The directory whose names it changes.
    pub(crate) fn directory(&self) -> Option<Ino> {
        match self {
            Self::Make { parent, .. }
            | Self::Link { parent, .. }
            | Self::Unlink { parent, .. }
            | Self::RemoveDirectory { parent, .. }
            | Self::Rename { from: parent, .. } => Some(*parent),
            _ => None,
        }
    }

    /// Whether it changes metadata at once: what is written changes it with the commit only.
    pub(crate) fn changes_metadata(&self) -> bool {
        let waits = matches!(self, Self::Write { .. } | Self::Sync { .. } | Self::SyncAll);
        self.changes() && !waits
    }

    /// Whether it changes anything, or promises that something is durable.
    pub(crate) fn changes(&self) -> bool {
        !matches!(
            self,
            Self::Lookup { .. }
                | Self::Forget { .. }
                | Self::Closed { .. }
                | Self::Attributes { .. }
                | Self::ReadLink { .. }
                | Self::Read { .. }
                | Self::ReadDirectory { .. }
                | Self::GetXattr { .. }
                | Self::ListXattrs { .. }
                | Self::Seek { .. }
                | Self::Flags { .. }
                | Self::Statistics
        )
    }
}

/// An answer.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are the system calls' own")]
pub enum Answer {
    /// It is done.
    Nothing,
    /// A node.
    Node(Attributes),
    /// Bytes of a file, in order.
    Bytes(Vec<Payload>),
    /// So many bytes were written.
    Written(u32),
    /// A link's target, or the value of an attribute.
    Value(Vec<u8>),
    /// Names of extended attributes.
    Names(Vec<Vec<u8>>),
    /// Entries of a directory.
    Entries(Vec<DirectoryEntry>),
    /// A place in a file.
    Offset(u64),
    /// So many free bytes were told.
    Trimmed(u64),
    /// Flags of a node, and the generation of its number.
    Flags { flags: u32, generation: u32 },
    /// How full it is.
    Statistics(FsStatistics),
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct FsReply {
    /// Which request.
    pub id: u64,
    /// The answer.
    pub result: Result<Answer, FsError>,
}
