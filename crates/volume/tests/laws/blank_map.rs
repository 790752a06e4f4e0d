//! What a volume says of its blank space without reading it: while it is written, zeroed and trimmed, after restarts,
//! kills and cuts, and when the map itself is damaged or takes no write. That nothing but zeros is called zeros is
//! asserted by every restart of the harness; here it is that zeros are called so.

use crate::support::disk::{Fault, FaultKind, TestDisk};
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::seen::damage_of;
use crate::support::steps::Step;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::blank_map::{BLANK_MAP_OFFSET, BLANK_UNIT_REGIONS, BLANK_UNITS_OFFSET};
use nearhead_format::{AckMode, Superblock};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use std::ops::Range;

const SECTOR: u64 = 512;
/// Sectors of the harness's regions.
const REGION: u64 = 8;

/// The runs of sectors of the whole volume that are not called zeros.
fn data_of(volume: &impl Service) -> Vec<Range<u64>> {
    let (mut at, end) = (0, volume.info().size_bytes / SECTOR);
    let mut data: Vec<Range<u64>> = Vec::new();
    while at < end {
        for extent in volume.block_status(at * SECTOR, (end - at) * SECTOR, 7) {
            let sectors = extent.len / SECTOR;
            assert!(extent.zero == extent.hole && sectors > 0 && at + sectors <= end);
            match data.last_mut().filter(|last| last.end == at) {
                _ if extent.zero => {}
                Some(last) => last.end += sectors,
                None => data.push(at..at + sectors),
            }
            at += sectors;
        }
    }
    data
}

/// Everything that goes on by itself has ended.
fn come_to_rest(harness: &mut Harness) {
    harness.apply(&Step::Settle);
    for _ in 0..1000 {
        if !harness.jump() {
            return;
        }
    }
    panic!("it never rests: {:#?}", harness.volume().status());
}

fn ends() -> [Step; 3] {
    [Step::Restart, Step::Kill, Step::Cut { seed: 5 }]
}

#[test]
fn only_what_was_written_in_place_is_data_also_after_every_kind_of_restart() {
    for (preset, end) in ["nolog", "singlelog", "mlb"].iter().flat_map(|p| ends().map(|e| (p, e))) {
        let mut harness = Harness::new(Options::new(preset, AckMode::Flush));
        assert_eq!(data_of(harness.volume()), [], "a fresh volume, {preset}");
        for start in (800..2400).step_by(400) {
            harness.apply(&Step::Write { start, count: 400, fua: true });
            harness.apply(&Step::Settle);
        }
        let written = 800..2400;
        assert_eq!(data_of(harness.volume()), std::slice::from_ref(&written), "{preset}");
        come_to_rest(&mut harness);
        harness.apply(&end);
        assert_eq!(data_of(harness.volume()), [written], "{preset}, after {end:?}");
    }
}

#[test]
fn a_cut_in_the_middle_of_a_stream_costs_no_more_than_what_was_taken_back_ahead_of_it() {
    for seed in 0..8 {
        let mut harness = Harness::new(Options::new("nolog", AckMode::Durable));
        for start in (0..seed * 512).step_by(64) {
            harness.apply(&Step::Write { start, count: 64, fua: false });
            harness.apply(&Step::Settle);
        }
        harness.apply(&Step::Cut { seed });
        let data = data_of(harness.volume());
        let end = data.last().map_or(0, |range| range.end);
        assert!(data.len() <= 1 && end <= 4 * seed * 512 + 64, "seed {seed}: {data:?}");
    }
}

#[test]
fn a_logged_block_is_data_of_its_own_size_until_it_is_home_and_logged_zeros_never_are() {
    let mut harness = Harness::new(Options::new("mlb", AckMode::Durable));
    harness.apply(&Step::Write { start: 20, count: 2, fua: true });
    harness.apply(&Step::Zeroes { start: 96, count: 40, fua: true });
    harness.apply(&Step::Settle);
    assert_eq!(data_of(harness.volume()), [20..22]);
    harness.apply(&Step::Kill);
    assert_eq!(data_of(harness.volume()), [20..22]);
    harness.apply(&Step::Checkpoint { everything: true });
    come_to_rest(&mut harness);
    assert_eq!(data_of(harness.volume()), [16..24], "its region is not blank any more");
    harness.apply(&Step::Cut { seed: 1 });
    assert_eq!(data_of(harness.volume()), [16..24]);
}

#[test]
fn what_is_staged_and_in_no_log_yet_is_data() {
    let mut harness = Harness::new(Options::new("mlb", AckMode::Flush));
    harness.apply(&Step::Write { start: 80, count: 8, fua: false });
    harness.drive();
    assert_eq!(data_of(harness.volume()), [80..88]);
}

#[test]
fn whole_regions_that_are_zeroed_are_blank_again_and_parts_of_them_are_not() {
    for end in ends() {
        let mut harness = Harness::new(Options::new("nolog", AckMode::Flush));
        harness.apply(&Step::Write { start: 160, count: 320, fua: true });
        harness.apply(&Step::Settle);
        // Its first and last regions only in part.
        harness.apply(&Step::Zeroes { start: 204, count: 64, fua: false });
        harness.apply(&Step::Settle);
        let left = [160..208, 264..480];
        assert_eq!(data_of(harness.volume()), left);
        harness.apply(&Step::Flush);
        come_to_rest(&mut harness);
        harness.apply(&end);
        assert_eq!(data_of(harness.volume()), left, "after {end:?}");
        // Written anew they are data, and the promise is taken back first.
        harness.apply(&Step::Write { start: 220, count: 8, fua: true });
        harness.apply(&Step::Settle);
        harness.apply(&Step::Cut { seed: 3 });
        let data = data_of(harness.volume());
        assert!(data.iter().any(|range| range.start <= 220 && range.end >= 228), "{data:?}");
    }
}

fn failing(range: Range<u64>) -> Step {
    let kind = FaultKind::Writes;
    Step::Fail(Fault { kind, range: Some(range), after: 0, sticky: true, has_effect: false })
}

#[test]
fn a_map_that_takes_no_write_is_given_up_and_stops_no_client() {
    for preset in ["nolog", "mlb"] {
        let mut harness = Harness::new(Options::new(preset, AckMode::Durable));
        harness.apply(&failing(BLANK_UNITS_OFFSET..1 << 20));
        harness.apply(&Step::Write { start: 0, count: 256, fua: true });
        harness.apply(&Step::Settle);
        harness.apply(&Step::Write { start: 640, count: 8, fua: true });
        harness.apply(&Step::Checkpoint { everything: true });
        come_to_rest(&mut harness);
        assert_eq!(harness.volume().status().stats.requests_failed, 0, "{preset}");
        let told = damage_of(&harness.volume().status());
        assert!(told.contains("blank map: could not be written"), "{told}");
        harness.apply(&Step::Cut { seed: 1 });
        let all = harness.volume().info().size_bytes / SECTOR;
        assert_eq!(data_of(harness.volume()), [0..all], "{preset}: it promises nothing now");
    }
}

#[test]
fn a_map_that_can_not_even_be_given_up_fails_what_waits_and_nothing_else() {
    let mut harness = Harness::new(Options::new("nolog", AckMode::Durable));
    harness.apply(&Step::Write { start: 0, count: 8, fua: true });
    harness.apply(&Step::Settle);
    harness.apply(&failing(BLANK_MAP_OFFSET..1 << 20));
    harness.apply(&Step::Write { start: 0, count: 8, fua: true });
    harness.apply(&Step::Settle);
    assert_eq!(harness.volume().status().stats.requests_failed, 0, "it was data");
    harness.apply(&Step::Write { start: 1600, count: 8, fua: true });
    harness.apply(&Step::Settle);
    assert_eq!(harness.volume().status().stats.requests_failed, 1);
    assert_eq!(harness.volume().engine().failure(), None, "the volume goes on");
    harness.volume().disk_mut().mend();
    harness.apply(&Step::Write { start: 1600, count: 8, fua: true });
    harness.apply(&Step::Settle);
    assert_eq!(harness.volume().status().stats.requests_failed, 1);
    harness.apply(&Step::Cut { seed: 1 });
}

/// A volume on an image, opened; what it says of damage.
fn open(options: &Options, image: MemoryStore) -> (Volume<TestDisk>, Nanos, String) {
    let disk = TestDisk::with_image(options.disk_properties(), image);
    let (mut volume, now) =
        Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| options.configure(config))
            .unwrap();
    let now = volume.run_until_open(now).unwrap();
    let told = damage_of(&volume.status());
    (volume, now, told)
}

fn write(volume: &mut Volume<TestDisk>, now: Nanos, sector: u64) {
    let data = crate::support::content::payload(sector, REGION, 9);
    let operation = Operation::Write { offset: sector * SECTOR, data, fua: true };
    volume.submit(Request { id: RequestId(1), operation }, now);
    for _ in 0..100 {
        volume.drive(now);
        if let Some(reply) = volume.poll_reply() {
            return assert!(reply.result.is_ok(), "{:?}", reply.result);
        }
    }
    panic!("the write is not answered");
}

fn flipped(image: &mut MemoryStore, offset: u64) {
    let mut byte = [0];
    image.read(offset, &mut byte).unwrap();
    image.write(offset, &[byte[0] ^ 1]).unwrap();
}

#[test]
fn a_unit_that_is_not_sound_counts_as_data_is_told_and_is_sound_after_the_next_write() {
    let options = Options::new("nolog", AckMode::Durable);
    let mut image = options.disk().image();
    flipped(&mut image, BLANK_UNITS_OFFSET + 40);
    let (mut volume, now, told) = open(&options, image.clone());
    assert!(told.contains("blank map: 1 of 8 units are not sound, the first unit 0"), "{told}");
    assert_eq!(data_of(&volume), [0..BLANK_UNIT_REGIONS * REGION]);
    write(&mut volume, now, 80);
    let (volume, _, told) = open(&options, volume.into_disk().image());
    assert_eq!(told, "");
    assert_eq!(data_of(&volume), [0..BLANK_UNIT_REGIONS * REGION], "nobody knows more");
    // What a disk read wrongly once it may read well later: what was promised then must not be believed.
    let mut random = SplitMix::new(1);
    let (mut volume, now, _) = open(&options, image);
    write(&mut volume, now, 160);
    let mut disk = volume.into_disk();
    disk.power_cut(&mut random);
    let mut unit = [1; 512];
    disk.image().read(BLANK_UNITS_OFFSET, &mut unit).unwrap();
    assert!(unit[24..504].iter().all(|byte| *byte == 0), "all of its promises are taken back");
}

#[test]
fn a_header_that_is_not_sound_promises_nothing_and_is_gone_before_anything_is_written_home() {
    let options = Options::new("nolog", AckMode::Durable);
    let mut image = options.disk().image();
    flipped(&mut image, BLANK_MAP_OFFSET + 32);
    let (mut volume, now, told) = open(&options, image);
    assert!(told.contains("blank map at device byte 131072"), "{told}");
    let all = volume.info().size_bytes / SECTOR;
    assert_eq!(data_of(&volume), [0..all]);
    write(&mut volume, now, 80);
    let image = volume.into_disk().image();
    let mut header = [1; 4096];
    image.read(BLANK_MAP_OFFSET, &mut header).unwrap();
    assert_eq!(header, [0; 4096], "what was misread once must not be read again");
    let (volume, _, told) = open(&options, image);
    assert_eq!((data_of(&volume), told.as_str()), (vec![0..all], ""));
}

#[test]
fn a_volume_made_before_there_were_blank_maps_is_all_data() {
    let options = Options::new("mlb", AckMode::Durable);
    let mut harness = Harness::new(options.clone());
    let superblock = Superblock { feature_ro_compat: 0, ..harness.volume().superblock().clone() };
    let mut image = harness.volume().disk().image();
    for (copy, offset) in (0..).zip(superblock.layout.superblock_offsets()) {
        image.write(offset, &superblock.encode(copy)).unwrap();
    }
    let (volume, _, told) = open(&options, image);
    let all = volume.info().size_bytes / SECTOR;
    assert_eq!((data_of(&volume), told.as_str()), (vec![0..all], ""));
}
