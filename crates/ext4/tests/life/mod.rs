//! A life of random operations on a file system and on its model, which says what each must answer.
//!
//! Up to four transactions are under way at once; a crash goes back to what had landed.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::driver::{Disk, Driven, at, options};
use crate::model::{Block, Model};
use nearhead_basics::SplitMix;
use nearhead_ext4::{
    AttributeChange, BLOCK_BYTES, BlockBytes, Caller, Changes, Errno, Error, FileKind, Ino,
    NewNode, ROOT, Rename, Was, XattrSet,
};
use std::collections::VecDeque;
use std::sync::Arc;

const KINDS: [FileKind; 9] = [
    FileKind::Regular,
    FileKind::Regular,
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::CharDevice,
    FileKind::BlockDevice,
];
/// Names to choose from: few, so that they meet.
const NAMES: u64 = 40;
/// Blocks of a file.
const BLOCKS: u64 = 200;

pub(crate) struct Life {
    pub(crate) driven: Driven,
    pub(crate) model: Model,
    pub(crate) random: SplitMix,
    /// Taken and not landed, each with the model as it was then.
    pub(crate) under_way: VecDeque<(Changes, Model)>,
    /// The model as the disk is.
    pub(crate) landed: Model,
    pub(crate) step: u64,
    /// How much longer than usual ranges are.
    pub(crate) scale: u64,
    /// Operations that had no room.
    pub(crate) refused: u64,
    pub(crate) done: u64,
    /// Steps after which more of a parked file was left.
    pub(crate) parked: u64,
}

impl Life {
    pub(crate) fn new(disk: Disk, seed: u64) -> Self {
        let mut driven = Driven::mounted(disk, options());
        driven.commit();
        let root = driven.at("");
        let model = Model::new(&root);
        // The model does not know lost+found.
        let mut life = Self {
            driven,
            landed: model.clone(),
            model,
            random: SplitMix::new(seed),
            under_way: VecDeque::new(),
            step: 0,
            scale: 1,
            refused: 0,
            done: 0,
            parked: 0,
        };
        life.model.nodes.get_mut(&ROOT).unwrap().links = root.links;
        life.landed = life.model.clone();
        life
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    fn caller(&self) -> Caller {
        Caller { uid: 0, gid: 7, now: at(self.step) }
    }

    fn name(&mut self) -> Vec<u8> {
        let nth = self.random.below(NAMES) as usize;
        let mut name = format!("name-{nth}").into_bytes();
        // Some are long and not ASCII.
        if nth.is_multiple_of(5) {
            name.extend(std::iter::repeat_n(0xC3, nth * 6));
        }
        name
    }

    fn directory(&mut self) -> Ino {
        let all = self.model.of_kind(FileKind::Directory);
        all[self.below(all.len())]
    }

    fn any(&mut self) -> Ino {
        let nth = self.below(self.model.nodes.len());
        *self.model.nodes.keys().nth(nth).unwrap()
    }

    fn file(&mut self) -> Option<Ino> {
        let all = self.model.of_kind(FileKind::Regular);
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }

    /// A name that is there, as often as not.
    fn old_name(&mut self, directory: Ino) -> Vec<u8> {
        let count = self.model.nodes[&directory].names.len();
        if count > 0 && self.random.below(10) > 0 {
            let nth = self.below(count);
            return self.model.nodes[&directory].names.keys().nth(nth).unwrap().clone();
        }
        self.name()
    }

    /// Whether what happened is what the model expects; what had no room may always happen.
    fn judge<T, E>(
        &mut self,
        expected: Result<E, Errno>,
        found: Result<T, Error>,
    ) -> Option<(E, T)> {
        match (expected, found) {
            (Ok(expected), Ok(found)) => {
                self.done += 1;
                Some((expected, found))
            }
            (Err(expected), Err(found)) if expected == found.errno => None,
            (_, Err(found)) if matches!(found.errno, Errno::NoSpace | Errno::NoSpaceYet) => {
                self.refused += 1;
                None
            }
            (expected, found) => {
                panic!("step {}: expected {:?}, found {:?}", self.step, expected.err(), found.err())
            }
        }
    }

    pub(crate) fn step(&mut self) {
        self.step += 1;
        match self.random.below(35) {
            0..=7 => self.make(),
            8..=10 => self.unlink(),
            11 => self.remove_directory(),
            12..=14 => self.rename(),
            15 => self.link(),
            16..=20 => self.write(),
            21 => self.truncate(),
            22 => self.punch(),
            23 => self.reserve(),
            24 => self.make_unwritten(),
            25 => self.set_attributes(),
            26..=28 => self.set_xattr(),
            29 => self.remove_xattr(),
            30 => {
                let ino = self.any();
                if !self.model.held.contains(&ino) {
                    self.driven.fs.hold(ino);
                    self.model.hold(ino);
                }
            }
            31 => {
                let held: Vec<Ino> = self.model.held.iter().copied().collect();
                if !held.is_empty() {
                    let ino = held[self.below(held.len())];
                    self.driven.fs.release(ino);
                    self.model.release(ino);
                }
            }
            32 => self.take(),
            33 => self.land(),
            _ => self.work_off(),
        }
    }

    fn make(&mut self) {
        let (parent, name) = (self.directory(), self.name());
        let kind = KINDS[self.below(KINDS.len())];
        // Few files, if they are to be large.
        let is_one_more = self.scale > 1 && self.model.of_kind(FileKind::Regular).len() >= 4;
        let kind = if is_one_more { FileKind::Fifo } else { kind };
        let len = 1 + self.below(300);
        let new = NewNode {
            kind,
            mode: self.random.below(0o10000) as u16,
            umask: 0,
            device: self.random.next_u64() as u32 & 0xFFFF_FFFF >> (self.random.below(2) * 16),
            target: (kind == FileKind::Symlink).then(|| vec![b't'; len]),
        };
        let caller = self.caller();
        let found = self.driven.run(|fs| fs.make(parent, &name, &new, &caller));
        let expected = self.model.can_make(parent, &name);
        if let Some(((), made)) = self.judge(expected, found) {
            if kind != FileKind::Symlink && self.model.nodes[&parent].mode & 0o2000 == 0 {
                assert_eq!((made.mode, made.gid), (new.mode, 7));
            }
            self.model.made(parent, &name, &new, &made);
        }
    }

    fn unlink(&mut self) {
        let parent = self.directory();
        let (name, caller) = (self.old_name(parent), self.caller());
        let found = self.driven.run(|fs| fs.unlink(parent, &name, &caller));
        let expected = self.model.can_unlink(parent, &name);
        if let Some((ino, removed)) = self.judge(expected, found) {
            assert_eq!((removed.ino, removed.is_gone), (ino, self.model.nodes[&ino].links == 1));
            self.model.removed(parent, &name, caller.now);
        }
    }

    fn remove_directory(&mut self) {
        let parent = self.directory();
        let (name, caller) = (self.old_name(parent), self.caller());
        let found = self.driven.run(|fs| fs.remove_directory(parent, &name, &caller));
        let expected = self.model.can_remove_directory(parent, &name);
        if self.judge(expected, found).is_some() {
            self.model.removed(parent, &name, caller.now);
        }
    }

    fn rename(&mut self) {
        let (from, to) = (self.directory(), self.directory());
        let (name, caller) = (self.old_name(from), self.caller());
        let new_name = if self.random.coin() { self.old_name(to) } else { self.name() };
        let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange][self.below(3)];
        let found = self.driven.run(|fs| fs.rename(from, &name, to, &new_name, how, &caller));
        let expected = self.model.can_rename((from, &name), (to, &new_name), how);
        if let Some((expected, renamed)) = self.judge(expected, found) {
            assert_eq!(renamed.removed.map(|removed| removed.ino), expected.removes);
            if expected.moves {
                self.model.renamed((from, &name), (to, &new_name), how, caller.now);
            }
        }
    }

    fn link(&mut self) {
        let (ino, parent) = (self.any(), self.directory());
        let (name, caller) = (self.name(), self.caller());
        let found = self.driven.run(|fs| fs.link(ino, parent, &name, &caller));
        let expected = self.model.can_link(ino, parent, &name);
        if self.judge(expected, found).is_some() {
            self.model.linked(ino, parent, &name, caller.now);
        }
    }

    fn range(&mut self) -> (u64, u64) {
        let first = self.random.below(BLOCKS);
        let count = self.random.below(24) + 1;
        let count = if self.random.below(20) == 0 { count * 50 } else { count };
        (first * self.scale, count * self.scale)
    }

    fn write(&mut self) {
        let Some(ino) = self.file() else { return };
        let ((first, count), caller) = (self.range(), self.caller());
        let byte = self.random.next_u64() as u8 | 1;
        let found = self.driven.run(|fs| fs.allocate(ino, first, count, &caller));
        let Some(((), runs)) = self.judge(Ok(()), found) else { return };
        let mut next = first;
        for run in runs {
            assert_eq!(run.logical, next);
            next += run.len;
            if run.was == Was::Written {
                continue;
            }
            let bytes = Arc::new([byte; BLOCK_BYTES]);
            for block in run.physical..run.physical + run.len {
                self.driven.disk.write_data(block, Arc::clone(&bytes) as BlockBytes);
            }
        }
        assert_eq!(next, first + count);
        let size = next * BLOCK_BYTES as u64 - self.random.below(BLOCK_BYTES as u64);
        self.driven.run(|fs| fs.grow(ino, size, &caller)).unwrap();
        self.model.set_blocks(ino, first..next, |known| match known {
            Some(Block::Written(byte)) => Some(Block::Written(byte)),
            _ => Some(Block::Written(byte)),
        });
        let node = self.model.nodes.get_mut(&ino).unwrap();
        node.size = node.size.max(size);
    }

    fn truncate(&mut self) {
        let Some(ino) = self.file() else { return };
        let size = self.random.below(BLOCKS * self.scale * BLOCK_BYTES as u64);
        let caller = self.caller();
        loop {
            let found = self.driven.run(|fs| fs.truncate(ino, size, &caller));
            let Some(((), truncated)) = self.judge(Ok(()), found) else { return };
            assert!(truncated.is_complete || self.scale > 1);
            if truncated.is_complete {
                break;
            }
        }
        self.model.truncated(ino, size, caller.now);
    }

    fn punch(&mut self) {
        let Some(ino) = self.file() else { return };
        let ((first, count), caller) = (self.range(), self.caller());
        let found = self.driven.run(|fs| fs.punch(ino, first, count, &caller));
        if self.judge(Ok(()), found).is_some() {
            self.model.set_blocks(ino, first..first + count, |_| None);
        }
    }

    fn reserve(&mut self) {
        let Some(ino) = self.file() else { return };
        let ((first, count), caller) = (self.range(), self.caller());
        let found = self.driven.run(|fs| fs.reserve(ino, first, count, true, &caller));
        if self.judge(Ok(()), found).is_some() {
            self.model
                .set_blocks(ino, first..first + count, |known| known.or(Some(Block::Unwritten)));
        }
    }

    fn make_unwritten(&mut self) {
        let Some(ino) = self.file() else { return };
        let ((first, count), caller) = (self.range(), self.caller());
        let found = self.driven.run(|fs| fs.make_unwritten(ino, first, count, &caller));
        if self.judge(Ok(()), found).is_some() {
            let blocks = first..first + count;
            self.model.set_blocks(ino, blocks, |_| Some(Block::Unwritten));
        }
    }

    fn set_attributes(&mut self) {
        let ino = self.any();
        let mode = self.random.below(0o10000) as u16;
        let owner = Caller { uid: self.random.next_u64() as u32, gid: 70_000, now: at(self.step) };
        let change = AttributeChange {
            mode: Some(mode),
            uid: Some(owner.uid),
            gid: Some(owner.gid),
            ..AttributeChange::default()
        };
        let caller = self.caller();
        let found = self.driven.run(|fs| fs.set_attributes(ino, &change, &caller));
        if self.judge(Ok(()), found).is_some() {
            self.model.set_owner(ino, mode, &owner);
        }
    }

    fn xattr_name(&mut self, ino: Ino) -> Vec<u8> {
        // Links and devices have no attributes of users.
        let is_plain =
            matches!(self.model.nodes[&ino].kind, FileKind::Regular | FileKind::Directory);
        let prefix = ["trusted.", "security.", "user."][self.below(if is_plain { 3 } else { 2 })];
        format!("{prefix}{}", "x".repeat(1 + self.below(5) * 7)).into_bytes()
    }

    fn set_xattr(&mut self) {
        let ino = self.any();
        let (name, caller) = (self.xattr_name(ino), self.caller());
        let len = if self.random.below(4) == 0 { self.below(2500) } else { self.below(60) };
        let value = vec![self.random.next_u64() as u8; len];
        let how = [XattrSet::Any, XattrSet::Create, XattrSet::Replace][self.below(3)];
        let found = self.driven.run(|fs| fs.set_xattr(ino, &name, &value, how, &caller));
        let is_there = self.model.nodes[&ino].xattrs.contains_key(&name);
        let expected = match (is_there, how) {
            (true, XattrSet::Create) => Err(Errno::Exists),
            (false, XattrSet::Replace) => Err(Errno::NoData),
            _ => Ok(()),
        };
        if self.judge(expected, found).is_some() {
            self.model.nodes.get_mut(&ino).unwrap().xattrs.insert(name, value);
        }
    }

    fn remove_xattr(&mut self) {
        let ino = self.any();
        let (name, caller) = (self.xattr_name(ino), self.caller());
        let found = self.driven.run(|fs| fs.remove_xattr(ino, &name, &caller));
        let is_there = self.model.nodes[&ino].xattrs.contains_key(&name);
        let expected = if is_there { Ok(()) } else { Err(Errno::NoData) };
        if self.judge(expected, found).is_some() {
            self.model.nodes.get_mut(&ino).unwrap().xattrs.remove(&name);
        }
    }

    /// Nobody sees it.
    fn work_off(&mut self) {
        let caller = self.caller();
        let has_more = self.driven.run(|fs| fs.work_off(&caller)).unwrap();
        self.parked += u64::from(has_more);
    }

    fn take(&mut self) {
        let changes = self.driven.fs.take_changes();
        assert!(!self.driven.fs.is_changed());
        self.under_way.push_back((changes, self.model.clone()));
        if self.under_way.len() > 3 {
            self.land();
        }
    }

    fn land(&mut self) {
        let Some((changes, model)) = self.under_way.pop_front() else { return };
        for (block, before) in &changes.before {
            assert!(*before == self.driven.disk.block(*block), "block {block} was something else");
        }
        for (block, bytes) in &changes.blocks {
            let bytes: BlockBytes = bytes.clone();
            self.driven.disk.write(*block, bytes);
        }
        self.driven.fs.settle(changes.id);
        self.landed = model;
        self.landed.crash();
    }

    pub(crate) fn land_all(&mut self) {
        self.take();
        while !self.under_way.is_empty() {
            self.land();
        }
    }

    /// The machine stops: what has not landed never was.
    pub(crate) fn crash(&mut self) {
        self.under_way.clear();
        self.model = self.landed.clone();
        let disk = std::mem::take(&mut self.driven.disk);
        self.driven = Driven::mounted(disk, options());
    }
}
