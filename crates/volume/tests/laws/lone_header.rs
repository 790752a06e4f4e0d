//! A power cut between a snapshot's header and its copy, or rot of one of the two, and then rot of the other one:
//! once the volume has written anything after the first, the second must cost nothing.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_format::AckMode;
use nearhead_models::Store;

/// Which of the two places of the newest snapshot's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Copy,
}

impl Place {
    fn other(self) -> Self {
        if self == Self::Header { Self::Copy } else { Self::Header }
    }
}

/// What the volume does between the two.
#[derive(Clone, Copy, Debug)]
enum Between {
    Record,
    /// The next snapshot, whose body stands where the older one stood, and whose header a cut kept from the disk.
    SnapshotWithoutHeader,
    Stop,
}

fn options() -> Options {
    Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        ..Options::new("mlb", AckMode::Durable)
    }
}

fn write(harness: &mut Harness, start: u64) {
    harness.apply(&Step::Write { start, count: 8, fua: true });
    harness.apply(&Step::Settle);
}

fn finish_snapshot(harness: &mut Harness) {
    let number = harness.volume().status().snapshot_number;
    let now = harness.now;
    harness.volume().start_snapshot(now);
    harness.drive();
    while harness.volume().status().snapshot_number == number {
        assert!(harness.jump(), "no snapshot comes: {:#?}", harness.volume().status());
    }
}

/// What is on the disk now, without one place of that snapshot's header and without any newer snapshot, opened.
fn lose_and_open(mut harness: Harness, number: u64, place: Place) -> Harness {
    let layout = harness.volume().superblock().layout;
    let mut image = harness.volume().disk().image();
    let offset_of = |number: u64, place: Place| match place {
        Place::Header => layout.slot_offsets[(number % 2) as usize],
        Place::Copy => layout.snapshot_copy_offset((number % 2) as usize),
    };
    let mut lost = vec![offset_of(number, place)];
    if harness.volume().status().snapshot_number > number {
        lost.extend([Place::Header, Place::Copy].map(|place| offset_of(number + 1, place)));
    }
    for offset in lost {
        image.write(offset + 32, &[0xa5; 8]).unwrap();
    }
    let disk = harness.options.disk_with(image);
    let options = Options { is_damaged: true, ..harness.options };
    let mut opened = Harness::resume(options, disk, harness.oracle);
    assert_eq!(opened.volume().status().snapshot_number, number, "the snapshot with one header");
    opened
}

fn lost_one_after_the_other(first: Place, between: Between) {
    println!("{first:?} is lost, then {between:?}, then the other one is lost");
    let mut harness = Harness::new(options());
    write(&mut harness, 64);
    finish_snapshot(&mut harness);
    write(&mut harness, 128);
    finish_snapshot(&mut harness);
    let number = harness.volume().status().snapshot_number;
    let mut harness = lose_and_open(harness, number, first);
    match between {
        Between::Record => write(&mut harness, 256),
        Between::SnapshotWithoutHeader => finish_snapshot(&mut harness),
        Between::Stop => harness.apply(&Step::Restart),
    }
    // A stop that had something to say wrote one more.
    let newest = harness.volume().status().snapshot_number;
    let number = if matches!(between, Between::Stop) { newest } else { number };
    lose_and_open(harness, number, first.other());
}

#[test]
fn a_snapshot_that_lost_one_of_its_two_headers_has_two_again_before_anything_relies_on_it() {
    for first in [Place::Header, Place::Copy] {
        for between in [Between::Record, Between::SnapshotWithoutHeader, Between::Stop] {
            lost_one_after_the_other(first, between);
        }
    }
}
