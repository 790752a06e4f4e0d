//! Attributes of inodes, and the targets of symbolic links.

use crate::Ext4;
use crate::cache::Kind;
use crate::error::{Errno, Outcome, corrupt, fail};
use crate::inode::{APPEND_FLAG, IMMUTABLE_FLAG, Inode, Time, USER_FLAGS};
use crate::transaction::Transaction;
use crate::types::{AttributeChange, Attributes, BLOCK_BYTES, Caller, FileKind, Ino};

impl Ext4 {
    /// Of an inode.
    pub fn attributes(&mut self, ino: Ino) -> Outcome<Attributes> {
        self.run(|transaction| {
            let inode = transaction.inode(ino)?;
            transaction.attributes_of(&inode)
        })
    }

    /// Changes what `change` names, and the time of change. A mode also goes into the access ACL.
    pub fn set_attributes(
        &mut self,
        ino: Ino,
        change: &AttributeChange,
        caller: &Caller,
    ) -> Outcome<Attributes> {
        self.run_change(caller, |transaction| {
            let mut inode = transaction.inode(ino)?;
            if change.flags.is_none() {
                check_mutable(&inode)?;
            }
            // As Linux has it: the times of what only grows may be changed, its mode and owners not.
            if change.mode.is_some() || change.uid.is_some() || change.gid.is_some() {
                check_removable(&inode)?;
            }
            let cleared = inode.mode_without_privileges();
            let is_cleared = change.clears_privileges && inode.mode() != cleared;
            if is_cleared {
                inode.set_permissions(cleared);
            }
            if let Some(mode) = change.mode {
                inode.set_permissions(mode);
                transaction.mode_into_acl(&mut inode)?;
            }
            change.uid.into_iter().for_each(|uid| inode.set_uid(uid));
            change.gid.into_iter().for_each(|gid| inode.set_gid(gid));
            change.accessed.into_iter().for_each(|time| inode.set_time(Time::Accessed, time));
            change.modified.into_iter().for_each(|time| inode.set_time(Time::Modified, time));
            if let Some(flags) = change.flags {
                inode.set_flags(inode.flags() & !USER_FLAGS | flags & USER_FLAGS);
            }
            // To take away what was not there is no change. A time of access that is set is one (`utimensat`); reading is not this.
            let clears_privileges = change.clears_privileges;
            let nothing = AttributeChange { clears_privileges, ..Default::default() };
            if is_cleared || *change != nothing {
                inode.set_time(Time::Changed, caller.now);
            }
            transaction.put_inode(&inode)?;
            transaction.attributes_of(&inode)
        })
    }

    /// Where a symbolic link leads.
    pub fn read_link(&mut self, ino: Ino) -> Outcome<Vec<u8>> {
        self.run(|transaction| {
            let inode = transaction.inode(ino)?;
            transaction.target_of(&inode)
        })
    }
}

impl Transaction<'_> {
    pub(crate) fn attributes_of(&self, inode: &Inode) -> Outcome<Attributes> {
        let attributes = inode.attributes();
        let mut attributes =
            attributes.ok_or_else(|| corrupt(format!("inode {} has no kind", inode.ino.0)))?;
        if self.is_parked(inode.ino) {
            attributes.links = 0;
        }
        Ok(attributes)
    }

    pub(crate) fn target_of(&mut self, inode: &Inode) -> Outcome<Vec<u8>> {
        let number = inode.ino.0;
        if inode.kind() != Some(FileKind::Symlink) {
            return Err(fail(Errno::Invalid, format!("inode {number} is no symbolic link")));
        }
        if let Some(target) = self.orphan(inode.ino).and_then(|orphan| orphan.target.clone()) {
            return Ok(target);
        }
        let size = inode.size() as usize;
        if inode.is_short_link() {
            let target = inode.content().get(..size);
            let target = target.ok_or_else(|| wrong_target(number, size))?;
            return Ok(target.to_vec());
        }
        if size == 0 || size >= BLOCK_BYTES {
            return Err(wrong_target(number, size));
        }
        let extents = self.extents_in(inode, 0, 1, 1)?;
        let Some(block) = extents.first().and_then(|extent| extent.part(0, 1)) else {
            return Err(corrupt(format!("inode {number}: the target of the link is missing")));
        };
        let bytes = self.read(block.physical, Kind::Link)?;
        Ok(bytes[..size].to_vec())
    }
}

/// Whether the flags of an inode let it be changed.
pub(crate) fn check_mutable(inode: &Inode) -> Outcome<()> {
    if inode.has_flag(IMMUTABLE_FLAG) {
        return Err(fail(Errno::NotPermitted, format!("inode {} is immutable", inode.ino.0)));
    }
    Ok(())
}

/// Whether the flags of an inode let it lose a name or bytes.
pub(crate) fn check_removable(inode: &Inode) -> Outcome<()> {
    check_mutable(inode)?;
    if inode.has_flag(APPEND_FLAG) {
        return Err(fail(Errno::NotPermitted, format!("inode {} only grows", inode.ino.0)));
    }
    Ok(())
}

fn wrong_target(ino: u32, size: usize) -> crate::Stop {
    corrupt(format!("inode {ino}: expected a target below 4096 bytes, found {size}"))
}
