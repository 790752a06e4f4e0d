//! ext4 without I/O: the structures on disk and the operations of a Linux file system on them.
//!
//! An operation either gives its result, or the blocks that must be given first, or an error; in the last two cases it
//! has changed nothing. Whoever drives it reads blocks, keeps the data of files, and writes what
//! [`Ext4::take_changes`] gives as one atomic write: after each, the image is one that `e2fsck -fn` finds clean. Nothing
//! here reads a disk or a clock, starts a thread or finds chance. Whatever is read may be hostile: it is checked when it
//! is first understood as what it is supposed to be.
//!
//! ```
//! use nearhead_ext4::{Ext4, OpenError};
//! assert!(matches!(Ext4::probe(&[0; 4096]), Err(OpenError::NotExt4(_))));
//! ```
//!
//! Driving it:
//!
//! ```
//! use nearhead_ext4::{Caller, Ext4, FileKind, NewNode, Options, Outcome, ROOT, Stop, Timestamp, sample};
//! let now = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
//! let mut disk = sample::image(1000, [7; 16], now)?;
//! let options = Options { read_only: false, cache_blocks_max: 1024, seed: 1 };
//! let mut fs = Ext4::open(&*disk[&0], 1000 * 4096, options)?;
//! let new = NewNode { kind: FileKind::Directory, mode: 0o755, umask: 0, device: 0, target: None };
//! let caller = Caller { uid: 0, gid: 0, now };
//! let mut once = |fs: &mut Ext4| -> Outcome<u32> {
//!     fs.mount(now)?;
//!     Ok(fs.make(ROOT, b"new", &new, &caller)?.ino.0)
//! };
//! let ino = loop {
//!     match once(&mut fs) {
//!         Ok(ino) => break ino,
//!         Err(Stop::Wants(blocks)) => {
//!             for block in blocks {
//!                 fs.give(block, disk[&block].clone());
//!             }
//!         }
//!         Err(Stop::Fails(error)) => return Err(error.into()),
//!     }
//! };
//! assert_eq!(ino, 12);
//! let changes = fs.take_changes();
//! disk.extend(changes.blocks); // one atomic write
//! fs.settle(changes.id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acl;
mod attributes;
mod bitmap;
pub mod blank;
mod block_room;
mod cache;
mod changes;
mod checksum;
mod data;
mod directory;
mod dirent;
mod error;
mod extent_node;
mod extents;
mod features;
mod geometry;
mod group;
mod hold;
mod index;
mod inode;
mod inode_room;
mod inodes;
mod make;
mod mount;
mod orphan;
mod parked;
mod ranges;
mod remove;
mod rename;
pub mod sample;
mod transaction;
mod trim;
mod truncate;
mod types;
mod verify;
mod volatile;
mod xattr_block;
mod xattrs;

pub use error::{Errno, Error, OpenError, Outcome, Stop};
pub use geometry::Geometry;
pub use inode::{
    APPEND_FLAG, DIRSYNC_FLAG, IMMUTABLE_FLAG, NOATIME_FLAG, NODUMP_FLAG, SYNC_FLAG, USER_FLAGS,
};
pub use types::*;
pub use volatile::{KindCode, Noted, NotedBlock};

use nearhead_basics::NumberHash;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Whoever drives a file system may do so from any thread, one at a time.
const _: () = {
    const fn may_move<T: Send>() {}
    may_move::<Ext4>();
};

/// A file system.
#[derive(Debug)]
pub struct Ext4 {
    geometry: Geometry,
    options: Options,
    cache: cache::Cache,
    /// Free on disk and not to be allocated: the next two, and what changes in flight freed.
    busy: ranges::Ranges,
    /// Freed by the running transaction.
    freed: ranges::Ranges,
    /// Made unwritten, while an older state that may come back still shows what is in them: by the running transaction,
    /// and by it and those in flight.
    unwritten: ranges::Ranges,
    unwritten_unsettled: ranges::Ranges,
    /// Of inodes that live in memory.
    reserved: ranges::Ranges,
    /// Free, and about to be told to the disk.
    trimming: Vec<std::ops::Range<u64>>,
    in_flight: VecDeque<changes::InFlight>,
    next_id: u64,
    holds: HashMap<u32, u64, NumberHash>,
    /// Inodes without a name that somebody holds.
    orphans: BTreeMap<Ino, orphan::Orphan>,
    /// Orphans that changed since the last poll; none while changes are not noted.
    noted_orphans: Option<BTreeSet<Ino>>,
    /// Inodes without a name of a client's, and the directories that have the names of ours.
    parked: BTreeMap<Ino, Ino>,
    /// Inodes of these that never had a name and may get one.
    nameless: BTreeSet<Ino>,
    indexes: index::Indexes,
    inodes_made: u64,
    /// Where the search for blocks goes on in each group.
    cursors: HashMap<u32, u64, NumberHash>,
    /// Superblocks, descriptors, bitmaps and inode tables.
    system: ranges::Ranges,
    last_change: Timestamp,
    /// Blocks of metadata that the running transaction has at most.
    changes_max: usize,
    overhead_blocks: u64,
    is_mounted: bool,
}
