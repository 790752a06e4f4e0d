//! Who waits for whom where requests share sectors, and what one request asks of the service: tables of all the ways in
//! which bytes lie beside sectors.

use super::tests::Rig;
use super::*;
use nearhead_disk::{BufferMut, Payload};
use nearhead_service::ErrorKind;

/// A change of these bytes.
fn change(bytes: Range<u64>) -> Operation {
    Operation::Trim { offset: bytes.start, len: bytes.end - bytes.start, fua: false }
}

fn submit(rig: &mut Rig, id: u64, operation: Operation) {
    let request = Request { id: RequestId(id), operation };
    rig.access.submit(request, &mut rig.service, Nanos::ZERO);
}

#[test]
fn a_change_waits_for_an_earlier_one_exactly_if_they_share_a_sector_and_one_is_not_whole() {
    let whole =
        |bytes: &Range<u64>| bytes.start.is_multiple_of(512) && bytes.end.is_multiple_of(512);
    let earlier = [1024..2048, 1024..1536, 1100..1200, 1100..2000, 1000..1100];
    let later = [
        1024..2048,
        0..512,
        0..1024,
        512..1536,
        2048..2560,
        1536..2048,
        1536..4096,
        100..200,
        1000..1024,
        1030..1040,
        1500..1600,
        1535..1537,
        2047..2048,
        2048..2049,
        3000..3100,
    ];
    for first in &earlier {
        for second in &later {
            // Elsewhere, so that nobody is alone.
            for beside in [None, Some(5000..5100), Some(5120..5632)] {
                let mut rig = Rig::new(0, false);
                submit(&mut rig, 1, change(first.clone()));
                if let Some(bytes) = beside {
                    submit(&mut rig, 2, change(bytes));
                }
                let before = rig.service.taken.len();
                submit(&mut rig, 3, change(second.clone()));
                let waits = rig.service.taken.len() == before;
                let sectors = |bytes: &Range<u64>| bytes.start / 512..bytes.end.div_ceil(512);
                let (one, other) = (sectors(first), sectors(second));
                let shares = one.start < other.end && other.start < one.end;
                let expected = shares && !(whole(first) && whole(second));
                assert_eq!(waits, expected, "{first:?}, then {second:?}");
                // It comes once those before it are answered.
                let mut answered = Vec::new();
                while !rig.service.taken.is_empty() {
                    rig.service.carry_out(0, false);
                    while let Some(reply) = rig.access.poll_reply(&mut rig.service, Nanos::ZERO) {
                        answered.push(reply.id.0);
                    }
                }
                let place = |id| answered.iter().position(|found| *found == id).unwrap();
                assert!(!waits || place(1) < place(3), "{first:?}, then {second:?}");
            }
        }
    }
}

#[test]
fn a_read_keeps_nobody_waiting_and_waits_for_nobody() {
    let mut rig = Rig::new(0, false);
    let mut expected = 0;
    for (id, bytes) in (1..).zip([100..200, 0..512, 300..2000]) {
        submit(&mut rig, id, Operation::Read { offset: bytes.start, len: 400 });
        expected += 1;
        assert_eq!(rig.service.taken.len(), expected, "{bytes:?}");
    }
    submit(&mut rig, 9, change(100..200));
    assert_eq!(rig.service.taken.len(), expected + 1);
    submit(&mut rig, 10, Operation::Read { offset: 110, len: 10 });
    assert_eq!(rig.service.taken.len(), expected + 2);
}

#[test]
fn what_waits_waits_in_order_and_a_whole_sector_passes_nobody() {
    let mut rig = Rig::new(0, false);
    submit(&mut rig, 1, change(100..200));
    submit(&mut rig, 2, change(300..700));
    // It shares a sector with the second one only, which waits.
    submit(&mut rig, 3, change(512..1024));
    submit(&mut rig, 4, change(600..601));
    assert_eq!(rig.service.taken.len(), 1);
    let mut answered = Vec::new();
    while !rig.service.taken.is_empty() {
        rig.service.carry_out(0, false);
        while let Some(reply) = rig.access.poll_reply(&mut rig.service, Nanos::ZERO) {
            answered.push(reply.id.0);
        }
    }
    assert_eq!(answered, [1, 2, 3, 4]);
}

#[test]
fn at_most_so_many_requests_are_put_together_at_once() {
    let mut rig = Rig::new(0, false);
    for id in 0..JOBS_MAX as u64 + 3 {
        submit(&mut rig, id + 1, change(id * 512 + 1..id * 512 + 2));
    }
    assert_eq!(rig.service.taken.len(), JOBS_MAX);
    // Whole ones and reads do not count.
    let far = 1 << 30;
    submit(&mut rig, 5000, change(far..far + 512));
    submit(&mut rig, 5001, Operation::Read { offset: far + 1, len: 2 });
    assert_eq!(rig.service.taken.len(), JOBS_MAX + 2);
}

/// From this sector to that one.
type Span = (u64, u64);

/// Bytes, sectors read, sectors written, and whole ones that are left to the service.
type Case = (Range<u64>, &'static [Span], &'static [Span], Option<Span>);

/// What the service is asked for by one request: sectors read, sectors changed.
fn asked_for(operation: Operation) -> (Vec<Span>, Vec<Span>) {
    let mut rig = Rig::new(0, false);
    submit(&mut rig, 1, operation);
    let (mut reads, mut changes) = (Vec::new(), Vec::new());
    let mut replies = 0;
    while !rig.service.taken.is_empty() {
        let (bytes, is_change) = bytes_of(&rig.service.taken[0].operation).unwrap();
        let list = if is_change { &mut changes } else { &mut reads };
        list.push((bytes.start / 512, bytes.end / 512));
        rig.service.carry_out(0, false);
        replies += usize::from(rig.access.poll_reply(&mut rig.service, Nanos::ZERO).is_some());
    }
    assert_eq!(replies, 1);
    (reads, changes)
}

#[test]
fn only_sectors_that_are_covered_in_part_are_read_and_in_as_few_requests_as_there_can_be() {
    let write = |bytes: Range<u64>| {
        let data = BufferMut::copy_of(&vec![7; (bytes.end - bytes.start) as usize]).freeze();
        let data = Payload::Bytes(data);
        Operation::Write { offset: bytes.start, data, fua: false }
    };
    // The largest transfer is of four sectors.
    let table: [Case; 9] = [
        (100..200, &[(0, 1)], &[(0, 1)], None),
        (0..700, &[(1, 2)], &[(0, 2)], Some((0, 1))),
        (100..1024, &[(0, 1)], &[(0, 2)], Some((1, 2))),
        (500..530, &[(0, 2)], &[(0, 2)], None),
        (100..1500, &[(0, 1), (2, 3)], &[(0, 3)], Some((1, 2))),
        (5100..5700, &[(9, 10), (11, 12)], &[(9, 12)], Some((10, 11))),
        (5220..6100, &[(10, 12)], &[(10, 12)], None),
        (4608..5700, &[(11, 12)], &[(9, 12)], Some((9, 11))),
        (511..2049, &[(0, 1), (4, 5)], &[(0, 1), (1, 5)], Some((1, 4))),
    ];
    for (bytes, reads, writes, middle) in table {
        let (found, changes) = asked_for(write(bytes.clone()));
        assert_eq!((&found[..], &changes[..]), (reads, writes), "a write of {bytes:?}");
        let (found, changes) = asked_for(change(bytes.clone()));
        assert_eq!(found, reads, "a trim of {bytes:?}");
        let expected: Vec<_> = middle.into_iter().chain(reads.iter().copied()).collect();
        assert_eq!(changes, expected, "a trim of {bytes:?}");
        let len = (bytes.end - bytes.start) as u32;
        let (found, changes) = asked_for(Operation::Read { offset: bytes.start, len });
        let sectors = bytes.end.div_ceil(512) - bytes.start / 512;
        let expected = if sectors <= 4 { 1 } else { 2 };
        assert_eq!((found.len(), changes.len()), (expected, 0), "a read of {bytes:?}");
    }
}

#[test]
fn too_few_bytes_from_the_service_are_an_error_and_nothing_is_written() {
    for operation in [change(100..200), Operation::Read { offset: 100, len: 100 }] {
        for found in [0, 511, 513, 1024] {
            let mut rig = Rig::new(0, false);
            submit(&mut rig, 1, operation.clone());
            let id = rig.service.taken.remove(0).id;
            let parts = vec![Payload::Zeros(found)];
            rig.service.replies.push_back(Reply { id, result: Ok(parts) });
            let reply = rig.access.poll_reply(&mut rig.service, Nanos::ZERO).unwrap();
            assert_eq!(reply.result.unwrap_err().kind, ErrorKind::Io, "{found} bytes");
            assert!(rig.service.taken.is_empty());
        }
    }
}

#[test]
fn what_went_to_the_service_and_what_it_made_up_is_told_once() {
    let mut rig = Rig::new(0, false);
    assert!(!rig.access.take_submitted());
    for (id, bytes) in (1..).zip([512..1024, 100..200]) {
        submit(&mut rig, id, change(bytes));
        assert!(rig.access.take_submitted() && !rig.access.take_submitted());
    }
    let stray = RequestId(1 << 50);
    rig.service.replies.push_back(Reply { id: stray, result: Ok(Vec::new()) });
    assert!(rig.access.poll_reply(&mut rig.service, Nanos::ZERO).is_none());
    assert_eq!((rig.access.take_stray(), rig.access.take_stray()), (Some(stray), None));
}
