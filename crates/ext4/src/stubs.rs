//! Operations that are not there yet answer that they are not supported.

use crate::error::fail;
use crate::{
    AttributeChange, Attributes, BlockBytes, Caller, Changes, ChangesId, DirectoryEntry, Errno,
    Ext4, FsStatistics, Geometry, Ino, NewNode, NewRun, OpenError, Options, Outcome, Removed,
    Rename, Run, Timestamp, Truncated, XattrSet,
};

fn not_yet<T>() -> Outcome<T> {
    Err(fail(Errno::NotSupported, "not there yet"))
}

#[allow(
    unused_variables,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    clippy::wildcard_imports
)]
impl Ext4 {
    /// What the first 4096 bytes of a volume say.
    pub fn probe(first_block: &[u8]) -> Result<Geometry, OpenError> {
        Err(OpenError::Refused("not there yet".into()))
    }

    /// Opens what `first_block`, the first 4096 bytes of a volume, describes; then [`Ext4::mount`].
    pub fn open(
        first_block: &[u8],
        volume_bytes: u64,
        options: Options,
    ) -> Result<Self, OpenError> {
        Err(OpenError::Refused("not there yet".into()))
    }

    /// Reads the group descriptors; unless read-only, marks the superblock as mounted once more.
    pub fn mount(&mut self, now: Timestamp) -> Outcome<()> {
        not_yet()
    }

    /// Delivers a block that was wanted, as it is on disk.
    pub fn give(&mut self, block: u64, bytes: BlockBytes) {}

    /// Whether there is anything for [`Ext4::take_changes`].
    pub fn is_changed(&self) -> bool {
        false
    }

    /// Metadata blocks of the running transaction.
    pub fn changes_len(&self) -> usize {
        0
    }

    /// Everything that changed since the last call, to be written as one atomic write; then [`Ext4::settle`].
    pub fn take_changes(&mut self) -> Changes {
        Changes { id: ChangesId(0), blocks: std::collections::BTreeMap::new(), freed: Vec::new() }
    }

    /// These changes, and all before them, are durable.
    pub fn settle(&mut self, id: ChangesId) {}

    /// For `statfs`.
    pub fn statistics(&self) -> FsStatistics {
        FsStatistics {
            blocks: 0,
            free: 0,
            available: 0,
            inodes: 0,
            free_inodes: 0,
            name_bytes_max: 255,
            fsid: 0,
        }
    }

    /// The inode that a name leads to.
    pub fn lookup(&mut self, parent: Ino, name: &[u8]) -> Outcome<Attributes> {
        not_yet()
    }

    /// Of an inode.
    pub fn attributes(&mut self, ino: Ino) -> Outcome<Attributes> {
        not_yet()
    }

    /// Changes what `change` names, and the time of change.
    pub fn set_attributes(
        &mut self,
        ino: Ino,
        change: &AttributeChange,
        caller: &Caller,
    ) -> Outcome<Attributes> {
        not_yet()
    }

    /// Entries after the one that `after` is the cookie of (0: from the start), at most `entries_max`; none at the end.
    pub fn read_directory(
        &mut self,
        ino: Ino,
        after: u64,
        entries_max: usize,
    ) -> Outcome<Vec<DirectoryEntry>> {
        not_yet()
    }

    /// Makes a file, directory, device, pipe, socket or symbolic link.
    pub fn make(
        &mut self,
        parent: Ino,
        name: &[u8],
        new: &NewNode,
        caller: &Caller,
    ) -> Outcome<Attributes> {
        not_yet()
    }

    /// Where a symbolic link leads.
    pub fn read_link(&mut self, ino: Ino) -> Outcome<Vec<u8>> {
        not_yet()
    }

    /// One more name for an inode that is no directory.
    pub fn link(
        &mut self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        caller: &Caller,
    ) -> Outcome<Attributes> {
        not_yet()
    }

    /// Takes a name from an inode that is no directory.
    pub fn unlink(&mut self, parent: Ino, name: &[u8], caller: &Caller) -> Outcome<Removed> {
        not_yet()
    }

    /// Removes an empty directory.
    pub fn remove_directory(
        &mut self,
        parent: Ino,
        name: &[u8],
        caller: &Caller,
    ) -> Outcome<Removed> {
        not_yet()
    }

    /// Moves a name; says what lost its name by that.
    pub fn rename(
        &mut self,
        from: Ino,
        name: &[u8],
        to: Ino,
        new_name: &[u8],
        how: Rename,
        caller: &Caller,
    ) -> Outcome<Option<Removed>> {
        not_yet()
    }

    /// One more reference: an inode that loses its last name lives on in memory while there is one.
    pub fn hold(&mut self, ino: Ino) {}

    /// One reference less.
    pub fn release(&mut self, ino: Ino) {}

    /// Where the blocks of a range are: runs in order that cover it.
    pub fn map(&mut self, ino: Ino, first: u64, count: u64) -> Outcome<Vec<Run>> {
        not_yet()
    }

    /// Every block of the range gets a place and counts as written. Whoever asks writes the new ones before these
    /// changes are durable, and lets the file [grow](Ext4::grow) over them in the same transaction.
    pub fn allocate(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        caller: &Caller,
    ) -> Outcome<Vec<NewRun>> {
        not_yet()
    }

    /// The file is at least `size` bytes long from now on, and was modified.
    pub fn grow(&mut self, ino: Ino, size: u64, caller: &Caller) -> Outcome<()> {
        not_yet()
    }

    /// The file was modified; `clears_privileges` also takes setuid and setgid away.
    pub fn touch_written(
        &mut self,
        ino: Ino,
        clears_privileges: bool,
        caller: &Caller,
    ) -> Outcome<()> {
        not_yet()
    }

    /// Sets the size, up or down. Going down it frees a bounded number of blocks at a time. The rest of a last block
    /// that is cut in the middle is data: whoever drives this writes zeros there.
    pub fn truncate(&mut self, ino: Ino, size: u64, caller: &Caller) -> Outcome<Truncated> {
        not_yet()
    }

    /// Holes of the range become unwritten blocks; without `keep_size` the file grows over them.
    pub fn reserve(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        keep_size: bool,
        caller: &Caller,
    ) -> Outcome<()> {
        not_yet()
    }

    /// Whole blocks become holes.
    pub fn punch(&mut self, ino: Ino, first: u64, count: u64, caller: &Caller) -> Outcome<()> {
        not_yet()
    }

    /// Every block of the range becomes unwritten: it reads as zeros and has its place.
    pub fn make_unwritten(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        caller: &Caller,
    ) -> Outcome<()> {
        not_yet()
    }

    /// The value of an extended attribute; ACLs as Linux passes them.
    pub fn get_xattr(&mut self, ino: Ino, name: &[u8]) -> Outcome<Vec<u8>> {
        not_yet()
    }

    /// Their names.
    pub fn list_xattrs(&mut self, ino: Ino) -> Outcome<Vec<Vec<u8>>> {
        not_yet()
    }

    /// Sets one. An access ACL also sets the mode.
    pub fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: XattrSet,
        caller: &Caller,
    ) -> Outcome<()> {
        not_yet()
    }

    /// Removes one.
    pub fn remove_xattr(&mut self, ino: Ino, name: &[u8], caller: &Caller) -> Outcome<()> {
        not_yet()
    }

    /// Frees a part of what was too large to be freed at once; whether more is left. To be called after
    /// [`Ext4::mount`] and after a removal until it says false, with room for commits in between.
    pub fn work_off(&mut self, caller: &Caller) -> Outcome<bool> {
        not_yet()
    }
}
