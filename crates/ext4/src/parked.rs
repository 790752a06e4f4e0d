//! Files without a name of a client's: those too large to be freed at once, freed step by step, and those that never had one
//! (`O_TMPFILE`). All are parked in lost+found, or in the root where that was removed, under a name of ours.
//!
//! To clients such a file has no name: lookups and listings hide the one of ours ([`Transaction::is_hidden`]). On disk it always
//! has one, so that the image is clean whenever the machine stops; the next mount finds it there and goes on. A held file stays
//! until it is released. A mount takes only a name that has the number of the inode that it leads to. The directory keeps its
//! times, because no client changed it.

use crate::Ext4;
use crate::attributes::check_mutable;
use crate::directory::Found;
use crate::error::{Errno, Outcome, Stop, fail};
use crate::extent_node;
use crate::inode::{Inode, Time};
use crate::transaction::Transaction;
use crate::types::{Attributes, Caller, FileKind, Ino, NewNode, ROOT, Timestamp};
use std::collections::BTreeSet;

const LOST_AND_FOUND: &[u8] = b"lost+found";
const PREFIX: &str = ".nearhead-removed-";
/// Names that are looked at at once.
const NAMES_AT_ONCE: usize = 256;

fn name_of(ino: Ino) -> Vec<u8> {
    format!("{PREFIX}{}", ino.0).into_bytes()
}

impl Ext4 {
    /// Frees a part of what was too large to be freed at once; whether more is left. To be called after
    /// [`Ext4::mount`], and after a removal or release, until it says false, with room for commits in between.
    pub fn work_off(&mut self, caller: &Caller) -> Outcome<bool> {
        let next = self.parked.keys().find(|ino| !self.is_held(**ino)).copied();
        let Some(ino) = next else { return Ok(false) };
        self.run_change(caller, |transaction| transaction.free_parked(ino, caller.now))?;
        Ok(self.parked.keys().any(|ino| !self.is_held(*ino)))
    }
}

impl Ext4 {
    /// Makes a file without a name, as `open(2)` with `O_TMPFILE` does in the directory `parent`. It goes with its last reference, unless
    /// [`Ext4::link`] gives it a name before. The caller holds it at once.
    pub fn make_nameless(
        &mut self,
        parent: Ino,
        new: &NewNode,
        caller: &Caller,
    ) -> Outcome<Attributes> {
        let made = self.run_change(caller, |transaction| {
            if new.kind != FileKind::Regular {
                return Err(fail(Errno::Invalid, "only files are made without a name"));
            }
            let mut directory = transaction.living_directory(parent)?;
            check_mutable(&directory)?;
            let inode = transaction.make_inode(&mut directory, new, caller)?;
            let ino = inode.ino;
            transaction.park(inode, caller.now)?;
            let inode = transaction.inode(ino)?;
            transaction.attributes_of(&inode)
        })?;
        self.nameless.insert(made.ino);
        Ok(made)
    }
}

impl Transaction<'_> {
    /// Takes the name of ours from a file that is about to get one.
    pub(crate) fn unpark(&mut self, inode: &mut Inode, now: Timestamp) -> Outcome<()> {
        if let Some((mut directory, entry)) = self.find_parked_name(inode.ino)? {
            self.remove_parked_name(&mut directory, &entry, now)?;
            inode.set_links(0);
        }
        self.parked.insert(inode.ino, None);
        Ok(())
    }

    pub(crate) fn is_parked(&self, ino: Ino) -> bool {
        self.parked_in(ino).is_some()
    }

    /// Whether `name`, which leads to `ino`, is one of ours.
    pub(crate) fn is_hidden(&self, directory: Ino, name: &[u8], ino: Ino) -> bool {
        name.starts_with(PREFIX.as_bytes())
            && self.parked_in(ino) == Some(directory)
            && name == name_of(ino)
    }

    /// Directory that has the name of ours for a parked file.
    fn parked_in(&self, ino: Ino) -> Option<Ino> {
        let own = self.parked.get(&ino).copied();
        own.unwrap_or_else(|| self.fs.parked.get(&ino).copied())
    }

    /// Gives the root the names of ours that a directory has which is about to be removed.
    pub(crate) fn move_parked_names(&mut self, from: Ino, now: Timestamp) -> Outcome<()> {
        let own = self.parked.keys().chain(self.fs.parked.keys()).copied();
        let moved: BTreeSet<Ino> = own.filter(|ino| self.parked_in(*ino) == Some(from)).collect();
        if moved.is_empty() {
            return Ok(());
        }
        let mut root = self.living_directory(ROOT)?;
        moved.into_iter().try_for_each(|ino| self.add_parked_name(&mut root, ino, now))
    }

    fn add_parked_name(&mut self, directory: &mut Inode, ino: Ino, now: Timestamp) -> Outcome<()> {
        let name = name_of(ino);
        match self.find(directory, &name)? {
            // Another file under our name would never go away.
            Some(found) if found.ino != ino => {
                let name = String::from_utf8_lossy(&name).into_owned();
                let text = format!(
                    "directory {} has {name:?}, a name that is kept for removed files; rename it",
                    directory.ino.0
                );
                return Err(fail(Errno::Exists, text));
            }
            Some(_) => {}
            None => {
                let times = directory.times();
                self.add_name(directory, &name, ino, FileKind::Regular, now)?;
                directory.set_times(times);
                self.put_inode(directory)?;
            }
        }
        self.parked.insert(ino, Some(directory.ino));
        Ok(())
    }

    fn remove_parked_name(
        &mut self,
        directory: &mut Inode,
        entry: &Found,
        now: Timestamp,
    ) -> Outcome<()> {
        let times = directory.times();
        self.remove_name(directory, &name_of(entry.ino), entry, now)?;
        directory.set_times(times);
        self.put_inode(directory)
    }

    /// A file loses its last name and gets one of ours.
    pub(crate) fn park(&mut self, mut inode: Inode, now: Timestamp) -> Outcome<()> {
        let mut directory = match self.lost_and_found()? {
            Some(directory) => directory,
            None => self.living_directory(ROOT)?,
        };
        self.add_parked_name(&mut directory, inode.ino, now)?;
        inode.set_links(1);
        inode.set_time(Time::Changed, now);
        self.put_inode(&inode)
    }

    /// The directory `lost+found`, if the root has it.
    fn lost_and_found(&mut self) -> Outcome<Option<Inode>> {
        let root = self.living_directory(ROOT)?;
        let Some(found) = self.find(&root, LOST_AND_FOUND)? else { return Ok(None) };
        match self.living_directory(found.ino) {
            Err(Stop::Fails(error)) if error.errno == Errno::NotDirectory => Ok(None),
            other => other.map(Some),
        }
    }

    /// The name of ours for an inode, with its directory, if it still leads there.
    fn find_parked_name(&mut self, ino: Ino) -> Outcome<Option<(Inode, Found)>> {
        let Some(directory) = self.parked_in(ino) else { return Ok(None) };
        let directory = self.living_directory(directory)?;
        let entry = self.find(&directory, &name_of(ino))?.filter(|entry| entry.ino == ino);
        Ok(entry.map(|entry| (directory, entry)))
    }

    fn free_parked(&mut self, ino: Ino, now: Timestamp) -> Outcome<()> {
        let Some((mut directory, entry)) = self.find_parked_name(ino)? else {
            self.parked.insert(ino, None);
            return Ok(());
        };
        let mut inode = self.inode(ino)?;
        if !self.truncate_step(&mut inode, 0)? {
            return self.put_inode(&inode);
        }
        inode.set_size(0);
        extent_node::format(inode.content_mut(), extent_node::ROOT_ENTRIES_MAX, 0);
        self.put_inode(&inode)?;
        self.remove_parked_name(&mut directory, &entry, now)?;
        self.parked.insert(ino, None);
        self.remove_inode(inode, now)
    }

    /// Finds the files that were parked before a stop.
    pub(crate) fn find_parked(&mut self) -> Outcome<()> {
        let lost_and_found = self.lost_and_found()?;
        let root = self.living_directory(ROOT)?;
        lost_and_found.iter().chain([&root]).try_for_each(|place| self.find_parked_in(place))
    }

    fn find_parked_in(&mut self, directory: &Inode) -> Outcome<()> {
        let mut after = 0;
        loop {
            let entries = self.list(directory, after, NAMES_AT_ONCE)?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = last.cookie;
            for entry in entries.into_iter().filter(|entry| entry.name == name_of(entry.ino)) {
                let inode = self.inode_of_entry(directory.ino, entry.ino)?;
                if inode.kind() == Some(FileKind::Regular) && inode.links() == 1 {
                    self.parked.insert(entry.ino, Some(directory.ino));
                }
            }
        }
    }
}
