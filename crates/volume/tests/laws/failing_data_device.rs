//! Law 8 for the data devices of a volume: what fails on one of them costs what is at home there, and nothing that is on another.

use crate::bad_sectors::Asked;
use crate::support::disk::{Fault, FaultKind};
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::Nanos;
use nearhead_engine::DiskWork;
use nearhead_format::{AckMode, Layout};
use nearhead_service::ErrorKind;
use std::ops::Range;

/// Blocks that are written on either device, and the sectors of one.
const BLOCKS: u64 = 12;
const BLOCK_SECTORS: u64 = 8;
const ACKS: [AckMode; 2] = [AckMode::Durable, AckMode::Flush];

fn volume(ack: AckMode) -> Asked {
    Asked::new(Options::new("trail", ack), 1)
}

/// The volume's addresses of the homes on a data device, and the client's first sector there.
fn homes(layout: &Layout, position: usize) -> (Range<u64>, u64) {
    let piece = layout.home_pieces(0, u64::MAX).nth(position).expect("there are two devices");
    (piece.device_offset..piece.device_offset + piece.len, piece.client_offset / 512)
}

/// All that one of the devices is asked for at its homes fails for good.
fn fail(asked: &mut Asked, kind: FaultKind, position: usize) {
    let layout = asked.harness.volume().superblock().layout;
    let range = Some(homes(&layout, position).0);
    let fault = Fault { kind, range, after: 0, sticky: true, has_effect: false };
    asked.harness.volume().disk_mut().add_fault(fault);
}

/// The sectors that are written on a device.
fn starts(asked: &mut Asked, position: usize) -> impl Iterator<Item = u64> + use<> {
    let layout = asked.harness.volume().superblock().layout;
    let first = homes(&layout, position).1;
    (0..BLOCKS).map(move |block| first + block * BLOCK_SECTORS)
}

fn write_on(asked: &mut Asked, position: usize) {
    for start in starts(asked, position) {
        asked.apply(&Step::Write { start, count: BLOCK_SECTORS, fua: true });
        asked.apply(&Step::Settle);
    }
}

/// How many of the blocks written there can be read; no read gives anything else than an error or what the oracle allows.
fn read_on(asked: &mut Asked, position: usize) -> u64 {
    let before = asked.harness.failed.len();
    for start in starts(asked, position) {
        asked.apply(&Step::Read { start, count: BLOCK_SECTORS });
        asked.apply(&Step::Settle);
    }
    let failed = &asked.harness.failed[before..];
    assert!(failed.iter().all(|(_, kind)| *kind == ErrorKind::Io), "{failed:?}");
    BLOCKS - failed.len() as u64
}

/// All that can go home does.
fn bring_home(asked: &mut Asked) {
    asked.apply(&Step::Checkpoint { everything: true });
    asked.harness.pass(Nanos::from_secs(5));
}

fn map_entries(asked: &mut Asked) -> u64 {
    asked.harness.volume().status().map_entries
}

#[test]
fn where_a_data_device_takes_no_home_all_writes_and_reads_go_on_and_what_is_on_the_other_goes_home()
{
    for (position, ack) in [0, 1].into_iter().flat_map(|position| ACKS.map(|ack| (position, ack))) {
        let what = format!("data device {position}, {ack:?}");
        println!("repeat with {what}");
        let (mut asked, other) = (volume(ack), 1 - position);
        fail(&mut asked, FaultKind::Writes, position);
        for _ in 0..3 {
            write_on(&mut asked, position);
            write_on(&mut asked, other);
            bring_home(&mut asked);
            assert_eq!(map_entries(&mut asked), BLOCKS, "{what}: what has no home is logged");
            let read = [read_on(&mut asked, position), read_on(&mut asked, other)];
            assert_eq!(read, [BLOCKS; 2], "{what}");
        }
        asked.assert_serving(&what);
        assert!(asked.harness.failed.is_empty(), "{what}: {:?}", asked.harness.failed);
        let told = asked.harness.volume().status().disk_errors.of_work(DiskWork::HomeWrite);
        assert!(told > 0, "{what}: nothing failed");
        asked.mend_and_check(&what);
    }
}

#[test]
fn where_a_data_device_cannot_be_read_that_fails_reads_of_what_is_home_there_and_nothing_else() {
    for (position, ack) in [0, 1].into_iter().flat_map(|position| ACKS.map(|ack| (position, ack))) {
        let what = format!("data device {position}, {ack:?}");
        println!("repeat with {what}");
        let (mut asked, other) = (volume(ack), 1 - position);
        write_on(&mut asked, position);
        write_on(&mut asked, other);
        bring_home(&mut asked);
        assert_eq!(map_entries(&mut asked), 0, "{what}: all of it is home");
        fail(&mut asked, FaultKind::Reads, position);
        let read = [read_on(&mut asked, position), read_on(&mut asked, other)];
        assert_eq!(read, [0, BLOCKS], "{what}");
        let failed = asked.harness.failed.len();
        // What is written anew is read from a log, wherever it is homed; what was written first after a pause goes home at once.
        write_on(&mut asked, other);
        write_on(&mut asked, position);
        let read = [read_on(&mut asked, position), read_on(&mut asked, other)];
        assert_eq!(read, [BLOCKS; 2], "{what}");
        assert_eq!(asked.harness.failed.len(), failed, "{what}: a write failed");
        asked.assert_serving(&what);
        asked.mend_and_check(&what);
        let read = [read_on(&mut asked, position), read_on(&mut asked, other)];
        assert_eq!(read, [BLOCKS; 2], "{what}");
    }
}
