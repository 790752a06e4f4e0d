//! Files without a name of a client's: those too large to be freed at once, freed step by step, and those that never had one
//! (`O_TMPFILE`). All are parked in lost+found under a name of ours.
//!
//! To everybody else such a file has no name. On disk it always has one, so that the image is clean whenever the machine
//! stops; the next mount finds it there and goes on. A file that somebody holds is left alone until it is released. Only a
//! name that says the number of the very inode it leads to is believed. `lost+found` keeps its times: no client changed it.

use crate::Ext4;
use crate::attributes::check_mutable;
use crate::directory::Found;
use crate::error::{Errno, Outcome, Stop, fail};
use crate::extent_node;
use crate::inode::{Inode, Time};
use crate::transaction::Transaction;
use crate::types::{Attributes, Caller, FileKind, Ino, NewNode, ROOT, Timestamp};

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
        let next = self.parked.iter().find(|ino| !self.is_held(**ino)).copied();
        let Some(ino) = next else { return Ok(false) };
        self.run_change(caller, |transaction| transaction.free_parked(ino, caller.now))?;
        Ok(self.parked.iter().any(|ino| !self.is_held(*ino)))
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
    /// A file that never had a name loses the one of ours; it is to get another. A client may have moved ours: then it stays.
    pub(crate) fn unpark(&mut self, inode: &mut Inode, now: Timestamp) -> Outcome<()> {
        if let Some((mut directory, entry)) = self.find_parked_name(inode.ino)? {
            self.remove_name(&mut directory, &name_of(inode.ino), &entry, now)?;
            self.put_inode(&directory)?;
            inode.set_links(0);
        }
        self.parked.insert(inode.ino, false);
        Ok(())
    }

    pub(crate) fn is_parked(&self, ino: Ino) -> bool {
        let own = self.parked.get(&ino).copied();
        own.unwrap_or_else(|| self.fs.parked.contains(&ino))
    }

    /// A file loses its last name and gets one of ours.
    pub(crate) fn park(&mut self, mut inode: Inode, now: Timestamp) -> Outcome<()> {
        let mut directory = self.lost_and_found(now)?;
        let name = name_of(inode.ino);
        if let Some(found) = self.find(&directory, &name)? {
            // Somebody else's file under our name would never go away.
            if found.ino != inode.ino {
                let text = "an entry of lost+found has a name that is kept for removed files";
                return Err(fail(Errno::Exists, text));
            }
        } else {
            let times = directory.times();
            self.add_name(&mut directory, &name, inode.ino, FileKind::Regular, now)?;
            directory.set_times(times);
            self.put_inode(&directory)?;
        }
        inode.set_links(1);
        inode.set_time(Time::Changed, now);
        self.put_inode(&inode)?;
        self.parked.insert(inode.ino, true);
        Ok(())
    }

    fn lost_and_found(&mut self, now: Timestamp) -> Outcome<Inode> {
        let mut root = self.living_directory(ROOT)?;
        if let Some(found) = self.find(&root, LOST_AND_FOUND)? {
            return self.living_directory(found.ino);
        }
        let new =
            NewNode { kind: FileKind::Directory, mode: 0o700, umask: 0, device: 0, target: None };
        let caller = Caller { uid: 0, gid: 0, now };
        let inode = self.make_inode(&mut root, &new, &caller)?;
        self.add_name(&mut root, LOST_AND_FOUND, inode.ino, FileKind::Directory, now)?;
        self.put_inode(&root)?;
        self.put_inode(&inode)?;
        Ok(inode)
    }

    /// Where our name for an inode is, if it still leads there.
    fn find_parked_name(&mut self, ino: Ino) -> Outcome<Option<(Inode, Found)>> {
        let root = self.living_directory(ROOT)?;
        let Some(found) = self.find(&root, LOST_AND_FOUND)? else { return Ok(None) };
        let directory = self.living_directory(found.ino)?;
        let entry = self.find(&directory, &name_of(ino))?.filter(|entry| entry.ino == ino);
        Ok(entry.map(|entry| (directory, entry)))
    }

    fn free_parked(&mut self, ino: Ino, now: Timestamp) -> Outcome<()> {
        let Some((mut directory, entry)) = self.find_parked_name(ino)? else {
            self.parked.insert(ino, false);
            return Ok(());
        };
        let mut inode = self.inode(ino)?;
        if !self.truncate_step(&mut inode, 0)? {
            return self.put_inode(&inode);
        }
        inode.set_size(0);
        extent_node::format(inode.content_mut(), extent_node::ROOT_ENTRIES_MAX, 0);
        self.put_inode(&inode)?;
        let times = directory.times();
        self.remove_name(&mut directory, &name_of(ino), &entry, now)?;
        directory.set_times(times);
        self.put_inode(&directory)?;
        self.parked.insert(ino, false);
        self.remove_inode(inode, now)
    }

    /// After a stop: what was parked and is still there.
    pub(crate) fn find_parked(&mut self) -> Outcome<()> {
        let root = self.living_directory(ROOT)?;
        let Some(found) = self.find(&root, LOST_AND_FOUND)? else { return Ok(()) };
        let directory = match self.living_directory(found.ino) {
            Err(Stop::Fails(error)) if error.errno == Errno::NotDirectory => return Ok(()),
            other => other?,
        };
        let mut after = 0;
        loop {
            let entries = self.list(&directory, after, NAMES_AT_ONCE)?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = last.cookie;
            for entry in entries.into_iter().filter(|entry| entry.name == name_of(entry.ino)) {
                let inode = self.inode_of_entry(directory.ino, entry.ino)?;
                if inode.kind() == Some(FileKind::Regular) && inode.links() == 1 {
                    self.parked.insert(entry.ino, true);
                }
            }
        }
    }
}
