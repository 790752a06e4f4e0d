//! The extents of a file: what lies in a range, cutting a range out, adding an extent. On disk a tree, in memory a map.
//!
//! Three operations on which all others rest, each for both homes of an inode. The tree is the documented one: nodes are
//! full when written to in order, half full otherwise; a node that becomes empty goes; a key is always the first block of
//! what is below it. Blocks of the tree count to the inode. Nothing here knows what the blocks of a file are for.

use crate::cache::Kind;
use crate::error::{Outcome, Stop, corrupt};
use crate::extent_node::{
    self as node, Child, ENTRIES_MAX, ENTRY_BYTES, Extent, LOGICAL_END, ROOT_ENTRIES_MAX,
};
use crate::inode::{CONTENT, CONTENT_BYTES, Inode};
use crate::transaction::Transaction;
use crate::types::BlockBytes;

/// Blocks of a tree that are wanted at once.
const NODES_AT_ONCE: usize = 32;

/// A node: of the inode itself, or a block.
type At = Option<u64>;

/// What a walk looks for.
struct Walk {
    first: u64,
    end: u64,
    extents_max: usize,
}

/// What is left of a node after a cut.
enum Rest {
    Empty,
    /// Its first key.
    From(u32),
}

impl Transaction<'_> {
    fn node_kind(inode: &Inode) -> Kind {
        Kind::Extents(inode.ino.0, inode.generation())
    }

    /// The nth child of a node, and where what is below it ends. It must have the depth and the range that its parent
    /// promises: so nothing is found twice, and a walk ends.
    pub(crate) fn child_node(
        &mut self,
        inode: &Inode,
        parent: &[u8],
        nth: usize,
        end: u64,
    ) -> Outcome<(BlockBytes, u64)> {
        let child = node::child(parent, nth);
        let is_last = nth + 1 >= node::entries(parent);
        let end = if is_last { end } else { u64::from(node::key(parent, nth + 1)) };
        let bytes = self.read(child.block, Self::node_kind(inode))?;
        let depth = node::depth(parent).saturating_sub(1);
        let found = (node::depth(&*bytes), node::key(&*bytes, 0), node::end(&*bytes));
        if found.0 != depth || found.1 < child.logical || found.2 > end {
            return Err(corrupt(format!(
                "block {}: extents of inode {}: expected depth {depth} for {} to {end}, found \
                 depth {} for {} to {}",
                child.block, inode.ino.0, child.logical, found.0, found.1, found.2
            )));
        }
        Ok((bytes, end))
    }

    /// The extents that overlap `first..end`, in order and whole; at most about `extents_max`.
    pub(crate) fn extents_in(
        &mut self,
        inode: &Inode,
        first: u64,
        end: u64,
        extents_max: usize,
    ) -> Outcome<Vec<Extent>> {
        let mut found = Vec::new();
        if first >= end {
            return Ok(found);
        }
        if inode.is_in_memory {
            if let Some(orphan) = self.orphan(inode.ino) {
                let before = orphan.extents.range(..first.min(LOGICAL_END) as u32).next_back();
                let after = orphan.extents.range(first.min(LOGICAL_END) as u32..);
                let all = before.into_iter().chain(after).map(|(_, extent)| *extent);
                let overlapping = all.filter(|extent| extent.part(first, end).is_some());
                found.extend(overlapping.take(extents_max));
            }
            return Ok(found);
        }
        let walk = Walk { first, end, extents_max };
        self.collect(inode, inode.content(), LOGICAL_END, &walk, &mut found)?;
        let mut free_from = 0;
        for extent in &found {
            if u64::from(extent.logical) < free_from {
                return Err(corrupt(format!(
                    "inode {}: two extents for block {} of it",
                    inode.ino.0, extent.logical
                )));
            }
            free_from = extent.end();
            self.check_no_system(&(extent.physical..extent.physical + u64::from(extent.len)))?;
        }
        Ok(found)
    }

    fn collect(
        &mut self,
        inode: &Inode,
        bytes: &[u8],
        bytes_end: u64,
        walk: &Walk,
        found: &mut Vec<Extent>,
    ) -> Outcome<()> {
        let Walk { first, end, extents_max } = *walk;
        let depth = node::depth(bytes);
        let from = node::entries_up_to(bytes, first).saturating_sub(1);
        if depth > 0 {
            self.want_children(bytes, from, end)?;
        }
        for nth in from..node::entries(bytes) {
            if u64::from(node::key(bytes, nth)) >= end || found.len() >= extents_max {
                break;
            }
            if depth == 0 {
                let extent = node::extent(bytes, nth);
                found.extend(extent.part(first, end).map(|_| extent));
            } else {
                let (below, below_end) = self.child_node(inode, bytes, nth, bytes_end)?;
                self.collect(inode, &*below, below_end, walk, found)?;
            }
        }
        Ok(())
    }

    /// Asks for several missing children at once.
    fn want_children(&mut self, bytes: &[u8], from: usize, end: u64) -> Outcome<()> {
        let children = (from..node::entries(bytes)).map(|nth| node::child(bytes, nth));
        let needed = children.take_while(|child| u64::from(child.logical) < end);
        let blocks = needed.take(NODES_AT_ONCE).map(|child| child.block);
        let missing: Vec<u64> = blocks.filter(|block| !self.has(*block)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Stop::Wants(missing)) }
    }

    /// A copy of a node whose parent was looked at.
    fn node_bytes(&mut self, inode: &Inode, at: At) -> Outcome<Vec<u8>> {
        Ok(match at {
            None => inode.content().to_vec(),
            Some(block) => self.read(block, Self::node_kind(inode))?.to_vec(),
        })
    }

    /// Changes a node in place.
    fn change_node<T>(
        &mut self,
        inode: &mut Inode,
        at: At,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Outcome<T> {
        match at {
            None => Ok(change(inode.content_mut())),
            Some(block) => {
                let kind = Self::node_kind(inode);
                Ok(change(self.change(block, kind)?.as_mut_slice()))
            }
        }
    }

    /// A new block for the tree.
    fn new_node(&mut self, inode: &mut Inode, goal: u64, depth: u16) -> Outcome<u64> {
        let block = self.take_blocks(goal, 1, false)?.start;
        let kind = Self::node_kind(inode);
        node::format(self.fresh(block, kind)?.as_mut_slice(), ENTRIES_MAX, depth);
        inode.add_blocks(1);
        Ok(block)
    }

    fn free_node(&mut self, inode: &mut Inode, block: u64) -> Outcome<()> {
        self.free_blocks(block..block + 1, false)?;
        self.forget(block);
        inode.add_blocks(-1);
        Ok(())
    }

    /// Adds an extent where there is a hole.
    pub(crate) fn add_extent(&mut self, inode: &mut Inode, extent: Extent) -> Outcome<()> {
        if inode.is_in_memory {
            if let Some(orphan) = self.orphan_mut(inode.ino) {
                orphan.extents.insert(extent.logical, extent);
            }
            return Ok(());
        }
        self.add_below(inode, None, LOGICAL_END, extent)?;
        Ok(())
    }

    /// Adds to the subtree; gives a sibling that came into being.
    fn add_below(
        &mut self,
        inode: &mut Inode,
        at: At,
        end: u64,
        extent: Extent,
    ) -> Outcome<Option<Child>> {
        let bytes = self.node_bytes(inode, at)?;
        if node::depth(&bytes) == 0 {
            if self.change_node(inode, at, |bytes| join(bytes, &extent))? {
                return Ok(None);
            }
            let goal = extent.physical;
            return self.add_entry(inode, at, extent.logical, &extent.encode(), goal);
        }
        let nth = node::entries_up_to(&bytes, u64::from(extent.logical)).saturating_sub(1);
        let child = node::child(&bytes, nth);
        let (_, child_end) = self.child_node(inode, &bytes, nth, end)?;
        let sibling = self.add_below(inode, Some(child.block), child_end, extent)?;
        if extent.logical < child.logical {
            self.change_node(inode, at, |bytes| node::set_key(bytes, nth, extent.logical))?;
        }
        let Some(sibling) = sibling else { return Ok(None) };
        self.add_entry(inode, at, sibling.logical, &sibling.encode(), extent.physical)
    }

    /// Adds an entry to a node; splits it, or lets the tree grow, if it is full.
    fn add_entry(
        &mut self,
        inode: &mut Inode,
        at: At,
        key: u32,
        entry: &[u8; ENTRY_BYTES],
        goal: u64,
    ) -> Outcome<Option<Child>> {
        let (nth, count, max, depth) = self.change_node(inode, at, |bytes| {
            let nth = node::entries_up_to(bytes, u64::from(key));
            (nth, node::entries(bytes), node::entries_max(bytes), node::depth(bytes))
        })?;
        if count < max {
            self.change_node(inode, at, |bytes| node::insert(bytes, nth, entry))?;
            return Ok(None);
        }
        let new = self.new_node(inode, goal, depth)?;
        let kind = Self::node_kind(inode);
        let Some(block) = at else {
            let mut root = [0; CONTENT_BYTES];
            root.copy_from_slice(inode.content());
            let target = self.change(new, kind)?;
            node::split_off(&mut root, 0, target.as_mut_slice());
            node::insert(target.as_mut_slice(), nth, entry);
            let child = Child { logical: node::key(target.as_slice(), 0), block: new };
            node::format(inode.content_mut(), ROOT_ENTRIES_MAX, depth + 1);
            node::insert(inode.content_mut(), 0, &child.encode());
            return Ok(None);
        };
        // What is written in order leaves full nodes behind.
        let middle = if nth == count { count } else { count / 2 };
        let mut left = *self.read(block, kind)?;
        let right = self.change(new, kind)?;
        node::split_off(&mut left, middle, right);
        if nth >= middle {
            node::insert(right, nth - middle, entry);
        } else {
            node::insert(&mut left, nth, entry);
        }
        let sibling = Child { logical: node::key(right.as_slice(), 0), block: new };
        self.change(block, kind)?.copy_from_slice(&left);
        Ok(Some(sibling))
    }

    /// Makes `first..end` a hole; gives what was there. Frees blocks of the tree, but not those of the file.
    pub(crate) fn cut_extents(
        &mut self,
        inode: &mut Inode,
        first: u64,
        end: u64,
    ) -> Outcome<Vec<Extent>> {
        let mut removed = Vec::new();
        if first >= end {
            return Ok(removed);
        }
        if inode.is_in_memory {
            let whole = self.extents_in(inode, first, end, usize::MAX)?;
            if let Some(orphan) = self.orphan_mut(inode.ino) {
                for extent in whole {
                    orphan.extents.remove(&extent.logical);
                    removed.extend(extent.part(first, end));
                    for rest in [extent.part(0, first), extent.part(end, u64::MAX)] {
                        orphan.extents.extend(rest.map(|rest| (rest.logical, rest)));
                    }
                }
            }
            return Ok(removed);
        }
        let mut behind = None;
        let range = (first, end);
        let rest = self.cut_below(inode, None, LOGICAL_END, range, &mut removed, &mut behind)?;
        if matches!(rest, Rest::Empty) {
            node::format(inode.content_mut(), ROOT_ENTRIES_MAX, 0);
        }
        self.lower(inode)?;
        if let Some(behind) = behind {
            self.add_extent(inode, behind)?;
        }
        Ok(removed)
    }

    fn cut_below(
        &mut self,
        inode: &mut Inode,
        at: At,
        bytes_end: u64,
        (first, end): (u64, u64),
        removed: &mut Vec<Extent>,
        behind: &mut Option<Extent>,
    ) -> Outcome<Rest> {
        let bytes = self.node_bytes(inode, at)?;
        if node::depth(&bytes) == 0 {
            return self
                .change_node(inode, at, |bytes| cut_leaf(bytes, first, end, removed, behind));
        }
        let from = node::entries_up_to(&bytes, first).saturating_sub(1);
        self.want_children(&bytes, from, end)?;
        let mut nth = from;
        for old in from..node::entries(&bytes) {
            let child = node::child(&bytes, old);
            if u64::from(child.logical) >= end {
                break;
            }
            let (_, below_end) = self.child_node(inode, &bytes, old, bytes_end)?;
            let below = Some(child.block);
            match self.cut_below(inode, below, below_end, (first, end), removed, behind)? {
                Rest::Empty => {
                    self.free_node(inode, child.block)?;
                    self.change_node(inode, at, |bytes| node::remove(bytes, nth))?;
                }
                Rest::From(key) => {
                    if key != child.logical {
                        self.change_node(inode, at, |bytes| node::set_key(bytes, nth, key))?;
                    }
                    nth += 1;
                }
            }
        }
        self.change_node(inode, at, |bytes| match node::entries(bytes) {
            0 => Rest::Empty,
            _ => Rest::From(node::key(bytes, 0)),
        })
    }

    /// While the root has one child that fits into it, that takes its place.
    fn lower(&mut self, inode: &mut Inode) -> Outcome<()> {
        loop {
            let root = inode.content();
            let depth = node::depth(root);
            if depth == 0 || node::entries(root) != 1 {
                return Ok(());
            }
            let block = node::child(root, 0).block;
            let root = inode.content().to_vec();
            let mut bytes = *self.child_node(inode, &root, 0, LOGICAL_END)?.0;
            if node::entries(&bytes) > usize::from(ROOT_ENTRIES_MAX) {
                return Ok(());
            }
            node::format(inode.content_mut(), ROOT_ENTRIES_MAX, depth - 1);
            node::split_off(&mut bytes, 0, &mut inode.raw[CONTENT..CONTENT + CONTENT_BYTES]);
            self.free_node(inode, block)?;
        }
    }

    /// Blocks of the tree, for when all of it goes; none if there are more than `nodes_max`.
    pub(crate) fn tree_blocks(
        &mut self,
        inode: &Inode,
        nodes_max: usize,
    ) -> Outcome<Option<Vec<u64>>> {
        let mut blocks = Vec::new();
        let mut level = vec![(inode.content().to_vec(), LOGICAL_END)];
        while level.first().is_some_and(|(bytes, _)| node::depth(bytes) > 0) {
            let mut below = Vec::new();
            for (bytes, end) in &level {
                self.want_children(bytes, 0, u64::MAX)?;
                for nth in 0..node::entries(bytes) {
                    blocks.push(node::child(bytes, nth).block);
                    if blocks.len() > nodes_max {
                        return Ok(None);
                    }
                    let (bytes, end) = self.child_node(inode, bytes, nth, *end)?;
                    below.push((bytes.to_vec(), end));
                }
            }
            level = below;
        }
        Ok(Some(blocks))
    }
}

/// Joins an extent with its neighbours in a leaf, if it goes on from one of them; whether it did.
fn join(bytes: &mut [u8], extent: &Extent) -> bool {
    let nth = node::entries_up_to(bytes, u64::from(extent.logical));
    let before = nth.checked_sub(1).map(|before| node::extent(bytes, before));
    let after = (nth < node::entries(bytes)).then(|| node::extent(bytes, nth));
    let with_before = before.and_then(|before| before.joined(extent));
    if let Some(joined) = with_before {
        match after.and_then(|after| joined.joined(&after)) {
            Some(all) => {
                node::replace(bytes, nth - 1, &all.encode());
                node::remove(bytes, nth);
            }
            None => node::replace(bytes, nth - 1, &joined.encode()),
        }
        return true;
    }
    let Some(joined) = after.and_then(|after| extent.joined(&after)) else { return false };
    node::replace(bytes, nth, &joined.encode());
    true
}

/// Cuts `first..end` out of a leaf. What an extent that surrounds it leaves behind it may not fit and is handed over.
fn cut_leaf(
    bytes: &mut [u8],
    first: u64,
    end: u64,
    removed: &mut Vec<Extent>,
    behind: &mut Option<Extent>,
) -> Rest {
    let mut nth = node::entries_up_to(bytes, first).saturating_sub(1);
    while nth < node::entries(bytes) {
        let extent = node::extent(bytes, nth);
        if u64::from(extent.logical) >= end {
            break;
        }
        let Some(part) = extent.part(first, end) else {
            nth += 1;
            continue;
        };
        removed.push(part);
        match (extent.part(0, first), extent.part(end, u64::MAX)) {
            (Some(left), right) => {
                node::replace(bytes, nth, &left.encode());
                *behind = right.or(*behind);
                nth += 1;
            }
            (None, Some(right)) => {
                node::replace(bytes, nth, &right.encode());
                nth += 1;
            }
            (None, None) => node::remove(bytes, nth),
        }
    }
    if node::entries(bytes) == 0 { Rest::Empty } else { Rest::From(node::key(bytes, 0)) }
}
