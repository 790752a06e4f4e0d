//! When leaves and nodes are joined, and when they are left alone: a sparse leaf looks at its neighbours once in
//! some removals, nothing moves unless that gives a leaf up, and nodes are joined only while both fit into one
//! with room to grow.
//!
//! Each test builds a map of leaves with as many rows as it says, so that the next removal is the one that decides.

use super::Map;
use super::leaf::{CAPACITY, Leaf, REACH_SECTORS};
use super::spread::FILL;
use super::tree::{NODE_LEAVES_MAX, Node, Tree};
use nearhead_format::{BLOCK_SECTORS, Entry, Place};

/// Blocks from the start of one leaf to the start of the next.
const LEAF_BLOCKS: u64 = 100;

fn logged(block: u64, sector: u64, len_sectors: u8) -> Entry {
    let home_sector = block * BLOCK_SECTORS + sector;
    let place = Place::Log { chunk_sector: home_sector, chunk_len: len_sectors, offset: 0 };
    Entry { home_sector, len_sectors, place, crc: 7 }
}

/// Leaves with so many rows, in nodes with so many leaves; one row for each block.
fn map_of(nodes: &[&[usize]]) -> Map {
    let (mut map, mut leaf) = (Map::new(), 0);
    let mut tree = Tree { bases: Vec::new(), nodes: Vec::new(), ..Tree::new() };
    for rows in nodes {
        let bases: Vec<u64> =
            (leaf..).take(rows.len()).map(|nth| nth * LEAF_BLOCKS * BLOCK_SECTORS).collect();
        leaf += rows.len() as u64;
        tree.bases.push(bases[0]);
        let leaves = rows.iter().map(|_| Leaf::new()).collect();
        tree.nodes.push(Node { bases, leaves });
    }
    tree.leaf_count = leaf as usize;
    map.tree = tree;
    for (leaf, rows) in (0..).zip(nodes.concat()) {
        for row in 0..rows as u64 {
            map.insert(logged(leaf * LEAF_BLOCKS + row, 0, 8), &mut |_| ());
        }
    }
    assert_eq!(rows_of(&map), nodes.concat(), "the map a test begins with");
    map
}

fn rows_of(map: &Map) -> Vec<usize> {
    map.tree.nodes.iter().flat_map(|node| &node.leaves).map(Leaf::len).collect()
}

fn leaves_of_nodes(map: &Map) -> Vec<usize> {
    map.tree.nodes.iter().map(|node| node.leaves.len()).collect()
}

/// Removes the first `count` rows that are left of the leaf that was built as number `leaf`.
fn remove_rows(map: &mut Map, leaf: u64, count: u64) {
    let start = leaf * LEAF_BLOCKS * BLOCK_SECTORS;
    let first = map.iter_from(start).next().unwrap().home_sector;
    map.remove(first, count * BLOCK_SECTORS, &mut |_| ());
}

#[test]
fn a_sparse_leaf_looks_at_its_neighbours_once_in_eight_removals() {
    let mut map = map_of(&[&[9, 3]]);
    remove_rows(&mut map, 0, 1);
    assert_eq!(rows_of(&map), [8, 3], "the eighth row is not gone yet");
    remove_rows(&mut map, 0, 1);
    assert_eq!(rows_of(&map), [10]);
    // Below that it looks only once it is empty.
    let mut map = map_of(&[&[7, 3]]);
    for left in (1..7).rev() {
        remove_rows(&mut map, 0, 1);
        assert_eq!(rows_of(&map), [left, 3]);
    }
}

#[test]
fn a_leaf_that_is_three_quarters_as_full_as_when_it_was_filled_leaves_its_neighbours_alone() {
    let enough = FILL * 3 / 4;
    let mut map = map_of(&[&[16, 3]]);
    remove_rows(&mut map, 0, 16 - enough as u64);
    assert_eq!(rows_of(&map), [enough, 3], "two leaves that one could hold");
    let mut map = map_of(&[&[16, 3]]);
    remove_rows(&mut map, 0, 16 - enough as u64 + 1);
    assert_eq!(rows_of(&map), [enough - 1 + 3], "one row less, and they are joined");
}

#[test]
fn rows_move_only_where_that_gives_a_leaf_up() {
    // What is left fits two leaves, not one.
    let mut map = map_of(&[&[8, FILL - 6]]);
    remove_rows(&mut map, 0, 1);
    assert_eq!(rows_of(&map), [7, FILL - 6]);
    let mut map = map_of(&[&[8, FILL - 7]]);
    remove_rows(&mut map, 0, 1);
    assert_eq!(rows_of(&map), [FILL]);
}

/// All rows of a home block are in one leaf: where the share of a leaf ends inside a block, it takes the rest.
#[test]
fn a_leaf_takes_the_rest_of_the_block_in_which_its_share_ends() {
    let mut map = Map::new();
    let before = 10;
    for block in 0..before {
        map.insert(logged(block, 0, 8), &mut |_| ());
    }
    for sector in 0..BLOCK_SECTORS {
        map.insert(logged(before, sector, 1), &mut |_| ());
    }
    let mut after = 0;
    while map.tree.leaf_count == 1 {
        after += 1;
        map.insert(logged(before + after, 0, 8), &mut |_| ());
    }
    // The last one came after the leaf, then full but for what an insert may need, had been divided.
    assert!(map.len() > CAPACITY - 2, "{} rows", map.len());
    let first = (before + BLOCK_SECTORS) as usize;
    assert_eq!(rows_of(&map), [first, after as usize]);
}

#[test]
fn a_node_is_joined_once_it_is_small_and_only_if_both_leave_room() {
    let (small, room) = (NODE_LEAVES_MAX / 4, NODE_LEAVES_MAX * 3 / 4);
    // Leaves of three nodes, and what they are once the one in the middle has lost a leaf.
    let cases: [(&str, [usize; 3], &[usize]); 6] = [
        ("not small yet", [3, small + 1, 3], &[3, small, 3]),
        ("small", [3, small, 3], &[3 + small - 1, 3]),
        ("just room enough", [room + 1 - small, small, 8], &[room, 8]),
        (
            "only the right one has room",
            [room + 2 - small, small, 3],
            &[room + 2 - small, 2 + small],
        ),
        ("none has room", [room + 2 - small, small, room + 2 - small], &[room, small - 1, room]),
        ("nothing left of it", [room, 1, room], &[room, room]),
    ];
    for (name, before, after) in cases {
        let leaves = before.map(|leaves| vec![1; leaves]);
        let mut map = map_of(&[&leaves[0], &leaves[1], &leaves[2]]);
        remove_rows(&mut map, before[0] as u64, 1);
        assert_eq!(leaves_of_nodes(&map), after, "{name}: {before:?}");
        let firsts: Vec<u64> = map.tree.nodes.iter().map(|node| node.bases[0]).collect();
        assert_eq!(map.tree.bases, firsts, "{name}");
        assert_eq!(map.iter().count(), before.iter().sum::<usize>() - 1, "{name}");
    }
}

/// Distances are 32 bits wide, the largest of them means an unused row, and a block is never divided.
#[test]
fn a_leaf_reaches_as_far_as_its_keys_do() {
    let keys = u64::from(u32::MAX);
    let one_block_more = REACH_SECTORS + BLOCK_SECTORS;
    assert!((REACH_SECTORS..one_block_more).contains(&keys), "{REACH_SECTORS}");
    assert!(REACH_SECTORS.is_multiple_of(BLOCK_SECTORS), "{REACH_SECTORS}");
}
