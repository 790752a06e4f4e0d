//! What the map promises beside its content: memory that is counted as it is, words for what cannot be
//! loaded, and leaves at the limits of their room and reach.

use super::leaf::{CAPACITY, Columns, Leaf, REACH_SECTORS};
use super::tree::NODE_LEAVES_MAX;
use super::{LoadError, Map};
use nearhead_format::{BLOCK_SECTORS, Entry, Place};
use std::error::Error as _;

fn logged(block: u64, len_sectors: u8, chunk_sector: u64) -> Entry {
    let place = Place::Log { chunk_sector, chunk_len: len_sectors, offset: 0 };
    Entry { home_sector: block * BLOCK_SECTORS, len_sectors, place, crc: 7 }
}

fn contents(map: &Map) -> Vec<Entry> {
    map.iter().collect()
}

#[test]
fn a_map_counts_at_least_what_its_rows_take() {
    let mut map = Map::new();
    for block in 0..5_000 {
        map.insert(logged(block, 8, block * 8), &mut |_| ());
    }
    // Eight bytes a block or more, and each vector by its capacity.
    let tree = &map.tree;
    assert!(map.memory_bytes() >= 5_000 * 8, "{} bytes", map.memory_bytes());
    let leaves = || tree.nodes.iter().flat_map(|node| &node.leaves);
    let mut expected =
        leaves().map(Leaf::memory_bytes).sum::<usize>() + tree.columns.memory_bytes();
    expected += size_of_val(&*tree.bases) / tree.bases.len() * tree.bases.capacity();
    expected += size_of_val(&*tree.nodes) / tree.nodes.len() * tree.nodes.capacity();
    for node in &tree.nodes {
        expected += size_of_val(&*node.bases) / node.bases.len() * node.bases.capacity();
        expected += size_of_val(&*node.leaves) / node.leaves.len() * node.leaves.capacity();
    }
    assert_eq!(map.memory_bytes(), expected);
}

#[test]
fn rows_on_their_way_cost_twenty_bytes_each() {
    let mut columns = Columns::default();
    assert_eq!(columns.memory_bytes(), 0);
    let mut rows = 0;
    for _ in 0..40 {
        let mut leaf = Leaf::new();
        for block in 0..CAPACITY as u64 {
            let at = leaf.len();
            leaf.splice(at..at, &[Leaf::row(&logged(block, 8, 8), 0)]);
        }
        leaf.drain_into(0, &mut columns);
        rows += CAPACITY;
        // Vectors grow by doubling.
        let bytes = columns.memory_bytes();
        assert!((rows * 20..=rows * 20 * 2).contains(&bytes), "{bytes} bytes for {rows} rows");
    }
}

#[test]
fn what_cannot_be_loaded_is_told_with_both_addresses() {
    let error = Map::from_sorted([logged(1, 8, 0), logged(1, 4, 8)]).err().unwrap();
    assert_eq!(
        error.to_string(),
        "map entry 1: expected a home sector of at least 16, where the entry before it ends, found 8"
    );
    assert!(error.source().is_none());
    let invalid = Entry { len_sectors: 9, ..logged(1, 8, 0) };
    let error = Map::from_sorted([logged(0, 8, 0), invalid]).err().unwrap();
    let LoadError::Invalid { index: 1, source } = &error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), format!("map entry 1: {source}"));
    assert_eq!(error.source().unwrap().to_string(), source.to_string());
}

#[test]
fn an_entry_is_held_until_anything_newer_takes_a_sector_of_it() {
    let mut map = Map::new();
    let entry = logged(2, 8, 80);
    assert!(!map.holds(&entry), "an empty map holds nothing");
    map.insert(entry, &mut |_| ());
    assert!(map.holds(&entry));
    assert!(!map.holds(&Entry { crc: 8, ..entry }) && !map.holds(&logged(2, 8, 88)));
    map.insert(Entry { home_sector: 23, ..logged(2, 1, 160) }, &mut |_| ());
    assert!(!map.holds(&entry), "its last sector is newer elsewhere");
}

#[test]
fn a_full_leaf_takes_an_entry_behind_its_last() {
    let mut map = Map::new();
    for block in 0..CAPACITY as u64 - 2 {
        map.insert(logged(block, 8, block * 8), &mut |_| ());
    }
    // One sector in the middle of a block leaves a piece on either side: two rows more.
    map.insert(Entry { home_sector: 2, ..logged(0, 1, 1000) }, &mut |_| ());
    assert_eq!((map.len(), map.tree.leaf_count), (CAPACITY, 1), "one full leaf");
    let mut expected = contents(&map);
    let behind = logged(CAPACITY as u64, 8, 2000);
    map.insert(behind, &mut |piece| panic!("nothing was there: {piece:?}"));
    expected.push(behind);
    assert_eq!(contents(&map), expected);
}

/// The row that is just out of a leaf's reach has a leaf of its own, also when neighbours are joined: otherwise
/// a later insert there would not see it.
#[test]
fn leaves_that_are_joined_never_reach_too_far() {
    let far = REACH_SECTORS / BLOCK_SECTORS;
    let near = CAPACITY as u64 / 2;
    let mut map = Map::new();
    for block in 0..near {
        map.insert(logged(block, 8, block * 8), &mut |_| ());
    }
    map.insert(logged(far, 8, 5000), &mut |_| ());
    assert_eq!(map.tree.leaf_count, 2);
    for block in (1..near).rev() {
        map.remove(block * BLOCK_SECTORS, BLOCK_SECTORS, &mut |_| ());
        let mut displaced = Vec::new();
        let newer = Entry { home_sector: far * BLOCK_SECTORS + 4, ..logged(far, 4, 6000 + block) };
        map.insert(newer, &mut |piece| displaced.push(piece));
        let sectors: u64 = displaced.iter().map(|piece| u64::from(piece.len_sectors)).sum();
        assert_eq!(sectors, 4, "{near} blocks down to {block}: {displaced:?}");
        assert_eq!(map.len() as u64, block + 2);
        // As it was, for the next round.
        map.insert(logged(far, 8, 5000), &mut |_| ());
    }
}

#[test]
fn a_map_loaded_in_order_leaves_full_nodes_behind() {
    let map = Map::from_sorted((0..4_000).map(|block| logged(block, 8, block * 8))).unwrap();
    let (last, others) = map.tree.nodes.split_last().unwrap();
    assert!(others.len() > 20 && !last.leaves.is_empty());
    for node in others {
        assert_eq!(node.leaves.len(), NODE_LEAVES_MAX);
    }
}

/// Blocks go in an order that has nothing to do with their addresses: leaves are joined as they empty, and
/// nodes too, but never to more than a node holds.
#[test]
fn leaves_and_nodes_are_joined_as_blocks_go() {
    const BLOCKS: u64 = 8_192;
    let mut map = Map::from_sorted((0..BLOCKS).map(|block| logged(block, 8, block * 8))).unwrap();
    for nth in 1..BLOCKS {
        // An odd factor visits every number below a power of two once.
        let block = nth * 4_967 % BLOCKS;
        map.remove(block * BLOCK_SECTORS, BLOCK_SECTORS, &mut |_| ());
        let (leaves, nodes) = (map.tree.leaf_count, map.tree.nodes.len());
        let most = map.tree.nodes.iter().map(|node| node.leaves.len()).max();
        assert!(most <= Some(NODE_LEAVES_MAX), "{most:?} leaves in a node");
        // A tenth beside what lies between two looks at the neighbours.
        let rows = map.len();
        assert!(leaves * 7 <= rows + 64, "{rows} rows in {leaves} leaves after {nth}");
        assert!(nodes * 2 <= leaves + 8, "{leaves} leaves in {nodes} nodes after {nth}");
    }
    assert_eq!((map.len(), map.tree.leaf_count, map.tree.nodes.len()), (1, 1, 1));
}
