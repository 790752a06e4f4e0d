//! Chains with hardly any memory for their map: what is read is what was written last, whatever pages that takes, whenever the power goes,
//! and while logs are cleaned; memory stays in its bounds; and a page that rots is an error and never something older.

#![allow(clippy::unwrap_used)]

mod chain;
#[path = "../chunk_by_chunk/mod.rs"]
mod chunk_by_chunk;
mod rotting;

use chain::{BLOCK, Chain, MAP_MEMORY_BYTES};
use chunk_by_chunk::ChunkByChunk;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::cleaner::{Cleaner, CompactInBody, MoveToTail};
use nearhead_service::{ErrorKind, Operation, Service};
use std::collections::BTreeMap;

/// Two layers of what is configured for one, and for each a record that just went over.
const LAYERS_BYTES_MAX: u64 = 2 * (MAP_MEMORY_BYTES / 16 * 3 + (16 << 10));

fn cleaners() -> [Box<dyn Cleaner>; 2] {
    [Box::new(MoveToTail::default()), Box::new(CompactInBody::default())]
}

#[test]
fn a_chain_that_is_written_over_again_and_again_reads_as_written_whatever_is_not_in_memory() {
    for (seed, cleaner) in (1..).zip(cleaners()) {
        let mut chain = Chain::new(seed, cleaner);
        for block in 0..chain.blocks() {
            chain.write(block, 1, (block % 251) as u8 + 1);
        }
        chain.expect_all();
        for round in 0..4 {
            chain.change(700);
            chain.expect_all();
            if round % 2 == 1 {
                chain.reopen(round == 1, MAP_MEMORY_BYTES);
                chain.expect_all();
            }
        }
        let status = chain.volume.status();
        let paged = status.paged_map.expect("there is no memory for all of it");
        assert!(paged.entries > 4 * 1024, "a map of several pages: {paged:?}");
        assert!(chain.pages_read > 100, "{} pages", chain.pages_read);
        assert!(chain.cleaned > 10, "{} logs were cleaned", chain.cleaned);
        assert!(chain.layer_bytes_max <= LAYERS_BYTES_MAX, "{} bytes", chain.layer_bytes_max);
    }
}

#[test]
fn what_is_written_over_while_a_log_is_cleaned_stays_the_newest_whatever_snapshots_come_between() {
    for (seed, cleaner) in (20..).zip(cleaners()) {
        let mut chain = Chain::new(seed, Box::new(ChunkByChunk(cleaner)));
        for block in 0..chain.blocks() {
            chain.write(block, 1, (block % 251) as u8 + 1);
        }
        for round in 0..1_200_u64 {
            let (block, fill) =
                (chain.random.below(chain.blocks()), 1 + chain.random.below(255) as u8);
            chain.write(block, 1, fill);
            if round % 16 == 0 {
                chain.volume.start_snapshot(chain.now);
            }
        }
        let stats = chain.volume.status().stats;
        assert!(stats.swaps + stats.compactions > 5 && stats.snapshots > 50, "{stats:?}");
        chain.expect_all();
    }
}

#[test]
fn a_cut_at_any_time_also_in_a_merge_leaves_what_was_answered() {
    let mut in_merges = 0;
    for seed in 0..6 {
        let [cleaner, other] = cleaners();
        let mut chain = Chain::new(seed, if seed % 2 == 0 { cleaner } else { other });
        for block in 0..chain.blocks() / 3 {
            chain.write(block * 3, 2, (block % 251) as u8 + 1);
        }
        for _ in 0..5 {
            let changes = chain.random.below(150);
            chain.change(changes);
            if chain.random.coin() {
                chain.volume.start_snapshot(chain.now);
                for _ in 0..chain.random.below(40) {
                    chain.volume.drive(chain.now);
                    let wake = chain.volume.wake_at();
                    chain.now = wake.map_or(chain.now, |at| at.max(chain.now));
                }
            }
            let paged = chain.volume.status().paged_map.unwrap();
            in_merges += u64::from(paged.frozen_bytes > 0);
            // Now and then with memory for all of it: both are the same volume.
            let memory_bytes = if chain.random.below(4) == 0 { u64::MAX } else { MAP_MEMORY_BYTES };
            chain.reopen(false, memory_bytes);
            let is_paged = chain.volume.status().paged_map.is_some();
            assert_eq!(is_paged, memory_bytes == MAP_MEMORY_BYTES);
            chain.expect_all();
            chain.reopen(true, MAP_MEMORY_BYTES);
        }
    }
    assert!(in_merges > 5, "{in_merges} cuts were in a merge");
}

#[test]
fn what_was_zeroed_is_not_mapped_any_more_whatever_older_layers_of_the_map_have() {
    let mut chain = Chain::new(11, Box::new(MoveToTail::default()));
    let mapped = |chain: &Chain| chain.volume.engine().mapped_homes().iter().collect::<Vec<_>>();
    chain.write(0, 64, 1);
    chain.snapshot();
    chain.trim(8, 16);
    assert_eq!(mapped(&chain), [0..64, 192..512], "the newest layer over the base");
    chain.write(16, 1, 2);
    chain.failing_snapshot();
    assert_eq!(mapped(&chain), [0..64, 128..136, 192..512], "a frozen one over the base");
    chain.trim(1, 16);
    assert_eq!(mapped(&chain), [0..8, 192..512], "the newest over both");
    chain.write(0, 1, 3);
    assert_eq!(mapped(&chain), [0..8, 192..512]);
    chain.snapshot();
    assert_eq!(mapped(&chain), [0..8, 192..512]);
    chain.expect_all();
}

#[test]
fn a_snapshot_that_fails_lets_nothing_go_and_the_next_one_has_what_it_had() {
    let mut chain = Chain::new(9, Box::new(MoveToTail::default()));
    for block in 0..chain.blocks() / 2 {
        chain.write(block, 1, (block % 251) as u8 + 1);
    }
    for _ in 0..6 {
        chain.change(8);
        chain.failing_snapshot();
        chain.volume.engine().check_counts().unwrap();
        chain.change(8);
        chain.expect_all();
        chain.snapshot();
        chain.expect_all();
    }
}

#[test]
fn memory_stays_in_its_bounds_where_no_snapshot_can_be_written_and_writers_are_told() {
    let mut chain = Chain::new(11, Box::new(MoveToTail::default()));
    // The logs have room for more than memory has.
    for block in 0..chain.blocks() / 3 {
        chain.write(block, 1, (block % 251) as u8 + 1);
    }
    let slots = chain.volume.superblock().layout.slots();
    let headers = [slots.header_offset(0), slots.header_offset(1)];
    chain.failing.replace(headers.map(|header| header..header + 1).to_vec());
    let written = |chain: &mut Chain| {
        let (block, fill) = (chain.random.below(chain.blocks()), 1 + chain.random.below(255) as u8);
        let data = Payload::Bytes(BufferMut::copy_of(&vec![fill; BLOCK as usize]).freeze());
        let write = Operation::Write { offset: block * BLOCK, data, fua: true };
        let result = chain.ask(write).result;
        result.map(|_| chain.newest.insert(block, fill)).map_err(|error| (block, fill, error))
    };
    let refused = (0..20_000).find_map(|_| written(&mut chain).err());
    let (block, fill, refused) = refused.expect("memory ends");
    assert!(refused.detail.contains("the memory for changes of the map is used up"), "{refused}");
    assert!(chain.layer_bytes_max <= LAYERS_BYTES_MAX, "{} bytes", chain.layer_bytes_max);
    // What was answered is in the logs.
    chain.failing.borrow_mut().clear();
    chain.reopen(false, MAP_MEMORY_BYTES);
    // The one that was refused may be there, too.
    if chain.read(block, 1).unwrap() == [fill] {
        chain.newest.insert(block, fill);
    }
    chain.expect_all();
}

#[test]
fn many_reads_at_once_beside_writes_and_snapshots_are_all_answered_and_none_goes_back() {
    let mut chain = Chain::new(5, Box::new(MoveToTail::default()));
    for block in 0..chain.blocks() {
        chain.write(block, 1, 1);
    }
    let mut reads = BTreeMap::new();
    let mut versions: BTreeMap<u64, u8> = BTreeMap::new();
    for round in 0..400_u64 {
        for _ in 0..4 {
            let block = chain.random.below(chain.blocks());
            let id = chain.send(Operation::Read { offset: block * BLOCK, len: BLOCK as u32 });
            // What was answered when it was asked is the least that it may see.
            reads.insert(id, (block, versions.get(&block).copied().unwrap_or(1)));
        }
        let (block, fill) = (chain.random.below(chain.blocks()), 2 + (round / 4) as u8);
        let data = Payload::Bytes(BufferMut::copy_of(&vec![fill; BLOCK as usize]).freeze());
        let write = chain.send(Operation::Write { offset: block * BLOCK, data, fua: true });
        loop {
            let reply = chain.reply();
            let parts = reply.result.unwrap();
            if reply.id == write {
                versions.insert(block, fill);
                break;
            }
            let (block, least) = reads.remove(&reply.id).unwrap();
            let mut bytes = vec![0; BLOCK as usize];
            parts[0].copy_to(&mut bytes);
            assert!(bytes[0] >= least, "block {block}: {} after {least}", bytes[0]);
        }
    }
    while !reads.is_empty() {
        let reply = chain.reply();
        reply.result.unwrap();
        reads.remove(&reply.id).unwrap();
    }
    assert!(chain.volume.status().stats.map_pages_read > 100);
}

#[test]
fn a_page_that_rots_is_an_error_of_who_reads_it_and_is_told_and_repair_needs_only_the_logs() {
    let mut chain = Chain::new(3, Box::new(MoveToTail::default()));
    for block in 0..chain.blocks() {
        chain.write(block, 1, (block % 251) as u8 + 1);
    }
    chain.reopen(true, MAP_MEMORY_BYTES);
    let number = chain.volume.status().snapshot_number;
    let slots = chain.volume.superblock().layout.slots();
    // A byte of the fourth page: entries 3,072 and on, which are blocks where each is one.
    let body = slots.body_offset((number % 2) as usize);
    chain.rotten.borrow_mut().push(body + 3 * 20_480 + 700..body + 3 * 20_480 + 701);
    let (kind, told) = chain.read(3_100, 1).unwrap_err();
    assert_eq!(kind, ErrorKind::Io);
    assert!(told.contains("page 3 of snapshot") && told.contains("nearhead repair"), "{told}");
    assert_eq!(chain.volume.status().damage.len(), 1, "told once");
    chain.read(3_101, 1).unwrap_err();
    assert_eq!(chain.volume.status().damage.len(), 1, "told once");
    for block in [0, 2_000, 5_000, chain.blocks() - 1] {
        assert_eq!(chain.read(block, 1).unwrap(), [(block % 251) as u8 + 1], "block {block}");
    }
    // What is written there is read: nothing below is asked.
    chain.write(3_100, 1, 77);
    assert_eq!(chain.read(3_100, 1).unwrap(), [77]);
    // No snapshot takes the place of the sound one while a page of it cannot be merged.
    chain.volume.start_snapshot(chain.now);
    let until = chain.now + Nanos::from_secs(30);
    while chain.now < until && chain.volume.status().damage.len() < 2 {
        chain.volume.drive(chain.now);
        chain.now = chain.volume.wake_at().unwrap_or(until).max(chain.now);
    }
    let status = chain.volume.status();
    assert!(status.damage.len() > 1, "{:?}", status.damage);
    assert_eq!(status.snapshot_number, number);
    // It was the disk's reading alone: sound again, all is as it was.
    chain.rotten.borrow_mut().clear();
    chain.reopen(false, MAP_MEMORY_BYTES);
    chain.expect_all();
}
