//! Tests of the superblock codec and of the choice between copies.

use super::*;
use crate::damage::{apply, assert_same_bytes, edits, for_every_bit_flip, golden};
use crate::layout::SLOT_BYTES_MIN;
use crate::{LayoutKind, LayoutOptions};
use proptest::prelude::*;

const VOLUME: VolumeId = *b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf";

fn planned() -> Layout {
    Layout::plan((1000 << 20) + 512 * 3, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap()
}

/// As new volumes are: a slot at either end, and logs that tell all.
fn far() -> Superblock {
    Superblock {
        layout: planned(),
        feature_incompat: FEATURE_FAR_SLOT,
        feature_ro_compat: FEATURE_LOGS_TELL_ALL,
        ..sample()
    }
}

fn sample() -> Superblock {
    Superblock {
        volume_id: VOLUME,
        generation: 7,
        created_unix_s: 1_700_000_000,
        layout: planned().with_near_slot(),
        preset: PresetNumber(2),
        ack: AckMode::Flush,
        logged_write_bytes_max: 256 * 1024,
        feature_incompat: 0,
        feature_ro_compat: 0,
        label: Label::new("größter Log").unwrap(),
        map_device_id: Some(std::array::from_fn(|i| i as u8 + 16)),
    }
}

/// A volume on a shingled disk, of which the first 64 MiB are not shingled.
fn shingled() -> Superblock {
    let options = LayoutOptions {
        non_shingled_bytes: Some(64 << 20),
        log_bytes: Some(1 << 20),
        ..LayoutOptions::new(LayoutKind::ManyLogsApart)
    };
    let layout = Layout::plan(1000 << 20, &options).unwrap().with_records_in_order();
    Superblock { layout, preset: PresetNumber(4), map_device_id: None, ..sample() }
}

/// A volume whose data is on two other devices.
fn with_data_devices() -> Superblock {
    let options = LayoutOptions {
        data_parts: DataParts::of(&[200 << 20, 30 << 20]).unwrap(),
        ..LayoutOptions::new(LayoutKind::LogDevice)
    };
    let layout = Layout::plan(100 << 20, &options).unwrap();
    let (preset, feature_incompat) = (PresetNumber(6), features_of(&layout));
    Superblock { layout, preset, feature_incompat, map_device_id: None, ..sample() }
}

/// The same with one more device, of logs.
fn with_log_devices() -> Superblock {
    let parts = DataParts::of(&[200 << 20, 30 << 20, 80 << 20]).unwrap();
    let options = LayoutOptions {
        data_parts: parts.with_log_devices(1).unwrap(),
        ..LayoutOptions::new(LayoutKind::LogDevice)
    };
    let layout = Layout::plan(100 << 20, &options).unwrap();
    Superblock { layout, feature_incompat: features_of(&layout), ..with_data_devices() }
}

/// A volume whose records may have fragments.
fn with_fragments() -> Superblock {
    let options = LayoutOptions { fragments: true, ..LayoutOptions::new(LayoutKind::ManyLogs) };
    let layout = Layout::plan(planned().device_bytes, &options).unwrap();
    Superblock { layout, feature_incompat: features_of(&layout), ..far() }
}

fn superblock() -> impl Strategy<Value = Superblock> {
    let preset = (any::<u16>().prop_map(PresetNumber), prop::sample::select(&LayoutKind::ALL[..]));
    let ack = prop::sample::select(vec![AckMode::Durable, AckMode::Flush]);
    let sizes = (1_u64 << 14..1 << 34, any::<bool>());
    let names = ("[^\0]{0,16}", prop::option::of(any::<VolumeId>()));
    (any::<(VolumeId, u64, u64, u32, u64)>(), preset, ack, sizes, names).prop_map(
        |(numbers, (preset, kind), ack, (device_blocks, small_sectors), (label, map_device_id))| {
            let (volume_id, generation, created_unix_s, logged_write_bytes_max, features) = numbers;
            let sector_bytes = if small_sectors { 512 } else { 4096 };
            let non_shingled_bytes = Some(device_blocks / 8 * 4096);
            let parts: &[u64] =
                if kind.is_for_data_devices() { &[4 << 30, 3 << 20, 1 << 30] } else { &[] };
            let fragments = features & 8 != 0 && kind.has_logs() && !kind.is_chain();
            let log_devices = u32::from(!parts.is_empty() && features & 4 != 0);
            let data_parts = DataParts::of(parts).unwrap().with_log_devices(log_devices).unwrap();
            let options = LayoutOptions {
                sector_bytes,
                non_shingled_bytes,
                data_parts,
                fragments,
                ..LayoutOptions::new(kind)
            };
            let planned = Layout::plan(device_blocks * 4096, &options).unwrap();
            let layout = if features >> 63 == 0 { planned } else { planned.with_near_slot() };
            Superblock {
                volume_id,
                generation,
                created_unix_s,
                layout,
                preset,
                ack,
                logged_write_bytes_max,
                feature_incompat: features_of(&layout),
                feature_ro_compat: features & (features >> 32) & 3,
                label: Label::new(label).unwrap(),
                map_device_id: map_device_id.filter(|id| *id != [0; 16]),
            }
        },
    )
}

#[test]
fn a_superblock_has_the_bytes_that_an_independent_writer_gives_it() {
    let expected = golden(include_str!("../../golden/superblock.hex"));
    assert_same_bytes(&sample().encode(2), &expected);
    assert_eq!(Superblock::decode(&expected, 2), Ok(sample()));
    let expected = golden(include_str!("../../golden/superblock_shingled.hex"));
    assert_same_bytes(&shingled().encode(2), &expected);
    assert_eq!(Superblock::decode(&expected, 2), Ok(shingled()));
    let expected = golden(include_str!("../../golden/superblock_far_slot.hex"));
    assert_same_bytes(&far().encode(2), &expected);
    assert_eq!(Superblock::decode(&expected, 2), Ok(far()));
    let expected = golden(include_str!("../../golden/superblock_data_devices.hex"));
    assert_same_bytes(&with_data_devices().encode(2), &expected);
    assert_eq!(Superblock::decode(&expected, 2), Ok(with_data_devices()));
    let expected = golden(include_str!("../../golden/superblock_log_devices.hex"));
    assert_same_bytes(&with_log_devices().encode(2), &expected);
    assert_eq!(Superblock::decode(&expected, 2), Ok(with_log_devices()));
    let expected = golden(include_str!("../../golden/superblock_fragments.hex"));
    assert_same_bytes(&with_fragments().encode(2), &expected);
    assert_eq!(Superblock::decode(&expected, 2), Ok(with_fragments()));
}

#[test]
fn the_feature_of_fragments_is_what_says_that_records_may_have_them() {
    let read = |superblock: &Superblock| Superblock::decode(&superblock.encode(0), 0);
    for (superblock, fragments) in [(with_fragments(), true), (far(), false)] {
        assert_eq!(superblock.feature_incompat & FEATURE_FRAGMENTS != 0, fragments);
        assert_eq!(read(&superblock).unwrap().layout.fragments, fragments);
    }
    for_every_bit_flip(&with_fragments().encode(0), |mutant, bit| {
        assert!(Superblock::decode(mutant, 0).is_err(), "bit {bit}");
    });
    // Slots without the room, and volumes without homes or without logs.
    let set = |superblock: Superblock| {
        let feature_incompat = superblock.feature_incompat | FEATURE_FRAGMENTS;
        read(&Superblock { feature_incompat, ..superblock }).unwrap_err().to_string()
    };
    let layout = Layout { slot_bytes: SLOT_BYTES_MIN, ..far().layout.with_near_slot() };
    let feature_incompat = features_of(&layout);
    let told = set(Superblock { layout, feature_incompat, ..far() });
    assert!(told.contains("slot_bytes: expected at least 1114112, with room"), "{told}");
    for kind in [LayoutKind::NoLogs, LayoutKind::Chain] {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(kind)).unwrap();
        let told = set(Superblock { layout, feature_incompat: features_of(&layout), ..sample() });
        assert!(told.contains("fragments: expected none in a volume without homes"), "{told}");
    }
}

#[test]
fn log_devices_that_leave_no_data_device_or_that_no_feature_tells_of_are_refused() {
    let refused = |change: &dyn Fn(&mut [u8; SEALED_BYTES])| {
        let mut block = with_log_devices().encode(0);
        change(&mut block);
        seal(&mut block);
        Superblock::decode(&block, 0).unwrap_err().to_string()
    };
    for count in [0_u8, 3, 255] {
        let told = refused(&|block| block[LOG_DEVICES_AT] = count);
        assert!(told.contains("log_count: expected 1 to 2"), "{told}");
    }
    let told = refused(&|block| block[LOG_DEVICES_AT] = 2);
    assert!(told.contains("expected") && !told.contains("reserved"), "another layout: {told}");
    // Without the feature its logs are more than its own device has, and the number is none.
    let told = refused(&|block| block[129] &= !16);
    assert!(told.contains("group_count") || told.contains("reserved"), "{told}");
    let told = refused(&|block| block[129] &= !4);
    assert!(told.contains("feature_incompat"), "{told}");
}

#[test]
fn data_devices_that_nobody_can_have_or_that_no_feature_tells_of_are_refused() {
    let refused = |change: &dyn Fn(&mut [u8; SEALED_BYTES])| {
        let mut block = with_data_devices().encode(0);
        change(&mut block);
        seal(&mut block);
        Superblock::decode(&block, 0).unwrap_err().to_string()
    };
    for count in [0_u8, 16, 255] {
        let told = refused(&|block| block[DATA_COUNT_AT] = count);
        assert!(told.contains("data_count: expected 1 to 15"), "{told}");
    }
    let told = refused(&|block| block[DATA_COUNT_AT] = 1);
    assert!(told.contains("group_count") || told.contains("reserved"), "{told}");
    let told = refused(&|block| block[DATA_BYTES_AT] = 1);
    assert!(told.contains("data_parts"), "{told}");
    let told = refused(&|block| block[DATA_COUNT_AT + 4] = 1);
    assert!(told.contains("reserved"), "{told}");
    // Without the feature it is a device that ends before its data.
    let told = refused(&|block| block[129] &= !4);
    assert!(told.contains("expected"), "{told}");
}

#[test]
fn where_the_second_slot_is_and_what_the_features_say_must_agree() {
    for wrong in [
        Superblock { feature_incompat: 0, ..far() },
        Superblock { feature_incompat: FEATURE_FAR_SLOT, ..sample() },
        Superblock { feature_incompat: FEATURE_FAR_SLOT, ..shingled() },
    ] {
        let refused = Superblock::decode(&wrong.encode(0), 0).unwrap_err().to_string();
        assert!(
            refused.contains("feature_incompat: expected bit 0x100 if and only if"),
            "{refused}"
        );
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    for_every_bit_flip(&sample().encode(0), |mutant, bit| {
        assert!(Superblock::decode(mutant, 0).is_err(), "bit {bit}");
    });
}

#[test]
fn every_truncation_is_detected() {
    let bytes = sample().encode(0);
    for len in 0..bytes.len() {
        let found = Superblock::decode(&bytes[..len], 0);
        assert_eq!(found, Err(SuperblockError::Length { found: len }));
    }
}

#[test]
fn a_copy_in_another_copys_place_is_refused() {
    for written in 0..COPIES {
        for place in 0..COPIES {
            let found = Superblock::decode(&sample().encode(written), place);
            if written == place {
                assert_eq!(found, Ok(sample()));
            } else {
                let error = SuperblockError::Misdirected { expected: place, found: written };
                assert_eq!(found, Err(error));
            }
        }
    }
}

#[test]
fn a_newer_version_is_named_with_the_version_that_is_read() {
    let mut block = sample().encode(0);
    put(&mut block, 8, &2_u32.to_le_bytes());
    seal(&mut block);
    let error = Superblock::decode(&block, 0).unwrap_err();
    assert_eq!(error, SuperblockError::Version { expected: 1, found: 2 });
    assert!(error.to_string().contains("reads 1, found 2"), "{error}");
}

#[test]
fn unknown_features_are_refused_or_make_the_volume_read_only() {
    let needed = Superblock { feature_incompat: 5, ..sample() };
    let refused = Superblock::decode(&needed.encode(0), 0);
    assert_eq!(refused, Err(SuperblockError::Features { unknown: 5 }));

    let newer = Superblock { feature_ro_compat: 1 << 40, ..sample() };
    let mut block = newer.encode(0);
    put(&mut block, USED_BYTES, b"what a newer program keeps here");
    seal(&mut block);
    let read = Superblock::decode(&block, 0).unwrap();
    assert!(read.must_be_read_only() && !sample().must_be_read_only());
    assert_eq!(read, newer);

    let known = Superblock { feature_ro_compat: FEATURE_BLANK_MAP, ..sample() };
    let read = Superblock::decode(&known.encode(0), 0).unwrap();
    assert!(read.has_blank_map() && !read.must_be_read_only() && !newer.has_blank_map());
}

#[test]
fn a_preset_that_nobody_knows_is_a_number_like_any_other() {
    for number in [0, 1, 5, 0x1234, u16::MAX] {
        let superblock = Superblock { preset: PresetNumber(number), ..sample() };
        let block = superblock.encode(0);
        assert_eq!(block[116..118], number.to_le_bytes());
        assert_eq!(Superblock::decode(&block, 0), Ok(superblock));
    }
}

#[test]
fn fields_that_contradict_each_other_are_named() {
    let cases: [(usize, &[u8], &str); 8] = [
        (48, &[0; 8], "device_bytes"),
        (56, &[0; 4], "sector_bytes"),
        (64, &[0; 8], "slot_offset"),
        (96, &[0xff; 8], "group_bytes"),
        (112, &[0xff; 4], "group_count"),
        (118, &[2], "ack"),
        (144, &[0; 8], "client_bytes"),
        (232, &[1], "data_offset"),
    ];
    for (at, bytes, name) in cases {
        let mut block = sample().encode(0);
        put(&mut block, at, bytes);
        seal(&mut block);
        let error = Superblock::decode(&block, 0).unwrap_err();
        assert!(error.to_string().contains(name), "at {at}: {error}");
    }
    for at in [119, 124, 240, 4091] {
        let mut block = sample().encode(0);
        put(&mut block, at, &[1]);
        seal(&mut block);
        let error = Superblock::decode(&block, 0).unwrap_err();
        assert!(error.to_string().contains("reserved"), "at {at}: {error}");
    }
}

#[test]
fn labels_are_at_most_64_bytes_without_nul() {
    assert!(Label::new("x".repeat(64)).is_ok());
    assert!(Label::new("x".repeat(65)).is_err());
    assert!(Label::new("ä".repeat(33)).is_err());
    assert!(Label::new("a\0b").is_err());
    assert_eq!(Label::new("Archive ä").unwrap().to_string(), "Archive ä");
    for bad in [&b"\xff\0"[..], b"a\0b"] {
        let mut block = sample().encode(0);
        put(&mut block, LABEL_AT, bad);
        seal(&mut block);
        assert!(Superblock::decode(&block, 0).is_err(), "{bad:?}");
    }
}

#[test]
fn of_copies_that_agree_on_all_but_their_content_the_first_counts() {
    let other = Superblock { label: Label::new("other").unwrap(), ..sample() };
    let choice = choose(&[Ok(sample()), Ok(other.clone()), Ok(other)]).unwrap();
    assert_eq!(choice, Choice { superblock: sample(), to_repair: vec![1, 2] });
}

/// What a place may hold, for the test of every combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Newest,
    Stale,
    Foreign,
    Damaged,
    Blank,
    TooNew,
    Featured,
}

fn held(what: Held, copy_index: u32) -> Result<Superblock, SuperblockError> {
    let newest = sample();
    match what {
        Held::Newest => Ok(newest),
        Held::Stale => Ok(Superblock { generation: newest.generation - 1, ..newest }),
        Held::Foreign => Ok(Superblock { volume_id: [9; 16], generation: 99, ..newest }),
        Held::Damaged => Err(SuperblockError::Checksum { expected: copy_index, found: 1 }),
        Held::Blank => Err(SuperblockError::NoMagic { found: [0; 8] }),
        Held::TooNew => Err(SuperblockError::Version { expected: 1, found: 2 }),
        Held::Featured => Err(SuperblockError::Features { unknown: 4 }),
    }
}

#[test]
fn every_combination_of_copies_has_its_answer() {
    use Held::{Blank, Damaged, Featured, Foreign, Newest, Stale, TooNew};
    let all = [Newest, Stale, Foreign, Damaged, Blank, TooNew, Featured];
    for first in all {
        for second in all {
            for third in all {
                let places = [first, second, third];
                let copies = [held(first, 0), held(second, 1), held(third, 2)];
                check_choice(places, &copies, choose(&copies));
            }
        }
    }
}

fn check_choice(
    places: [Held; 3],
    copies: &[Result<Superblock, SuperblockError>; 3],
    choice: Result<Choice, SuperblockError>,
) {
    use Held::{Damaged, Featured, Foreign, Newest, Stale, TooNew};
    let count = |kinds: &[Held]| places.iter().filter(|held| kinds.contains(held)).count();
    if let Some(newer) = places.iter().position(|held| [TooNew, Featured].contains(held)) {
        assert_eq!(choice.as_ref().err(), copies[newer].as_ref().err(), "{places:?}");
        return;
    }
    let (ours, foreign) = (count(&[Newest, Stale]), count(&[Foreign]));
    if ours + foreign == 0 {
        let error = choice.expect_err("no copy is sound");
        let damage = matches!(error, SuperblockError::Checksum { .. });
        assert_eq!(damage, count(&[Damaged]) > 0, "{places:?}: {error}");
        return;
    }
    let foreign_first = places.iter().find(|held| [Newest, Stale, Foreign].contains(held));
    let foreign_wins = foreign > ours || (foreign == ours && foreign_first == Some(&Foreign));
    let expected = match (foreign_wins, count(&[Newest])) {
        (true, _) => held(Foreign, 0),
        (false, 0) => held(Stale, 0),
        (false, _) => held(Newest, 0),
    };
    let choice = choice.unwrap();
    assert_eq!(Ok(&choice.superblock), expected.as_ref(), "{places:?}");
    for (index, copy) in (0..).zip(copies) {
        let repaired = choice.to_repair.contains(&index);
        assert_eq!(repaired, copy.as_ref() != expected.as_ref(), "{places:?} copy {index}");
    }
}

proptest! {
    #[test]
    fn any_superblock_reads_back_as_it_was_written(superblock in superblock(), copy in 0_u32..3) {
        prop_assert_eq!(Superblock::decode(&superblock.encode(copy), copy), Ok(superblock));
    }

    #[test]
    fn edits_with_a_fitting_checksum_are_refused_or_canonical(edits in edits()) {
        let mut block = sample().encode(1);
        apply(&edits, &mut block);
        seal(&mut block);
        if let Ok(decoded) = Superblock::decode(&block, 1) {
            prop_assert_eq!(decoded.layout.validate(), Ok(()));
            if !decoded.must_be_read_only() {
                prop_assert_eq!(decoded.encode(1), block);
            }
        }
    }

    #[test]
    fn random_bytes_are_refused(
        bytes in prop::collection::vec(any::<u8>(), SEALED_BYTES),
        kept in 8_usize..256,
    ) {
        prop_assert!(Superblock::decode(&bytes, 0).is_err());
        // A sound start, a random rest, a fitting checksum.
        let mut block = sample().encode(0);
        block[kept..].copy_from_slice(&bytes[kept..]);
        seal(&mut block);
        prop_assert!(Superblock::decode(&block, 0).is_err());
    }
}

#[test]
fn the_logs_tell_all_where_that_one_feature_is_set_whatever_else_is() {
    for others in [0, !FEATURE_LOGS_TELL_ALL, FEATURE_BLANK_MAP] {
        let of = |feature_ro_compat| Superblock { feature_ro_compat, ..sample() };
        assert!(!of(others).logs_tell_all(), "{others:#x}");
        assert!(of(others | FEATURE_LOGS_TELL_ALL).logs_tell_all(), "{others:#x}");
    }
}
