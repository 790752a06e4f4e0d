//! What `create` makes and what it refuses: nothing is overwritten that somebody may need, on either device, and whoever asked
//! for room to grow has it.

use crate::medium::{DEVICE_BYTES, MIB, Medium, spoil};
use crate::snapshots::items;
use crate::support::options;
use crate::watched::Watched;
use nearhead_disk::Nanos;
use nearhead_format::snapshot::{BodyItem, LogState};
use nearhead_format::superblock::{FEATURE_BLANK_MAP, FEATURE_GENERATIONS, FEATURE_LOGS_TELL_ALL};
use nearhead_format::{Layout, Superblock};
use nearhead_models::{MemoryStore, Store};
use nearhead_volume::create::refuse_used_part;
use nearhead_volume::grow::plan;
use nearhead_volume::{CreateError, CreateOptions, NamedPreset, SyncIo, create, create_to_grow};

fn unforced() -> CreateOptions {
    CreateOptions { force: false, ..options("mlb", 7, 4 * MIB) }
}

/// Why it is refused, if it is; then nothing was written.
fn refusal(medium: &Medium) -> Option<CreateError> {
    let (main, map) = medium.lanes().into_parts();
    let (main, map) =
        (Watched::new(main, Vec::new()), map.map(|map| Watched::new(map, Vec::new())));
    let asked = [Some(main.asked()), map.as_ref().map(Watched::asked)];
    let mut lanes = match map {
        None => main.into(),
        Some(map) => nearhead_volume::Lanes::with_map(main, map).unwrap(),
    };
    let refused = create(&mut lanes.in_virtual_time(Nanos::ZERO), &unforced()).err();
    let is_untouched = asked.iter().flatten().all(|asked| asked.writes().is_empty());
    assert_eq!(is_untouched, refused.is_some(), "{refused:?}");
    refused
}

#[test]
fn a_device_is_taken_only_if_there_is_nothing_at_either_end_of_it() {
    for has_map in [false, true] {
        let empty = Medium::empty(DEVICE_BYTES, has_map);
        assert!(refusal(&empty).is_none(), "map device {has_map}");
        for at in [0, 200_000, DEVICE_BYTES - 128 * 1024, DEVICE_BYTES - 1] {
            let mut used = empty.clone();
            used.main.write(at, &[1]).unwrap();
            let told = refusal(&used).unwrap().to_string();
            let words = format!(
                "create on instant: expected an empty device, found data of an unknown kind (first nonzero byte at {at}); \
                 use another device, or --force to overwrite what is there"
            );
            assert_eq!(told, words);
        }
        // Between the ends nobody looks but for what is ours.
        let mut middle = empty.clone();
        middle.main.write(DEVICE_BYTES / 2, &[1]).unwrap();
        assert!(refusal(&middle).is_none());
    }
}

#[test]
fn of_a_disk_that_becomes_a_part_only_what_the_part_will_have_is_looked_at() {
    let bytes = DEVICE_BYTES - MIB;
    let refused = |at: Option<u64>| {
        let mut medium = Medium::empty(DEVICE_BYTES, false);
        if let Some(at) = at {
            medium.main.write(at, &[1]).unwrap();
        }
        medium.with(|io| refuse_used_part(io, bytes)).err().map(|error| error.to_string())
    };
    assert_eq!(refused(None), None);
    for at in [0, bytes - 1] {
        let told = refused(Some(at)).unwrap();
        assert!(told.contains(&format!("first nonzero byte at {at}")), "{told}");
    }
    assert_eq!(refused(Some(bytes)), None);
    let mut ours = Medium::made(&unforced());
    let told = ours.with(|io| refuse_used_part(io, bytes)).unwrap_err().to_string();
    assert!(told.contains("superblock of a Nearhead volume"), "{told}");
}

#[test]
fn a_map_device_is_looked_at_just_as_the_disk_is() {
    for at in [0, 4 * MIB - 1] {
        let mut used = Medium::empty(DEVICE_BYTES, true);
        used.of_map().write(at, &[1]).unwrap();
        let error = refusal(&used).unwrap();
        assert!(matches!(error, CreateError::InUse { .. }), "{error:?}");
        let told = error.to_string();
        assert!(
            told.starts_with("create on the map device of instant: expected an empty"),
            "{told}"
        );
    }
    let mut made = Medium::made_on(Medium::empty(DEVICE_BYTES, true), &unforced());
    made.main = MemoryStore::new();
    let error = refusal(&made).unwrap();
    assert!(matches!(error, CreateError::Volume { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("found map device of a Nearhead volume"), "{told}");
}

#[test]
fn remains_of_a_volume_are_told_apart_and_who_insists_gets_the_device() {
    let mut made = Medium::made(&unforced());
    for at in [0, 65_536, DEVICE_BYTES - 4096] {
        made.main.zero(at, 4096).unwrap();
    }
    let error = refusal(&made).unwrap();
    assert!(matches!(error, CreateError::Volume { .. }), "{error:?}");
    let told = error.to_string();
    assert!(
        told.contains("snapshot of the map of a Nearhead volume") && told.contains("destroys it")
    );
    let forced = options("mlb", 9, 4 * MIB);
    assert_eq!(Medium::made_on(made, &forced).superblock().volume_id, [9; 16]);
}

#[test]
fn a_new_volume_has_an_empty_map_in_the_first_slot_and_the_first_log_if_it_has_logs() {
    for (preset, has_map) in [("mlb", false), ("mlb", true), ("nolog", false)] {
        let named = NamedPreset::by_name(preset).unwrap();
        // Over what somebody left there.
        let mut left = Medium::empty(DEVICE_BYTES, has_map);
        for at in [MIB, DEVICE_BYTES - 3 * MIB] {
            left.main.write(at, &vec![0xff; 2 << 20]).unwrap();
        }
        if has_map {
            left.of_map().write(0, &vec![0xff; 4 << 20]).unwrap();
        }
        let forced = CreateOptions { force: true, ..CreateOptions::new([7; 16], named) };
        let mut medium = Medium::made_on(left, &forced);
        let superblock = medium.superblock();
        let of_several = if has_map { FEATURE_GENERATIONS } else { 0 };
        let expected = FEATURE_BLANK_MAP | FEATURE_LOGS_TELL_ALL | of_several;
        assert_eq!(superblock.feature_ro_compat, expected, "{preset}");
        let (header, found) = items(&medium, &superblock, 0);
        let log = LogState { log_index: 0, position: 0 };
        let expected = [BodyItem::Log(log), BodyItem::Claim(0)];
        assert_eq!(found, expected[..if preset == "nolog" { 0 } else { 2 }]);
        assert_eq!((header.snapshot_number, header.flags), (0, 0));
        let slots = medium.with(|io| nearhead_volume::dump::read_slots(io, &superblock));
        assert!(slots[1].is_unused);
    }
}

/// The indices of the superblock copies in the order in which they are written over `medium`.
fn order(medium: &Medium, layout: &Layout, superblock: &Superblock) -> Vec<usize> {
    let mut main = Watched::new(medium.lanes().into_parts().0, Vec::new());
    let asked = main.asked();
    let mut io = SyncIo::in_virtual_time(&mut main, Nanos::ZERO);
    nearhead_volume::lost_superblock::write(&mut io, superblock).unwrap();
    let offsets = layout.superblock_offsets();
    let index = |at: u64| offsets.iter().position(|offset| *offset == at).unwrap();
    asked.writes().iter().map(|write| index(write.start)).collect()
}

#[test]
fn of_the_superblock_copies_the_newest_sound_one_is_written_last_of_equals_the_first() {
    let made = Medium::made(&unforced());
    let old = made.superblock();
    let layout = old.layout;
    let offsets = layout.superblock_offsets();
    let new = Superblock { generation: 9, ..old.clone() };
    assert_eq!(order(&Medium::empty(DEVICE_BYTES, false), &layout, &new), [2, 1, 0]);
    assert_eq!(order(&made, &layout, &new), [2, 1, 0]);
    for (copy, expected) in [(0, [0, 2, 1]), (1, [1, 2, 0]), (2, [2, 1, 0])] {
        let mut damaged = made.clone();
        spoil(&mut damaged.main, offsets[copy] + 40);
        assert_eq!(order(&damaged, &layout, &new), expected, "copy {copy} is damaged");
        let mut other = made.clone();
        let of_other = Superblock { volume_id: [8; 16], generation: 7, ..old.clone() };
        other.main.write(offsets[copy], &of_other.encode(copy as u32)).unwrap();
        assert_eq!(order(&other, &layout, &new), expected, "copy {copy} is another volume's");
        let mut older = made.clone();
        let of_older = Superblock { generation: 0, ..old.clone() };
        older.main.write(offsets[copy], &of_older.encode(copy as u32)).unwrap();
        assert_eq!(order(&older, &layout, &new), expected, "copy {copy} is older");
        let mut newer = made.clone();
        let of_newer = Superblock { generation: 8, ..old.clone() };
        newer.main.write(offsets[copy], &of_newer.encode(copy as u32)).unwrap();
        let last = *order(&newer, &layout, &new).last().unwrap();
        assert_eq!(last, copy, "copy {copy} is newer");
    }
}

fn made_to_grow(preset: &str, grow_to_bytes: u64) -> Result<Medium, CreateError> {
    let named = NamedPreset::by_name(preset).unwrap();
    let with_groups = options(preset, 7, 4 * MIB);
    let options = if named.layout.has_groups_of_any_size() {
        with_groups
    } else {
        CreateOptions::new([7; 16], named)
    };
    let mut medium = Medium::empty(DEVICE_BYTES, false);
    medium.with(|io| create_to_grow(io, &options, grow_to_bytes, None)).map(|_| medium)
}

#[test]
fn a_volume_made_to_grow_has_room_for_the_map_of_all_the_logs_that_it_will_have() {
    for grow_to in [DEVICE_BYTES, 4 << 30, 30 << 30] {
        let medium = made_to_grow("mlb", grow_to).unwrap();
        let layout = medium.superblock().layout;
        let own = Medium::made(&unforced()).superblock().layout;
        let last = layout.superblock_offsets()[2];
        assert_eq!(layout.slot_offsets, [MIB, last - layout.slot_bytes]);
        assert_eq!(layout.groups_offset, MIB + layout.slot_bytes, "slots are whole MiB");
        let room = layout.slot_offsets[1] - layout.groups_offset;
        assert_eq!(u64::from(layout.group_count), room / (4 * MIB));
        if grow_to == DEVICE_BYTES {
            assert_eq!(layout, own);
            continue;
        }
        assert!(layout.slot_bytes > own.slot_bytes);
        let growth = Medium { bytes: grow_to, ..medium }.with(plan).unwrap();
        assert_eq!((growth.groups_left_out, growth.map_room_pct), (0, 100), "{grow_to} bytes");
    }
}

#[test]
fn room_for_more_than_the_device_can_hold_is_refused() {
    let told = made_to_grow("mlb", 1 << 40).err().unwrap().to_string();
    assert!(told.starts_with("create: "), "{told}");
}

#[test]
fn without_many_logs_room_to_grow_changes_nothing_and_less_than_there_is_is_refused() {
    let named = NamedPreset::by_name("nolog").unwrap();
    let plain = Medium::made(&CreateOptions::new([7; 16], named)).superblock();
    assert_eq!(made_to_grow("nolog", 1 << 40).unwrap().superblock(), plain);
    for preset in ["nolog", "mlb"] {
        let error = made_to_grow(preset, DEVICE_BYTES - 1).err().unwrap();
        let told = "create: size of the device or image, in bytes: expected at most the 67108863 that it is to grow to \
                    (--grow-to), found 67108864; name a larger size to grow to, or leave it out";
        assert_eq!(error.to_string(), told);
    }
}
