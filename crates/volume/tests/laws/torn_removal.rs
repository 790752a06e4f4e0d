//! What removes a torn record must not complete it. Before the first record after a cut the remains of a torn one are
//! overwritten with zeros, and the record may lack nothing but zeros: a second cut in the middle of that could make it
//! whole, and it would come back over what was written in place, and acknowledged, between the two.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::raw::{bytes_of, newest_record};
use crate::support::steps::Step;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_format::AckMode;
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use std::ops::Range;

const SECTOR: u64 = 512;
/// Where the torn record is written, and how long it is there.
const HOME: u64 = 16 * SECTOR;
const BYTES: usize = 4096;
/// What a client writes over it in place.
const NEWER: u8 = 0x55;

fn options() -> Options {
    Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        // Its logs' blocks hold a header and a part of what it describes.
        physical_sector_bytes: Some(4096),
        ..Options::new("mlb", AckMode::Durable)
    }
}

fn write(harness: &mut Harness, offset: u64, content: &[u8]) {
    let data = Payload::Bytes(BufferMut::copy_of(content).freeze());
    harness.send(Operation::Write { offset, data, fua: true });
}

/// A volume opened on a disk whose last record lacks its sector `lost`, one of zeros; and where the record is.
fn opened_without(lost: u64) -> (Harness, u64) {
    let mut harness = Harness::new(options());
    let mut content = [0; BYTES];
    content[..SECTOR as usize].fill(7);
    write(&mut harness, HOME, &content);
    // The first change waits until the volume has its generation.
    harness.apply(&Step::Settle);
    let mut image = harness.volume().disk().image();
    let (_, torn) = newest_record(&harness.volume().superblock().layout, &image);
    let place = torn + lost * SECTOR;
    let mut there = [1; SECTOR as usize];
    image.read(place, &mut there).unwrap();
    assert_eq!(there, [0; SECTOR as usize], "it lacks zeros");
    image.write(place, &[0xee; SECTOR as usize]).unwrap();
    let disk = options().disk_with(image).with_latency(Nanos::from_micros(100));
    (Harness::resume(options(), disk, harness.oracle), torn)
}

/// What a volume opened on that disk has at the record's home.
fn content_at_home(image: MemoryStore) -> Vec<u8> {
    let (mut volume, now) =
        Volume::open_in_virtual_time(options().disk_with(image), Nanos::ZERO, |_, config| {
            options().configure(config);
        })
        .unwrap();
    let mut now = volume.run_until_open(now).unwrap();
    let operation = Operation::Read { offset: HOME, len: BYTES as u32 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    let reply = loop {
        volume.drive(now);
        if let Some(reply) = volume.poll_reply() {
            break reply;
        }
        now = volume.wake_at().expect("a read is answered").max(now);
    };
    bytes_of(&reply.result.unwrap())
}

/// Every part of so many bytes that a cut may leave in one piece.
fn pieces(len: usize) -> impl Iterator<Item = Range<usize>> {
    let sector = SECTOR as usize;
    let sectors = len / sector;
    (0..sectors)
        .flat_map(move |first| (first + 1..=sectors).map(move |end| first * sector..end * sector))
}

#[test]
fn no_part_of_what_removes_a_torn_record_completes_it() {
    // In the record's first block are its header and the first seven sectors of its content.
    for lost in 2..8 {
        let (mut harness, torn) = opened_without(lost);
        write(&mut harness, 0, &vec![NEWER; 512 << 10]);
        harness.apply(&Step::Settle);
        let before = harness.volume().disk().safe_image();
        assert_eq!(content_at_home(before.clone()), [NEWER; BYTES], "written in place");

        harness.volume().disk_mut().watch_cuts();
        write(&mut harness, 4 << 20, &[9; BYTES]);
        harness.apply(&Step::Settle);
        let points = harness.volume().disk_mut().take_cut_points();
        let mut removals = 0;
        for (safe, left) in points
            .iter()
            .flat_map(|point| point.unflushed.iter().map(|left| (&point.safe, left)))
            .filter(|(_, left)| left.offset <= torn && torn < left.offset + left.len())
        {
            let bytes = bytes_of(&left.parts);
            removals += u32::from(bytes.iter().all(|byte| *byte == 0));
            for piece in pieces(bytes.len()) {
                let mut image = safe.clone();
                image.write(left.offset + piece.start as u64, &bytes[piece.clone()]).unwrap();
                assert!(
                    content_at_home(image) == [NEWER; BYTES],
                    "without its sector {lost}, after bytes {piece:?} of {} at device byte {}",
                    bytes.len(),
                    left.offset
                );
            }
        }
        assert!(removals > 0, "nothing was written over the torn record at device byte {torn}");
    }
}
