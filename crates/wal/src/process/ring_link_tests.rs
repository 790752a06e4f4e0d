//! What a hostile side can store in the shared memory, and what the other side makes of it: an error,
//! within its deadline, whatever it is.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use super::super::frame::Ask;
use super::super::message::Request;
use super::super::region::RING_BYTES;
use super::super::serve::{Ended, serve};
use super::super::transport;
use super::*;
use crate::error::WalErrorKind;
use nearhead_basics::SplitMix;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

const DEADLINE: Option<Duration> = Some(Duration::from_millis(50));
const SMALL: u32 = 4096;

/// Both sides of a link, and a mapping to do harm with.
struct Pair {
    client: (RingIncoming, RingOutgoing),
    helper: (RingIncoming, RingOutgoing),
    harm: Region,
}

fn pair() -> Pair {
    pair_with(DEADLINE)
}

fn pair_with(deadline: Option<Duration>) -> Pair {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (region, file) = Region::create(SMALL).unwrap();
    let opened = || Region::open(&file, SMALL).unwrap();
    let client = RingLink::ends(region, ours.into(), Direction::ToHelper, deadline);
    let helper = RingLink::ends(opened(), theirs.into(), Direction::FromHelper, deadline);
    Pair { client, helper, harm: opened() }
}

fn receive_one(incoming: &mut RingIncoming) -> io::Result<Option<(Header, Vec<u8>)>> {
    loop {
        let next = incoming.next().map_err(|error| io::Error::other(error.detail))?;
        if let Some((header, body)) = next {
            return Ok(Some((header, incoming.bytes(body).to_vec())));
        }
        if incoming.fill()? == 0 {
            return Ok(None);
        }
    }
}

fn write_at(outgoing: &RingOutgoing, tag: u64, bytes: &[u8]) -> io::Result<()> {
    let kind = FrameKind::Request(Ask::WriteAt);
    outgoing.send(kind, tag, 3, [&tag.to_le_bytes(), bytes], None)
}

#[test]
fn frames_of_every_length_come_whole_also_when_larger_than_the_ring() {
    let Pair { client, helper: (mut incoming, outgoing), .. } = pair();
    let lens = [0, 1, 7, 8, 9, 4000, 4064, 4095, 4096, 9001, 300_000, BODY_BYTES_MAX - 8];
    let content = |len: usize| -> Vec<u8> { (0..len).map(|at| (at % 251) as u8).collect() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (tag, len) in (1..).zip(lens) {
                let (header, body) = receive_one(&mut incoming).unwrap().unwrap();
                assert_eq!((header.tag, header.handle), (tag, 3));
                assert!(body[..8] == tag.to_le_bytes() && body[8..] == content(len), "{len}");
                assert!(
                    incoming.memory[BODY_AT + 8..].as_ptr().addr().is_multiple_of(4096),
                    "bytes of a write lie aligned"
                );
            }
            drop(incoming);
            drop(outgoing);
        });
        for (tag, len) in (1..).zip(lens) {
            write_at(&client.1, tag, &content(len)).unwrap();
        }
    });
}

#[test]
fn a_position_that_cannot_be_is_an_error_that_stays() {
    // As far as it goes, past the end, back over what was read, back over what was told.
    for (first, second) in [(0, 513), (0, u64::MAX), (0, 1 << 63), (5, 2), (5, 4)] {
        let Pair { client: (mut incoming, _out), helper: _helper, harm } = pair();
        let lane = harm.lane(Direction::FromHelper);
        let sent = Header { body_bytes: 0, kind: FrameKind::Error, tag: 1, handle: 0 }.encode();
        for (word, bytes) in lane.data.iter().zip(sent.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        lane.written.store(first, Ordering::Release);
        if first > 0 {
            assert!(incoming.next().unwrap().is_some());
        }
        lane.written.store(second, Ordering::Release);
        let error = incoming.next().unwrap_err();
        assert_eq!(error.kind, WalErrorKind::OutOfRange);
        assert!(error.detail.contains("written"), "{error}");
        lane.written.store(first, Ordering::Release);
        assert_eq!(incoming.next().unwrap_err(), error, "nothing is believed any more");
        assert_eq!(incoming.check_end().unwrap_err(), error);
    }
    for read in [5, u64::MAX, 1 << 40] {
        let Pair { client: (_in, outgoing), helper: _helper, harm } = pair();
        write_at(&outgoing, 1, &[]).unwrap();
        harm.lane(Direction::ToHelper).read.store(read, Ordering::Release);
        let error = write_at(&outgoing, 2, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}

#[test]
fn a_side_that_stops_is_an_error_by_the_deadline_and_one_that_ends_at_once() {
    let Pair { client: (mut incoming, outgoing), helper, .. } = pair();
    assert_eq!(incoming.fill().unwrap_err().kind(), io::ErrorKind::TimedOut);
    let error = write_at(&outgoing, 1, &[7; 5000]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "nobody makes room");
    write_at(&helper.1, 9, b"last words").unwrap();
    drop(helper);
    assert_eq!(receive_one(&mut incoming).unwrap().unwrap().0.tag, 9, "what was told is told");
    assert_eq!(incoming.fill().unwrap(), 0);
    assert!(outgoing.reserve(&mut Producer::default(), 513).is_err(), "nobody will make room");
}

#[test]
fn bells_without_an_end_do_not_keep_a_side_past_its_deadline() {
    let Pair { client: (mut incoming, _out), helper, .. } = pair();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                helper.1.link.ring_bell(None).unwrap();
                std::thread::yield_now();
            }
        });
        let outcome = incoming.fill();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn any_bytes_anywhere_in_the_memory_are_frames_or_an_error() {
    let mut refused_count = 0;
    for seed in 0..300 {
        let mut random = SplitMix::new(seed);
        let pair = pair_with(Some(Duration::from_millis(1)));
        let Pair { client: (mut incoming, outgoing), helper: _helper, harm } = pair;
        let words = harm.words();
        for word in &words[512..] {
            // Often something like a header: small numbers.
            let number = random.next_u64();
            word.store(if seed % 2 == 0 { number } else { number >> 40 }, Ordering::Relaxed);
        }
        for _ in 0..4 {
            let at = random.below(128) as usize;
            words[at].store(random.below(600), Ordering::Relaxed);
        }
        harm.lane(Direction::FromHelper).written.store(random.below(600), Ordering::Release);
        // Bounded: each round takes words away or ends it.
        let mut outcome = Ok(());
        for _ in 0..600 {
            outcome = receive_one(&mut incoming).map(drop);
            if outcome.is_err() {
                break;
            }
        }
        assert!(outcome.is_err(), "seed {seed}: it ends");
        refused_count += u32::from(incoming.broken.is_some());
        let _ = write_at(&outgoing, 1, &[1; 100]);
    }
    assert!(refused_count > 150, "{refused_count}");
}

/// A client that speaks properly up to the ring, then does what it likes with the memory.
fn helper_after(harm: impl FnOnce(&Region)) -> Ended {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    let output = theirs.try_clone().unwrap();
    let serving = std::thread::spawn(move || serve(theirs, output));
    let (region, file) = Region::create(RING_BYTES).unwrap();
    let outgoing = transport::Outgoing::new(ours.try_clone().unwrap().into());
    let mut incoming = transport::Incoming::new(ours.into());
    let asked = [
        (Request::Hello { directory: None }, None),
        (Request::OpenRing { ring_bytes: RING_BYTES }, Some(rustix::fd::AsFd::as_fd(&file))),
    ];
    for (tag, (request, file)) in (1..).zip(asked) {
        let (ask, body) = request.encode();
        outgoing.send(FrameKind::Request(ask), tag, 0, [&body, &[]], file).unwrap();
        while incoming.next().unwrap().is_none_or(|(header, _)| {
            assert_eq!((header.kind, header.tag), (FrameKind::Reply(ask), tag));
            false
        }) {
            assert!(incoming.fill().unwrap() > 0);
        }
    }
    harm(&region);
    incoming.shut_down();
    serving.join().unwrap()
}

#[test]
fn a_helper_ends_when_its_client_stores_nonsense() {
    assert_eq!(helper_after(|_| {}), Ended::Finished);
    let stored = |written: u64, first: u64| {
        move |region: &Region| {
            let lane = region.lane(Direction::ToHelper);
            lane.data[0].store(first, Ordering::Relaxed);
            lane.written.store(written, Ordering::Release);
        }
    };
    assert_eq!(helper_after(stored(u64::MAX, 0)), Ended::AgainstProtocol, "a position");
    assert_eq!(helper_after(stored(3, u64::MAX)), Ended::AgainstProtocol, "a header");
    assert_eq!(helper_after(stored(2, 0)), Ended::AgainstProtocol, "half a header");
    let long = (u64::from(Ask::WriteAt as u16) << 32) | (1 << 20);
    let half_a_body = move |region: &Region| {
        let lane = region.lane(Direction::ToHelper);
        lane.data[0].store(long, Ordering::Relaxed);
        lane.data[1].store(5, Ordering::Relaxed);
        lane.written.store(10, Ordering::Release);
    };
    assert_eq!(helper_after(half_a_body), Ended::AgainstProtocol, "half a body");
}
