//! A superblock made again from what lies on the disk: what speaks for a layout is counted, and whatever speaks against it
//! is enough to make nothing of it.

use crate::medium::{DEVICE_BYTES, MIB, Medium, spoil};
use crate::snapshots::{items, put, zero};
use crate::support::options;
use crate::watched::{UNREADABLE, Watched};
use nearhead_disk::Nanos;
use nearhead_format::blank_map::BLANK_MAP_OFFSET;
use nearhead_format::snapshot::{BodyItem, HintRange, LogState};
use nearhead_format::superblock::{FEATURE_BLANK_MAP, FEATURE_GENERATIONS, features_of};
use nearhead_format::{AckMode, Entry, Label, Place, RecordHeader, SnapshotHeader, Superblock};
use nearhead_models::Store;
use nearhead_volume::grow::{grow, plan};
use nearhead_volume::lost_superblock::{Fit, Known, in_words, search, write};
use nearhead_volume::{CreateOptions, NamedPreset, Presets, SyncIo};

const GROUP_BYTES: u64 = 4 * MIB;

/// What `create` was told here.
pub(crate) fn known(preset: Option<&str>) -> Known {
    Known {
        preset: preset.map(|name| NamedPreset::by_name(name).unwrap()),
        group_bytes: Some(GROUP_BYTES),
        log_bytes: Some(512 << 10),
        grow_to_bytes: None,
        grown_from_bytes: None,
        logged_write_bytes_max: None,
        ack: AckMode::Flush,
        label: Label::default(),
        second_snapshot_is_far: None,
    }
}

/// Its owner knows that this version made it.
fn far() -> Known {
    Known { second_snapshot_is_far: Some(true), ..known(None) }
}

/// A volume with nothing in it.
fn made(bytes: u64, has_map: bool) -> Medium {
    Medium::made_on(Medium::empty(bytes, has_map), &options("mlb", 7, GROUP_BYTES))
}

/// A record with nothing in it.
pub(crate) fn record(superblock: &Superblock, log_index: u32, position: u32) -> RecordHeader {
    let volume_id = superblock.volume_id;
    RecordHeader { volume_id, sequence: 9, log_index, position, ..RecordHeader::default() }
}

/// It, where block `position` of log `log` is.
pub(crate) fn put_record(
    medium: &mut Medium,
    superblock: &Superblock,
    (log, position): (u32, u32),
    header: &RecordHeader,
) {
    let mut bytes = [0; 512];
    header.encode_into(&mut bytes);
    let at = superblock.layout.log_block_offset(log, position).unwrap();
    medium.main.write(at, &bytes).unwrap();
}

/// A volume with records at the beginning of some logs, and the superblock that it had.
fn with_records(bytes: u64, logs: &[u32]) -> (Medium, Superblock) {
    let mut medium = made(bytes, false);
    let superblock = medium.superblock();
    for &log in logs {
        put_record(&mut medium, &superblock, (log, 0), &record(&superblock, log, 0));
    }
    (medium, superblock)
}

/// What is found once all superblocks are gone.
pub(crate) fn found(medium: &Medium, known: &Known) -> Result<Fit, String> {
    let mut medium = medium.clone();
    for at in [0, 65_536, medium.bytes - 4096] {
        medium.main.zero(at, 4096).unwrap();
    }
    medium.with(|io| search(io, known)).map_err(|error| error.to_string())
}

/// The lost one but for what nothing on the disk tells.
pub(crate) fn assert_lost(fit: &Fit, lost: &Superblock, name: &str) {
    // Generations begin when it is written again.
    let feature_ro_compat = lost.feature_ro_compat & !FEATURE_GENERATIONS;
    let expected = Superblock { generation: 1 << 32, feature_ro_compat, ..lost.clone() };
    assert_eq!(fit.superblock, expected, "{name}");
}

#[test]
fn a_volume_of_any_shape_is_found_just_as_it_was() {
    let shapes = [
        ("mlb", Some(4 * MIB), Some(512 << 10)),
        ("mlb", Some(6 * MIB), Some(MIB)),
        ("mlb", Some(16 * MIB), None),
        ("mlb", None, None),
        ("mlb-256", None, Some(MIB)),
        ("nearhead", None, None),
        ("nearhead", Some(4 * MIB), Some(512 << 10)),
        ("singlelog", None, None),
        ("singlelog", None, Some(8 * MIB)),
    ];
    for (preset, group_bytes, log_bytes) in shapes {
        for bytes in [DEVICE_BYTES, 200 * MIB + 4096, 1 << 30] {
            let name = format!("{preset}, {group_bytes:?}, {log_bytes:?}, {bytes}");
            let named = NamedPreset::by_name(preset).unwrap();
            let options = CreateOptions {
                group_bytes,
                log_bytes,
                ack: AckMode::Durable,
                label: Label::new("mine").unwrap(),
                ..CreateOptions::new([9; 16], named)
            };
            let medium = Medium::made_on(Medium::empty(bytes, false), &options).used(|run| {
                for block in [0, 3000] {
                    let id = run.write(block..block + 1, 1);
                    run.wait(id);
                }
            });
            let lost = medium.superblock();
            let (ack, label) = (AckMode::Durable, options.label.clone());
            // What its owner was told, not what is taken without a head.
            let logged_write_bytes_max = Some(named.logged_write_bytes_max);
            let known = known(Some(preset));
            let known =
                Known { group_bytes, log_bytes, ack, label, logged_write_bytes_max, ..known };
            let fit = found(&medium, &known).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_lost(&fit, &lost, &name);
            // Two slots, header and copy each.
            assert_eq!((fit.snapshots, fit.map_entries, fit.record_sequence), (4, 2, 2), "{name}");
            assert_eq!((fit.snapshot_number, fit.logs_confirmed), (1, 1), "{name}");
        }
    }
}

/// The end of a device need not be the end of a sector.
#[test]
fn a_volume_that_grew_over_an_odd_device_is_found_by_the_size_that_it_was_made_on() {
    for more in [0, 512, 4095] {
        let (mut medium, _) = with_records(DEVICE_BYTES, &[0, 1]);
        medium.bytes = 2 * DEVICE_BYTES + more;
        medium.with(|io| {
            let growth = plan(io).unwrap();
            grow(io, &growth).unwrap();
        });
        let lost = medium.superblock();
        for at in lost.layout.superblock_offsets() {
            medium.main.zero(at, 4096).unwrap();
        }
        let known = Known { grown_from_bytes: Some(DEVICE_BYTES), ..far() };
        let fit = medium.with(|io| search(io, &known)).unwrap();
        assert_lost(&fit, &lost, &format!("{more} bytes more"));
    }
}

#[test]
fn a_volume_whose_records_stand_anywhere_is_told_by_its_snapshot_and_found_by_records_anywhere() {
    let made = |preset: &str| {
        Medium::made_on(Medium::empty(DEVICE_BYTES, false), &options(preset, 7, GROUP_BYTES))
    };
    for preset in ["mlb", "nearhead"] {
        let mut medium = made(preset);
        let lost = medium.superblock();
        assert!(found(&medium, &far()).is_err(), "{preset}: without any record it may be another");
        put_record(&mut medium, &lost, (1, 5), &record(&lost, 1, 5));
        // Behind a sector that is no record's, no record in order stands.
        let anywhere = found(&medium, &far());
        assert_eq!(anywhere.is_ok(), preset == "nearhead", "{preset}");
        put_record(&mut medium, &lost, (0, 0), &record(&lost, 0, 0));
        let fit = found(&medium, &far()).unwrap_or_else(|error| panic!("{preset}: {error}"));
        assert_eq!(fit.superblock.layout, lost.layout, "{preset}");
        assert_eq!(fit.superblock.preset, lost.preset);
        assert_eq!(fit.superblock.feature_incompat, lost.feature_incompat);
        assert_eq!(fit.logs_confirmed, 1 + u32::from(preset == "nearhead"));
    }
    // Another volume's say nothing.
    let mut medium = made("nearhead");
    let lost = medium.superblock();
    let of_other = RecordHeader { volume_id: [8; 16], ..record(&lost, 1, 5) };
    put_record(&mut medium, &lost, (1, 5), &of_other);
    assert!(found(&medium, &far()).is_err());
    put_record(&mut medium, &lost, (1, 9), &record(&lost, 1, 9));
    assert_eq!(found(&medium, &far()).unwrap().logs_confirmed, 1);
}

#[test]
fn logs_that_begin_with_a_record_of_their_own_are_counted_those_in_use_wherever_they_are() {
    // A hundred logs, of which the first 64 are looked at, and those that the snapshot has in use.
    let (mut medium, lost) = with_records(408 * MIB, &[0, 1, 63, 64, 70, 99]);
    assert_eq!(lost.layout.log_count(), 100);
    assert_eq!(found(&medium, &far()).unwrap().logs_confirmed, 3);
    let state = |log_index, position| BodyItem::Log(LogState { log_index, position });
    let in_use = [state(0, 1), state(1, 0), state(64, 0), state(70, 5), state(90, 1), state(99, 9)];
    put(&mut medium, &lost, (4, 0), in_use);
    let fit = found(&medium, &far()).unwrap();
    assert_eq!(fit.logs_confirmed, 5, "the first 64, of which three are, 70 and 99");
    assert_eq!((fit.snapshot_number, fit.snapshots), (4, 2));
    // What another volume wrote there says nothing, what this one wrote for another place speaks against it all.
    let mut other = medium.clone();
    let of_other = RecordHeader { volume_id: [8; 16], ..record(&lost, 9, 9) };
    put_record(&mut other, &lost, (63, 0), &of_other);
    assert_eq!(found(&other, &far()).unwrap().logs_confirmed, 4);
    for (log, header) in
        [(1, record(&lost, 1, 3)), (70, record(&lost, 71, 0)), (99, record(&lost, 99, 1))]
    {
        let mut wrong = medium.clone();
        put_record(&mut wrong, &lost, (log, 0), &header);
        let told = found(&wrong, &far()).unwrap_err();
        assert!(told.contains("found none"), "log {log}: {told}");
    }
}

/// A volume whose newest snapshot has these items.
fn with_items(items: impl IntoIterator<Item = BodyItem>) -> Result<Fit, String> {
    let (mut medium, lost) = with_records(DEVICE_BYTES, &[0]);
    put(&mut medium, &lost, (2, 0), items);
    found(&medium, &known(None))
}

fn logged(chunk_sector: u64, chunk_len: u8) -> Entry {
    let place = Place::Log { chunk_sector, chunk_len, offset: 0 };
    Entry { home_sector: 0, len_sectors: 1, place, crc: 7 }
}

#[test]
fn a_snapshot_speaks_for_a_layout_only_if_all_it_names_is_there_up_to_the_last_of_each() {
    let lost = made(DEVICE_BYTES, false).superblock();
    let layout = lost.layout;
    let (log_start, log_end) = {
        let start = layout.log_offset(3).unwrap() / 512;
        (start, start + layout.log_bytes / 512)
    };
    let (blocks, logs) = (layout.client_bytes() / 4096, layout.log_count());
    let sectors = blocks * 8;
    let poisoned = Entry { place: Place::Poisoned, ..zero(blocks - 1) };
    let entry = BodyItem::Entry;
    let log = |log_index, position| BodyItem::Log(LogState { log_index, position });
    let hint = |start_sector, len_sectors| BodyItem::Hint(HintRange { start_sector, len_sectors });
    for (name, item) in [
        ("the last block", entry(zero(blocks - 1))),
        ("the last block, lost", entry(poisoned)),
        ("the beginning of a log", entry(logged(log_start, 8))),
        ("the end of a log", entry(logged(log_end - 8, 8))),
        ("the last sector of a log", entry(logged(log_end - 1, 1))),
        ("the last log, full", log(logs - 1, layout.log_blocks())),
        ("the claim of the last log", BodyItem::Claim(logs - 1)),
        ("a hint up to the end", hint(sectors - 8, 8)),
        ("a hint of everything", hint(0, sectors)),
    ] {
        let fit = with_items([item]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(fit.superblock.layout, layout, "{name}");
        assert_eq!(fit.map_entries, u64::from(matches!(item, BodyItem::Entry(_))), "{name}");
    }
    for (name, item) in [
        ("a block behind the last", entry(zero(blocks))),
        ("a lost block behind the last", entry(Entry { place: Place::Poisoned, ..zero(blocks) })),
        ("right before a log", entry(logged(log_start - 1, 1))),
        ("across the beginning of a log", entry(logged(log_start - 1, 8))),
        ("right behind a log", entry(logged(log_end, 1))),
        ("across the end of a log", entry(logged(log_end - 7, 8))),
        ("in the first superblock", entry(logged(0, 8))),
        ("behind the end of the device", entry(logged(DEVICE_BYTES / 512, 8))),
        ("at a sector that no disk has", entry(logged((1 << 47) + log_start, 8))),
        ("a log behind the last", log(logs, 0)),
        ("a position behind the end of a log", log(0, layout.log_blocks() + 1)),
        ("the claim of a log behind the last", BodyItem::Claim(logs)),
        ("a hint past the end", hint(sectors - 8, 9)),
        ("a hint behind the end", hint(sectors, 1)),
    ] {
        let told = with_items([item]).map(|fit| fit.superblock).unwrap_err();
        assert!(told.contains("expected a sound snapshot of the map"), "{name}: {told}");
    }
}

#[test]
fn whatever_of_the_volume_stands_where_the_layout_has_nothing_like_it_speaks_against_it() {
    let (medium, lost) = with_records(DEVICE_BYTES, &[0, 1]);
    let layout = lost.layout;
    assert!(found(&medium, &known(None)).is_ok());
    let header = items(&medium, &lost, 0).0;
    let mut bytes = [0; 512];
    record(&lost, 0, 0).encode_into(&mut bytes);
    // Samples of a MiB are taken all over the device.
    for at in [5 * MIB, 9 * MIB + 4096, DEVICE_BYTES / 2] {
        let mut stray = medium.clone();
        stray.main.write(at, &header.encode()).unwrap();
        assert!(
            found(&stray, &known(None)).unwrap_err().contains("found none"),
            "snapshot at {at}"
        );
        let mut stray = medium.clone();
        stray.main.write(at, &bytes).unwrap();
        assert!(found(&stray, &known(None)).unwrap_err().contains("found none"), "record at {at}");
        // Of another volume it may be a remnant.
        let mut other = medium.clone();
        let of_other = SnapshotHeader { volume_id: [8; 16], ..header };
        other.main.write(at, &of_other.encode()).unwrap();
        assert_lost(&found(&other, &known(None)).unwrap(), &lost, "beside another");
    }
    // In its own place in the middle of a log a record is as it should be.
    let mut inside = medium.clone();
    put_record(&mut inside, &lost, (2, 0), &record(&lost, 2, 0));
    put_record(&mut inside, &lost, (2, 8), &record(&lost, 2, 8));
    assert_eq!(found(&inside, &known(None)).unwrap().logs_confirmed, 3);
    // Where one slot is of another volume nobody can say whose the disk is.
    for slot in 0..2 {
        for at in [layout.slot_offsets[slot], layout.snapshot_copy_offset(slot)] {
            let mut two = medium.clone();
            let of_other = SnapshotHeader { volume_id: [8; 16], ..header };
            two.main.write(at, &of_other.encode()).unwrap();
            assert!(found(&two, &known(None)).is_err(), "slot {slot}, byte {at}");
        }
    }
}

#[test]
fn each_header_and_copy_that_is_there_counts() {
    let full = {
        let (mut medium, lost) = with_records(DEVICE_BYTES, &[0]);
        put(&mut medium, &lost, (3, 0), []);
        put(&mut medium, &lost, (4, 0), [BodyItem::Claim(0)]);
        medium
    };
    let lost = full.superblock();
    let layout = lost.layout;
    let places = [0, 1].map(|slot| (layout.slot_offsets[slot], layout.snapshot_copy_offset(slot)));
    for hit in 0..16_u32 {
        let mut medium = full.clone();
        for (slot, (header, copy)) in places.into_iter().enumerate() {
            if hit >> (2 * slot) & 1 > 0 {
                medium.main.zero(header, 4096).unwrap();
            }
            if hit >> (2 * slot + 1) & 1 > 0 {
                medium.main.zero(copy, 4096).unwrap();
            }
        }
        let is_gone = |slot: u32| hit >> (2 * slot) & 3 == 3;
        let copies = (hit & 2 == 0) as u32 + (hit & 8 == 0) as u32;
        let sound = (0..2).filter(|slot| !is_gone(*slot)).count() as u32;
        let found = found(&medium, &known(None));
        if sound == 0 {
            assert!(found.is_err(), "{hit:04b}");
            continue;
        }
        let fit = found.unwrap_or_else(|error| panic!("{hit:04b}: {error}"));
        assert_eq!(fit.snapshots, sound + copies, "{hit:04b}");
        assert_eq!(fit.snapshot_number, if is_gone(0) { 3 } else { 4 }, "{hit:04b}");
        assert_lost(&fit, &lost, "with some of its headers");
    }
}

#[test]
fn without_a_record_in_a_log_only_the_owner_can_say_which_layout_it_was() {
    let refusal = "expected logs that begin with records where the layout has them, found none";
    for has_map in [false, true] {
        let medium = made(DEVICE_BYTES, has_map);
        let lost = medium.superblock();
        let told = found(&medium, &known(None)).unwrap_err();
        let many = "expected one layout that fits what is on the device, found 2: mlb, 14 groups";
        assert!(told.contains(many), "map device {has_map}: {told}");
        let told = found(&medium, &far()).unwrap_err();
        assert!(told.contains(refusal), "map device {has_map}: {told}");
        let told = Known { second_snapshot_is_far: Some(true), ..known(Some("mlb")) };
        let fit = found(&medium, &told).unwrap();
        assert_lost(&fit, &lost, &format!("map device {has_map}"));
        assert_eq!(fit.logs_confirmed, 0);
        // A snapshot with something in it is of a volume whose logs had records.
        let mut used = medium.clone();
        put(&mut used, &lost, (2, 0), [BodyItem::Entry(zero(5))]);
        let refused = found(&used, &told).unwrap_err();
        assert!(refused.contains(refusal), "map device {has_map}: {refused}");
        // So is one that includes a record.
        let header = items(&medium, &lost, 0).0;
        let place = medium.map_place();
        let later = SnapshotHeader { record_sequence: 5, ..header }.encode();
        let mut used = medium.clone();
        for at in [place.header(0), place.copy(0)] {
            used.of_map().write(at.offset, &later).unwrap();
        }
        let refused = found(&used, &told).unwrap_err();
        assert!(refused.contains(refusal), "map device {has_map}: {refused}");
        // Of a map device alone nobody can say whether it is this disk's; the blank map is on the disk.
        let mut blank = medium;
        blank.main.zero(BLANK_MAP_OFFSET, 4096).unwrap();
        let fit = found(&blank, &told);
        assert_eq!(fit.is_ok(), !has_map, "{fit:?}");
    }
}

#[test]
fn features_are_those_that_the_disk_shows() {
    let (medium, lost) = with_records(DEVICE_BYTES, &[0]);
    let mut without = medium.clone();
    spoil(&mut without.main, BLANK_MAP_OFFSET + 16);
    let fit = found(&without, &known(None)).unwrap();
    let features = lost.feature_ro_compat & !FEATURE_BLANK_MAP;
    assert_eq!(fit.superblock.feature_ro_compat, features);
    assert_eq!(fit.superblock.feature_incompat, lost.feature_incompat);
}

/// As the first programs laid volumes out: both slots in front.
fn near() -> (Medium, Superblock) {
    let (mut medium, far) = with_records(DEVICE_BYTES, &[]);
    let layout = far.layout.with_near_slot();
    let feature_incompat = features_of(&layout);
    let lost = Superblock { layout, feature_incompat, feature_ro_compat: 0, ..far };
    medium.main.zero(0, DEVICE_BYTES).unwrap();
    medium.with(|io| write(io, &lost)).unwrap();
    put(&mut medium, &lost, (1, 0), [BodyItem::Claim(0)]);
    put_record(&mut medium, &lost, (0, 0), &record(&lost, 0, 0));
    (medium, lost)
}

#[test]
fn a_second_slot_at_either_place_is_found_unless_the_owner_knows_better() {
    let (far, of_far) = with_records(DEVICE_BYTES, &[0]);
    let (near, of_near) = near();
    assert_ne!(of_far.layout, of_near.layout);
    for (medium, lost, is_far) in [(far, of_far, true), (near, of_near, false)] {
        for told in [None, Some(true), Some(false)] {
            let known = Known { second_snapshot_is_far: told, ..known(None) };
            let fit = found(&medium, &known);
            if told == Some(!is_far) {
                assert!(fit.is_err(), "{told:?}: {fit:?}");
                continue;
            }
            let fit = fit.unwrap_or_else(|error| panic!("far {is_far}, {told:?}: {error}"));
            assert_lost(&fit, &lost, "with a slot at its place");
        }
    }
}

#[test]
fn all_three_copies_are_written_and_say_what_was_found() {
    let (medium, lost) = with_records(DEVICE_BYTES, &[0]);
    let fit = found(&medium, &known(None)).unwrap();
    let mut written = Medium::empty(DEVICE_BYTES, false);
    written.with(|io| write(io, &fit.superblock)).unwrap();
    for (copy, at) in lost.layout.superblock_offsets().into_iter().enumerate() {
        let read = Superblock::decode(&written.read(at, 4096), copy as u32).unwrap();
        assert_eq!(read, fit.superblock, "copy {copy}");
    }
    assert_eq!(
        in_words(Presets::default(), &lost),
        "mlb, 14 groups of 4194304 bytes with a log of 524288 bytes each, second snapshot at byte 65007616"
    );
}

#[test]
fn what_create_would_refuse_and_what_cannot_be_read_is_said() {
    let (medium, _) = with_records(DEVICE_BYTES, &[0]);
    let too_small = Known { log_bytes: Some(4096), ..known(Some("mlb")) };
    let told = found(&medium, &too_small).unwrap_err();
    assert!(
        told.contains("found what it would refuse on a device of this size: create: "),
        "{told}"
    );
    let (main, _) = medium.lanes().into_parts();
    let mut bad = Watched::new(main, vec![MIB..2 * MIB, 60 * MIB..DEVICE_BYTES]);
    let mut io = SyncIo::in_virtual_time(&mut bad, Nanos::ZERO);
    let told = search(&mut io, &known(None)).unwrap_err().to_string();
    let words =
        format!("({UNREADABLE}: a disk that cannot be read is to be copied or replaced first)");
    assert!(told.contains(&words), "{told}");
}
