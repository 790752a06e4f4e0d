//! What the service is asked for is what the client asked for, flag by flag, and what is counted is what happened.

use super::ZERO_PIECE_BYTES;
use crate::protocol::constants::{command, command_flag, errno};
use crate::protocol::testing::request;
use crate::server::Statistics;
use crate::server::testing::Rig;
use nearhead_disk::Payload;
use nearhead_service::Operation;

const FUA: u16 = command_flag::FUA;

/// A simple reply without content: its error number.
fn errno_in(reply: &[u8]) -> u32 {
    assert_eq!(reply.len(), 16, "{reply:02x?}");
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

/// What changes something: whether durably, and whether only if it is fast.
fn flags_of(operation: &Operation) -> (bool, bool) {
    match operation {
        Operation::Write { fua, .. } | Operation::Trim { fua, .. } => (*fua, false),
        Operation::WriteZeroes { fua, fast_only, .. } => (*fua, *fast_only),
        _ => (false, false),
    }
}

#[test]
fn every_command_is_durable_and_fast_exactly_if_it_was_asked_to_be() {
    let (hole, fast) = (command_flag::NO_HOLE, command_flag::FAST_ZERO);
    for (kind, flags) in [
        (command::WRITE, 0),
        (command::TRIM, 0),
        (command::WRITE_ZEROES, 0),
        (command::WRITE_ZEROES, hole),
        (command::WRITE_ZEROES, fast),
        (command::READ, 0),
        (command::FLUSH, 0),
    ] {
        // Whole sectors, and some at whose ends sectors are covered in part.
        for (offset, len) in [(512, 4096), (100, 4096), (700, 5000), (10, 20)] {
            for fua in [false, true] {
                let mut rig = Rig::new();
                let mut client = rig.connect_and_go();
                let flags = if fua { flags | FUA } else { flags };
                client.send(&request(kind, flags, 1, offset, len));
                if kind == command::WRITE {
                    client.send(&vec![7; len as usize]);
                }
                rig.settle();
                let mut changes = 0;
                while !rig.service.taken.is_empty() {
                    let operation = rig.service.answer();
                    rig.settle();
                    if matches!(operation, Operation::Read { .. } | Operation::Flush) {
                        continue;
                    }
                    changes += 1;
                    let (is_durable, is_fast) = flags_of(&operation);
                    assert_eq!(is_durable, fua, "type {kind}, {len} at {offset}: {operation:?}");
                    if matches!(operation, Operation::WriteZeroes { .. }) {
                        assert_eq!(is_fast, flags & fast != 0, "{operation:?}");
                    }
                }
                let is_change = kind != command::READ && kind != command::FLUSH;
                assert_eq!(changes > 0, is_change, "type {kind}");
                let reply = client.receive();
                assert_eq!(reply[4..8], [0; 4], "type {kind}, flags {flags}");
            }
        }
    }
}

/// Zeros that must stay allocated: where each write of them begins, and how long it is.
fn written(offset: u64, len: u32, flags: u16) -> Vec<(u64, u64)> {
    let mut rig = Rig::new();
    let mut client = rig.connect_and_go();
    let flags = command_flag::NO_HOLE | flags;
    client.send(&request(command::WRITE_ZEROES, flags, 1, offset, len));
    rig.settle();
    let mut written = Vec::new();
    while !rig.service.taken.is_empty() {
        assert_eq!(rig.service.taken.len(), 1, "one after the other");
        assert_eq!(client.receive(), [], "not done yet");
        let operation = rig.service.answer();
        let Operation::Write { offset, data: Payload::Zeros(len), fua } = operation else {
            panic!("{operation:?}");
        };
        assert_eq!(fua, flags & FUA != 0);
        written.push((offset, len as u64));
        rig.settle();
    }
    assert_eq!(errno_in(&client.receive()), 0);
    written
}

#[test]
fn zeros_that_must_stay_are_written_piece_by_piece_up_to_each_boundary() {
    let piece = ZERO_PIECE_BYTES;
    for (offset, len) in [
        (0, 512),
        (0, piece),
        (0, piece + 512),
        (4096, piece),
        (piece - 512, 512),
        (piece - 512, 1024),
        (512, 3 * piece - 1024),
        (2 * piece, 5 * piece),
    ] {
        for flags in [0, FUA] {
            let found = written(offset, len as u32, flags);
            let mut at = offset;
            for (from, len) in &found {
                assert_eq!(*from, at);
                assert_eq!(at / piece, (at + len - 1) / piece, "over a boundary");
                at += len;
            }
            assert_eq!(at, offset + len, "all of it");
            let boundaries = (offset + len - 1) / piece - offset / piece;
            assert_eq!(found.len() as u64, boundaries + 1, "as few as there can be");
        }
    }
}

#[test]
fn zeros_of_which_a_piece_fails_are_not_gone_on_with() {
    let mut rig = Rig::new();
    let mut client = rig.connect_and_go();
    let len = 3 * ZERO_PIECE_BYTES as u32;
    client.send(&request(command::WRITE_ZEROES, command_flag::NO_HOLE, 1, 0, len));
    rig.settle();
    rig.service.answer();
    rig.settle();
    rig.service.fail();
    rig.settle();
    assert!(rig.service.taken.is_empty());
    assert_eq!(errno_in(&client.receive()), errno::IO);
    let slow = command_flag::NO_HOLE | command_flag::FAST_ZERO;
    client.send(&request(command::WRITE_ZEROES, slow, 2, 0, len));
    rig.settle();
    assert_eq!(errno_in(&client.receive()), errno::NOTSUP);
}

#[test]
fn every_request_is_counted_once_as_what_it_is() {
    let mut rig = Rig::new();
    let mut client = rig.connect_and_go();
    let mut expected =
        Statistics { connections_open: 1, connections_accepted: 1, ..Statistics::default() };
    // Each kind another number of times, so that none is taken for another.
    let kinds = [
        (command::READ, 2, 512),
        (command::WRITE, 3, 1024),
        (command::FLUSH, 4, 0),
        (command::TRIM, 5, 512),
        (command::WRITE_ZEROES, 6, 512),
        (command::CACHE, 7, 512),
    ];
    for (kind, times, len) in kinds {
        for turn in 0..times {
            client.send(&request(kind, 0, 1, 0, len));
            if kind == command::WRITE {
                client.send(&vec![7; len as usize]);
            }
            rig.settle();
            // The last one of each kind fails, where the service is asked at all.
            if turn + 1 == times && kind != command::CACHE {
                rig.service.fail();
                expected.errors += 1;
            } else if kind != command::CACHE {
                rig.service.answer();
            }
            rig.settle();
            client.receive();
        }
    }
    expected.reads = 2;
    expected.read_bytes = 2 * 512;
    expected.writes = 3;
    expected.written_bytes = 3 * 1024;
    expected.flushes = 4;
    expected.trims = 5;
    expected.write_zeroes = 6;
    expected.other_requests = 7;
    assert_eq!(rig.clients.statistics(), expected);
    assert_eq!(expected.requests(), 27);
}

/// Sends a flush; whether it came to the service.
fn flush(rig: &mut Rig, client: &mut crate::server::testing::Peer) -> bool {
    client.send(&request(command::FLUSH, 0, 1, 0, 0));
    rig.settle();
    !rig.service.taken.is_empty()
}

#[test]
fn a_loss_is_told_once_and_not_again_to_whose_flush_failed_for_it() {
    for fails_itself in [false, true] {
        let mut rig = Rig::new();
        let mut writing = rig.connect_and_go();
        let mut other = rig.connect_and_go();
        writing.send(&request(command::TRIM, 0, 1, 0, 512));
        rig.settle();
        rig.service.answer();
        rig.settle();
        assert_eq!(errno_in(&writing.receive()), 0);
        if fails_itself {
            assert!(flush(&mut rig, &mut writing));
            rig.service.losses = 1;
            rig.service.fail();
            rig.settle();
        } else {
            rig.service.losses = 1;
            assert!(!flush(&mut rig, &mut writing), "told without the service");
        }
        assert_eq!(errno_in(&writing.receive()), errno::IO);
        assert_eq!(rig.clients.statistics().errors, 1);
        // It knows now.
        assert!(flush(&mut rig, &mut writing), "told twice of one loss");
        rig.service.answer();
        rig.settle();
        assert_eq!(errno_in(&writing.receive()), 0);
        // The other may have relied on it as well.
        assert!(!flush(&mut rig, &mut other));
        assert_eq!(errno_in(&other.receive()), errno::IO);
        assert_eq!(rig.clients.statistics().errors, 2);
    }
}
