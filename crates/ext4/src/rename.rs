//! Moving names: over others, not over others, in exchange, and with a whiteout under the old name.
//!
//! All that can refuse comes before the first change. A directory that moves to another parent takes its `..` with it, and
//! may not move below itself.

use crate::Ext4;
use crate::attributes::{check_mutable, check_removable};
use crate::directory::{Found, check_own_name};
use crate::error::{Errno, Outcome, corrupt, fail};
use crate::inode::{Inode, Time};
use crate::make::exists;
use crate::transaction::Transaction;
use crate::types::{Caller, FileKind, Ino, NewNode, ROOT, Rename, Renamed, Timestamp};

/// More directories above each other than any path has.
const DEPTH_MAX: usize = 100_000;

/// The node that an overlay takes for a name that is gone.
const WHITEOUT: NewNode =
    NewNode { kind: FileKind::CharDevice, mode: 0, umask: 0, device: 0, target: None };

/// The old name, and the node that stays under it.
#[derive(Clone, Copy)]
struct Old<'a> {
    name: &'a [u8],
    whiteout: Option<&'a Inode>,
}

/// A name with what it leads to.
struct End {
    found: Found,
    inode: Inode,
    kind: FileKind,
}

impl Ext4 {
    /// Moves a name; returns the inodes that were removed or made by that.
    pub fn rename(
        &mut self,
        from: Ino,
        name: &[u8],
        to: Ino,
        new_name: &[u8],
        how: Rename,
        caller: &Caller,
    ) -> Outcome<Renamed> {
        self.run_change(caller, |transaction| {
            check_own_name(name, Errno::Invalid)?;
            check_own_name(new_name, Errno::Invalid)?;
            let source = transaction.living_directory(from)?;
            let target = transaction.living_directory(to)?;
            transaction.must_find(&source, name)?;
            let Some(moved) = transaction.end_of(&source, name)? else {
                return Ok(Renamed::default());
            };
            let other = transaction.end_of(&target, new_name)?;
            match (&other, how) {
                (Some(_), Rename::NoReplace | Rename::WhiteoutNoReplace) => {
                    return Err(exists(to, new_name));
                }
                (None, Rename::Exchange) => {
                    let text = format!("directory {} lacks the name to exchange with", to.0);
                    return Err(fail(Errno::NoEntry, text));
                }
                _ => {}
            }
            if other.as_ref().is_some_and(|other| other.inode.ino == moved.inode.ino) {
                return Ok(Renamed::default());
            }
            check_removable(&source)?;
            check_removable(&moved.inode)?;
            match &other {
                Some(other) => {
                    check_removable(&target)?;
                    check_removable(&other.inode)?;
                }
                None => check_mutable(&target)?,
            }
            transaction.check_no_loop(&moved.inode, to)?;
            let mut names = Names { source, target: (from != to).then_some(target) };
            let now = caller.now;
            let whiteout = if how.leaves_whiteout() {
                Some(transaction.make_inode(&mut names.source, &WHITEOUT, caller)?)
            } else {
                None
            };
            let old = Old { name, whiteout: whiteout.as_ref() };
            let removed = match other {
                Some(other) if how == Rename::Exchange => {
                    transaction.check_no_loop(&other.inode, from)?;
                    transaction.exchange(&mut names, moved, other, now)?;
                    None
                }
                Some(other) => {
                    transaction.check_replaceable(&moved, &other, new_name)?;
                    let other_inode = other.inode.clone();
                    transaction.replace(&mut names, old, moved, &other, now)?;
                    Some(transaction.lose_name(other_inode, now)?)
                }
                None => {
                    transaction.move_name(&mut names, old, moved, new_name, now)?;
                    None
                }
            };
            Ok(Renamed { removed, whiteout: whiteout.map(|inode| inode.ino) })
        })
    }
}

/// The directories of a rename: one, if both names are in the same.
struct Names {
    source: Inode,
    target: Option<Inode>,
}

impl Names {
    fn target(&mut self) -> &mut Inode {
        self.target.as_mut().unwrap_or(&mut self.source)
    }

    fn is_moving(&self) -> bool {
        self.target.is_some()
    }
}

impl Transaction<'_> {
    fn end_of(&mut self, directory: &Inode, name: &[u8]) -> Outcome<Option<End>> {
        let Some(found) = self.find(directory, name)? else { return Ok(None) };
        if self.is_hidden(directory.ino, name, found.ino) {
            return Err(exists(directory.ino, name));
        }
        let inode = self.inode_of_entry(directory.ino, found.ino)?;
        let kind = inode.kind();
        let kind = kind.ok_or_else(|| corrupt(format!("inode {} has no kind", inode.ino.0)))?;
        Ok(Some(End { found, inode, kind }))
    }

    /// What is moved must not be an ancestor of where it goes.
    fn check_no_loop(&mut self, moved: &Inode, to: Ino) -> Outcome<()> {
        if !moved.is_directory() {
            return Ok(());
        }
        let mut at = to;
        for _ in 0..DEPTH_MAX {
            if at == moved.ino {
                let text = format!("directory {} would be below itself", moved.ino.0);
                return Err(fail(Errno::LoopedRename, text));
            }
            if at == ROOT {
                return Ok(());
            }
            let directory = self.directory_inode(at)?;
            at = self.must_find(&directory, b"..")?.ino;
        }
        Err(corrupt(format!("directory {} is in a circle of directories", to.0)))
    }

    fn check_replaceable(&mut self, moved: &End, other: &End, name: &[u8]) -> Outcome<()> {
        let text = String::from_utf8_lossy(name).into_owned();
        match (moved.kind, other.kind) {
            (FileKind::Directory, _) => self.check_empty_directory(&other.inode, name),
            (_, FileKind::Directory) => {
                Err(fail(Errno::IsDirectory, format!("{text:?} is a directory")))
            }
            _ => Ok(()),
        }
    }

    /// A directory's `..` leads to its new parent, and the parents count it.
    fn move_parent(&mut self, directory: &Inode, parent: Ino) -> Outcome<()> {
        let up = self.must_find(directory, b"..")?;
        self.redirect_name(directory, &up, parent, FileKind::Directory)
    }

    fn put_directories(&mut self, names: &Names) -> Outcome<()> {
        self.put_inode(&names.source)?;
        names.target.as_ref().map_or(Ok(()), |target| self.put_inode(target))
    }

    fn put_moved(&mut self, mut moved: Inode, now: Timestamp) -> Outcome<()> {
        moved.set_time(Time::Changed, now);
        self.put_inode(&moved)
    }

    /// The old name goes, or leads to its whiteout.
    fn leave_name(
        &mut self,
        directory: &mut Inode,
        old: Old<'_>,
        found: &Found,
        now: Timestamp,
    ) -> Outcome<()> {
        let Some(whiteout) = old.whiteout else {
            return self.remove_name(directory, old.name, found, now);
        };
        self.redirect_name(directory, found, whiteout.ino, FileKind::CharDevice)?;
        directory.touch(now);
        self.put_inode(whiteout)
    }

    fn move_name(
        &mut self,
        names: &mut Names,
        old: Old<'_>,
        moved: End,
        new_name: &[u8],
        now: Timestamp,
    ) -> Outcome<()> {
        if moved.kind == FileKind::Directory && names.is_moving() {
            self.move_parent(&moved.inode, names.target().ino)?;
            self.gain_directory(names.target())?;
            self.lose_directory(&mut names.source);
        }
        self.add_name(names.target(), new_name, moved.inode.ino, moved.kind, now)?;
        self.leave_name(&mut names.source, old, &moved.found, now)?;
        self.put_directories(names)?;
        self.put_moved(moved.inode, now)
    }

    /// The new name leads to what is moved; the old one goes. What had the new name is the caller's.
    fn replace(
        &mut self,
        names: &mut Names,
        old: Old<'_>,
        moved: End,
        other: &End,
        now: Timestamp,
    ) -> Outcome<()> {
        if moved.kind == FileKind::Directory {
            if names.is_moving() {
                self.move_parent(&moved.inode, names.target().ino)?;
            }
            // The target loses one directory and gains another.
            self.lose_directory(&mut names.source);
        }
        self.redirect_name(names.target(), &other.found, moved.inode.ino, moved.kind)?;
        names.target().touch(now);
        self.leave_name(&mut names.source, old, &moved.found, now)?;
        self.put_directories(names)?;
        self.put_moved(moved.inode, now)
    }

    fn exchange(
        &mut self,
        names: &mut Names,
        moved: End,
        other: End,
        now: Timestamp,
    ) -> Outcome<()> {
        if names.is_moving() {
            let (source, target) = (names.source.ino, names.target().ino);
            let is_directory = |end: &End| end.kind == FileKind::Directory;
            if is_directory(&moved) {
                self.move_parent(&moved.inode, target)?;
            }
            if is_directory(&other) {
                self.move_parent(&other.inode, source)?;
            }
            if is_directory(&moved) && !is_directory(&other) {
                self.gain_directory(names.target())?;
                self.lose_directory(&mut names.source);
            } else if is_directory(&other) && !is_directory(&moved) {
                self.gain_directory(&mut names.source)?;
                self.lose_directory(names.target());
            }
        }
        self.redirect_name(names.target(), &other.found, moved.inode.ino, moved.kind)?;
        self.redirect_name(&names.source, &moved.found, other.inode.ino, other.kind)?;
        names.source.touch(now);
        names.target().touch(now);
        self.put_directories(names)?;
        self.put_moved(moved.inode, now)?;
        self.put_moved(other.inode, now)
    }
}
