//! What growing makes of a volume: its new layout to the byte, both snapshots, and nothing of the old ones where clients
//! would find it.

use crate::medium::{DEVICE_BYTES, MIB, Medium, spoil};
use crate::snapshots::{items, put, zero};
use crate::support::options;
use nearhead_format::snapshot::{BodyItem, FLAG_CLEAN_SHUTDOWN, LogState};
use nearhead_format::{Layout, Superblock};
use nearhead_models::Store;
use nearhead_volume::dump::read_slots;
use nearhead_volume::grow::{GrowError, Growth, grow, plan};
use nearhead_volume::{CreateOptions, NamedPreset, SyncIo};

/// The beginning and the size of groups of the volumes here.
const GROUP_BYTES: u64 = 4 * MIB;

fn options_of(preset: &str) -> CreateOptions {
    let named = NamedPreset::by_name(preset).unwrap();
    let whole = options(preset, 7, GROUP_BYTES);
    CreateOptions {
        group_bytes: whole.group_bytes.filter(|_| named.layout.has_groups_of_any_size()),
        log_bytes: whole.log_bytes.filter(|_| named.layout.has_logs()),
        ..whole
    }
}

fn made(preset: &str) -> Medium {
    Medium::made(&options_of(preset))
}

fn planned(medium: &Medium, bytes: u64) -> Result<Growth, GrowError> {
    Medium { bytes, ..medium.clone() }.with(plan)
}

fn grow_all(io: &mut SyncIo<'_>) {
    let growth = plan(io).unwrap();
    grow(io, &growth).unwrap();
}

/// Sizes with a whole number of sectors, and none.
fn sizes() -> [u64; 5] {
    [72 * MIB, 100 * MIB + 512, 128 * MIB + 4095, 200 * MIB + 4096, 1 << 30]
}

/// The last superblock is in the last 4 KiB, the slot before it, the groups up to there.
fn far_slot(device_bytes: u64, layout: &Layout) -> u64 {
    device_bytes / 4096 * 4096 - 4096 - layout.slot_bytes
}

#[test]
fn as_many_groups_are_added_as_fit_and_nothing_else_moves() {
    let medium = made("mlb");
    let before = medium.superblock();
    let old = before.layout;
    for bytes in sizes() {
        let growth = planned(&medium, bytes).unwrap();
        let device_bytes = bytes / 512 * 512;
        let far = far_slot(device_bytes, &old);
        let layout = Layout {
            device_bytes,
            slot_offsets: [old.slot_offsets[0], far],
            group_count: ((far - old.groups_offset) / GROUP_BYTES) as u32,
            ..old
        };
        let after = Superblock { layout, generation: before.generation + 1, ..before.clone() };
        assert_eq!((growth.before, growth.after), (before.clone(), after), "{bytes} bytes");
        assert_eq!((growth.groups_left_out, growth.map_room_pct), (0, 100));
    }
}

#[test]
fn without_logs_the_one_group_takes_all_that_fits() {
    let medium = made("nolog");
    let before = medium.superblock();
    let old = before.layout;
    for bytes in sizes() {
        let growth = planned(&medium, bytes).unwrap();
        let device_bytes = bytes / 512 * 512;
        let far = far_slot(device_bytes, &old);
        let layout = Layout {
            device_bytes,
            slot_offsets: [old.slot_offsets[0], far],
            group_bytes: (far - old.groups_offset) / 4096 * 4096,
            ..old
        };
        assert_eq!(growth.after.layout, layout, "{bytes} bytes");
        assert_eq!((growth.groups_left_out, growth.map_room_pct), (0, 100));
    }
}

#[test]
fn growing_by_nothing_is_refused_up_to_the_last_byte_of_a_group() {
    for (preset, step) in [("mlb", GROUP_BYTES), ("nolog", 4096)] {
        let medium = made(preset);
        let old = medium.superblock().layout;
        // The smallest device with room for one step more.
        let end = old.groups_offset + old.group_bytes * u64::from(old.group_count) + step;
        let enough = end + old.slot_bytes + 4096;
        assert!(enough > DEVICE_BYTES);
        let client_bytes = |growth: Growth| growth.after.layout.client_bytes();
        let log_bytes = if old.log_count() > 0 { old.log_bytes } else { 0 };
        assert_eq!(
            client_bytes(planned(&medium, enough).unwrap()),
            old.client_bytes() + step - log_bytes
        );
        for bytes in [DEVICE_BYTES, enough - 4096, enough - 512] {
            let error = planned(&medium, bytes).unwrap_err();
            let told = format!(
                "grow instant: expected a device larger than the volume's {DEVICE_BYTES} bytes by at least one group, \
                 found {bytes}; enlarge the device or image first"
            );
            assert_eq!(error.to_string(), told, "{preset}");
        }
    }
}

#[test]
fn a_volume_whose_log_would_have_to_move_is_refused_with_those_that_grow() {
    let error = planned(&made("singlelog"), 128 * MIB).unwrap_err();
    let told = "grow instant: expected preset mlb, nearhead or nolog, found singlelog, whose data or log would have to move; copy to \
                a new volume instead";
    assert_eq!(error.to_string(), told);
}

/// 512 KiB of log are 128 entries of 20 bytes, of which a tenth must fit, and 16 bytes besides: 272 bytes. A slot of 2 MiB
/// has 2,023,424 bytes for them beside its headers and 4096 hints.
const GROUPS_MAX: u64 = 7439;

#[test]
fn a_volume_grows_as_far_as_its_slots_have_room_and_no_further() {
    let medium = made("mlb");
    let old = medium.superblock().layout;
    assert_eq!(old.slot_bytes, 2 * MIB);
    let bytes_for = |groups: u64| old.groups_offset + groups * GROUP_BYTES + old.slot_bytes + 4096;
    for (groups, left_out) in [(GROUPS_MAX - 1, 0), (GROUPS_MAX, 0), (GROUPS_MAX + 3, 3)] {
        let growth = planned(&medium, bytes_for(groups)).unwrap();
        let count = u64::from(growth.after.layout.group_count);
        assert_eq!((count, growth.groups_left_out), (groups - left_out, left_out));
        assert_eq!(growth.map_room_pct, 10, "{groups} groups");
    }
    let mut full = Medium { bytes: bytes_for(GROUPS_MAX), ..medium };
    full.with(grow_all);
    let error = planned(&full, bytes_for(GROUPS_MAX + 1)).unwrap_err();
    assert!(matches!(error, GrowError::Slots { groups_max: GROUPS_MAX, .. }), "{error:?}");
    assert!(error.to_string().contains("full at 7439 groups, fixed at creation"), "{error}");
    let error = planned(&full, bytes_for(GROUPS_MAX) + 4096).unwrap_err();
    assert!(matches!(error, GrowError::NothingToAdd { .. }), "{error:?}");
}

#[test]
fn the_room_of_the_map_is_told_in_whole_percent() {
    let medium = made("mlb");
    let old = medium.superblock().layout;
    for groups in [700, 790, 791, 1000, 3000, 7000] {
        let bytes = old.groups_offset + groups * GROUP_BYTES + old.slot_bytes + 4096;
        let growth = planned(&medium, bytes).unwrap();
        let room = 2 * MIB - 2 * 4096 - 16 * 4096 - groups * 16;
        let expected = (100 * room / (groups * 128 * 20)).min(100);
        assert_eq!(growth.map_room_pct, expected, "{groups} groups");
    }
}

/// How the slots of a volume are before it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slots {
    NewestFirst,
    NewestSecond,
    SecondNotSound,
}

/// A volume with snapshots 4 and 3, or 4 and 5; their bodies are longer than what is copied at once.
fn with_slots(preset: &str, slots: Slots) -> (Medium, Superblock) {
    let mut medium = made(preset);
    let superblock = medium.superblock();
    let entries = |first: u64| {
        let entries = (first..first + 60_000).map(|block| BodyItem::Entry(zero(block)));
        let log = LogState { log_index: 0, position: 0 };
        let logs = [BodyItem::Log(log), BodyItem::Claim(0)];
        let logs = logs.into_iter().filter(|_| superblock.layout.log_count() > 0);
        // A volume without logs has no entries.
        entries.filter(|_| superblock.layout.log_count() > 0).chain(logs)
    };
    put(&mut medium, &superblock, (4, FLAG_CLEAN_SHUTDOWN), entries(0));
    let second = if slots == Slots::NewestSecond { 5 } else { 3 };
    put(&mut medium, &superblock, (second, FLAG_CLEAN_SHUTDOWN), entries(7));
    if slots == Slots::SecondNotSound {
        spoil(&mut medium.main, superblock.layout.slot_offsets[1] + 4096 + 40);
    }
    (medium, superblock)
}

#[test]
fn both_snapshots_are_there_afterwards_and_nothing_is_left_where_they_were() {
    // By less than a slot, by just one, and by more.
    for bytes in [DEVICE_BYTES + MIB + 4096, DEVICE_BYTES + 2 * MIB, DEVICE_BYTES + 40 * MIB] {
        for slots in [Slots::NewestFirst, Slots::NewestSecond, Slots::SecondNotSound] {
            grows_with_its_snapshots(bytes, slots);
        }
    }
}

fn grows_with_its_snapshots(bytes: u64, slots: Slots) {
    let name = format!("{bytes} bytes, {slots:?}");
    let (mut medium, before) = with_slots("mlb", slots);
    let old = before.layout;
    let (first, second) = if slots == Slots::SecondNotSound {
        (items(&medium, &before, 0), None)
    } else {
        (items(&medium, &before, 0), Some(items(&medium, &before, 1)))
    };
    // Behind the body of the second slot there is what some longer one left.
    let behind = 4096 + second.as_ref().map_or(0, |(header, _)| header.body.body_bytes);
    medium.main.write(old.slot_offsets[1] + behind + 512, &[9; 512]).unwrap();
    medium.bytes = bytes;
    let growth = medium.with(plan).unwrap();
    medium.with(|io| grow(io, &growth)).unwrap();
    let after = medium.superblock();
    assert_eq!(after, growth.after, "{name}");
    let new = after.layout;
    let moved_by = new.slot_offsets[1] - old.slot_offsets[1];
    assert_eq!(moved_by, bytes - DEVICE_BYTES);
    // The newest is in the first slot whatever was there.
    let in_first = items(&medium, &after, 0);
    if slots == Slots::NewestSecond {
        let (header, content) = second.as_ref().unwrap();
        assert_eq!(in_first.0.snapshot_number, header.snapshot_number + 1, "{name}");
        assert!(in_first.1 == *content, "{name}");
    } else {
        assert!(in_first == first, "{name}");
    }
    // The other one moved, unless it was not sound or the places share bytes.
    match second.filter(|_| moved_by >= old.slot_bytes) {
        Some(second) => {
            assert!(items(&medium, &after, 1) == second, "{name}");
            let left = medium.read(new.slot_offsets[1] + behind, 4096);
            assert_eq!(left, [0; 4096], "{name}: the body is copied and no more");
        }
        None => assert!(medium.with(|io| read_slots(io, &after))[1].is_unused, "{name}"),
    }
    // Where it was and is no more, and where the last superblock was, nothing is left.
    let kept = new.slot_offsets[1]..new.slot_offsets[1] + new.slot_bytes;
    let end = kept.start.min(old.slot_offsets[1] + old.slot_bytes);
    let left = medium.read(old.slot_offsets[1], (end - old.slot_offsets[1]) as usize);
    assert!(left.iter().all(|byte| *byte == 0), "{name}");
    let stale = old.superblock_offsets()[2];
    if !kept.contains(&stale) {
        assert_eq!(medium.read(stale, 4096), [0; 4096], "{name}");
    }
}

#[test]
fn with_a_map_device_the_snapshots_stay_where_they_are() {
    let mut medium =
        Medium::made_on(Medium::empty(DEVICE_BYTES, true), &options_of("mlb")).used(|run| {
            let id = run.write(3..4, 1);
            run.wait(id);
        });
    let before = medium.superblock();
    let slots = [0, 1].map(|slot| items(&medium, &before, slot));
    let map = medium.map.clone();
    medium.bytes = 2 * DEVICE_BYTES;
    medium.with(grow_all);
    let after = medium.superblock();
    assert_eq!([0, 1].map(|slot| items(&medium, &after, slot)), slots);
    let all = |image: Option<&nearhead_models::MemoryStore>| {
        // Behind the header, which has the generation of the device.
        let mut bytes = vec![0; (4 << 20) - 4096];
        image.unwrap().read(4096, &mut bytes).unwrap();
        bytes
    };
    assert!(all(map.as_ref()) == all(medium.map.as_ref()), "the map device keeps its content");
    let mut run = medium.open();
    assert_eq!(run.version(3), 1);
}

/// What clients wrote is where it was, in and behind the groups that there were.
#[test]
fn content_is_as_it_was_and_the_new_part_reads_as_zeros() {
    for preset in ["mlb", "nolog"] {
        let blocks = [0_u64, 5, 9000, 12_000];
        let medium = made(preset).used(|run| {
            for block in blocks {
                let id = run.write(block..block + 1, block + 1);
                run.wait(id);
            }
        });
        let old_blocks = medium.superblock().layout.client_bytes() / 4096;
        for bytes in [DEVICE_BYTES + MIB + 4096, DEVICE_BYTES + 40 * MIB] {
            let mut medium = Medium { bytes, ..medium.clone() };
            medium.with(grow_all);
            let new_blocks = medium.superblock().layout.client_bytes() / 4096;
            let mut run = medium.open();
            for block in blocks {
                assert_eq!(run.version(block), block + 1, "{preset}, {bytes}");
            }
            // The old ends of the device are in here.
            for block in old_blocks..new_blocks {
                assert_eq!(run.version(block), 0, "{preset}, {bytes}, block {block}");
            }
        }
    }
}
