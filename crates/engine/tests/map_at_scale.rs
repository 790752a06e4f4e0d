//! The map with its real leaf and node sizes: memory for each block in every order of arrival, and
//! agreement with a plain ordered map after much growing and shrinking.

use nearhead_basics::SplitMix;
use nearhead_engine::map::{Map, Segment};
use nearhead_format::{Entry, Place};
use std::collections::BTreeMap;

const BLOCK_SECTORS: u64 = 8;

/// The promise for ten million blocks; here at fewer, where fixed costs weigh more.
const BYTES_PER_BLOCK_MAX: usize = 24;

fn whole_block(block: u64, chunk_sector: u64) -> Entry {
    let place = Place::Log { chunk_sector, chunk_len: 8, offset: 0 };
    Entry { home_sector: block * BLOCK_SECTORS, len_sectors: 8, place, crc: block as u32 }
}

fn assert_small(name: &str, map: &Map) {
    let bytes = map.memory_bytes();
    assert!(
        bytes <= map.len() * BYTES_PER_BLOCK_MAX,
        "{name}: {bytes} bytes for {} blocks, {:.1} each",
        map.len(),
        bytes as f64 / map.len() as f64
    );
}

#[test]
fn a_block_costs_at_most_24_bytes_in_every_order_of_arrival() {
    let count = 300_000;
    // The far end of a 20 TB disk; a terabyte; and dense runs.
    let mut random = SplitMix::new(1);
    let mut scattered = |blocks| (0..count).map(|_| random.below(blocks)).collect::<Vec<_>>();
    let orders = [
        ("scattered over 1 TB", scattered(1_000_000_000_000 / 4096)),
        ("scattered over 20 TB", scattered(20_000_000_000_000 / 4096)),
        ("scattered over 1 PB", scattered(1_000_000_000_000_000 / 4096)),
        ("ascending", (0..count).collect()),
        ("descending", (0..count).rev().collect()),
        ("inward", (0..count).map(|n| if n % 2 == 0 { n } else { 2 * count - n }).collect()),
        ("1000 streams", (0..count).map(|n| n % 1000 * 1_000_000 + n / 1000).collect()),
    ];
    for (name, blocks) in orders {
        let mut map = Map::new();
        for block in blocks {
            map.insert(whole_block(block, block), &mut |_| ());
        }
        assert_small(name, &map);
        assert_small("loaded in order", &Map::from_sorted(map.iter()).unwrap());
    }
}

#[test]
fn a_block_costs_at_most_9_bytes_where_none_is_missing_however_they_came_and_whatever_is_written_over()
 {
    let count = 200_000_u64;
    let shuffled = (0..count).map(|nth| nth * 7919 % count);
    let orders: [(&str, Vec<u64>); 3] = [
        ("ascending", (0..count).collect()),
        ("descending", (0..count).rev().collect()),
        ("in any order", shuffled.collect()),
    ];
    for (name, blocks) in orders {
        let mut map = Map::new();
        for times in 0..2 {
            for block in &blocks {
                map.insert(whole_block(*block, (block + times) * BLOCK_SECTORS), &mut |_| ());
            }
        }
        for map in [Map::from_sorted(map.iter()).unwrap(), map] {
            let (bytes, len) = (map.memory_bytes(), map.len());
            assert!(bytes <= len * 9, "{name}: {bytes} bytes for {len} blocks");
        }
    }
}

#[test]
fn memory_follows_the_blocks_when_they_go_again() {
    let mut random = SplitMix::new(2);
    let mut blocks: Vec<_> = (0..300_000).map(|_| random.below(1 << 28)).collect();
    let mut map = Map::new();
    for block in &blocks {
        map.insert(whole_block(*block, 1), &mut |_| ());
    }
    blocks.sort_unstable_by_key(|block| block.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for (nth, block) in blocks.iter().enumerate() {
        map.remove(block * BLOCK_SECTORS, BLOCK_SECTORS, &mut |_| ());
        if nth % 50_000 == 0 && map.len() > 20_000 {
            // 24 bytes are promised for growing; shrinking in random order may cost a little more.
            let bytes = map.memory_bytes();
            assert!(bytes <= map.len() * 27, "{bytes} bytes for {} blocks", map.len());
        }
    }
    assert!(map.is_empty());
    assert!(map.memory_bytes() < 64 * 1024, "{} bytes for nothing", map.memory_bytes());
}

#[test]
fn growing_and_shrinking_at_scale_agrees_with_an_ordered_map() {
    let seed = 3;
    let mut random = SplitMix::new(seed);
    let (mut map, mut model) = (Map::new(), BTreeMap::new());
    for round in 0..40_u64 {
        for nth in 0..10_000 {
            // Half near each other, half anywhere on 20 TB.
            let block = random.below(if nth % 2 == 0 { 50_000 } else { 20_000_000_000_000 / 4096 });
            let entry = whole_block(block, round * 1_000_000 + nth * 8);
            let mut displaced = None;
            map.insert(entry, &mut |piece| displaced = Some(piece));
            assert_eq!(displaced, model.insert(block, entry), "seed {seed}, round {round}, {nth}");
        }
        for _ in 0..100 {
            let start =
                random.below(if round % 2 == 0 { 50_000 } else { 20_000_000_000_000 / 4096 });
            let len = 1 << random.below(34);
            let mut gone = model.split_off(&start);
            model.append(&mut gone.split_off(&(start + len)));
            let mut displaced = Vec::new();
            map.remove(start * BLOCK_SECTORS, len * BLOCK_SECTORS, &mut |piece| {
                displaced.push(piece);
            });
            assert!(displaced.iter().eq(gone.values()), "seed {seed}, round {round}");
        }
        assert!(map.iter().eq(model.values().copied()), "seed {seed}, round {round}");
        assert_eq!(map.len(), model.len());
    }
    for (block, entry) in &model {
        let mut answer = Vec::new();
        map.lookup(block * BLOCK_SECTORS, BLOCK_SECTORS, &mut |segment| answer.push(segment));
        assert_eq!(answer, [Segment::Mapped(*entry)]);
    }
}
