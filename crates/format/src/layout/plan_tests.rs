//! What a plan chooses by itself: the shares that the documents name, and no space given away.

use super::apart::SINGLE_LOG_BYTES_MAX;
use super::tests::defaults;
use super::*;

const MIB: u64 = 1 << 20;

fn planned(device_bytes: u64, options: &LayoutOptions) -> Layout {
    Layout::plan(device_bytes, options).unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

#[test]
fn a_snapshot_slot_is_at_either_end_of_a_disk_that_is_not_shingled() {
    for kind in LayoutKind::ALL {
        let layout = planned(1 << 30, &defaults(kind, 1 << 30));
        assert_eq!(layout.slot_is_far(), !layout.logs_are_apart());
        let near = layout.with_near_slot();
        assert_eq!((near.validate(), near.slot_is_far()), (Ok(()), false), "{near:?}");
        if layout.slot_is_far() {
            let end = layout.slot_offsets[1] + layout.slot_bytes;
            assert_eq!(end, layout.superblock_offsets()[2], "right before the last superblock");
        }
    }
}

#[test]
fn a_slot_behind_the_groups_may_touch_them_and_the_last_superblock_and_no_more() {
    let sound = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
    assert_eq!(sound.validate(), Ok(()));
    let [first, second] = sound.slot_offsets;
    let slot_1 = |at| Layout { slot_offsets: [first, at], ..sound };
    let groups_end = sound.groups_offset + sound.group_bytes * u64::from(sound.group_count);
    assert_eq!(slot_1(groups_end).validate(), Ok(()), "the slot may touch the groups");
    let apart = Layout::plan(1 << 30, &defaults(LayoutKind::ManyLogsApart, 1 << 30)).unwrap();
    let cases = [
        (slot_1(groups_end - 4096), LayoutField::GroupCount),
        (slot_1(second + 4096), LayoutField::SlotOffset),
        (slot_1(second - 512), LayoutField::SlotOffset),
        (Layout { groups_offset: sound.groups_offset - MIB, ..sound }, LayoutField::GroupsOffset),
        (
            Layout { slot_offsets: [apart.slot_offsets[0], second], ..apart },
            LayoutField::SlotOffset,
        ),
    ];
    for (layout, field) in cases {
        let error = layout.validate().expect_err(field.name());
        assert_eq!(error.field, field, "{error}: {layout:?}");
    }
}

#[test]
fn a_log_is_in_the_middle_of_its_group() {
    for kind in [LayoutKind::OneLog, LayoutKind::ManyLogs] {
        let layout = planned(1 << 30, &LayoutOptions::new(kind));
        for log_index in 0..layout.log_count() {
            let group = layout.groups_offset + u64::from(log_index) * layout.group_bytes;
            let before = layout.log_offset(log_index).unwrap() - group;
            let after = layout.data_bytes() - before;
            assert!(before.abs_diff(after) <= BLOCK_BYTES, "{before} before, {after} after");
        }
    }
}

#[test]
fn a_log_is_a_tenth_of_what_it_serves() {
    let tenth = |bytes: u64| bytes / 10 / (64 << 10) * (64 << 10);
    let single = planned(1 << 30, &LayoutOptions::new(LayoutKind::OneLog));
    assert_eq!(single.log_bytes, tenth(1 << 30));
    let large = planned(1 << 40, &LayoutOptions::new(LayoutKind::OneLog));
    assert_eq!(large.log_bytes, SINGLE_LOG_BYTES_DEFAULT_MAX);
    let group_bytes = 200 * MIB;
    let options = LayoutOptions {
        group_bytes: Some(group_bytes),
        ..LayoutOptions::new(LayoutKind::ManyLogs)
    };
    assert_eq!(planned(1 << 30, &options).log_bytes, tenth(group_bytes));
}

#[test]
fn a_layout_without_logs_may_be_asked_for_a_log_of_no_bytes() {
    let options = LayoutOptions { log_bytes: Some(0), ..LayoutOptions::new(LayoutKind::NoLogs) };
    assert_eq!(planned(1 << 30, &options).log_count(), 0);
}

#[test]
fn the_single_log_of_a_shingled_disk_fills_what_is_not_shingled() {
    for (device_bytes, free_bytes) in [(1 << 30, 200 * MIB), (1 << 40, 8 << 30)] {
        let options = LayoutOptions {
            non_shingled_bytes: Some(free_bytes),
            ..LayoutOptions::new(LayoutKind::OneLogApart)
        };
        let layout = planned(device_bytes, &options);
        let left = free_bytes - layout.groups_offset - layout.log_bytes;
        assert!(left < 64 << 10, "{left} bytes are neither log nor snapshot: {layout:?}");
    }
    let huge = planned(8_000_000_000_000, &defaults(LayoutKind::OneLogApart, 8_000_000_000_000));
    assert_eq!(huge.log_bytes, SINGLE_LOG_BYTES_MAX / (64 << 10) * (64 << 10));
}

#[test]
fn a_device_too_small_for_groups_of_the_paper_gives_little_away() {
    for device_bytes in (65 * MIB..400 * MIB).step_by(1 << 20) {
        let layout = planned(device_bytes, &LayoutOptions::new(LayoutKind::ManyLogs));
        let groups = layout.group_bytes * u64::from(layout.group_count);
        let unused = layout.groups_limit() - layout.groups_offset - groups;
        assert!(layout.group_count >= 4 && unused < 4 * MIB, "{unused} bytes unused: {layout:?}");
    }
}

/// Room for every log that could be there: its entries, its state and its claim; a MiB to spare; and nothing
/// beyond but what rounds it to whole MiB.
#[test]
fn a_snapshot_slot_is_as_large_as_the_logs_may_need() {
    let options = LayoutOptions {
        group_bytes: Some(MIB),
        log_bytes: Some(512 << 10),
        ..LayoutOptions::new(LayoutKind::ManyLogs)
    };
    for device_bytes in (64 * MIB..2200 * MIB).step_by(1 << 20) {
        let layout = planned(device_bytes, &options);
        assert_eq!(layout.snapshot_body_bytes_max() + 2 * SUPERBLOCK_BYTES, layout.slot_bytes);
        let logs_max = (layout.superblock_offsets()[2] - layout.slot_offsets[0]) / MIB;
        let needed = logs_max * (layout.log_bytes / BLOCK_BYTES * 20 + 12 + 4) + MIB;
        let spare = layout.slot_bytes.checked_sub(needed);
        assert!(spare.is_some_and(|bytes| bytes < MIB), "needs {needed}: {layout:?}");
    }
}

#[test]
fn the_group_of_a_home_is_the_one_whose_data_it_is() {
    for kind in LayoutKind::ALL {
        let layout = planned(1 << 30, &defaults(kind, 1 << 30));
        for step in 0..1000 {
            let at = layout.client_bytes() / 1000 * step;
            let home = layout.home(at).unwrap().device_offset;
            assert_eq!(u64::from(layout.group_of(home)), at / layout.data_bytes(), "{layout:?}");
        }
    }
}

#[test]
fn a_home_reaches_as_far_as_client_and_device_go_on_together() {
    for kind in LayoutKind::ALL {
        let layout = planned(1 << 30, &defaults(kind, 1 << 30));
        for step in 0..1000 {
            let at = layout.client_bytes() / 1000 * step;
            let piece = layout.home(at).unwrap();
            let last = layout.home(at + piece.len - 1).unwrap();
            assert_eq!(last.device_offset, piece.device_offset + piece.len - 1, "{layout:?}");
            let beyond = layout.home(at + piece.len).map(|next| next.device_offset);
            assert_ne!(beyond, Some(piece.device_offset + piece.len), "{at}: {layout:?}");
            assert!(beyond.is_some() || at + piece.len == layout.client_bytes(), "{layout:?}");
        }
    }
}

#[test]
fn between_the_last_log_apart_and_the_data_there_is_nothing() {
    let layout = planned(1 << 30, &defaults(LayoutKind::ManyLogsApart, 1 << 30));
    let last = layout.log_count() - 1;
    let end = layout.log_offset(last).unwrap() + layout.log_bytes;
    assert!(end < layout.data_offset, "nothing to look at: {layout:?}");
    let log = Region::Log { log_index: last, offset: layout.log_bytes - 1 };
    assert_eq!(layout.region(end - 1), log);
    assert_eq!(layout.region(end), Region::Unused);
    assert_eq!(layout.region(layout.data_offset - 1), Region::Unused);
    assert_eq!(layout.region(layout.groups_offset - 1), Region::Slot { slot: 1 });
}
