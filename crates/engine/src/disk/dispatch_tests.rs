//! Which commands leave when, and alongside which others.

use super::*;
use crate::admission::{DurableFirst, SoonestFirst};
use nearhead_disk::{Payload, TrackZone, Turn};

const POLICY: DurableFirst = DurableFirst {
    piece_bytes: 128 << 10,
    bulk_bytes_max: 256 << 10,
    bulk_wait_max: Nanos::from_millis(50),
    background_commands_max: 1,
};

/// Records follow each other without a pause, each 10 ms, while one large read waits; says how many there were when it left.
#[test]
fn a_large_read_leaves_beside_records_that_never_pause_once_it_has_waited_long_enough() {
    let properties = Properties { queue_depth_max: 32, ..Properties::plain("disk", 1 << 30, 512) };
    let mut queue = Dispatcher::new(Lane::MAIN, &properties);
    let record = || Command::Write { offset: 0, parts: vec![Payload::Zeros(4096)], durable: true };
    queue.issue(&POLICY, Class::Durable, Purpose::Record, record());
    let read = Command::Read { offset: 1 << 20, len: 128 << 10 };
    queue.issue(&POLICY, Class::Bulk, Purpose::Read { slot: 0, io: 0 }, read);
    for round in 1..20 {
        queue.set_now(Nanos::from_millis(10 * round));
        let left: Vec<Submission> = std::iter::from_fn(|| queue.poll()).collect();
        let has_bulk = left.iter().any(|left| left.class == Class::Bulk);
        assert_eq!(has_bulk, round == 6, "in round {round}");
        let durable = left.iter().find(|left| left.class == Class::Durable);
        let done = durable.map(|left| left.ticket.id().0 as u32);
        for left in left {
            left.ticket.abandon();
        }
        // The next one is there before the one on the disk is done.
        queue.issue(&POLICY, Class::Durable, Purpose::Record, record());
        if let Some(id) = done {
            queue.complete(&POLICY, id, &[]);
        }
        if has_bulk {
            return;
        }
    }
    panic!("it never left");
}

#[test]
fn what_a_command_transfers_is_not_what_it_counts_for() {
    let parts = vec![Payload::Zeros(4096)];
    let write = Command::Write { offset: 0, parts, durable: false };
    let (class, purpose) = (Class::Background, Purpose::CheckpointWrite);
    let transferred = |command, bytes| {
        let alone = InFlight::new(purpose, class, command, Nanos::ZERO);
        InFlight { bytes, ..alone }.transferred()
    };
    // The first of several that leave together, and another of them.
    assert_eq!([transferred(&write, 1 << 20), transferred(&write, 0)], [(0, 4096); 2]);
    assert_eq!(transferred(&Command::Trim { offset: 8192, len: 512 }, 0), (0, 0));
    assert_eq!(transferred(&Command::Flush, 0), (0, 0));
}

const SOONEST: SoonestFirst =
    SoonestFirst { others: POLICY, waiting_weighs_one_in: 32, queued_max: 8 };
const MIB: u64 = 1 << 20;
const PERIOD: Nanos = Nanos(8_000_000);

/// Queue before a drive whose tracks of 1 MiB are known. A read showed when they pass and left the arm at 100 MiB, and a durable
/// command left just now.
fn known_drive() -> Dispatcher {
    let rotational = Properties { rotational: true, ..Properties::plain("disk", 1 << 30, 512) };
    let mut queue = Dispatcher::new(Lane::MAIN, &Properties { queue_depth_max: 32, ..rotational });
    let zone = TrackZone {
        first_byte: 0,
        track_bytes: MIB,
        skew: Turn(0),
        group_tracks: 0,
        group_skew: Turn(0),
        group_bytes: 0,
    };
    queue.know_tracks(&[Arc::new(Tracks::new(PERIOD.0 as f64, vec![zone]).unwrap())], 0);
    read(&mut queue, 100 * MIB - 4096);
    let id = left(&mut queue).pop().unwrap().0;
    queue.set_now(Nanos::from_millis(20));
    queue.complete(&SOONEST, id, &[]);
    queue.durable_clock.note_left(queue.now);
    queue
}

fn read(queue: &mut Dispatcher, offset: u64) {
    let command = Command::Read { offset, len: 4096 };
    queue.issue(&SOONEST, Class::Foreground, Purpose::Read { slot: 0, io: 0 }, command);
}

/// What left: number and first byte.
fn left(queue: &mut Dispatcher) -> Vec<(u32, u64)> {
    let left = std::iter::from_fn(|| queue.poll()).map(|submission| {
        let Command::Read { offset, .. } = submission.command else { panic!("a read") };
        let id = submission.ticket.id().0 as u32;
        submission.ticket.abandon();
        (id, offset)
    });
    left.collect()
}

#[test]
fn of_those_that_wait_for_a_known_drive_the_one_leaves_that_passes_soonest() {
    let mut queue = known_drive();
    read(&mut queue, 90 * MIB);
    let first = left(&mut queue);
    assert_eq!(first.len(), 1, "nothing else was there");
    // The arm is taken to need an eighth of a revolution. Where each lies on its track, in eighths behind where the first
    // one ends:
    for (track, eighths) in [(91, 7), (92, 1), (93, 4), (94, 3)] {
        read(&mut queue, track * MIB + eighths * MIB / 8 + 4096);
    }
    assert_eq!(left(&mut queue), [], "one at a time");
    let mut order = Vec::new();
    let mut id = first[0].0;
    for _ in 0..4 {
        // Each of them ends just there, after a revolution more or less.
        let at =
            queue.drives().and_then(|drives| drives.part(0).0.wait(90 * MIB + 4096, queue.now));
        queue.set_now(queue.now + at.unwrap() + PERIOD);
        queue.complete(&SOONEST, id, &[]);
        let [(next, offset)] = left(&mut queue)[..] else { panic!("one leaves") };
        order.push(offset / MIB);
        id = next;
    }
    assert_eq!(order[0], 92, "the first that can be reached in time: {order:?}");
}

#[test]
fn who_waited_long_for_a_known_drive_is_next_wherever_it_is() {
    let mut queue = known_drive();
    read(&mut queue, 90 * MIB);
    let first = left(&mut queue)[0].0;
    read(&mut queue, 900 * MIB);
    queue.set_now(queue.now + Nanos::from_secs(1));
    read(&mut queue, 90 * MIB + MIB / 2);
    queue.complete(&SOONEST, first, &[]);
    assert_eq!(left(&mut queue)[0].1, 900 * MIB);
}

#[test]
fn what_a_known_drive_may_have_in_its_memory_keeps_nobody_waiting_and_is_no_more_than_its_queue_takes()
 {
    let mut queue = known_drive();
    read(&mut queue, 500 * MIB);
    assert_eq!(left(&mut queue).len(), 1);
    read(&mut queue, 700 * MIB);
    // Where the first read of all ended.
    read(&mut queue, 100 * MIB);
    assert_eq!(left(&mut queue)[0].1, 100 * MIB, "past one that waits");
    let mut queue = known_drive();
    read(&mut queue, 500 * MIB);
    for _ in 0..40 {
        read(&mut queue, 100 * MIB);
    }
    assert_eq!(left(&mut queue).len(), 32);
}

#[test]
fn nothing_but_a_record_goes_to_a_known_drive_while_one_waits_for_its_arm() {
    let mut queue = known_drive();
    queue.hold_for_record(&SOONEST, true);
    read(&mut queue, 500 * MIB);
    assert_eq!(left(&mut queue), []);
    queue.hold_for_record(&SOONEST, false);
    assert_eq!(left(&mut queue).len(), 1);
}

#[test]
fn a_record_that_waits_for_the_arm_waits_for_what_the_drive_remembers_for_a_revolution_and_no_longer()
 {
    let mut queue = known_drive();
    queue.hold_for_record(&SOONEST, true);
    read(&mut queue, 100 * MIB);
    assert_eq!(left(&mut queue).len(), 1, "the drive has it in its memory");
    queue.set_now(queue.now + Nanos(PERIOD.0 - 1));
    // It is said again and again that one waits.
    queue.hold_for_record(&SOONEST, true);
    read(&mut queue, 100 * MIB);
    assert_eq!(left(&mut queue).len(), 1);
    queue.set_now(queue.now + Nanos(1));
    read(&mut queue, 100 * MIB);
    assert_eq!(left(&mut queue), [], "for a stream it would wait for ever");
    queue.hold_for_record(&SOONEST, false);
    assert_eq!(left(&mut queue).len(), 1);
}

/// A queue so long that all in it waited longer than anything should.
#[test]
fn what_stands_in_a_long_queue_does_not_pass_a_record_that_just_came() {
    let properties = Properties { queue_depth_max: 32, ..Properties::plain("disk", 1 << 30, 512) };
    let mut queue = Dispatcher::new(Lane::MAIN, &properties);
    for piece in 0..8 {
        let read = Command::Read { offset: piece << 20, len: 256 << 10 };
        queue.issue(&POLICY, Class::Bulk, Purpose::Read { slot: 0, io: 0 }, read);
    }
    let mut on_disk: VecDeque<u32> = VecDeque::new();
    let mut left_at = |queue: &mut Dispatcher, ms: u64, is_held: bool| {
        queue.set_now(Nanos::from_millis(ms));
        queue.hold_for_record(&POLICY, is_held);
        if let Some(id) = on_disk.pop_front() {
            queue.complete(&POLICY, id, &[]);
        }
        queue.pump(&POLICY);
        let left: Vec<Submission> = std::iter::from_fn(|| queue.poll()).collect();
        let count = left.len();
        for left in left {
            on_disk.push_back(left.ticket.id().0 as u32);
            left.ticket.abandon();
        }
        count
    };
    assert_eq!([left_at(&mut queue, 100, false), left_at(&mut queue, 200, false)], [1, 1]);
    // A record is held until the disk is done; only if that takes too long the others go on.
    let found = [300, 310, 349, 350].map(|ms| left_at(&mut queue, ms, true));
    assert_eq!(found, [0, 0, 0, 1]);
}

fn issue_bulk(queue: &mut Dispatcher, offset: u64) {
    let command = Command::Read { offset, len: 128 << 10 };
    queue.issue(&SOONEST, Class::Bulk, Purpose::Read { slot: 0, io: 0 }, command);
}

fn issue_record(queue: &mut Dispatcher) -> u32 {
    let write = Command::Write { offset: 0, parts: vec![Payload::Zeros(4096)], durable: true };
    queue.issue(&SOONEST, Class::Durable, Purpose::Record, write);
    let record = queue.poll().unwrap();
    let id = record.ticket.id().0 as u32;
    record.ticket.abandon();
    id
}

/// The stream goes on where a read ended, so the drive may have its first bytes in memory; it never has all of it.
#[test]
fn a_remembered_stream_never_passes_a_record_on_the_disk() {
    let mut queue = known_drive();
    let record = issue_record(&mut queue);
    issue_bulk(&mut queue, 100 * MIB);
    assert_eq!(left(&mut queue), [], "the record is on the disk");
    queue.complete(&SOONEST, record, &[]);
    assert_eq!(left(&mut queue).len(), 1);
}

#[test]
fn a_remembered_stream_never_passes_a_waiting_record() {
    let mut queue = known_drive();
    queue.hold_for_record(&SOONEST, true);
    issue_bulk(&mut queue, 100 * MIB);
    assert_eq!(left(&mut queue), []);
    queue.hold_for_record(&SOONEST, false);
    assert_eq!(left(&mut queue).len(), 1);
}

/// A piece of bulk waits behind others for half a second, in which a record is on the disk for 40 ms.
#[test]
fn time_behind_other_bulk_is_no_time_giving_way() {
    let mut queue = known_drive();
    for piece in 0..3 {
        issue_bulk(&mut queue, (200 + piece) * MIB);
    }
    let on_disk = left(&mut queue);
    assert_eq!(on_disk.len(), 2);
    for round in 0..8 {
        queue.set_now(Nanos::from_millis(100 + 50 * round));
        let record = issue_record(&mut queue);
        queue.set_now(Nanos::from_millis(105 + 50 * round));
        queue.complete(&SOONEST, record, &[]);
    }
    queue.set_now(Nanos::from_millis(600));
    let record = issue_record(&mut queue);
    for (id, _) in on_disk {
        queue.complete(&SOONEST, id, &[]);
    }
    queue.set_now(Nanos(609_999_999));
    queue.pump(&SOONEST);
    assert_eq!(left(&mut queue), [], "it gave way for less than 50 ms");
    queue.set_now(Nanos::from_millis(610));
    queue.pump(&SOONEST);
    assert_eq!(left(&mut queue).len(), 1, "it gave way for 50 ms");
    queue.complete(&SOONEST, record, &[]);
}

#[test]
fn without_durable_writes_the_drive_chooses_the_order() {
    let mut queue = known_drive();
    queue.set_now(queue.now + Nanos::from_secs(1));
    read(&mut queue, 300 * MIB);
    read(&mut queue, 600 * MIB);
    assert_eq!(left(&mut queue).len(), 1, "a durable command left a second ago");
    queue.set_now(queue.now + Nanos(1));
    queue.pump(&SOONEST);
    read(&mut queue, 900 * MIB);
    assert_eq!(left(&mut queue).len(), 2, "it left longer ago");
    queue.hold_for_record(&SOONEST, true);
    read(&mut queue, 950 * MIB);
    assert_eq!(left(&mut queue), [], "a record waits");
}
