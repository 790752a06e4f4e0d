//! A record that a power cut tore must not become whole later. Its sequence is used again, perhaps in another log;
//! if a later write to its place, torn as well, mended it, two records would have one sequence, and the one that was
//! never acknowledged could be taken.

use crate::support::disk::{Fault, FaultKind};
use crate::support::harness::{Harness, Options};
use crate::support::steps::Step;
use nearhead_disk::Payload;
use nearhead_engine::Operation;
use nearhead_format::AckMode;
use nearhead_format::record::peek;
use nearhead_models::{MemoryStore, Store};

/// Where the torn record is written, and where the acknowledged ones are, in sectors.
const TORN: u64 = 16;
const ACKNOWLEDGED: [u64; 2] = [0, 48];

fn write(harness: &mut Harness, start: u64) {
    harness.apply(&Step::Write { start, count: 8, fua: true });
}

/// A long write moves the head there, so that the next record goes to the log nearest to it.
fn move_head(harness: &mut Harness, offset: u64) {
    let data = Payload::Zeros(512 << 10);
    harness.send(Operation::Write { offset, data, fua: true });
    harness.apply(&Step::Settle);
}

/// The log and device byte of the newest record whose beginning stands in a log.
fn newest_record(harness: &mut Harness, image: &MemoryStore) -> (u32, u64) {
    let layout = harness.volume().superblock().layout;
    let places = (0..layout.log_count())
        .flat_map(|log| (0..layout.log_blocks()).map(move |position| (log, position)));
    let found = places.filter_map(|(log, position)| {
        let offset = layout.log_block_offset(log, position)?;
        let mut bytes = [0; 512];
        image.read(offset, &mut bytes).unwrap();
        peek(&bytes).ok().map(|found| (found.sequence, log, offset))
    });
    let (_, log, offset) = found.max().expect("a record was written");
    (log, offset)
}

fn flip(image: &mut MemoryStore, offset: u64) {
    let mut byte = [0];
    image.read(offset, &mut byte).unwrap();
    image.write(offset, &[byte[0] ^ 0x10]).unwrap();
}

fn options() -> Options {
    Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        ..Options::new("mlb", AckMode::Durable)
    }
}

fn far(harness: &mut Harness) -> u64 {
    (harness.volume().superblock().layout.client_bytes() - (2 << 20)) / 4096 * 4096
}

/// A volume opened on a disk whose last record is torn at this byte of it; and in which log that is, and where.
fn opened_with_a_torn_record(byte: u64) -> (Harness, u32, u64) {
    let mut harness = Harness::new(options());
    let far = far(&mut harness);
    // The far log is claimed, then the head comes back.
    for _ in 0..20 {
        move_head(&mut harness, far);
        write(&mut harness, ACKNOWLEDGED[0]);
        harness.apply(&Step::Settle);
    }
    move_head(&mut harness, 4 << 20);
    write(&mut harness, TORN);
    harness.drive();
    let mut image = harness.volume().disk().image();
    let (log, torn) = newest_record(&mut harness, &image);
    flip(&mut image, torn + byte);
    (Harness::resume(options(), options().disk_with(image), harness.oracle), log, torn)
}

/// Mends the torn record after another one has got its sequence, and the power went.
fn torn_and_mended_at(byte: u64, seed: u64) {
    let (mut harness, torn_log, torn) = opened_with_a_torn_record(byte);
    let far = far(&mut harness);
    move_head(&mut harness, far);
    write(&mut harness, ACKNOWLEDGED[1]);
    harness.apply(&Step::Settle);
    harness.apply(&Step::Cut { seed });
    let mut image = harness.volume().disk().image();
    let (log, _) = newest_record(&mut harness, &image);
    assert!(log > torn_log, "the record is in log {log}, and is no trial of log {torn_log}");
    flip(&mut image, torn + byte);
    Harness::resume(options(), options().disk_with(image), harness.oracle);
}

#[test]
fn a_torn_record_that_becomes_whole_takes_nothing_from_the_one_that_got_its_sequence() {
    // What the header says, its padding, and its payload.
    for byte in [70, 511, 512 + 100] {
        (0..8).for_each(|seed| torn_and_mended_at(byte, seed));
    }
}

#[test]
fn no_record_is_written_before_a_torn_one_is_overwritten() {
    for sticky in [false, true] {
        let (mut harness, _, torn) = opened_with_a_torn_record(511);
        let (kind, range) = (FaultKind::Writes, Some(torn..torn + 512));
        let records = harness.volume().status().record_sequence;
        harness.apply(&Step::Fail(Fault { kind, range, after: 0, sticky, has_effect: false }));
        write(&mut harness, ACKNOWLEDGED[1]);
        harness.apply(&Step::Settle);
        let status = harness.volume().status();
        let failure = status.failure.unwrap_or_default();
        assert_eq!(failure.contains(&format!("device byte {torn}")), sticky, "{failure:?}");
        assert_eq!(status.record_sequence, records + u64::from(!sticky));
    }
}
