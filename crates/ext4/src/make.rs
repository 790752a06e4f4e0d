//! New inodes and new names: files, directories, devices, symbolic links, hard links.
//!
//! What something new takes from its directory: the group if that is setgid, some flags, and the default ACL, which
//! replaces the umask.

use crate::Ext4;
use crate::attributes::{check_mutable, check_removable};
use crate::cache::Kind;
use crate::directory::check_own_name;
use crate::dirent;
use crate::error::{Errno, Outcome, fail};
use crate::extent_node::{self, Extent, ROOT_ENTRIES_MAX};
use crate::index::{DirectoryIndex, IndexChange};
use crate::inode::{CONTENT_BYTES, EXTENTS_FLAG, Inode, Time, inherited_flags};
use crate::transaction::Transaction;
use crate::types::{Attributes, BLOCK_BYTES, Caller, FileKind, Ino, NewNode};

/// Names that lead to one inode at most.
const LINKS_MAX: u32 = 65_000;
const SETGID: u16 = 0o2000;

impl Ext4 {
    /// Makes a file, directory, device, pipe, socket or symbolic link.
    pub fn make(
        &mut self,
        parent: Ino,
        name: &[u8],
        new: &NewNode,
        caller: &Caller,
    ) -> Outcome<Attributes> {
        self.run_change(caller, |transaction| {
            check_own_name(name, Errno::Exists)?;
            let mut directory = transaction.living_directory(parent)?;
            check_mutable(&directory)?;
            if transaction.find(&directory, name)?.is_some() {
                return Err(exists(parent, name));
            }
            let inode = transaction.make_inode(&mut directory, new, caller)?;
            transaction.add_name(&mut directory, name, inode.ino, new.kind, caller.now)?;
            transaction.put_inode(&directory)?;
            transaction.put_inode(&inode)?;
            transaction.attributes_of(&inode)
        })
    }

    /// One more name for an inode that is no directory, or the first of one that was made without.
    pub fn link(
        &mut self,
        ino: Ino,
        parent: Ino,
        name: &[u8],
        caller: &Caller,
    ) -> Outcome<Attributes> {
        let is_nameless = self.nameless.contains(&ino);
        let linked = self.run_change(caller, |transaction| {
            check_own_name(name, Errno::Exists)?;
            let mut inode = transaction.inode(ino)?;
            let kind = match inode.kind() {
                Some(FileKind::Directory) | None => {
                    let text = format!("inode {} is a directory, which has one name", ino.0);
                    return Err(fail(Errno::NotPermitted, text));
                }
                Some(kind) => kind,
            };
            if inode.is_in_memory || transaction.is_parked(ino) && !is_nameless {
                return Err(fail(Errno::NoEntry, format!("inode {} has lost its names", ino.0)));
            }
            check_removable(&inode)?;
            if inode.links() >= LINKS_MAX {
                let text = format!("inode {} has {LINKS_MAX} names", ino.0);
                return Err(fail(Errno::TooManyLinks, text));
            }
            let mut directory = transaction.living_directory(parent)?;
            check_mutable(&directory)?;
            if transaction.find(&directory, name)?.is_some() {
                return Err(exists(parent, name));
            }
            if is_nameless {
                transaction.unpark(&mut inode, caller.now)?;
                // It may be lost+found itself.
                directory = transaction.living_directory(parent)?;
            }
            transaction.add_name(&mut directory, name, ino, kind, caller.now)?;
            inode.set_links(inode.links() + 1);
            inode.set_time(Time::Changed, caller.now);
            transaction.put_inode(&directory)?;
            transaction.put_inode(&inode)?;
            transaction.attributes_of(&inode)
        })?;
        self.nameless.remove(&ino);
        Ok(linked)
    }
}

pub(crate) fn exists(parent: Ino, name: &[u8]) -> crate::Stop {
    let name = String::from_utf8_lossy(name);
    fail(Errno::Exists, format!("directory {} already has an entry {name:?}", parent.0))
}

impl Transaction<'_> {
    /// One more directory in a directory.
    pub(crate) fn gain_directory(&mut self, parent: &mut Inode) -> Outcome<()> {
        self.index_changes.push(IndexChange::Directories { directory: parent.ino.0, more: 1 });
        match parent.links() {
            // Too many to be counted; it stays so.
            1 => {}
            links if links < LINKS_MAX => parent.set_links(links + 1),
            _ if self.fs.geometry.on.dir_nlink => parent.set_links(1),
            _ => {
                let text = format!("directory {} has {LINKS_MAX} links", parent.ino.0);
                return Err(fail(Errno::TooManyLinks, text));
            }
        }
        Ok(())
    }

    /// One directory less in a directory that was looked through.
    pub(crate) fn lose_directory(&mut self, parent: &mut Inode) {
        let directory = parent.ino.0;
        self.index_changes.push(IndexChange::Directories { directory, more: -1 });
        if parent.links() > 2 {
            parent.set_links(parent.links() - 1);
        } else if parent.links() == 1 {
            // There were too many to be counted; e2fsck wants the number once there are not.
            let before = self.fs.indexes.get(directory).map_or(0, DirectoryIndex::directories);
            if (2..=LINKS_MAX).contains(&(before + 1)) {
                parent.set_links(before + 1);
            }
        }
    }

    pub(crate) fn make_inode(
        &mut self,
        directory: &mut Inode,
        new: &NewNode,
        caller: &Caller,
    ) -> Outcome<Inode> {
        let is_directory = new.kind == FileKind::Directory;
        if is_directory {
            self.gain_directory(directory)?;
        }
        let mut inode = self.take_inode(directory, is_directory)?;
        let is_setgid = directory.mode() & SETGID != 0;
        let mut mode = if new.kind == FileKind::Symlink { 0o777 } else { new.mode & 0xFFF };
        if is_setgid && is_directory {
            mode |= SETGID;
        }
        inode.set_uid(caller.uid);
        inode.set_gid(if is_setgid { directory.gid() } else { caller.gid });
        inode.set_links(if is_directory { 2 } else { 1 });
        inode.set_flags(inherited_flags(directory.flags(), new.kind));
        for time in [Time::Accessed, Time::Modified, Time::Changed, Time::Created] {
            inode.set_time(time, caller.now);
        }
        inode.set_mode(new.kind.mode_bits() | mode);
        self.inherit_acls(directory, &mut inode, new.umask)?;
        match new.kind {
            FileKind::Regular => with_extents(&mut inode),
            FileKind::Directory => self.fill_directory(&mut inode, directory.ino)?,
            FileKind::Symlink => self.fill_link(&mut inode, new.target.as_deref())?,
            FileKind::CharDevice | FileKind::BlockDevice => inode.set_device(new.device),
            FileKind::Fifo | FileKind::Socket => {}
        }
        Ok(inode)
    }

    fn fill_directory(&mut self, inode: &mut Inode, parent: Ino) -> Outcome<()> {
        with_extents(inode);
        let goal = self.goal_of(inode);
        let block = self.new_directory_block(inode, 0, goal)?;
        let geometry = self.fs.geometry.clone();
        let bytes = self.fresh(block, Self::directory_kind(inode))?;
        dirent::format_first(bytes.as_mut_slice(), &geometry, inode.ino.0, parent.0);
        Ok(())
    }

    fn fill_link(&mut self, inode: &mut Inode, target: Option<&[u8]>) -> Outcome<()> {
        let target = target.unwrap_or_default();
        if target.is_empty() || target.contains(&0) {
            let text = "the target of a symbolic link is not empty and has no NUL";
            return Err(fail(Errno::Invalid, text));
        }
        if target.len() >= BLOCK_BYTES {
            let text = format!("a target has at most 4095 bytes, this one has {}", target.len());
            return Err(fail(Errno::NameTooLong, text));
        }
        inode.set_size(target.len() as u64);
        if target.len() < CONTENT_BYTES {
            inode.content_mut()[..target.len()].copy_from_slice(target);
            return Ok(());
        }
        with_extents(inode);
        let goal = self.goal_of(inode);
        let physical = self.take_blocks(goal, 1, false)?.start;
        self.fresh(physical, Kind::Link)?[..target.len()].copy_from_slice(target);
        self.add_extent(inode, Extent { logical: 0, len: 1, physical, is_unwritten: false })?;
        inode.add_blocks(1);
        Ok(())
    }
}

fn with_extents(inode: &mut Inode) {
    inode.set_flags(inode.flags() | EXTENTS_FLAG);
    extent_node::format(inode.content_mut(), ROOT_ENTRIES_MAX, 0);
}
