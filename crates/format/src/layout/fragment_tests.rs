//! Tests of layouts with fragments: larger slots, all else as sound as without, and refused where there is nothing for them to lie over.

use super::tests::{SIZES, assert_one_use_per_byte, defaults};
use super::*;

const MIB: u64 = 1 << 20;

fn can_have_fragments(kind: LayoutKind) -> bool {
    !matches!(kind, LayoutKind::NoLogs | LayoutKind::Chain)
}

/// Without them and with them; none where data devices are more than the arithmetic is checked for.
fn both(kind: LayoutKind, device_bytes: u64) -> Option<[Layout; 2]> {
    if kind.is_for_data_devices() && device_bytes == DEVICE_BYTES_MAX {
        return None;
    }
    Some([false, true].map(|fragments| {
        let options = LayoutOptions { fragments, ..defaults(kind, device_bytes) };
        Layout::plan(device_bytes, &options)
            .unwrap_or_else(|error| panic!("{device_bytes} {options:?}: {error}"))
    }))
}

#[test]
fn every_layout_with_homes_and_logs_is_as_sound_with_fragments_and_never_the_same_as_without() {
    for size in SIZES {
        for kind in LayoutKind::ALL.into_iter().filter(|kind| can_have_fragments(*kind)) {
            let Some([plain, layout]) = both(kind, size / 4096 * 4096) else { continue };
            assert_eq!(layout.validate(), Ok(()));
            assert!(kind.fits(&layout), "{layout:?}");
            assert_one_use_per_byte(&layout);
            assert_eq!((plain.fragments, plain.fragment_room_bytes()), (false, 0));
            let room = layout.fragment_room_bytes();
            assert!((64 << 10..=4 * MIB).contains(&room) && room % 4096 == 0, "{room}");
            assert!(layout.slot_bytes >= SLOT_BYTES_MIN + room, "{layout:?}");
            assert_ne!(layout.slot_bytes, plain.slot_bytes, "{layout:?}");
            assert_ne!(layout.slot_offsets[1], plain.slot_offsets[1], "{layout:?}");
            let near = layout.with_near_slot();
            assert_eq!((near.validate(), near.fragments), (Ok(()), true), "{near:?}");
        }
    }
}

#[test]
fn the_room_for_fragments_is_a_sixteenth_of_all_logs_within_bounds_and_in_whole_blocks() {
    let room = |group_bytes: u64, log_bytes, device_bytes| {
        let options = LayoutOptions {
            group_bytes: Some(group_bytes),
            log_bytes: Some(log_bytes),
            fragments: true,
            ..LayoutOptions::new(LayoutKind::ManyLogs)
        };
        let layout = Layout::plan(device_bytes, &options).unwrap();
        (layout.log_count(), layout.fragment_room_bytes())
    };
    // One of the smallest logs: less than the least room there is.
    assert_eq!(room(50 * MIB, 512 << 10, 64 * MIB), (1, 64 << 10));
    assert_eq!(room(10 * MIB, MIB, 64 * MIB), (5, 5 * MIB / 16));
    assert_eq!(
        room(20 * MIB, MIB + 5 * 4096, 100 * MIB),
        (4, (4 * MIB + 20 * 4096) / 16 / 4096 * 4096)
    );
    assert_eq!(room(100 * MIB, 10 * MIB, 1 << 30), (10, 4 * MIB));
    assert_eq!(room(100 * MIB, 10 * MIB, 1 << 40), (10_475, 4 * MIB));
}

#[test]
fn the_map_loses_no_room_in_a_slot_to_fragments() {
    for size in SIZES {
        for kind in LayoutKind::ALL.into_iter().filter(|kind| can_have_fragments(*kind)) {
            let Some([plain, layout]) = both(kind, size / 4096 * 4096) else { continue };
            // A few logs fewer may fit beside the larger slots, and with them a few entries.
            let fewer = u64::from(plain.log_count().saturating_sub(layout.log_count()));
            let entries = fewer * (plain.log_bytes / BLOCK_BYTES * 20 + 16);
            let for_map = layout.slot_bytes - layout.fragment_room_bytes();
            let smaller_logs =
                plain.log_bytes.abs_diff(layout.log_bytes) * u64::from(plain.log_count()) / 4096
                    * 20;
            assert!(
                for_map + entries + smaller_logs + MIB >= plain.slot_bytes,
                "{plain:?} {layout:?}"
            );
        }
    }
}

#[test]
fn logs_beyond_those_that_a_slot_was_made_for_take_no_room_for_fragments_from_the_map() {
    let options = LayoutOptions {
        group_bytes: Some(10 * MIB),
        log_bytes: Some(MIB),
        fragments: true,
        ..LayoutOptions::new(LayoutKind::ManyLogs)
    };
    let layout = Layout::plan(128 * MIB, &options).unwrap();
    let free = layout.slot_bytes - SLOT_BYTES_MIN;
    for group_count in [layout.group_count, 16, 17, 64, 100_000] {
        let grown = Layout { group_count, ..layout };
        let share = u64::from(group_count) * MIB / 16;
        assert_eq!(grown.fragment_room_bytes(), share.min(4 * MIB).min(free), "{group_count}");
    }
    assert!((MIB..4 * MIB).contains(&free), "{free}");
}

#[test]
fn what_has_no_homes_or_no_logs_refuses_fragments_by_name() {
    for kind in LayoutKind::ALL.into_iter().filter(|kind| !can_have_fragments(*kind)) {
        let options = LayoutOptions { fragments: true, ..defaults(kind, 1 << 30) };
        let refused = Layout::plan(1 << 30, &options).unwrap_err();
        assert_eq!(refused.field, LayoutField::Fragments);
        assert!(
            refused.to_string().starts_with(&format!("fragments: expected none in {kind}")),
            "{refused}"
        );
        let plain = Layout::plan(1 << 30, &defaults(kind, 1 << 30)).unwrap();
        let refused = Layout { fragments: true, ..plain }.validate().unwrap_err();
        assert_eq!(refused.field, LayoutField::Fragments, "{refused}");
    }
}

#[test]
fn slots_without_the_room_are_refused_down_to_a_block() {
    let options = LayoutOptions { fragments: true, ..LayoutOptions::new(LayoutKind::ManyLogs) };
    let sound = Layout::plan(1 << 30, &options).unwrap().with_near_slot();
    let least = SLOT_BYTES_MIN + (64 << 10);
    assert!(sound.slot_bytes > least);
    assert_eq!(Layout { slot_bytes: least, ..sound }.validate(), Ok(()));
    let refused = Layout { slot_bytes: least - 4096, ..sound }.validate().unwrap_err();
    assert_eq!((refused.field, refused.found), (LayoutField::SlotBytes, least - 4096));
    assert!(refused.to_string().contains(&format!("expected at least {least}")), "{refused}");
    assert_eq!(Layout { slot_bytes: least - 4096, fragments: false, ..sound }.validate(), Ok(()));
}
