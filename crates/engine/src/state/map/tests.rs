//! The map against the simplest model there is: one line for each sector.
//!
//! Leaves and nodes are small in test builds, so that short sequences meet every split and join;
//! `tests/map_at_scale.rs` runs the same laws with the real sizes.

use super::leaf::{CAPACITY, REACH_SECTORS};
use super::row::cut;
use super::tree::{At, GROWTH_MAX, NODE_LEAVES_MAX, PackedLeaves};
use super::{LoadError, Map, Segment};
use nearhead_format::{BLOCK_SECTORS, Entry, Place, SECTORS_MAX};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// For each mapped sector the entry cut to it.
type Model = BTreeMap<u64, Entry>;

#[derive(Clone, Debug)]
enum Step {
    Insert(Entry),
    /// One whole block at each of `count` places, `stride_blocks` apart, up or down.
    Run {
        block: u64,
        count: u64,
        stride_blocks: u64,
        down: bool,
    },
    Remove {
        start: u64,
        len: u64,
    },
    Lookup {
        start: u64,
        len: u64,
    },
}

fn sectors(entry: &Entry) -> impl Iterator<Item = (u64, Entry)> {
    let entry = *entry;
    (entry.home_sector..entry.end_sector()).map(move |at| (at, cut(&entry, at, at + 1)))
}

fn logged(home_sector: u64, len_sectors: u8, chunk_sector: u64) -> Entry {
    let place = Place::Log { chunk_sector, chunk_len: len_sectors, offset: 0 };
    Entry { home_sector, len_sectors, place, crc: chunk_sector as u32 ^ 0x5555 }
}

/// Blocks close together, far apart (several leaves' reach), and at the end of the address space.
fn block() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..40_u64,
        2 => 0..2_000_u64,
        1 => (0..64_u64).prop_map(|n| n * (REACH_SECTORS / BLOCK_SECTORS / 8) + n % 3),
        1 => (1..40_u64).prop_map(|n| SECTORS_MAX / BLOCK_SECTORS - n),
    ]
}

prop_compose! {
    fn entry()(
        block in block(),
        // The chunk inside its block, and the entry inside the chunk.
        bounds in proptest::array::uniform4(0..=8_u8),
        kind in 0..12_u8,
        chunk_sector in 1_u64..50,
    ) -> Entry {
        let mut bounds = bounds;
        bounds.sort_unstable();
        let [chunk_from, mut from, mut to, mut chunk_to] = bounds;
        if from == to {
            from = from.min(7);
            to = from + 1;
        }
        chunk_to = chunk_to.max(to);
        let chunk_from = chunk_from.min(from);
        let place = match kind {
            0 => Place::Zero,
            1 => Place::Poisoned,
            _ => Place::Log { chunk_sector, chunk_len: chunk_to - chunk_from, offset: from - chunk_from },
        };
        let crc = if kind > 1 { chunk_sector as u32 % 3 } else { 0 };
        Entry { home_sector: block * BLOCK_SECTORS + u64::from(from), len_sectors: to - from, place, crc }
    }
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let len = prop_oneof![
        4 => 0..20_u64,
        2 => 0..2_000_u64,
        1 => 0..20_000_u64,
        1 => (0..64_u64).prop_map(|n| n << 32),
        1 => Just(u64::MAX),
    ];
    (block(), 0..8_u64, len).prop_map(|(block, sector, len)| (block * BLOCK_SECTORS + sector, len))
}

fn step() -> impl Strategy<Value = Step> {
    let stride = prop_oneof![Just(1_u64), Just(3), Just(1 << 20), Just(1 << 27), Just(1 << 31)];
    prop_oneof![
        12 => entry().prop_map(Step::Insert),
        3 => (block(), 0..150_u64, stride, any::<bool>()).prop_map(
            |(block, count, stride_blocks, down)| Step::Run { block, count, stride_blocks, down }
        ),
        4 => range().prop_map(|(start, len)| Step::Remove { start, len }),
        4 => range().prop_map(|(start, len)| Step::Lookup { start, len }),
    ]
}

fn insert(map: &mut Map, model: &mut Model, entry: Entry) {
    let mut lost = Vec::new();
    map.insert(entry, &mut |piece| lost.extend(sectors(&piece)));
    let expected: Vec<_> =
        sectors(&entry).filter_map(|(at, new)| Some((at, model.insert(at, new)?))).collect();
    assert_eq!(lost, expected, "displaced by {entry:?}");
}

fn remove(map: &mut Map, model: &mut Model, start: u64, len: u64) {
    let mut lost = Vec::new();
    map.remove(start, len, &mut |piece| lost.extend(sectors(&piece)));
    let mut gone = model.split_off(&start);
    model.append(&mut gone.split_off(&start.saturating_add(len)));
    assert_eq!(lost, gone.into_iter().collect::<Vec<_>>(), "removed from {start} len {len}");
}

/// The lookup covers exactly the range, says what the model says, and `overlaps` agrees.
fn check_lookup(map: &Map, model: &Model, start: u64, len: u64) {
    let end = start.saturating_add(len);
    let (mut cursor, mut found, mut home_before) = (start, Vec::new(), false);
    map.lookup(start, len, &mut |segment| match segment {
        Segment::Mapped(entry) => {
            assert_eq!(entry.home_sector, cursor, "a gap or an overlap in the answer");
            assert_eq!(entry.validate(), Ok(()));
            found.extend(sectors(&entry));
            (cursor, home_before) = (entry.end_sector(), false);
        }
        Segment::Home { start_sector, len_sectors } => {
            assert_eq!(start_sector, cursor, "a gap or an overlap in the answer");
            assert!(len_sectors > 0 && !home_before, "home segments are whole and not empty");
            (cursor, home_before) = (cursor + len_sectors, true);
        }
    });
    assert_eq!(cursor, end, "the answer ends where the range ends");
    let expected: Vec<_> = model.range(start..end).map(|(at, entry)| (*at, *entry)).collect();
    assert_eq!(map.overlaps(start, len), !expected.is_empty(), "overlaps({start}, {len})");
    assert_eq!(found, expected, "lookup({start}, {len})");
}

/// Everything the module documents as always true.
fn check_structure(map: &Map, model: &Model) {
    let found: Model = map.iter().flat_map(|entry| sectors(&entry).collect::<Vec<_>>()).collect();
    assert_eq!(&found, model, "what the map holds");
    assert_eq!(map.iter().count(), map.len());
    let tree = &map.tree;
    let mut at = Some(At { node: 0, leaf: 0 });
    let (mut leaves, mut end, mut packed) = (0, 0, PackedLeaves::default());
    while let Some(here) = at {
        at = tree.next(here);
        let base = tree.base(here);
        let next_base = at.map_or(SECTORS_MAX, |next| tree.base(next));
        assert!(base.is_multiple_of(BLOCK_SECTORS) && base < next_base && end <= base);
        assert!(leaves > 0 || base == 0, "the first leaf starts at 0, not {base}");
        for index in 0..tree.leaf(here).len() {
            let entry = tree.leaf(here).entry(index, base);
            assert!(entry.home_sector >= end.max(base), "{entry:?} after {end}");
            end = entry.end_sector();
        }
        assert!(end <= next_base);
        if tree.leaf(here).is_packed() {
            // Those behind it may have gone since.
            assert_eq!(base + tree.leaf(here).len() as u64 * BLOCK_SECTORS, end, "no gap");
            packed.leaves += 1;
            packed.blocks += tree.leaf(here).len();
        }
        leaves += 1;
    }
    assert_eq!((leaves, packed), (tree.leaf_count, tree.packed));
    for (base, node) in tree.bases.iter().zip(&tree.nodes) {
        assert_eq!(base, &node.bases[0]);
        let leaves = node.leaves.len();
        assert!((1..=NODE_LEAVES_MAX).contains(&leaves), "{leaves} leaves in a node");
        assert_eq!(node.leaves.len(), node.bases.len());
    }
}

fn run(steps: Vec<Step>) {
    let (mut map, mut model) = (Map::new(), Model::new());
    for (number, step) in (1..).zip(steps) {
        match step {
            Step::Insert(entry) => {
                insert(&mut map, &mut model, entry);
            }
            Step::Run { block, count, stride_blocks, down } => {
                for nth in 0..count {
                    let nth = if down { count - 1 - nth } else { nth };
                    let block = (block + nth * stride_blocks) % (SECTORS_MAX / BLOCK_SECTORS);
                    let entry = logged(block * BLOCK_SECTORS, 8, number * 1000 + nth * 8);
                    insert(&mut map, &mut model, entry);
                }
            }
            Step::Remove { start, len } => remove(&mut map, &mut model, start, len),
            Step::Lookup { start, len } => check_lookup(&map, &model, start, len),
        }
        check_structure(&map, &model);
    }
    let again = Map::from_sorted(map.iter()).expect("the map's own order");
    check_structure(&again, &model);
    for start in model.keys().step_by(17) {
        let rest: Vec<_> =
            map.iter_from(*start).flat_map(|e| sectors(&e).collect::<Vec<_>>()).collect();
        assert!(rest.iter().copied().eq(model.range(start..).map(|(at, entry)| (*at, *entry))));
    }
    remove(&mut map, &mut model, 0, u64::MAX);
    check_structure(&map, &model);
    assert_eq!(map.tree.leaf_count, 1, "an empty map gives its memory back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_map_agrees_with_a_map_of_single_sectors(steps in prop::collection::vec(step(), 1..60)) {
        run(steps);
    }
}

#[test]
fn a_piece_is_cut_out_of_an_entry_in_a_full_leaf() {
    let (mut map, mut model) = (Map::new(), Model::new());
    let blocks = (CAPACITY - GROWTH_MAX) as u64;
    for block in 0..blocks {
        insert(&mut map, &mut model, logged(block * BLOCK_SECTORS, 8, block * 8));
    }
    insert(&mut map, &mut model, logged(2, 1, 1000));
    assert_eq!((map.len(), map.tree.leaf_count), (CAPACITY, 1), "one full leaf");
    remove(&mut map, &mut model, BLOCK_SECTORS + 3, 2);
    check_structure(&map, &model);
}

#[test]
fn entries_out_of_order_are_refused_with_both_addresses() {
    let entries = [logged(8, 8, 0), logged(12, 4, 8)];
    let error = Map::from_sorted(entries).err();
    let expected = LoadError::OutOfOrder { index: 1, previous_end_sector: 16, home_sector: 12 };
    assert_eq!(error, Some(expected));
}

#[test]
fn an_entry_that_crosses_a_block_is_refused() {
    let error = Map::from_sorted([logged(4, 8, 0)]).err();
    assert!(matches!(error, Some(LoadError::Invalid { index: 0, .. })), "{error:?}");
}

#[test]
#[should_panic(expected = "an invalid entry reached the map")]
fn an_invalid_insert_is_loud() {
    Map::new().insert(logged(4, 8, 0), &mut |_| ());
}
