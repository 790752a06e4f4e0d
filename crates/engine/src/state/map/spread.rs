//! Keeping leaves well filled: rows of neighbouring leaves are spread evenly over as few leaves as
//! hold them at [`FILL`].
//!
//! A full leaf looks at a window of four neighbours. Only when these hold more than four times
//! [`FILL`] rows (7/8 of the capacity) does a fifth leaf come, and each then holds at least
//! 4 · 7/8 / 5 = 70 % of its capacity: 16-byte rows cost less than 23 bytes in the worst order of
//! inserts. After removals a leaf with less than 3/4 of [`FILL`] looks at the same window and gives a
//! leaf up if three can hold the rows of four at [`FILL`], so that under 66 % full lasts nowhere.
//! Between the two rules lies distance: a leaf that was just given up comes back only after as many
//! inserts as make its neighbours overflow, an eighth of a leaf at least.

use super::leaf::{CAPACITY, REACH_SECTORS};
use super::tree::{At, GROWTH_MAX, Tree};
use nearhead_format::BLOCK_SECTORS;
use std::ops::Range;

/// Rows a leaf gets when rows are spread: the rest is room for inserts.
#[cfg(not(test))]
pub(super) const FILL: usize = CAPACITY - CAPACITY / 8;
#[cfg(test)]
pub(super) const FILL: usize = 14;

/// A leaf that was just filled takes up to one more block's rows, and must then have room.
const _: () = assert!(FILL + BLOCK_SECTORS as usize - 1 + GROWTH_MAX <= CAPACITY);

/// Leaves that are spread together.
const WINDOW: usize = 4;

/// A leaf with fewer rows looks whether its neighbours can take them.
const SPARSE: usize = FILL * (WINDOW - 1) / WINDOW;

/// Removals from a sparse leaf between two looks at its neighbours.
const LOOK_EVERY: usize = 8;

impl Tree {
    /// Makes room in the full leaf `at`. Positions change.
    #[cold]
    pub(super) fn relieve(&mut self, at: At) {
        self.spread(at.node, self.window(at));
    }

    /// Gives up leaves that are no longer needed after the leaf `at` shrank from `len_before` rows.
    /// Positions change.
    pub(super) fn shrink(&mut self, at: At, len_before: usize) {
        let len = self.leaf(at).len();
        if len == 0 {
            self.drop_leaf(at);
        } else if len < SPARSE && len / LOOK_EVERY != len_before / LOOK_EVERY {
            let window = self.window(at);
            let leaves = &self.nodes[at.node].leaves[window.clone()];
            let rows: usize = leaves.iter().map(super::leaf::Leaf::len).sum();
            if rows.div_ceil(FILL) < window.len() {
                self.spread(at.node, window);
            }
        } else {
            return;
        }
        self.join_node(at.node);
    }

    /// The leaves of the same node around `at`.
    fn window(&self, at: At) -> Range<usize> {
        let leaves = self.nodes[at.node].leaves.len();
        let start = at.leaf.saturating_sub(1).min(leaves.saturating_sub(WINDOW));
        start..(start + WINDOW).min(leaves)
    }

    /// Spreads the rows of the leaves `window` of one node evenly over as few leaves as possible.
    fn spread(&mut self, node_index: usize, window: Range<usize>) {
        let node = &mut self.nodes[node_index];
        let columns = &mut self.columns;
        columns.clear();
        let mut base = node.bases[window.start];
        let old_bases = node.bases.drain(window.clone());
        let mut emptied: Vec<_> = node.leaves.drain(window.clone()).collect();
        for (leaf, base) in emptied.iter_mut().zip(old_bases) {
            if leaf.is_packed() {
                self.packed.forget(leaf);
            }
            leaf.drain_into(base, columns);
        }
        self.leaf_count -= emptied.len();

        let mut leaves_left = columns.homes.len().div_ceil(FILL);
        let (mut from, mut index) = (0, window.start);
        loop {
            let share = (columns.homes.len() - from).div_ceil(leaves_left.max(1));
            let to = boundary(&columns.homes, base, from, share);
            let mut leaf = emptied.pop().unwrap_or_else(super::leaf::Leaf::new);
            leaf.fill_from(base, columns, from..to);
            node.bases.insert(index, base);
            node.leaves.insert(index, leaf);
            self.leaf_count += 1;
            index += 1;
            let Some(next) = columns.homes.get(to) else { break };
            base = next - next % BLOCK_SECTORS;
            from = to;
            leaves_left = leaves_left.saturating_sub(1);
        }
        for leaf in window.start..index {
            self.pack(At { node: node_index, leaf });
        }
        // Where rows are out of each other's reach it may take more leaves than before.
        self.split_node(node_index);
    }
}

/// Where a leaf that starts at `base` with row `from` ends, if it should get `share` rows: after a
/// whole home block, and within reach.
fn boundary(homes: &[u64], base: u64, from: usize, share: usize) -> usize {
    let mut to = (from + share.min(FILL)).min(homes.len());
    while to > from && to < homes.len() && same_block(homes[to - 1], homes[to]) {
        to += 1;
    }
    if to > from && homes[to - 1] - base >= REACH_SECTORS {
        to = from + homes[from..to].partition_point(|home| home - base < REACH_SECTORS);
    }
    to
}

fn same_block(left: u64, right: u64) -> bool {
    left / BLOCK_SECTORS == right / BLOCK_SECTORS
}
