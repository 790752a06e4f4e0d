//! Flags of files and directories as `lsattr` shows and `chattr` changes them: those that the inode has, and one more for durability-only.
//!
//! Each operation refuses what a flag forbids: here, in writes and in [`nearhead_ext4`]. A flag counts at once. Data written before still
//! goes to its place afterwards, as on ext4, and no request waits for that.

use crate::core::{BLOCK, Core};
use crate::durability::{ATTRIBUTE, ONLY};
use crate::error::{EOPNOTSUPP, EPERM, EROFS, FsError, Halt};
use crate::io::Purpose;
use crate::request::{Answer, FsOperation};
use nearhead_ext4::{
    APPEND_FLAG, AttributeChange, Attributes, Caller, DIRSYNC_FLAG, FileKind, IMMUTABLE_FLAG, Ino,
    Place, SYNC_FLAG, USER_FLAGS, XattrSet,
};
use nearhead_service::{Hint, Operation};

/// What `chattr +j` sets: of ext4's "its data goes through the journal", the part that a file system with logs has.
pub const DURABILITY_ONLY_FLAG: u32 = 0x4000;
/// Runs of a file that the volume is told of when it becomes durability-only: as many ranges as a volume keeps.
const RUNS_TOLD_MAX: usize = 4096;

impl Core {
    /// The flags of a node.
    pub(crate) fn try_flags(&mut self, ino: Ino) -> Result<Answer, Halt> {
        let attributes = self.ext4()?.attributes(ino)?;
        let flags = attributes.flags | self.durability_flag(ino, &attributes)?;
        Ok(Answer::Flags { flags, generation: attributes.generation })
    }

    fn durability_flag(&mut self, ino: Ino, attributes: &Attributes) -> Result<u32, Halt> {
        let can_be = matches!(attributes.kind, FileKind::Regular | FileKind::Directory);
        Ok(if can_be && self.is_durability_only(ino)? { DURABILITY_ONLY_FLAG } else { 0 })
    }

    /// Those flags of a node that `mask` has become as in `flags`.
    pub(crate) fn try_set_flags(
        &mut self,
        ino: Ino,
        flags: u32,
        mask: u32,
        caller: &Caller,
    ) -> Result<Answer, Halt> {
        let attributes = self.ext4()?.attributes(ino)?;
        let before = attributes.flags | self.durability_flag(ino, &attributes)?;
        let changed = (before ^ flags) & mask;
        self.check_flags(&attributes, before, changed, caller)?;
        let is_durable = flags & DURABILITY_ONLY_FLAG != 0;
        if changed & DURABILITY_ONLY_FLAG != 0 {
            self.set_durability_only(ino, &attributes, is_durable, caller)?;
        }
        // Setting flags that are set moves the time of change as well (ext4).
        if changed & USER_FLAGS != 0 || changed == 0 {
            let flags = Some(before & !mask | flags & mask);
            let change = AttributeChange { flags, ..AttributeChange::default() };
            self.ext4()?.set_attributes(ino, &change, caller)?;
        }
        self.note_acted(&[ino], caller);
        Ok(Answer::Nothing)
    }

    fn check_flags(
        &self,
        attributes: &Attributes,
        before: u32,
        changed: u32,
        caller: &Caller,
    ) -> Result<(), FsError> {
        let number = attributes.ino.0;
        if self.options.ext4.read_only {
            return Err(FsError::new(EROFS, "mounted read-only"));
        }
        if caller.uid != 0 && caller.uid != attributes.uid {
            let detail = format!("inode {number}: only its owner may change its flags");
            return Err(FsError::new(EPERM, detail));
        }
        let refused = changed & !(USER_FLAGS | DURABILITY_ONLY_FLAG);
        if refused != 0 {
            let detail = format!(
                "inode {number}: expected flags of a, A, d, D, i, j, S, T (chattr), found {refused:#x}, which nothing here would heed"
            );
            return Err(FsError::new(EOPNOTSUPP, detail));
        }
        let stays = before & !changed & (IMMUTABLE_FLAG | APPEND_FLAG);
        if changed & DURABILITY_ONLY_FLAG != 0 && stays != 0 {
            let detail = format!("inode {number}: its flags forbid it (chattr)");
            return Err(FsError::new(EPERM, detail));
        }
        Ok(())
    }

    /// The node is durability-only from now on, or no more. What it holds already is as well.
    fn set_durability_only(
        &mut self,
        ino: Ino,
        attributes: &Attributes,
        is_only: bool,
        caller: &Caller,
    ) -> Result<(), Halt> {
        let runs = match attributes.kind {
            FileKind::Regular => self.ext4()?.map(ino, 0, attributes.size.div_ceil(BLOCK))?,
            _ => Vec::new(),
        };
        if is_only {
            self.ext4()?.set_xattr(ino, ATTRIBUTE, ONLY, XattrSet::Any, caller)?;
        } else {
            self.ext4()?.remove_xattr(ino, ATTRIBUTE, caller)?;
        }
        self.file(ino).durability_only = Some(is_only);
        let hint = if is_only { Hint::DurabilityOnly } else { Hint::Normal };
        let placed = runs.iter().filter_map(|run| match run.place {
            Place::Written(first) => Some((first, run.len)),
            Place::Hole | Place::Unwritten(_) => None,
        });
        for (first, len) in placed.take(RUNS_TOLD_MAX) {
            let (offset, len) = (first * BLOCK, len * BLOCK);
            self.io.ask(Purpose::Advice, Operation::Hint { offset, len, hint });
        }
        Ok(())
    }

    /// Whether the mount or the flags of the directory that this changes want it durable at once.
    pub(crate) fn is_synchronous(&mut self, operation: &FsOperation) -> Result<bool, Halt> {
        let Some(directory) = operation.directory() else { return Ok(false) };
        if self.options.has_durable_names {
            return Ok(true);
        }
        let mut flags = self.ext4()?.attributes(directory)?.flags;
        if let FsOperation::Rename { to, .. } = operation {
            flags |= self.ext4()?.attributes(*to)?.flags;
        }
        Ok(flags & (SYNC_FLAG | DIRSYNC_FLAG) != 0)
    }
}

/// An error if the flags of a file forbid that it changes; `only_grows`: that it does is all that happens.
pub(crate) fn check_changeable(attributes: &Attributes, only_grows: bool) -> Result<(), FsError> {
    let forbidding = if only_grows { IMMUTABLE_FLAG } else { IMMUTABLE_FLAG | APPEND_FLAG };
    if attributes.flags & forbidding == 0 {
        return Ok(());
    }
    let detail = format!("inode {}: its flags forbid it (chattr)", attributes.ino.0);
    Err(FsError::new(EPERM, detail))
}
