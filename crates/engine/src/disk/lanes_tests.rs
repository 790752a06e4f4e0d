//! Devices as lanes: each has its own queue and addresses, and those that homes lie on are flushed together.

use super::*;
use crate::admission::Fifo;
use crate::disk::dispatch::Purpose;
use nearhead_disk::{Class, Command, Payload};
use nearhead_format::layout::{DataParts, LayoutKind, LayoutOptions};

const MAP: Lane = Lane::MAP;
const FIFO: Fifo = Fifo { piece_bytes: 1 << 20 };

fn facts() -> Properties {
    Properties {
        volatile_cache: true,
        queue_depth_max: 1,
        ..Properties::plain("one of some", 1 << 30, 512)
    }
}

/// Two devices that take one command at a time.
fn two() -> Lanes {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
    Lanes::new(&facts(), &[], Some(&facts()), &layout)
}

/// A device with logs, and two with data behind it; and the layout.
fn with_data() -> (Lanes, Layout) {
    let options = LayoutOptions {
        data_parts: DataParts::of(&[300 << 20, 200 << 20]).unwrap(),
        ..LayoutOptions::new(LayoutKind::LogDevice)
    };
    let layout = Layout::plan(1 << 30, &options).unwrap();
    (Lanes::new(&facts(), &[facts(), facts()], None, &layout), layout)
}

fn write(lanes: &mut Lanes, lane: Lane, offset: u64, purpose: Purpose) {
    let parts = vec![Payload::Zeros(512)];
    let command = Command::Write { offset, parts, durable: false };
    lanes.queue_for(lane, Some(offset)).issue(&FIFO, Class::Durable, purpose, command);
}

fn leaving(lanes: &mut Lanes) -> Vec<(Lane, Submission)> {
    std::iter::from_fn(|| lanes.poll()).collect()
}

/// Everything that leaves is done.
fn answer_all(lanes: &mut Lanes) {
    for (_, submission) in leaving(lanes) {
        let id = submission.ticket.complete(Ok(Payload::EMPTY)).id;
        assert!(lanes.complete(&FIFO, id, &[]).is_some());
    }
}

#[test]
fn a_full_queue_of_one_device_keeps_nothing_for_another_waiting() {
    let mut lanes = two();
    for _ in 0..2 {
        write(&mut lanes, Lane::MAIN, 0, Purpose::Record);
    }
    write(&mut lanes, MAP, 0, Purpose::Journal);
    let left = leaving(&mut lanes);
    assert_eq!(left.iter().map(|(lane, _)| *lane).collect::<Vec<_>>(), [Lane::MAIN, MAP]);
    assert_eq!((lanes.len(), lanes.is_on_disk()), (3, true));
    // Each finds what it was for, in whatever order they are answered.
    let expected = [(MAP, Purpose::Journal), (Lane::MAIN, Purpose::Record)];
    for ((_, submission), (lane, purpose)) in left.into_iter().rev().zip(expected) {
        let id = submission.ticket.complete(Ok(Payload::EMPTY)).id;
        let done = lanes.complete(&FIFO, id, &[]).map(|(lane, done)| (lane, done.purpose()));
        assert_eq!(done, Some((lane, purpose)));
        assert!(lanes.complete(&FIFO, id, &[]).is_none(), "it was answered");
    }
    for none in [Lane::data(0), Lane::data(7)] {
        assert!(lanes.complete(&FIFO, command_id(none, 0), &[]).is_none(), "{none:?}");
    }
    lanes.poll().into_iter().for_each(|(_, submission)| submission.ticket.abandon());
}

#[test]
fn an_address_of_the_volume_goes_to_the_device_that_has_it_and_is_told_by_its_own() {
    let (mut lanes, layout) = with_data();
    let devices: Vec<_> = layout.data_devices().collect();
    let addresses = [4096, devices[0].start + (1 << 20), devices[1].end - 512];
    for address in addresses {
        write(&mut lanes, Lane::MAIN, address, Purpose::CheckpointWrite);
    }
    let left = leaving(&mut lanes);
    let told: Vec<_> = left.iter().map(|(lane, left)| (*lane, left.command.offset())).collect();
    let last = devices[1].end - devices[1].start - 512;
    let expected = [(Lane::MAIN, 4096), (Lane::data(0), 1 << 20), (Lane::data(1), last)];
    assert_eq!(told, expected.map(|(lane, byte)| (lane, Some(byte))));
    for ((lane, submission), address) in left.into_iter().zip(addresses) {
        let id = submission.ticket.complete(Ok(Payload::EMPTY)).id;
        let (by, done) = lanes.complete(&FIFO, id, &[]).unwrap();
        assert_eq!((by, done.extent()), (lane, Some((address, 512))), "the engine's address");
    }
}

#[test]
fn a_flush_goes_to_each_device_with_something_to_flush_and_waits_for_all_of_these() {
    let (mut lanes, layout) = with_data();
    let devices: Vec<_> = layout.data_devices().collect();
    for address in [devices[0].start + (1 << 20), devices[1].start + (1 << 20)] {
        write(&mut lanes, Lane::MAIN, address, Purpose::CheckpointWrite);
    }
    answer_all(&mut lanes);
    lanes.own_flusher_mut().note_volatile_write();
    let tickets = lanes.want_all();
    let mut told: Vec<_> = std::iter::from_fn(|| lanes.start_flush()).collect();
    told.sort();
    assert_eq!(told, [Lane::data(0), Lane::data(1)]);
    for lane in told {
        assert!(!lanes.are_done(&tickets));
        lanes.flush_ended(lane, true);
    }
    assert!(lanes.are_done(&tickets) && !lanes.is_flushing());
}

/// The two devices each have something to flush.
fn both_written() -> Lanes {
    let mut lanes = two();
    write(&mut lanes, Lane::MAIN, 0, Purpose::CheckpointWrite);
    answer_all(&mut lanes);
    lanes.own_flusher_mut().note_volatile_write();
    lanes.flusher_mut(MAP).note_volatile_write();
    lanes
}

#[test]
fn a_flush_of_one_device_says_nothing_of_another() {
    let mut lanes = both_written();
    let tickets = lanes.want_all();
    assert_eq!([lanes.start_flush(), lanes.start_flush()], [Some(Lane::MAIN), Some(MAP)]);
    assert!(lanes.start_flush().is_none() && lanes.is_flushing());
    for lane in [MAP, Lane::MAIN] {
        assert!(!lanes.are_done(&tickets));
        lanes.flush_ended(lane, true);
    }
    assert!(lanes.are_done(&tickets) && !lanes.is_flushing());
}

#[test]
fn who_waits_for_all_waits_for_no_device_that_has_nothing_to_flush() {
    let mut lanes = two();
    lanes.flusher_mut(MAP).note_volatile_write();
    let tickets = lanes.want_all();
    assert_eq!([lanes.start_flush(), lanes.start_flush()], [Some(MAP), None]);
    lanes.flush_ended(MAP, true);
    assert!(lanes.are_done(&tickets));
}
