//! The index over the leaves: a root and one level of nodes, each a sorted list of first sectors.
//!
//! Three levels are enough for any volume: 256 leaves to a node and a flat root reach a billion
//! rows before the root's own shifting is felt. What stays true:
//!
//! - a leaf describes the sectors from its base up to the next leaf's base; bases rise strictly,
//!   are multiples of the home block, and the very first one is 0 and never dropped;
//! - a node's base is its first leaf's; no node is without a leaf;
//! - after inserts alone leaves are at least 70 % full on average, however they came
//!   ([`super::spread`] says why), which bounds the memory per row;
//! - a leaf that has just grown, or was spread, and has no gap up to the next one is packed if its blocks are of that kind.

use super::leaf::{CAPACITY, Columns, Leaf, REACH_SECTORS};
use super::row::Row;
use super::rows::Rows;
use nearhead_format::{BLOCK_SECTORS, Entry};
use std::ops::Range;

/// Leaves of a node. Tests use small nodes to meet every split.
#[cfg(not(test))]
pub(super) const NODE_LEAVES_MAX: usize = 256;
#[cfg(test)]
pub(super) const NODE_LEAVES_MAX: usize = 8;

/// Rows that one insert can add: the new one, and a cut one left in two pieces.
pub(super) const GROWTH_MAX: usize = 2;

/// Leaves with neighbouring addresses.
#[derive(Default)]
pub(super) struct Node {
    pub(super) bases: Vec<u64>,
    pub(super) leaves: Vec<Leaf>,
}

/// Which leaf. Valid until the tree changes shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) node: usize,
    pub(super) leaf: usize,
}

/// How many leaves are packed, for what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedLeaves {
    pub(super) leaves: usize,
    /// In all of them.
    pub(super) blocks: usize,
}

impl PackedLeaves {
    fn note_packed(&mut self, leaf: &Leaf) {
        self.leaves += 1;
        self.blocks += leaf.len();
    }

    /// It is about to be unpacked.
    pub(super) fn forget(&mut self, leaf: &Leaf) {
        self.leaves -= 1;
        self.blocks -= leaf.len();
    }
}

/// All leaves, by address.
pub(super) struct Tree {
    pub(super) bases: Vec<u64>,
    pub(super) nodes: Vec<Node>,
    pub(super) leaf_count: usize,
    pub(super) packed: PackedLeaves,
    pub(super) columns: Columns,
}

impl Tree {
    pub(super) fn new() -> Self {
        let node = Node { bases: vec![0], leaves: vec![Leaf::new()] };
        Self {
            bases: vec![0],
            nodes: vec![node],
            leaf_count: 1,
            packed: PackedLeaves::default(),
            columns: Columns::default(),
        }
    }

    /// The leaf that describes `sector`.
    #[inline]
    pub(super) fn locate(&self, sector: u64) -> At {
        let node = self.bases.partition_point(|base| *base <= sector) - 1;
        let leaf = self.nodes[node].bases.partition_point(|base| *base <= sector) - 1;
        At { node, leaf }
    }

    #[inline]
    pub(super) fn base(&self, at: At) -> u64 {
        self.nodes[at.node].bases[at.leaf]
    }

    #[inline]
    pub(super) fn leaf(&self, at: At) -> &Leaf {
        &self.nodes[at.node].leaves[at.leaf]
    }

    /// Puts `rows` in the place of the rows `gone` of the leaf `at`. There must be room, and order must stay.
    #[inline]
    pub(super) fn splice(&mut self, at: At, gone: Range<usize>, rows: &[Row]) {
        let leaf = &mut self.nodes[at.node].leaves[at.leaf];
        if leaf.is_packed() && !leaf.takes(&gone, rows) {
            self.packed.forget(leaf);
            leaf.unpack();
        }
        leaf.splice(gone, rows);
    }

    /// Packs the leaf `at`, if no block is missing up to the next leaf, and all of them are of that kind.
    #[inline]
    pub(super) fn pack(&mut self, at: At) {
        let end = self.next(at).map(|next| self.base(next));
        let reach = self.leaf(at).len() as u64 * BLOCK_SECTORS;
        if end == Some(self.base(at) + reach) {
            self.pack_whole(at);
        }
    }

    #[cold]
    fn pack_whole(&mut self, at: At) {
        let leaf = &mut self.nodes[at.node].leaves[at.leaf];
        if !leaf.is_packed() && leaf.pack() {
            self.packed.note_packed(leaf);
        }
    }

    /// The leaf after `at`.
    #[inline]
    pub(super) fn next(&self, at: At) -> Option<At> {
        if at.leaf + 1 < self.nodes[at.node].leaves.len() {
            return Some(At { leaf: at.leaf + 1, ..at });
        }
        (at.node + 1 < self.nodes.len()).then_some(At { node: at.node + 1, leaf: 0 })
    }

    /// Puts `entry` in the place of one of exactly the same sectors, if there is one: the usual case
    /// of a block that is written again, without the work of the general one.
    #[inline]
    pub(super) fn overwrite(&mut self, entry: &Entry) -> Option<Entry> {
        let at = self.locate(entry.home_sector);
        let base = self.base(at);
        let leaf = &mut self.nodes[at.node].leaves[at.leaf];
        let index = leaf.find(entry.home_sector - base)?;
        let old = leaf.entry(index, base);
        if old.len_sectors != entry.len_sectors {
            return None;
        }
        let row = Leaf::row(entry, base);
        if !leaf.overwrite(index, &row) {
            self.splice(at, index..index + 1, &[row]);
        }
        Some(old)
    }

    /// The leaf that describes `sector`, with room for an insert there.
    #[inline]
    pub(super) fn make_room(&mut self, sector: u64) -> At {
        loop {
            let at = self.locate(sector);
            if sector - self.base(at) >= REACH_SECTORS {
                self.add_leaf(at, sector - sector % BLOCK_SECTORS);
            } else if self.leaf(at).len() + GROWTH_MAX <= CAPACITY {
                return at;
            } else {
                self.relieve(at);
            }
        }
    }

    /// Adds an empty leaf that starts at `base`, inside what the leaf `at` described so far.
    pub(super) fn add_leaf(&mut self, at: At, base: u64) {
        self.leaf_count += 1;
        let at_end = at.node + 1 == self.nodes.len();
        let node = &mut self.nodes[at.node];
        let full = node.leaves.len() >= NODE_LEAVES_MAX;
        if full && at_end && at.leaf + 1 == node.leaves.len() {
            // Ascending addresses: leave full nodes behind.
            self.bases.push(base);
            self.nodes.push(Node { bases: vec![base], leaves: vec![Leaf::new()] });
            return;
        }
        node.bases.insert(at.leaf + 1, base);
        node.leaves.insert(at.leaf + 1, Leaf::new());
        self.split_node(at.node);
    }

    /// Drops the empty leaf `at`, unless it is the very first; the one before it then describes its
    /// sectors too.
    pub(super) fn drop_leaf(&mut self, at: At) {
        debug_assert_eq!(self.leaf(at).len(), 0, "only an empty leaf is dropped");
        if at == (At { node: 0, leaf: 0 }) {
            return;
        }
        self.leaf_count -= 1;
        let node = &mut self.nodes[at.node];
        node.bases.remove(at.leaf);
        node.leaves.remove(at.leaf);
        if let Some(base) = node.bases.first() {
            self.bases[at.node] = *base;
        } else {
            self.bases.remove(at.node);
            self.nodes.remove(at.node);
        }
    }

    /// Halves a node that has too many leaves.
    pub(super) fn split_node(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.leaves.len() <= NODE_LEAVES_MAX {
            return;
        }
        let middle = node.leaves.len() / 2;
        let right =
            Node { bases: node.bases.split_off(middle), leaves: node.leaves.split_off(middle) };
        self.bases.insert(index + 1, right.bases[0]);
        self.nodes.insert(index + 1, right);
    }

    /// Joins a node that has become small with a neighbour, if both then are not too large.
    pub(super) fn join_node(&mut self, index: usize) {
        let small = |node: &Node| node.leaves.len() < NODE_LEAVES_MAX / 4;
        if !self.nodes.get(index).is_some_and(small) {
            return;
        }
        let fits = |left: usize| {
            let pair = self.nodes.get(left..left + 2)?;
            let leaves = pair[0].leaves.len() + pair[1].leaves.len();
            (leaves <= NODE_LEAVES_MAX * 3 / 4).then_some(left)
        };
        let Some(left) = index.checked_sub(1).and_then(fits).or_else(|| fits(index)) else {
            return;
        };
        let mut right = self.nodes.remove(left + 1);
        self.bases.remove(left + 1);
        self.nodes[left].bases.append(&mut right.bases);
        self.nodes[left].leaves.append(&mut right.leaves);
    }

    /// Heap bytes, by the capacity of everything that is allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        let node_bytes =
            |node: &Node| node.bases.capacity() * 8 + node.leaves.capacity() * size_of::<Leaf>();
        let PackedLeaves { leaves, blocks } = self.packed;
        (self.leaf_count - leaves) * size_of::<Rows>()
            + blocks * size_of::<u64>()
            + self.nodes.iter().map(node_bytes).sum::<usize>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.bases.capacity() * 8
            + self.columns.memory_bytes()
    }
}
