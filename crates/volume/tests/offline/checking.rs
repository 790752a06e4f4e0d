//! What a check finds: everything that is wrong, each thing once, where it is, and whether it is damage; and nothing on a
//! volume that has nothing.

use crate::medium::{DEVICE_BYTES, Medium, spoil};
use crate::snapshots::put;
use crate::support::{Run, options};
use crate::watched::{Asked, UNREADABLE, Watched};
use nearhead_disk::{BufferMut, Disk, Payload};
use nearhead_engine::chunks::LoggedCopy;
use nearhead_format::layout::Region;
use nearhead_format::snapshot::{BodyItem, FLAG_CLEAN_SHUTDOWN};
use nearhead_format::{Entry, Place, Superblock};
use nearhead_models::{CrashDisk, Store};
use nearhead_service::{Hint, Operation};
use nearhead_volume::Lanes;
use nearhead_volume::check::{CheckFinding, CheckReport, Progress, check};
use nearhead_volume::forget::{LostBlock, give_up};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

fn checked<D: Disk>(lanes: impl Into<Lanes<D>>) -> CheckReport {
    check(lanes, Instant::now(), &mut |_| ()).unwrap()
}

fn damage(place: &str) -> CheckFinding {
    CheckFinding {
        is_damage: true,
        place: place.to_owned(),
        device_offset: None,
        client_offset: None,
        len_bytes: None,
        problem: String::new(),
    }
}

/// Eight blocks by four writes of a record each, and a sector in the middle of one of them by a fifth.
fn work(run: &mut Run<CrashDisk>) {
    for first in [0, 1, 900, 5000] {
        let id = run.write(first..first + if first == 900 { 5 } else { 1 }, 1);
        run.wait(id);
    }
    let data = Payload::Bytes(BufferMut::copy_of(&[7; 512]).freeze());
    let id = run.send(Operation::Write { offset: 902 * 4096 + 1024, data, fua: true });
    run.wait(id);
}

fn worked(has_map: bool) -> Medium {
    Medium::made_on(Medium::empty(DEVICE_BYTES, has_map), &options("mlb", 7, 4 << 20)).used(work)
}

fn entries(medium: &Medium) -> Vec<Entry> {
    medium.open().volume.engine().map().iter().collect()
}

fn entry_at(medium: &Medium, home_sector: u64) -> Entry {
    entries(medium).into_iter().find(|entry| entry.home_sector == home_sector).unwrap()
}

/// The logged copy of `block`.
fn copy_of(medium: &Medium, block: u64) -> LoggedCopy {
    LoggedCopy::of(&entry_at(medium, block * 8)).unwrap()
}

/// That of the sector.
fn sector_copy(medium: &Medium) -> LoggedCopy {
    LoggedCopy::of(&entry_at(medium, 902 * 8 + 2)).unwrap()
}

#[test]
fn of_a_sound_volume_every_copy_is_counted_once_and_nothing_is_found() {
    for has_map in [false, true] {
        let medium = worked(has_map);
        let entries = entries(&medium);
        // The sector cuts its block in two, both of one copy.
        assert_eq!(entries.len(), 10);
        let copies: BTreeSet<_> =
            entries.iter().filter_map(LoggedCopy::of).map(|copy| copy.device_offset).collect();
        assert_eq!(copies.len(), 9);
        let mut told = Vec::new();
        let report =
            check(medium.lanes(), Instant::now(), &mut |progress| told.push(progress)).unwrap();
        assert_eq!(told, [Progress { entries_done: 10, entries: 10 }]);
        assert_eq!((report.findings, report.findings_total), (Vec::new(), 0));
        assert_eq!((report.opens, report.sound_snapshots), (true, 2));
        assert_eq!((report.entries, report.chunks), (10, 9));
        assert_eq!(report.chunk_bytes, 8 * 4096 + 512);
        assert_eq!(report.superblock, medium.superblock());
    }
}

#[test]
fn of_a_new_volume_nothing_is_found() {
    for has_map in [false, true] {
        let medium =
            Medium::made_on(Medium::empty(DEVICE_BYTES, has_map), &options("mlb", 7, 4 << 20));
        let report = checked(medium.lanes());
        assert_eq!((report.findings_total, report.damage_count()), (0, 0));
        assert_eq!((report.entries, report.chunks, report.chunk_bytes), (0, 0, 0));
        assert_eq!(report.sound_snapshots, 1);
    }
}

/// Everything but the words of the problem.
fn places(report: &CheckReport) -> Vec<CheckFinding> {
    let without =
        |finding: &CheckFinding| CheckFinding { problem: String::new(), ..finding.clone() };
    report.findings.iter().map(without).collect()
}

/// One finding and no other, whose problem contains `words`.
fn assert_only(report: &CheckReport, expected: &CheckFinding, words: &str) {
    assert_eq!(places(report), std::slice::from_ref(expected), "{report:#?}");
    assert_eq!(report.findings_total, 1);
    assert_eq!(report.damage_count(), usize::from(expected.is_damage));
    assert!(report.findings[0].problem.contains(words), "{words}: {report:#?}");
}

#[test]
fn each_superblock_copy_that_differs_is_named_with_its_place_and_what_is_wrong() {
    let medium = worked(false);
    let superblock = medium.superblock();
    let offsets = superblock.layout.superblock_offsets();
    for (copy, offset) in offsets.into_iter().enumerate() {
        let expected = CheckFinding {
            device_offset: Some(offset),
            len_bytes: Some(4096),
            ..damage(&format!("superblock copy {copy}"))
        };
        let mut rotten = medium.clone();
        spoil(&mut rotten.main, offset + 40);
        assert_only(&checked(rotten.lanes()), &expected, "expected 0x");
        let mut older = medium.clone();
        let stale = Superblock { generation: 0, ..superblock.clone() };
        older.main.write(offset, &stale.encode(copy as u32)).unwrap();
        let words =
            format!("expected generation {} of the newest copy, found 0", superblock.generation);
        assert_only(&checked(older.lanes()), &expected, &words);
    }
}

/// A logged block that a check must find, and it alone.
fn lost_copy(copy: &LoggedCopy) -> CheckFinding {
    CheckFinding {
        device_offset: Some(copy.device_offset),
        client_offset: Some(copy.home_sector * 512),
        len_bytes: Some(u64::from(copy.bytes)),
        ..damage("logged block")
    }
}

#[test]
fn a_rotten_copy_is_found_alone_wherever_it_lies_among_others() {
    let medium = worked(false);
    let blocks = [0, 1, 900, 901, 902, 903, 904, 5000].map(|block| copy_of(&medium, block));
    for copy in blocks.into_iter().chain([sector_copy(&medium)]) {
        for byte in [0, u64::from(copy.bytes) - 8] {
            let mut rotten = medium.clone();
            spoil(&mut rotten.main, copy.device_offset + byte);
            let report = checked(rotten.lanes());
            let words = format!("expected checksum {:08x}, found", copy.crc);
            assert_only(&report, &lost_copy(&copy), &words);
            assert_eq!((report.entries, report.chunks), (10, 9), "all are looked at");
        }
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_found_alone_among_those_that_are_read_with_it() {
    let medium = worked(true);
    for block in 900..905 {
        let copy = copy_of(&medium, block);
        let sector = copy.device_offset + 512..copy.device_offset + 1024;
        let (lanes, _) = watched(&medium, vec![sector]);
        assert_only(&checked(lanes), &lost_copy(&copy), UNREADABLE);
    }
}

/// A volume with a map device, so that a recovery reads no log; and what is read of its own disk.
fn watched(medium: &Medium, bad: Vec<Range<u64>>) -> (Lanes<Watched<CrashDisk>>, Asked) {
    let (main, map) = medium.lanes().into_parts();
    let main = Watched::new(main, bad);
    let asked = main.asked();
    (Lanes::with_map(main, Watched::new(map.unwrap(), Vec::new())).unwrap(), asked)
}

#[test]
fn each_copy_is_read_once_and_neighbours_together() {
    let medium = worked(true);
    let (lanes, asked) = watched(&medium, Vec::new());
    assert_eq!(checked(lanes).chunks, 9);
    // Behind the header of each record its blocks in one piece.
    let expected = [(0, 1), (1, 1), (900, 5), (5000, 1)].map(|(block, count)| {
        let from = copy_of(&medium, block).device_offset;
        from..from + count * 4096
    });
    let sector = sector_copy(&medium);
    let mut expected = expected.to_vec();
    expected.push(sector.device_offset..sector.end());
    expected.sort_by_key(|read| read.start);
    let layout = medium.superblock().layout;
    let in_log = |read: &Range<u64>| matches!(layout.region(read.start), Region::Log { .. });
    let mut read: Vec<_> = asked.reads().into_iter().filter(in_log).collect();
    read.sort_by_key(|read| read.start);
    assert_eq!(read, expected);
}

#[test]
fn a_lost_block_is_damage_with_its_place_and_length() {
    let mut medium = worked(false);
    let lost = LostBlock { entry: entry_at(&medium, 902 * 8), problem: "rotten".to_owned() };
    let superblock = medium.superblock();
    medium.with(|io| give_up(io, &superblock, &[lost])).unwrap();
    let expected = CheckFinding {
        client_offset: Some(902 * 4096),
        len_bytes: Some(1024),
        ..damage("lost block")
    };
    let report = checked(medium.lanes());
    assert_only(&report, &expected, "its newest copy was lost");
    // The rest of the block still needs the copy.
    assert_eq!((report.entries, report.chunks), (10, 9));
    assert!(entries(&medium).iter().any(|entry| entry.place == Place::Poisoned));
}

#[test]
fn what_keeps_a_volume_from_opening_is_told_and_no_copy_is_looked_at() {
    let mut medium = worked(false);
    let place = medium.map_place();
    for slot in 0..2 {
        spoil(&mut medium.main, place.header(slot).offset + 16);
        spoil(&mut medium.main, place.copy(slot).offset + 16);
    }
    let report = checked(medium.lanes());
    assert!(!report.opens);
    assert_eq!((report.sound_snapshots, report.entries, report.chunks), (0, 0, 0));
    let found: Vec<&str> = report.findings.iter().map(|finding| &*finding.place).collect();
    assert_eq!(found, ["snapshot slot 0", "snapshot slot 1", "recovery"]);
    assert_eq!(report.damage_count(), 3);
}

#[test]
fn a_blank_map_that_is_not_sound_is_damage() {
    let mut medium = worked(false);
    spoil(&mut medium.main, nearhead_format::blank_map::BLANK_MAP_OFFSET + 16);
    let report = checked(medium.lanes());
    assert_eq!(places(&report), [damage("blank map")]);
}

/// A snapshot in each slot, both clean, with a record between them or none.
fn with_snapshots(has_map: bool, has_record_between: bool) -> Medium {
    worked(has_map).used(|run| {
        // A hint stands in snapshots alone.
        let hint = Operation::Hint { offset: 0, len: 4096, hint: Hint::DurabilityOnly };
        let id = if has_record_between { run.write(7000..7001, 1) } else { run.send(hint) };
        run.wait(id);
    })
}

#[test]
fn beside_the_snapshot_of_creation_only_an_empty_slot_is_as_it_should_be() {
    let made = Medium::made(&options("mlb", 7, 4 << 20));
    let place = made.map_place();
    let found = |at: u64| {
        let mut hurt = made.clone();
        spoil(&mut hurt.main, at);
        let report = checked(hurt.lanes());
        let slots = report.findings.iter().filter(|one| one.place.starts_with("snapshot"));
        slots.map(|one| (one.place.clone(), one.is_damage)).collect::<Vec<_>>()
    };
    assert_eq!(found(place.header(0).offset + 16), [("snapshot slot 0".to_owned(), true)]);
    // It may be the first of the other slot, torn.
    assert_eq!(found(place.header(1).offset), [("snapshot slot 1".to_owned(), false)]);
    // Later on there has been a snapshot in each.
    let mut used = with_snapshots(false, true);
    let older = 1 - (used.open().volume.status().snapshot_number % 2) as usize;
    used.main.zero(place.header(older).offset, 4096).unwrap();
    used.main.zero(place.copy(older).offset, 4096).unwrap();
    let report = checked(used.lanes());
    let expected = format!("snapshot slot {older}");
    assert_eq!((report.findings_total, &report.findings[0].place), (1, &expected));
}

#[test]
fn where_the_newest_snapshot_is_of_no_stop_the_other_slot_may_be_what_a_crash_left() {
    for (flags, is_damage) in [(0, false), (FLAG_CLEAN_SHUTDOWN, true)] {
        // No record was ever written.
        let mut medium = Medium::made(&options("mlb", 7, 4 << 20));
        let superblock = medium.superblock();
        let claim = [BodyItem::Claim(0)];
        put(&mut medium, &superblock, (2, FLAG_CLEAN_SHUTDOWN), claim);
        put(&mut medium, &superblock, (3, flags), claim);
        spoil(&mut medium.main, superblock.layout.slot_offsets[0] + 4096);
        let report = checked(medium.lanes());
        let slot = report.findings.iter().find(|one| one.place.starts_with("snapshot")).unwrap();
        assert_eq!(slot.is_damage, is_damage, "{report:#?}");
    }
}

/// What happens to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Header,
    Copy,
    HeaderAndCopy,
    Body,
}

impl Hit {
    fn apply(self, medium: &mut Medium, slot: usize) {
        let place = medium.map_place();
        let places = match self {
            Self::Header => vec![place.header(slot).offset],
            Self::Copy => vec![place.copy(slot).offset],
            Self::HeaderAndCopy => vec![place.header(slot).offset, place.copy(slot).offset],
            Self::Body => vec![place.body(slot).offset],
        };
        for at in places {
            spoil(medium.of_map(), at + 16);
        }
    }
}

/// What a check says of a slot that was hit: whether it is damage, and the end of the sentence.
fn expected(hit: Hit, is_newest: bool, has_record_since: bool) -> Option<(bool, &'static str)> {
    match hit {
        // The copy of a sound header is looked at by nobody.
        Hit::Copy => None,
        // It was sound once, as the copy says.
        Hit::Header if is_newest => Some((true, "; the copy of it is sound")),
        _ if has_record_since => Some((false, " (as a crash during a snapshot leaves it)")),
        Hit::Header => Some((true, "; the copy of it is sound")),
        Hit::HeaderAndCopy | Hit::Body => Some((true, "")),
    }
}

#[test]
fn a_slot_that_is_not_sound_is_damage_unless_a_crash_may_have_left_it_so() {
    for case in 0..8 {
        let (has_map, used_since, record_between) = (case & 1 > 0, case & 2 > 0, case & 4 > 0);
        let mut medium = with_snapshots(has_map, record_between);
        let number = |medium: &Medium| medium.open().volume.status().snapshot_number;
        let newest = (number(&medium) % 2) as usize;
        if used_since {
            medium = medium.cut_after(|run| {
                let id = run.write(3..4, 9);
                run.wait(id);
            });
        }
        assert_eq!(checked(medium.lanes()).findings_total, 0);
        for (hit, slot) in [Hit::Header, Hit::Copy, Hit::HeaderAndCopy, Hit::Body]
            .into_iter()
            .flat_map(|hit| [(hit, 0), (hit, 1)])
        {
            let name = format!(
                "map device {has_map}, used {used_since}, a record between {record_between}, {hit:?} of {slot}"
            );
            let mut hurt = medium.clone();
            hit.apply(&mut hurt, slot);
            let report = checked(hurt.lanes());
            let slots: Vec<_> = report
                .findings
                .iter()
                .filter(|finding| finding.place.starts_with("snapshot slot"))
                .collect();
            // Records since the snapshot that is left say that the volume was used, if a recovery finds them: the journal
            // of a map device may begin with the snapshot that was lost.
            let has_record = used_since || (record_between && slot == newest);
            let has_record_since = has_record && report.opens;
            let Some((is_damage, end)) = expected(hit, slot == newest, has_record_since) else {
                assert!(slots.is_empty(), "{name}: {report:#?}");
                continue;
            };
            let [finding] = slots[..] else { panic!("{name}: {report:#?}") };
            let of = if has_map { " of the map device" } else { "" };
            assert_eq!(finding.place, format!("snapshot slot {slot}{of}"), "{name}");
            assert_eq!(finding.device_offset, Some(medium.map_place().header(slot).offset));
            assert_eq!(finding.is_damage, is_damage, "{name}: {finding:#?}");
            assert!(finding.problem.ends_with(end), "{name}: {finding:#?}");
        }
    }
}
