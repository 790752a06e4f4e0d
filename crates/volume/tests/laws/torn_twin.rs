//! A record that a power cut tore must not become whole later. Its sequence is used again, perhaps in another log;
//! if a later write to its place, torn as well, mended it, two records would have one sequence, and the one that was
//! never acknowledged could be taken.

use crate::support::disk::{Fault, FaultKind};
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::raw;
use crate::support::steps::Step;
use nearhead_disk::{BufferMut, Payload};
use nearhead_format::AckMode;
use nearhead_format::record::{NO_POSITION, RecordHeader};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;

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

/// The log and device byte of the newest record.
fn newest_record(harness: &mut Harness, image: &MemoryStore) -> (u32, u64) {
    raw::newest_record(&harness.volume().superblock().layout, image)
}

fn flip(image: &mut MemoryStore, offset: u64) {
    let mut byte = [0];
    image.read(offset, &mut byte).unwrap();
    image.write(offset, &[byte[0] ^ 0x10]).unwrap();
}

fn options() -> Options {
    options_of("mlb")
}

fn options_of(preset: &str) -> Options {
    Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        ..Options::new(preset, AckMode::Durable)
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

/// A record that one log took although it reported a failure, written again to another, both torn by the cut: whichever
/// of them becomes whole later, the record that got the sequence stays.
#[test]
fn all_that_is_left_of_a_record_written_twice_stays_torn() {
    for (mended, seed) in (0..2).flat_map(|mended| (0..4).map(move |seed| (mended, seed))) {
        let byte = 512 + 100;
        let mut harness = Harness::new(options());
        let far = far(&mut harness);
        // A log for the second copy, and one for the record after the cut.
        for place in [far / 2, far] {
            for _ in 0..20 {
                move_head(&mut harness, place / 4096 * 4096);
                write(&mut harness, ACKNOWLEDGED[0]);
                harness.apply(&Step::Settle);
            }
        }
        move_head(&mut harness, 4 << 20);
        let image = harness_image(&mut harness);
        let (before, _) = newest_record(&mut harness, &image);
        let layout = harness.volume().superblock().layout;
        // The log near the head takes the record and says that it did not.
        let near = layout.log_offset(0).unwrap();
        let range = Some(near..near + layout.log_bytes);
        let (kind, after, sticky, has_effect) = (FaultKind::Writes, 0, false, true);
        harness.apply(&Step::Fail(Fault { kind, range, after, sticky, has_effect }));
        write(&mut harness, TORN);
        harness.drive();
        // The first answer is the failure; the second copy is on its way then.
        assert!(harness.jump());
        let mut image = harness_image(&mut harness);
        let twins = records_of_newest(&mut harness, &image);
        assert!(!harness.is_settled(), "it was acknowledged: {:?}", harness.volume().status());
        assert_eq!(twins.len(), 2, "written twice, after log {before}: {twins:?}");
        for (_, offset) in &twins {
            flip(&mut image, offset + byte);
        }
        let mut harness = Harness::resume(options(), options().disk_with(image), harness.oracle);
        move_head(&mut harness, far);
        write(&mut harness, ACKNOWLEDGED[1]);
        harness.apply(&Step::Settle);
        harness.apply(&Step::Cut { seed });
        let mut image = harness_image(&mut harness);
        let (_, newest) = newest_record(&mut harness, &image);
        assert!(twins.iter().all(|(_, offset)| *offset != newest), "it is no trial");
        flip(&mut image, twins[mended].1 + byte);
        Harness::resume(options(), options().disk_with(image), harness.oracle);
    }
}

/// A client may write what looks like the beginning of records that belong there: an image of this very log.
#[test]
fn what_a_client_wrote_is_not_overwritten_however_much_it_looks_like_a_torn_record() {
    let mut harness = Harness::new(options_of("singlelog"));
    let superblock = harness.volume().superblock().clone();
    let log_block = u64::from(superblock.layout.log_block_bytes);
    let count = 8 * log_block / 512;
    let mut content = vec![0; (count * 512) as usize];
    for (number, block) in content.chunks_mut(log_block as usize).enumerate() {
        let header = RecordHeader {
            volume_id: superblock.volume_id,
            sequence: 1 << 40,
            position: 1 + number as u32,
            previous_position: NO_POSITION,
            ..RecordHeader::default()
        };
        header.encode_into(block);
        // Not whole: whoever takes it for a record takes it for a torn one.
        block[70] ^= 0x10;
    }
    let data = Payload::Bytes(BufferMut::copy_of(&content).freeze());
    harness.send(Operation::Write { offset: 0, data, fua: true });
    // A snapshot that began before the record was durable would leave it out, and with it what stands in it.
    harness.apply(&Step::Settle);
    let read = |harness: &mut Harness| {
        let (id, len) = (RequestId(u64::MAX), content.len() as u32);
        let request = Request { id, operation: Operation::Read { offset: 0, len } };
        let now = harness.now;
        harness.volume().submit(request, now);
        let reply = loop {
            let now = harness.now;
            harness.volume().drive(now);
            if let Some(reply) = harness.volume().poll_reply() {
                break reply;
            }
            harness.now = harness.volume().wake_at().expect("a read is answered").max(now);
        };
        raw::bytes_of(&reply.result.unwrap())
    };
    assert!(read(&mut harness) == content);
    // With that a recovery begins behind the record, and looks at the start of the log last.
    let (now, number) = (harness.now, harness.volume().status().snapshot_number);
    harness.volume().start_snapshot(now);
    while harness.volume().status().snapshot_number == number {
        assert!(harness.jump(), "no snapshot comes");
    }
    // Opened twice: what the first start overwrites the second one misses. The first finds all of it in the way.
    for _ in 0..2 {
        let image = harness_image(&mut harness);
        let disk = options().disk_with(image);
        let (mut volume, now) = Volume::open_in_virtual_time(disk, harness.now, |_, config| {
            options().configure(config);
        })
        .unwrap();
        harness.now = volume.run_until_open(now).unwrap();
        harness.put(volume);
        // A record, before which remains are cleared.
        let data = Payload::Zeros(512);
        let offset = 1 << 20;
        let id = RequestId(u64::MAX - 1);
        let now = harness.now;
        let operation = Operation::Write { offset, data, fua: true };
        harness.volume().submit(Request { id, operation }, now);
        harness.volume().drive(now);
        assert!(harness.volume().poll_reply().unwrap().result.is_ok());
        assert!(read(&mut harness) == content, "what a client wrote is gone");
    }
}

fn harness_image(harness: &mut Harness) -> MemoryStore {
    harness.volume().disk().image()
}

/// Log and device byte of every record with the newest sequence.
fn records_of_newest(harness: &mut Harness, image: &MemoryStore) -> Vec<(u32, u64)> {
    let found = raw::records(&harness.volume().superblock().layout, image);
    let newest = found.iter().map(|(sequence, ..)| *sequence).max();
    let newest = found.into_iter().filter(|(sequence, ..)| Some(*sequence) == newest);
    newest.map(|(_, log, offset)| (log, offset)).collect()
}

/// One that cannot be overwritten stays the only one with its sequence: that is passed over.
#[test]
fn no_record_gets_the_sequence_of_a_torn_one_before_that_is_overwritten() {
    for sticky in [false, true] {
        let (mut harness, _, torn) = opened_with_a_torn_record(511);
        let (kind, range) = (FaultKind::Writes, Some(torn..torn + 512));
        let sequence = harness.volume().status().record_sequence + 1;
        let snapshots = harness.volume().status().snapshot_number;
        harness.apply(&Step::Fail(Fault { kind, range, after: 0, sticky, has_effect: false }));
        write(&mut harness, ACKNOWLEDGED[1]);
        harness.apply(&Step::Settle);
        let status = harness.volume().status();
        assert_eq!(status.failure, None);
        assert_eq!(status.record_sequence, sequence + u64::from(sticky));
        assert_eq!(status.snapshot_number, snapshots + 2 * u64::from(sticky), "one in each slot");
        let image = harness_image(&mut harness);
        let found = raw::records(&harness.volume().superblock().layout, &image);
        let with_it: Vec<u64> =
            found.iter().filter(|(of, ..)| *of == sequence).map(|(.., at)| *at).collect();
        assert_eq!(with_it.len(), 1);
        assert!(!sticky || with_it == [torn]);
    }
}

/// A snapshot may let go of the log where it stands: no later recovery would find it there, before a claim brings it back.
#[test]
fn what_a_cut_left_is_cleared_before_a_snapshot_lets_go_of_its_log() {
    let (mut harness, _, torn) = opened_with_a_torn_record(511);
    let number = harness.volume().status().snapshot_number;
    let now = harness.now;
    harness.volume().start_snapshot(now);
    harness.drive();
    while harness.volume().status().snapshot_number == number {
        assert!(harness.jump(), "no snapshot comes: {:?}", harness.volume().status());
    }
    let mut sector = [1; 512];
    harness_image(&mut harness).read(torn, &mut sector).unwrap();
    assert!(sector == [0; 512], "it is still there");
}
