//! Volumes whose records may have fragments: made with room for them and refused without, grown with what their slots have of it, and found
//! again without a superblock as what they are.

use crate::losing_superblocks::{assert_lost, found, known, put_record, record};
use crate::medium::{DEVICE_BYTES, MIB, Medium};
use crate::snapshots::{put, zero};
use crate::support::options;
use nearhead_disk::Nanos;
use nearhead_format::layout::SLOT_BYTES_MIN;
use nearhead_format::record::Fragment;
use nearhead_format::snapshot::{BodyItem, CELL_CONTENT_BYTES, FragmentCell};
use nearhead_format::superblock::FEATURE_FRAGMENTS;
use nearhead_format::{Entry, Place, RecordHeader, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_volume::dump::scan_log;
use nearhead_volume::grow::{GrowError, grow, plan};
use nearhead_volume::lost_superblock::Known;
use nearhead_volume::{CreateOptions, Lanes, create};

const GROUP_BYTES: u64 = 4 * MIB;

fn with_fragments() -> CreateOptions {
    CreateOptions { fragments: true, ..options("mlb", 7, GROUP_BYTES) }
}

fn made() -> Medium {
    Medium::made(&with_fragments())
}

/// One with a record at the beginning of the first log, as speaks for a layout.
fn with_record() -> (Medium, Superblock) {
    let mut medium = made();
    let superblock = medium.superblock();
    put_record(&mut medium, &superblock, (0, 0), &record(&superblock, 0, 0));
    (medium, superblock)
}

fn cell(home_byte: u64, record_sector: u64, len: u8) -> BodyItem {
    let mut bytes = [0; CELL_CONTENT_BYTES];
    bytes[..usize::from(len)].fill(7);
    BodyItem::Fragment(FragmentCell { home_byte, record_sector, len, bytes })
}

#[test]
fn a_volume_made_for_fragments_says_so_and_has_room_for_them_in_its_slots() {
    let (with, without) =
        (made().superblock(), Medium::made(&options("mlb", 7, GROUP_BYTES)).superblock());
    assert_eq!(with.feature_incompat, without.feature_incompat | FEATURE_FRAGMENTS);
    let layout = with.layout;
    assert_eq!(layout.fragment_room_bytes(), u64::from(layout.log_count()) * (512 << 10) / 16);
    assert_eq!(layout.slot_bytes, without.layout.slot_bytes + MIB);
}

#[test]
fn a_map_device_without_room_for_fragments_is_refused_and_one_with_it_is_taken() {
    // Few logs need little room, those of 1 GiB as much as there ever is.
    for (bytes, map_bytes, is_taken) in
        [(DEVICE_BYTES, 4 * MIB, true), (1 << 30, 4 * MIB, false), (1 << 30, 14 * MIB, true)]
    {
        let disk = |bytes| CrashDisk::with_image(plain_properties(bytes, 512), MemoryStore::new());
        let mut lanes = Lanes::with_map(disk(bytes), disk(map_bytes)).unwrap();
        let made = create(&mut lanes.in_virtual_time(Nanos::ZERO), &with_fragments());
        match made {
            Ok(superblock) => {
                assert!(is_taken && superblock.layout.fragments, "{bytes} {map_bytes}");
            }
            Err(error) => {
                let told = error.to_string();
                assert!(
                    !is_taken
                        && told.contains("map device: expected room for two snapshots of 5242880"),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn a_volume_with_fragments_grows_until_a_tenth_of_its_map_fits_beside_the_room_for_them() {
    let medium = made();
    let old = medium.superblock().layout;
    // Header and copy, hints; for each log its state and a tenth of the entries of 128 blocks.
    let room_max = old.slot_bytes - SLOT_BYTES_MIN;
    let most = (old.slot_bytes - room_max - 2 * 4096 - 16 * 4096) / (16 + 128 * 20 / 10);
    assert!(most > 50 * u64::from(old.group_count), "{most}");
    let bytes_for = |groups: u64| old.groups_offset + groups * GROUP_BYTES + old.slot_bytes + 4096;
    for (groups, left_out) in [(most / 100, 0), (most - 1, 0), (most, 0), (most + 3, 3)] {
        let growth = Medium { bytes: bytes_for(groups), ..medium.clone() }.with(plan).unwrap();
        let after = growth.after.layout;
        assert_eq!(
            (u64::from(after.group_count), growth.groups_left_out),
            (groups - left_out, left_out)
        );
        assert_eq!(after.validate(), Ok(()));
        assert_eq!(after.fragment_room_bytes(), (groups * (32 << 10)).min(room_max));
        // What is left beside the fragments of all logs.
        let room = old.slot_bytes
            - after.fragment_room_bytes()
            - 2 * 4096
            - 16 * 4096
            - u64::from(after.group_count) * 16;
        assert_eq!(
            growth.map_room_pct,
            (100 * room / (u64::from(after.group_count) * 128 * 20)).min(100)
        );
    }
    let mut full = Medium { bytes: bytes_for(most), ..medium };
    full.with(|io| {
        let growth = plan(io).unwrap();
        grow(io, &growth).unwrap();
    });
    let error = Medium { bytes: bytes_for(most + 1), ..full }.with(plan).unwrap_err();
    assert!(
        matches!(error, GrowError::Slots { groups_max, .. } if groups_max == most),
        "{error:?}"
    );
}

#[test]
fn a_volume_with_fragments_and_one_without_are_each_found_as_what_they_were() {
    for fragments in [false, true] {
        for (preset, group_bytes, log_bytes) in [
            ("mlb", Some(GROUP_BYTES), Some(512 << 10)),
            ("nearhead", None, None),
            ("singlelog", None, None),
        ] {
            let options = CreateOptions {
                group_bytes,
                log_bytes,
                fragments,
                ..options(preset, 9, GROUP_BYTES)
            };
            let mut medium = Medium::made(&options);
            let lost = medium.superblock();
            assert_eq!(lost.layout.fragments, fragments);
            put_record(&mut medium, &lost, (0, 0), &record(&lost, 0, 0));
            let logged_write_bytes_max = Some(options.logged_write_bytes_max);
            let known =
                Known { group_bytes, log_bytes, logged_write_bytes_max, ..known(Some(preset)) };
            let fit = found(&medium, &known)
                .unwrap_or_else(|error| panic!("{preset} {fragments}: {error}"));
            assert_lost(&fit, &lost, preset);
        }
    }
}

#[test]
fn cells_and_homes_below_them_speak_only_for_a_layout_that_has_them_and_their_records() {
    let (_, lost) = with_record();
    let layout = lost.layout;
    let log = layout.log_offset(3).unwrap() / 512;
    let end = layout.client_bytes();
    let at_home = |block| BodyItem::Entry(Entry { place: Place::Home, ..zero(block) });
    for (name, item, is_there) in [
        ("a block at home", at_home(0), true),
        ("a block at home behind the last", at_home(end / 4096), false),
        ("the last bytes", cell(end - 40, log, 40), true),
        ("bytes behind the last", cell(end, log, 1), false),
        (
            "a record at the last sector of a log",
            cell(0, log + layout.log_bytes / 512 - 1, 1),
            true,
        ),
        ("a record behind a log", cell(0, log + layout.log_bytes / 512, 1), false),
        ("a record before a log", cell(0, log - 1, 1), false),
    ] {
        let (mut medium, lost) = with_record();
        put(&mut medium, &lost, (2, 0), [item]);
        let fit = found(&medium, &known(None));
        assert_eq!(fit.is_ok(), is_there, "{name}: {fit:?}");
    }
    // Without fragments neither is anything that the volume can have.
    for item in [at_home(0), cell(0, log, 1)] {
        let mut medium = Medium::made(&options("mlb", 7, GROUP_BYTES));
        let plain = medium.superblock();
        put_record(&mut medium, &plain, (0, 0), &record(&plain, 0, 0));
        assert!(found(&medium, &known(None)).is_ok());
        put(&mut medium, &plain, (2, 0), [item]);
        assert!(found(&medium, &known(None)).is_err(), "{item:?}");
    }
}

#[test]
fn a_dump_has_the_fragments_of_a_record_with_their_bytes() {
    let (mut medium, superblock) = with_record();
    let fragments = vec![
        Fragment { home_sector: 8, offset: 100, bytes: b"a few bytes"[..].into() },
        Fragment { home_sector: 23, offset: 511, bytes: b"!"[..].into() },
    ];
    let header = RecordHeader { fragments, ..record(&superblock, 0, 2) };
    put_record(&mut medium, &superblock, (0, 2), &header);
    let mut records = Vec::new();
    medium.with(|io| scan_log(io, &superblock, 0, &mut |record| records.push(record))).unwrap();
    let headers: Vec<_> = records.into_iter().map(|record| record.header).collect();
    assert_eq!(headers, [record(&superblock, 0, 0), header]);
}
