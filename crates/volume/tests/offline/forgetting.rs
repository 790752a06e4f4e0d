//! What is given up with a damaged log: just what the log had and cannot be verified, and nothing else of the map.

use crate::medium::{DEVICE_BYTES, Medium, spoil};
use crate::snapshots::{items, put, zero};
use crate::support::options;
use crate::watched::Watched;
use nearhead_disk::Nanos;
use nearhead_engine::chunks::LoggedCopy;
use nearhead_format::layout::Region;
use nearhead_format::snapshot::{
    BodyItem, CELL_CONTENT_BYTES, FLAG_CLEAN_SHUTDOWN, FragmentCell, HintRange, LogState,
};
use nearhead_format::{Entry, Place, SnapshotHeader};
use nearhead_service::Operation;
use nearhead_volume::forget::{ForgetError, LostBlock, client_ranges, give_up, given_up_with_log};
use nearhead_volume::{SyncIo, Volume};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

fn lost(entry: Entry) -> LostBlock {
    LostBlock { entry, problem: "rotten".to_owned() }
}

fn made(has_map: bool) -> Medium {
    Medium::made_on(Medium::empty(DEVICE_BYTES, has_map), &options("mlb", 7, 4 << 20))
}

#[test]
fn ranges_of_lost_blocks_are_merged_where_they_touch() {
    let of = |home_sector, len_sectors| lost(Entry { home_sector, len_sectors, ..zero(0) });
    assert_eq!(client_ranges(&[]), []);
    let blocks = [of(0, 8), of(8, 8), of(17, 1), of(18, 2), of(24, 8), of(40, 3)];
    let expected = [(0, 8192), (17 * 512, 1536), (24 * 512, 4096), (40 * 512, 1536)];
    assert_eq!(client_ranges(&blocks), expected);
}

/// A volume with a map device, so that whatever log is near is used: blocks in several logs.
fn in_several_logs() -> (Medium, BTreeMap<u32, Vec<Entry>>) {
    let medium = made(true).used(|run| {
        for (number, far) in [0_u64, 40 << 20, 10 << 20, 45 << 20].into_iter().enumerate() {
            let id = run.send(Operation::Read { offset: far, len: 1 << 20 });
            run.wait(id);
            let first = 100 * number as u64;
            let id = run.write(first..first + 3, 1);
            run.wait(id);
        }
    });
    let layout = medium.superblock().layout;
    let mut by_log: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
    for entry in medium.open().volume.engine().map() {
        let copy = LoggedCopy::of(&entry).unwrap();
        let Region::Log { log_index, .. } = layout.region(copy.device_offset) else {
            panic!("{entry:?} is in no log");
        };
        by_log.entry(log_index).or_default().push(entry);
    }
    assert!(by_log.len() >= 3, "{by_log:?}");
    (medium, by_log)
}

fn unreadable(medium: &Medium, log: u32) -> Vec<Entry> {
    let opened = Volume::open_in_virtual_time(medium.lanes(), Nanos::ZERO, |_, config| {
        config.read_only = true;
    });
    let (mut volume, now) = opened.unwrap();
    volume.run_until_open(now).unwrap();
    let lost = given_up_with_log(&mut volume, Instant::now(), log);
    assert!(lost.iter().all(|block| block.problem.contains("expected checksum")), "{lost:?}");
    lost.into_iter().map(|block| block.entry).collect()
}

#[test]
fn of_a_log_just_those_copies_are_named_that_are_in_it_and_not_sound() {
    let (medium, by_log) = in_several_logs();
    let layout = medium.superblock().layout;
    for (log, entries) in &by_log {
        assert_eq!(unreadable(&medium, *log), [], "log {log}");
        let mut rotten = medium.clone();
        for entry in entries.iter().step_by(2) {
            spoil(&mut rotten.main, LoggedCopy::of(entry).unwrap().device_offset + 99);
        }
        let expected: Vec<Entry> = entries.iter().step_by(2).copied().collect();
        for other in 0..=layout.log_count() {
            let found = unreadable(&rotten, other);
            assert_eq!(found, if other == *log { &expected[..] } else { &[] }, "log {other}");
        }
    }
}

/// More than is copied at once, of every kind.
fn many_items(count: u64) -> Vec<BodyItem> {
    let mut items: Vec<_> = (0..count).map(|block| BodyItem::Entry(zero(block))).collect();
    let log = |log_index| LogState { log_index, position: 7 };
    items.extend([0, 2, 5].map(|index| BodyItem::Log(log(index))));
    items.extend([0, 5].map(BodyItem::Claim));
    let hint = |number: u64| HintRange { start_sector: number * 80, len_sectors: 8 };
    items.extend((0..300).map(|number| BodyItem::Hint(hint(number))));
    // What fragments brought, over lost blocks, too, and by records of any log.
    let cell = |number: u64| FragmentCell {
        home_byte: number * 4096 + 9,
        record_sector: 5000 + number * 1000,
        len: CELL_CONTENT_BYTES as u8,
        bytes: [number as u8; CELL_CONTENT_BYTES],
    };
    items.extend((0..300).map(|number| BodyItem::Fragment(cell(number))));
    items
}

#[test]
fn a_map_of_any_size_is_kept_whole_but_for_what_is_given_up() {
    for has_map in [false, true] {
        for (count, number) in [(0, 4), (1, 5), (13_107, 4), (13_108, 5), (40_000, 4)] {
            let mut medium = made(has_map);
            let superblock = medium.superblock();
            let before = many_items(count);
            let header =
                put(&mut medium, &superblock, (number, FLAG_CLEAN_SHUTDOWN), before.clone());
            // The first, one in the middle and the last; one that the map has no more; one that it has otherwise.
            let mut given_up: Vec<_> =
                [0, count / 2, count.saturating_sub(1)].map(|block| lost(zero(block))).to_vec();
            given_up.dedup();
            given_up.push(lost(zero(count + 5)));
            given_up.push(lost(Entry { len_sectors: 7, ..zero(1) }));
            medium.with(|io| give_up(io, &superblock, &given_up)).unwrap();
            let slot = 1 - header.slot() as usize;
            let (after, found) = items(&medium, &superblock, slot);
            let is_given_up = |block| [0, count / 2, count.saturating_sub(1)].contains(&block);
            let expected = before.into_iter().map(|item| match item {
                BodyItem::Entry(entry) if is_given_up(entry.home_sector / 8) => {
                    BodyItem::Entry(Entry { place: Place::Poisoned, ..entry })
                }
                other => other,
            });
            assert!(found == expected.collect::<Vec<_>>(), "{count} entries");
            let of_same =
                SnapshotHeader { snapshot_number: number + 1, body: after.body, ..header };
            assert_eq!(after, of_same, "{count} entries");
        }
    }
}

/// Memory is not taken in proportion to what a snapshot says it has: reading and writing take turns.
#[test]
fn a_long_map_is_copied_while_it_is_read() {
    let mut medium = made(false);
    let superblock = medium.superblock();
    put(&mut medium, &superblock, (2, FLAG_CLEAN_SHUTDOWN), many_items(100_000));
    let (from, to) = (medium.map_place().body(0).offset, medium.map_place().body(1).offset);
    let mut disk = Watched::new(medium.lanes().into_parts().0, Vec::new());
    let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
    give_up(&mut io, &superblock, &[]).unwrap();
    let asked = disk.asked().all();
    let first = asked.iter().position(|(is_write, at)| *is_write && at.start == to).unwrap();
    let is_of_old =
        |(is_write, at): &&(bool, Range<u64>)| !is_write && at.start > from && at.end < to;
    assert!(asked[first..].iter().filter(is_of_old).count() > 1, "all was read before: {asked:?}");
}

#[test]
fn nothing_is_given_up_where_the_map_is_not_at_rest() {
    let refused = |medium: &mut Medium| {
        let superblock = medium.superblock();
        let error = medium.with(|io| give_up(io, &superblock, &[])).unwrap_err();
        assert!(matches!(error, ForgetError::NotAtRest { .. }), "{error:?}");
        error.to_string()
    };
    let mut used = made(false);
    let superblock = used.superblock();
    put(&mut used, &superblock, (1, FLAG_CLEAN_SHUTDOWN), many_items(3));
    put(&mut used, &superblock, (2, 0), many_items(4));
    let told = refused(&mut used);
    assert!(told.contains("expected a volume closed in order, found one that was not"), "{told}");
    for slot in superblock.layout.slot_offsets {
        spoil(&mut used.main, slot + 4096);
    }
    let told = refused(&mut used);
    assert!(told.contains("found no sound snapshot"), "{told}");
}
