//! The newer of the two snapshot slots rots, header and copy, and the volume opens from the older one: everything
//! acknowledged must still stand, and nothing that a later write took back may come again. So what a snapshot
//! leaves out must stay in the records until *both* slots leave it out.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::{SPAN_SECTORS, Step};
use nearhead_format::AckMode;
use nearhead_models::Store;

/// One block that is logged first, and the same as a part of what is too long for the log.
const SMALL: (u64, u64) = (64, 8);
const LARGE: (u64, u64) = (0, 1024);

fn options(ack: AckMode) -> Options {
    // Snapshots come when a test asks for them.
    Options { swap_above_pct: None, snapshot_after_bytes: 64 << 20, ..Options::new("mlb", ack) }
}

/// Writes a snapshot, with or without anything new in it.
fn snapshot(harness: &mut Harness) {
    let number = harness.volume().status().snapshot_number;
    let now = harness.now;
    harness.volume().start_snapshot(now);
    while harness.volume().status().snapshot_number == number {
        assert!(harness.jump(), "no snapshot comes: {:#?}", harness.volume().status());
    }
}

/// Everything asked for is durable, then the newest snapshot is damaged, and the volume opens without it. The
/// harness compares what it reads with what was acknowledged.
fn rot_the_newest_and_open(mut harness: Harness) -> Harness {
    harness.apply(&Step::Settle);
    harness.apply(&Step::Flush);
    harness.apply(&Step::Settle);
    let number = harness.volume().status().snapshot_number;
    let layout = harness.volume().superblock().layout;
    let slot = (number % 2) as usize;
    let mut image = harness.volume().disk().image();
    for offset in [layout.slot_offsets[slot], layout.snapshot_copy_offset(slot)] {
        image.write(offset + 32, &[0xa5; 8]).unwrap();
    }
    let disk = harness.options.disk_with(image);
    Harness::resume(harness.options, disk, harness.oracle)
}

/// What may take a logged copy back: a longer write in place, a trim, zeroes.
fn take_back(number: usize, fua: bool) -> Step {
    let (start, count) = LARGE;
    match number {
        0 => Step::Write { start, count, fua },
        1 => Step::Trim { start, count, fua },
        _ => Step::Zeroes { start, count, fua },
    }
}

/// A block is logged, then a longer change takes it back, with so many snapshots before and after that.
fn rotted_after(ack: AckMode, change: &Step, before: u64, after: u64) {
    println!("{ack:?}, {change:?}, {before} snapshots before and {after} after it");
    let mut harness = Harness::new(options(ack));
    let (start, count) = SMALL;
    harness.apply(&Step::Write { start, count, fua: true });
    harness.apply(&Step::Settle);
    (0..before).for_each(|_| snapshot(&mut harness));
    harness.apply(change);
    harness.apply(&Step::Settle);
    (0..after).for_each(|_| snapshot(&mut harness));
    let mut opened = rot_the_newest_and_open(harness);
    let number = opened.volume().status().snapshot_number;
    assert_eq!(number, before + after - 1, "the damaged snapshot was used");
}

#[test]
fn a_snapshot_that_rots_brings_back_nothing_that_was_overwritten() {
    for ack in [AckMode::Durable, AckMode::Flush] {
        for (kind, fua) in (0..3).flat_map(|kind| [(kind, false), (kind, true)]) {
            for (before, after) in [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
            {
                rotted_after(ack, &take_back(kind, fua), before, after);
            }
        }
    }
}

const _: () = assert!(LARGE.0 + LARGE.1 <= SPAN_SECTORS);
