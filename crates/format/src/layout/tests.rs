//! Tests of the layout: every byte of a device has one use, every client byte one home.

use super::*;
use proptest::prelude::*;
use std::ops::Range;

const MIB: u64 = 1 << 20;

/// Sizes from the smallest to the largest, round and odd, some of them of real disks.
pub(super) const SIZES: [u64; 21] = [
    DEVICE_BYTES_MIN,
    DEVICE_BYTES_MIN + 512,
    DEVICE_BYTES_MIN + 4096,
    65 * MIB - 512,
    100_000_000,
    127 * MIB + 3 * 512,
    399 * MIB,
    420 * MIB + 4096,
    1 << 30,
    (1 << 30) - 512,
    5_000_000_000,
    // Cheetah 15K.5 ST3146855FC: 286,749,488 sectors.
    286_749_488 * 512,
    250_059_350_016,
    // Constellation ES.3 1 TB: 1,953,525,168 sectors.
    1_953_525_168 * 512,
    1_953_525_168 * 512 - 512,
    4_000_787_030_016,
    10_000_000_000_000,
    // 20 TB: 39,063,650,304 sectors.
    39_063_650_304 * 512,
    20_000_000_000_000,
    20_000_000_000_000 - 4096 - 512,
    DEVICE_BYTES_MAX,
];

/// The defaults of a kind of layout on a device of so many bytes, an odd eighth of which is not shingled.
pub(crate) fn defaults(kind: LayoutKind, device_bytes: u64) -> LayoutOptions {
    let free_bytes = device_bytes / 8 / 512 * 512;
    let non_shingled_bytes = kind.is_for_shingled().then_some(free_bytes);
    let data_parts = match kind {
        LayoutKind::LogDevice => parts(),
        LayoutKind::Chain if device_bytes <= 1 << 30 => links(),
        _ => DataParts::NONE,
    };
    LayoutOptions { non_shingled_bytes, data_parts, ..LayoutOptions::new(kind) }
}

/// Three data devices.
fn parts() -> DataParts {
    DataParts::of(&[400 * MIB, 17 * MIB, 3 * MIB]).unwrap()
}

/// Two data devices, and two of logs.
fn with_log_devices() -> LayoutOptions {
    let parts = DataParts::of(&[2 << 40, 17 * MIB, 400 * MIB, 1 << 40]).unwrap();
    let data_parts = parts.with_log_devices(2).unwrap();
    LayoutOptions { data_parts, ..LayoutOptions::new(LayoutKind::LogDevice) }
}

/// Two devices behind the first of a chain.
fn links() -> DataParts {
    DataParts::of(&[400 * MIB, 71 * MIB]).unwrap()
}

/// Behind all that a volume has addresses for.
fn end_of_addresses(layout: &Layout) -> u64 {
    layout.end_bytes() + if layout.is_chain() { layout.client_bytes() } else { 0 }
}

/// A layout that passes.
pub(super) fn sound() -> Layout {
    Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap()
}

fn every_layout(mut check: impl FnMut(&Layout)) {
    for size in SIZES {
        for (sector_bytes, log_block_bytes) in [(512, 512), (512, 4096), (4096, 4096)] {
            for kind in LayoutKind::ALL {
                // Data devices are part of what the arithmetic is checked for.
                if kind.is_for_data_devices() && size == DEVICE_BYTES_MAX {
                    continue;
                }
                let device_bytes = size - size % u64::from(sector_bytes);
                let options =
                    LayoutOptions { sector_bytes, log_block_bytes, ..defaults(kind, device_bytes) };
                let layout = Layout::plan(device_bytes, &options)
                    .unwrap_or_else(|error| panic!("{device_bytes} {options:?}: {error}"));
                check(&layout);
            }
        }
        if size < DEVICE_BYTES_MAX {
            check(&Layout::plan(size / 4096 * 4096, &with_log_devices()).unwrap());
        }
    }
}

/// Everything on the device but homes, as the fields say it, without the code under test.
fn metadata(layout: &Layout) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> =
        layout.superblock_offsets().map(|at| at..at + SUPERBLOCK_BYTES).to_vec();
    ranges.extend(layout.slot_offsets.map(|at| at..at + layout.slot_bytes));
    for log_index in 0..layout.log_count() {
        let at = layout.log_offset(log_index).unwrap();
        ranges.push(at..at + layout.log_bytes);
    }
    ranges
}

/// Panics unless homes and metadata are disjoint, on the device, and homes are all client bytes.
pub(super) fn assert_one_use_per_byte(layout: &Layout) {
    let mut ranges = metadata(layout);
    let mut next_client_byte = 0;
    for piece in layout.home_pieces(0, u64::MAX) {
        assert_eq!(piece.client_offset, next_client_byte, "{layout:?}");
        assert!(piece.len > 0 && piece.len.is_multiple_of(BLOCK_BYTES), "{piece:?} {layout:?}");
        assert!(piece.device_offset.is_multiple_of(BLOCK_BYTES), "{piece:?} {layout:?}");
        next_client_byte += piece.len;
        ranges.push(piece.device_offset..piece.device_offset + piece.len);
    }
    assert_eq!(next_client_byte, layout.client_bytes(), "{layout:?}");
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{:?} overlaps {:?}: {layout:?}", pair[0], pair[1]);
    }
    assert!(ranges.last().unwrap().end <= end_of_addresses(layout), "{layout:?}");
    let device = |byte| layout.data_devices().position(|device| device.contains(&byte));
    for range in ranges {
        assert_eq!(device(range.start), device(range.end - 1), "{range:?} {layout:?}");
    }
}

#[test]
fn the_copy_of_a_snapshot_header_is_the_last_block_of_its_slot() {
    every_layout(|layout| {
        for (slot, start) in layout.slot_offsets.into_iter().enumerate() {
            let end = start + layout.slot_bytes;
            assert_eq!(layout.snapshot_copy_offset(slot) + 4096, end, "{layout:?}");
        }
    });
}

#[test]
fn every_client_byte_has_one_home_that_is_nothing_else() {
    every_layout(assert_one_use_per_byte);
}

#[test]
fn on_a_small_volume_every_single_sector_maps_there_and_back() {
    for kind in LayoutKind::ALL {
        let layout = Layout::plan(DEVICE_BYTES_MIN, &defaults(kind, DEVICE_BYTES_MIN)).unwrap();
        let mut used = vec![false; (end_of_addresses(&layout) / 512) as usize];
        for client_offset in (0..layout.client_bytes()).step_by(512) {
            let home = layout.home(client_offset).unwrap();
            let sector = &mut used[(home.device_offset / 512) as usize];
            assert!(!*sector, "two client sectors share {home:?}: {layout:?}");
            *sector = true;
            assert_eq!(layout.region(home.device_offset), Region::Data { client_offset });
        }
        let mut counted = [0_u64; 5];
        for device_offset in (0..end_of_addresses(&layout)).step_by(512) {
            let is_home = used[(device_offset / 512) as usize];
            counted[match layout.region(device_offset) {
                Region::Superblock { .. } => 0,
                Region::Slot { .. } => 1,
                Region::Data { .. } => 2,
                Region::Log { log_index, offset } => {
                    assert_eq!(layout.log_offset(log_index), Some(device_offset - offset));
                    3
                }
                Region::Unused => 4,
            }] += 512;
            let is_data = matches!(layout.region(device_offset), Region::Data { .. });
            assert_eq!(is_home, is_data, "at {device_offset}: {layout:?}");
        }
        let logs = u64::from(layout.log_count()) * layout.log_bytes;
        let expected = [3 * 4096, 2 * layout.slot_bytes, layout.client_bytes(), logs];
        assert_eq!(counted[..4], expected, "{layout:?}");
    }
}

#[test]
fn nothing_is_past_the_end_of_the_client_address_space() {
    every_layout(|layout| {
        let end = layout.client_bytes();
        assert!(layout.home(end - 1).is_some());
        for beyond in [end, end + 512, u64::MAX] {
            assert_eq!(layout.home(beyond), None, "{beyond}: {layout:?}");
        }
        assert_eq!(layout.home_pieces(end - 512, u64::MAX).map(|p| p.len).sum::<u64>(), 512);
        let sectors = end / 512;
        assert!(layout.client_range(sectors - 1, 1).is_some());
        assert_eq!(layout.client_range(sectors - 1, 2), None);
        assert_eq!(layout.client_range(u64::MAX, u64::MAX), None);
    });
}

#[test]
fn every_log_block_lies_in_its_log() {
    every_layout(|layout| {
        let last = layout.log_count().saturating_sub(1);
        for log_index in [0, last / 2, last] {
            let Some(start) = layout.log_offset(log_index) else {
                assert_eq!(layout.log_bytes, 0);
                continue;
            };
            let blocks = layout.log_blocks();
            assert_eq!(u64::from(blocks) * u64::from(layout.log_block_bytes), layout.log_bytes);
            assert_eq!(layout.log_block_offset(log_index, 0), Some(start));
            let end = layout.log_block_offset(log_index, blocks - 1).unwrap();
            assert_eq!(end + u64::from(layout.log_block_bytes), start + layout.log_bytes);
            assert_eq!(layout.log_block_offset(log_index, blocks), None);
            assert_eq!(layout.log_block_offset(log_index, u32::MAX), None);
            assert_eq!(layout.group_of(start), log_index);
            assert_eq!(layout.group_of(start + layout.log_bytes - 1), log_index);
        }
        assert_eq!(layout.log_offset(layout.log_count()), None);
    });
}

#[test]
fn defaults_are_those_of_the_paper_where_the_device_is_large_enough() {
    every_layout(|layout| {
        assert_eq!(layout.groups_offset % MIB, 0);
        if layout.log_count() > 1 {
            assert!(layout.group_count >= 4 || layout.logs_are_apart(), "{layout:?}");
            let paper = (GROUP_BYTES_DEFAULT, LOG_BYTES_DEFAULT);
            let small = layout.device_bytes < 5 * GROUP_BYTES_DEFAULT || layout.logs_are_apart();
            assert!(small || (layout.group_bytes, layout.log_bytes) == paper, "{layout:?}");
        }
    });
}

#[test]
fn snapshot_slots_hold_a_full_map_and_cost_little() {
    every_layout(|layout| {
        if layout.is_chain() {
            return;
        }
        let logged = layout.log_bytes * u64::from(layout.log_count());
        let is_device = !layout.data_parts.is_empty();
        let mapped = if is_device { logged.min(apart::MAPPED_BYTES_MAX) } else { logged };
        let entries = mapped / 4096;
        let needed = entries * 20 + u64::from(layout.log_count()) * 16;
        assert!(layout.snapshot_body_bytes_max() >= needed, "{layout:?}");
        if is_device {
            let data = layout.data_parts.home_bytes() - 2 * layout.slot_bytes;
            assert!(data - layout.client_bytes() <= data / 100, "{layout:?}");
            return;
        }
        let overhead = layout.device_bytes - layout.client_bytes();
        let logs = layout.log_bytes * u64::from(layout.log_count());
        // Less than one group is lost at the end, and the slots are a thousandth each.
        let bound = logs + layout.device_bytes / 500 + layout.group_bytes.min(100 * MIB) + 8 * MIB;
        // What is not shingled holds no data, whether the logs need it or not.
        let bound = bound + layout.data_offset.saturating_sub(logs);
        assert!(overhead <= bound, "{overhead} over {bound}: {layout:?}");
    });
}

#[test]
fn impossible_sizes_are_refused_with_the_field_and_what_to_do() {
    let many = LayoutOptions::new(LayoutKind::ManyLogs);
    let with_group = |bytes| LayoutOptions { group_bytes: Some(bytes), ..many };
    let with_log = |bytes| LayoutOptions { log_bytes: Some(bytes), ..many };
    let none = LayoutOptions::new(LayoutKind::NoLogs);
    let shingled = |non_shingled_bytes| LayoutOptions {
        non_shingled_bytes,
        ..LayoutOptions::new(LayoutKind::ManyLogsApart)
    };
    let free_32_mib = shingled(Some(32 * MIB));
    let gib = 1 << 30;
    let cases = [
        (0, many, LayoutField::DeviceBytes),
        (DEVICE_BYTES_MIN - 512, many, LayoutField::DeviceBytes),
        (DEVICE_BYTES_MAX + 512, many, LayoutField::DeviceBytes),
        (u64::MAX, many, LayoutField::DeviceBytes),
        (gib + 1, many, LayoutField::SectorBytes),
        (gib, LayoutOptions { sector_bytes: 0, ..many }, LayoutField::SectorBytes),
        (gib, LayoutOptions { sector_bytes: 520, ..many }, LayoutField::SectorBytes),
        (gib, LayoutOptions { log_block_bytes: 0, ..many }, LayoutField::LogBlockBytes),
        (gib, LayoutOptions { log_block_bytes: 8192, ..many }, LayoutField::LogBlockBytes),
        (
            gib,
            LayoutOptions { sector_bytes: 4096, log_block_bytes: 512, ..many },
            LayoutField::LogBlockBytes,
        ),
        (gib, with_group(0), LayoutField::GroupBytes),
        (gib, with_group(512 << 10), LayoutField::GroupBytes),
        (gib, with_group(10 * MIB + 512), LayoutField::GroupBytes),
        (gib, with_group(gib), LayoutField::GroupBytes),
        (gib, with_group(u64::MAX), LayoutField::GroupBytes),
        (gib, with_log(0), LayoutField::LogBytes),
        (gib, with_log(4096), LayoutField::LogBytes),
        (gib, with_log(MIB + 512), LayoutField::LogBytes),
        (gib, with_log(100 * MIB), LayoutField::LogBytes),
        (gib, LayoutOptions { log_bytes: Some(MIB), ..none }, LayoutField::LogBytes),
        (gib, LayoutOptions { group_bytes: Some(MIB), ..none }, LayoutField::GroupBytes),
        (gib, shingled(None), LayoutField::DataOffset),
        (gib, shingled(Some(0)), LayoutField::DataOffset),
        (gib, shingled(Some(3 * MIB)), LayoutField::DataOffset),
        (gib, shingled(Some(gib - 4096)), LayoutField::DataOffset),
        (gib, shingled(Some(u64::MAX)), LayoutField::DataOffset),
        (gib, LayoutOptions { log_bytes: Some(64 * MIB), ..free_32_mib }, LayoutField::DataOffset),
        (gib, LayoutOptions { log_bytes: Some(0), ..free_32_mib }, LayoutField::LogBytes),
        (gib, LayoutOptions { group_bytes: Some(MIB), ..free_32_mib }, LayoutField::GroupBytes),
    ];
    for (device_bytes, options, field) in cases {
        let error = Layout::plan(device_bytes, &options).expect_err(field.name());
        assert_eq!(error.field, field, "{device_bytes} {options:?}: {error}");
        let text = error.to_string();
        let parts = [field.name(), "expected", "found", ";"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn parts_that_overlap_by_a_single_block_are_refused() {
    let sound =
        Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap().with_near_slot();
    assert_eq!(sound.validate(), Ok(()));
    let [first, second] = sound.slot_offsets;
    let slots = |slot_offsets| Layout { slot_offsets, ..sound };
    let last_superblock = sound.superblock_offsets()[2];
    let group_bytes = (last_superblock - sound.groups_offset) / 10 / 4096 * 4096;
    let tight = |device_bytes| Layout { group_count: 10, group_bytes, device_bytes, ..sound };
    let end = sound.groups_offset + 10 * group_bytes;
    assert_eq!(tight(end + 4096).validate(), Ok(()), "the groups may touch the last superblock");
    let cases = [
        (tight(end + 4096 - 512), LayoutField::GroupCount),
        (Layout { group_count: 0, ..sound }, LayoutField::GroupCount),
        (Layout { slot_bytes: sound.slot_bytes + 512, ..sound }, LayoutField::SlotBytes),
        (Layout { slot_bytes: SLOT_BYTES_MIN - 4096, ..sound }, LayoutField::SlotBytes),
        (slots([first, second - 4096]), LayoutField::SlotOffset),
        (slots([second, first]), LayoutField::SlotOffset),
        (slots([64 << 10, second]), LayoutField::SlotOffset),
        (slots([first, second + 4096]), LayoutField::GroupsOffset),
        (Layout { groups_offset: sound.groups_offset - MIB, ..sound }, LayoutField::GroupsOffset),
        (Layout { groups_offset: sound.groups_offset + 4096, ..sound }, LayoutField::GroupsOffset),
    ];
    for (layout, field) in cases {
        let error = layout.validate().expect_err(field.name());
        assert_eq!(error.field, field, "{error}: {layout:?}");
    }
}

#[test]
fn a_log_leaves_a_block_of_data_on_either_side() {
    let group_bytes = 100 * MIB;
    let with_log = |log_bytes| {
        let log_bytes = Some(log_bytes);
        let group_bytes = Some(group_bytes);
        Layout::plan(
            1 << 30,
            &LayoutOptions { group_bytes, log_bytes, ..LayoutOptions::new(LayoutKind::ManyLogs) },
        )
    };
    assert!(with_log(group_bytes - 8192).is_ok());
    let refused = with_log(group_bytes - 4096).unwrap_err();
    assert_eq!(refused.field, LayoutField::LogBytes);
    assert!(refused.expected.ends_with(&format!("to {}", group_bytes - 8192)), "{refused}");
}

#[test]
fn a_log_larger_than_the_device_never_overflows() {
    for log_bytes in [u64::MAX, u64::MAX - 4095, DEVICE_BYTES_MAX, 1 << 40] {
        for kind in [LayoutKind::OneLog, LayoutKind::ManyLogs] {
            for group_bytes in [None, Some(100 * MIB), Some(u64::MAX - 4095)] {
                if kind == LayoutKind::OneLog && group_bytes.is_some() {
                    continue;
                }
                let log_bytes = Some(log_bytes);
                let options = LayoutOptions { group_bytes, log_bytes, ..LayoutOptions::new(kind) };
                assert!(Layout::plan(1 << 30, &options).is_err(), "{options:?}");
            }
        }
    }
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![DEVICE_BYTES_MIN..1 << 31, DEVICE_BYTES_MIN..1 << 38]
}

proptest! {
    #[test]
    fn any_size_that_is_accepted_is_laid_out_soundly(
        device_bytes in sizes(),
        group_bytes in prop::option::of(1_u64..2000),
        log_bytes in prop::option::of(1_u64..200),
        units in prop::sample::select(vec![(512, 512), (512, 4096), (4096, 4096)]),
    ) {
        let (sector_bytes, log_block_bytes) = units;
        let options = LayoutOptions {
            kind: LayoutKind::ManyLogs,
            sector_bytes,
            log_block_bytes,
            group_bytes: group_bytes.map(|n| n * 364 * 4096),
            log_bytes: log_bytes.map(|n| n * 91 * 4096),
            non_shingled_bytes: None,
            data_parts: DataParts::NONE,
            fragments: false,
        };
        let device_bytes = device_bytes - device_bytes % u64::from(sector_bytes);
        if let Ok(layout) = Layout::plan(device_bytes, &options) {
            prop_assert_eq!(layout.validate(), Ok(()));
            prop_assert!(group_bytes.is_none() || options.group_bytes == Some(layout.group_bytes));
            prop_assert!(log_bytes.is_none() || options.log_bytes == Some(layout.log_bytes));
            assert_one_use_per_byte(&layout);
        }
    }

    #[test]
    fn any_shingled_disk_that_is_accepted_is_laid_out_soundly(
        device_bytes in sizes(),
        free_thousandths in 0_u64..1000,
        log_bytes in prop::option::of(1_u64..200),
        kind in prop::sample::select(vec![LayoutKind::OneLogApart, LayoutKind::ManyLogsApart]),
    ) {
        let device_bytes = device_bytes - device_bytes % 512;
        let free_bytes = device_bytes / 1000 * free_thousandths / 512 * 512;
        let options = LayoutOptions {
            log_bytes: log_bytes.map(|n| n * 91 * 4096),
            non_shingled_bytes: Some(free_bytes),
            ..LayoutOptions::new(kind)
        };
        if let Ok(layout) = Layout::plan(device_bytes, &options) {
            prop_assert_eq!(layout.validate(), Ok(()));
            prop_assert!(log_bytes.is_none() || options.log_bytes == Some(layout.log_bytes));
            assert_one_use_per_byte(&layout);
            // Logs and snapshots lie where it is not shingled, data where it is.
            let last_log = layout.log_offset(layout.log_count() - 1).unwrap();
            prop_assert!(last_log + layout.log_bytes <= free_bytes);
            prop_assert!(layout.home(0).unwrap().device_offset >= free_bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_numbers_are_refused_or_safe_to_use(
        layout in arbitrary_layout(),
        at in any::<u64>(),
    ) {
        if layout.validate().is_ok() {
            let _ = (layout.region(at), layout.group_of(at), layout.home(at));
            let _ = (layout.log_block_offset(at as u32, (at >> 32) as u32), layout.client_bytes());
            prop_assert!(layout.logs_near(at).take(3).count() <= 3);
            let end = layout.client_bytes();
            let last = layout.home(end - 512).unwrap();
            prop_assert!(last.device_offset + 512 <= layout.superblock_offsets()[2]);
        }
    }
}

/// Eleven numbers, most of them plausible, so that one layout in fifteen or so passes the gate.
fn arbitrary_layout() -> impl Strategy<Value = Layout> {
    let offset = || {
        prop_oneof![
            12 => (0_u64..400).prop_map(|n| n * MIB),
            2 => (0_u64..1 << 20).prop_map(|n| n * 4096),
            1 => any::<u64>(),
        ]
    };
    let unit = || prop_oneof![6 => Just(4096_u32), 3 => Just(512), 1 => any::<u32>()];
    let count = prop_oneof![5 => 0_u32..100, 1 => any::<u32>()];
    let data = prop_oneof![2 => Just(0), 1 => offset()];
    let offsets = (offset(), offset(), offset(), offset(), offset(), (offset(), data));
    (SIZES.len()..2 * SIZES.len(), unit(), unit(), offsets, count).prop_map(
        |(size, sector_bytes, log_block_bytes, offsets, group_count)| {
            let (slot, slot_bytes, gap, group_bytes, log_bytes, (odd, data)) = offsets;
            let slot_bytes = slot_bytes % (16 * MIB);
            let near = slot.wrapping_add(slot_bytes);
            let device_bytes = SIZES[size % SIZES.len()].wrapping_add(odd & 512);
            let is_far = odd & MIB != 0;
            let far = superblock_offsets(device_bytes)[2].wrapping_sub(slot_bytes);
            let second = if is_far { far } else { near };
            let groups_from = if is_far { slot } else { near };
            Layout {
                device_bytes,
                sector_bytes,
                log_block_bytes,
                slot_offsets: [slot, second],
                slot_bytes,
                groups_offset: groups_from.wrapping_add(slot_bytes).wrapping_add(gap),
                group_bytes,
                log_bytes: log_bytes / 16,
                group_count,
                data_offset: data,
                records_anywhere: false,
                data_parts: DataParts::NONE,
                fragments: odd & (2 * MIB) != 0,
            }
        },
    )
}
