//! What a file system should be, in memory: names, attributes, blocks and extended attributes of every inode.
//!
//! The simplest thing that can be right. It knows which errors are due; what has no room it cannot know.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it; tests")]

use nearhead_ext4::{
    Attributes, BLOCK_BYTES, Caller, Errno, FileKind, Ino, NewNode, ROOT, Rename, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) mod compare;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What a block of a file is; one that is not in the list is a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Unwritten,
    /// Full of this byte.
    Written(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: FileKind,
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    pub(crate) device: u32,
    pub(crate) target: Vec<u8>,
    pub(crate) blocks: BTreeMap<u64, Block>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) names: BTreeMap<Vec<u8>, Ino>,
    pub(crate) parent: Ino,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) nodes: BTreeMap<Ino, Node>,
    pub(crate) held: BTreeSet<Ino>,
}

/// What a rename does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Renaming {
    /// Two names of one inode stay as they are.
    pub(crate) moves: bool,
    pub(crate) removes: Option<Ino>,
}

const MOVES: Renaming = Renaming { moves: true, removes: None };

type Expected<T> = Result<T, Errno>;

impl Model {
    /// With a root directory alone.
    pub(crate) fn new(root: &Attributes) -> Self {
        let mut model = Self::default();
        model.nodes.insert(ROOT, node(root, ROOT, &[]));
        model
    }

    pub(crate) fn of_kind(&self, kind: FileKind) -> Vec<Ino> {
        let all = self.nodes.iter().filter(|(_, node)| node.kind == kind);
        all.map(|(ino, _)| *ino).collect()
    }

    fn directory(&self, ino: Ino) -> Expected<&Node> {
        let node = self.nodes.get(&ino).ok_or(Errno::NoEntry)?;
        match node.kind {
            FileKind::Directory if node.links > 0 => Ok(node),
            FileKind::Directory => Err(Errno::NoEntry),
            _ => Err(Errno::NotDirectory),
        }
    }

    fn find(&self, parent: Ino, name: &[u8]) -> Expected<Ino> {
        self.directory(parent)?.names.get(name).copied().ok_or(Errno::NoEntry)
    }

    pub(crate) fn can_make(&self, parent: Ino, name: &[u8]) -> Expected<()> {
        match self.find(parent, name) {
            Ok(_) => Err(Errno::Exists),
            Err(Errno::NoEntry) => self.directory(parent).map(|_| ()),
            Err(other) => Err(other),
        }
    }

    pub(crate) fn made(&mut self, parent: Ino, name: &[u8], new: &NewNode, made: &Attributes) {
        let target = new.target.clone().unwrap_or_default();
        self.nodes.insert(made.ino, node(made, parent, &target));
        self.add(parent, name, made.ino, made.modified);
    }

    fn add(&mut self, parent: Ino, name: &[u8], ino: Ino, now: Timestamp) {
        let is_directory = self.nodes[&ino].kind == FileKind::Directory;
        if is_directory {
            self.nodes.get_mut(&ino).unwrap().parent = parent;
        }
        let parent = self.nodes.get_mut(&parent).unwrap();
        parent.names.insert(name.to_vec(), ino);
        parent.links += u32::from(is_directory);
        parent.modified = now;
    }

    fn take(&mut self, parent: Ino, name: &[u8], now: Timestamp) -> Ino {
        let ino = self.nodes.get_mut(&parent).unwrap().names.remove(name).unwrap();
        let is_directory = self.nodes[&ino].kind == FileKind::Directory;
        let parent = self.nodes.get_mut(&parent).unwrap();
        parent.links -= u32::from(is_directory);
        parent.modified = now;
        ino
    }

    fn lose(&mut self, ino: Ino) {
        let node = self.nodes.get_mut(&ino).unwrap();
        node.links = if node.kind == FileKind::Directory { 0 } else { node.links - 1 };
        self.let_go(ino);
    }

    fn let_go(&mut self, ino: Ino) {
        if self.nodes.get(&ino).is_some_and(|node| node.links == 0) && !self.held.contains(&ino) {
            self.nodes.remove(&ino);
        }
    }

    pub(crate) fn hold(&mut self, ino: Ino) {
        self.held.insert(ino);
    }

    pub(crate) fn release(&mut self, ino: Ino) {
        self.held.remove(&ino);
        self.let_go(ino);
    }

    /// Nobody holds anything any more.
    pub(crate) fn crash(&mut self) {
        self.held.clear();
        self.nodes.retain(|_, node| node.links > 0);
    }

    pub(crate) fn can_link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Expected<()> {
        let node = self.nodes.get(&ino).ok_or(Errno::NoEntry)?;
        if node.kind == FileKind::Directory {
            return Err(Errno::NotPermitted);
        }
        if node.links == 0 {
            return Err(Errno::NoEntry);
        }
        self.can_make(parent, name)
    }

    pub(crate) fn linked(&mut self, ino: Ino, parent: Ino, name: &[u8], now: Timestamp) {
        self.nodes.get_mut(&ino).unwrap().links += 1;
        self.add(parent, name, ino, now);
    }

    pub(crate) fn can_unlink(&self, parent: Ino, name: &[u8]) -> Expected<Ino> {
        let ino = self.find(parent, name)?;
        if self.nodes[&ino].kind == FileKind::Directory {
            return Err(Errno::IsDirectory);
        }
        Ok(ino)
    }

    pub(crate) fn can_remove_directory(&self, parent: Ino, name: &[u8]) -> Expected<Ino> {
        let ino = self.find(parent, name)?;
        self.check_empty(ino)?;
        Ok(ino)
    }

    fn check_empty(&self, ino: Ino) -> Expected<()> {
        match &self.nodes[&ino] {
            node if node.kind != FileKind::Directory => Err(Errno::NotDirectory),
            node if !node.names.is_empty() => Err(Errno::NotEmpty),
            _ => Ok(()),
        }
    }

    pub(crate) fn removed(&mut self, parent: Ino, name: &[u8], now: Timestamp) {
        let ino = self.take(parent, name, now);
        self.lose(ino);
    }

    fn is_below(&self, mut at: Ino, ancestor: Ino) -> bool {
        loop {
            if at == ancestor {
                return true;
            }
            if at == ROOT {
                return false;
            }
            at = self.nodes[&at].parent;
        }
    }

    /// What a rename does.
    pub(crate) fn can_rename(
        &self,
        (from, name): (Ino, &[u8]),
        (to, new_name): (Ino, &[u8]),
        how: Rename,
    ) -> Expected<Renaming> {
        self.directory(from)?;
        self.directory(to)?;
        let moved = self.find(from, name)?;
        let other = self.find(to, new_name).ok();
        match (other, how) {
            (Some(_), Rename::NoReplace) => return Err(Errno::Exists),
            (None, Rename::Exchange) => return Err(Errno::NoEntry),
            (Some(other), _) if other == moved => return Ok(Renaming::default()),
            _ => {}
        }
        let is_directory = |ino: Ino| self.nodes[&ino].kind == FileKind::Directory;
        if is_directory(moved) && self.is_below(to, moved) {
            return Err(Errno::LoopedRename);
        }
        let Some(other) = other else { return Ok(MOVES) };
        if how == Rename::Exchange {
            if is_directory(other) && self.is_below(from, other) {
                return Err(Errno::LoopedRename);
            }
            return Ok(MOVES);
        }
        if is_directory(moved) {
            self.check_empty(other)?;
        } else if is_directory(other) {
            return Err(Errno::IsDirectory);
        }
        Ok(Renaming { removes: Some(other), ..MOVES })
    }

    pub(crate) fn renamed(
        &mut self,
        (from, name): (Ino, &[u8]),
        (to, new_name): (Ino, &[u8]),
        how: Rename,
        now: Timestamp,
    ) {
        let moved = self.take(from, name, now);
        let has_other = self.nodes[&to].names.contains_key(new_name);
        let other = has_other.then(|| self.take(to, new_name, now));
        self.add(to, new_name, moved, now);
        match other {
            Some(other) if how == Rename::Exchange => self.add(from, name, other, now),
            Some(other) => self.lose(other),
            None => {}
        }
    }

    pub(crate) fn truncated(&mut self, ino: Ino, size: u64, now: Timestamp) {
        let node = self.nodes.get_mut(&ino).unwrap();
        if size <= node.size {
            node.blocks.retain(|block, _| *block < size.div_ceil(BLOCK));
        }
        node.size = size;
        node.modified = now;
    }

    /// Sets what `blocks` are, or makes them holes.
    pub(crate) fn set_blocks(
        &mut self,
        ino: Ino,
        blocks: std::ops::Range<u64>,
        change: impl Fn(Option<Block>) -> Option<Block>,
    ) {
        let node = self.nodes.get_mut(&ino).unwrap();
        for block in blocks {
            match change(node.blocks.get(&block).copied()) {
                Some(new) => node.blocks.insert(block, new),
                None => node.blocks.remove(&block),
            };
        }
    }

    pub(crate) fn set_owner(&mut self, ino: Ino, mode: u16, caller: &Caller) {
        let node = self.nodes.get_mut(&ino).unwrap();
        (node.mode, node.uid, node.gid) = (mode, caller.uid, caller.gid);
    }
}

fn node(made: &Attributes, parent: Ino, target: &[u8]) -> Node {
    Node {
        kind: made.kind,
        mode: made.mode,
        uid: made.uid,
        gid: made.gid,
        links: if made.kind == FileKind::Directory { 2 } else { 1 },
        size: if made.kind == FileKind::Symlink { target.len() as u64 } else { 0 },
        modified: made.modified,
        device: made.device,
        target: target.to_vec(),
        blocks: BTreeMap::new(),
        xattrs: BTreeMap::new(),
        names: BTreeMap::new(),
        parent,
    }
}
