//! Clients that come, ask, stall and go, turn by turn at times that the test chooses: what is counted, who is told what,
//! and who is let go.

use super::token;
use crate::protocol::constants::{command, errno, option, option_reply};
use crate::protocol::testing::{CLIENT_FLAGS, option as opt, option_replies, request};
use crate::server::event_loop::CLIENT_TOKENS;
use crate::server::memory::Budget;
use crate::server::testing::{Rig, failed, hello};
use nearhead_disk::Nanos;
use nearhead_service::{Operation, RequestId};

/// Simple replies without content, taken apart: error number and cookie.
fn replies(bytes: &[u8]) -> Vec<(u32, u64)> {
    let reply = |bytes: &[u8]| {
        let errno = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        (errno, u64::from_be_bytes(bytes[8..].try_into().unwrap()))
    };
    assert_eq!(bytes.len() % 16, 0, "{bytes:02x?}");
    bytes.chunks(16).map(reply).collect()
}

#[test]
fn clients_are_counted_as_they_come_and_go() {
    let mut rig =
        Rig::with(|policy| policy.connections_max = 2, Budget::new(1 << 20, 100, 1 << 20, 100));
    assert!(!rig.clients.anyone_to_look_after());
    let mut first = rig.connect();
    let second = rig.connect();
    assert!(rig.clients.anyone_to_look_after(), "two that have not ended the handshake");
    first.send(&hello());
    rig.settle();
    assert!(rig.clients.anyone_to_look_after(), "one");
    drop(second);
    rig.settle();
    assert!(!rig.clients.anyone_to_look_after());
    let counts = |rig: &Rig| {
        let found = rig.clients.statistics();
        (found.connections_accepted, found.connections_open, found.connections_refused)
    };
    assert_eq!(counts(&rig), (2, 1, 0));
    let third = rig.connect_and_go();
    assert_eq!(counts(&rig), (3, 2, 0));
    // More than are told at the same time, one after the other.
    for number in 1..=40 {
        let mut refused = rig.connect();
        refused.send(&hello());
        rig.settle();
        let said = refused.receive();
        let words = &option_replies(&said[18..])[0];
        assert_eq!(words.1, option_reply::ERR_POLICY, "number {number}");
        assert_eq!(counts(&rig), (3, 2, number));
        assert!(!rig.clients.anyone_to_look_after());
    }
    drop(first);
    rig.settle();
    assert_eq!(counts(&rig), (3, 1, 40));
    let mut fourth = rig.connect_and_go();
    assert_eq!(counts(&rig), (4, 2, 40));
    rig.clients.close_all(Nanos::ZERO);
    assert_eq!(counts(&rig), (4, 0, 40));
    assert!(fourth.is_closed());
    drop(third);
    assert!(rig.clients.take_notices().is_empty());
}

#[test]
fn who_came_and_left_is_told_once_with_what_was_asked_for_but_not_who_never_ended_the_handshake() {
    let mut rig = Rig::new();
    let mut peer = rig.connect_and_go();
    let came = rig.clients.take_visits();
    assert_eq!(came.len(), 1, "{came:?}");
    assert!(came[0].starts_with("client 1 (process "), "{came:?}");
    assert!(came[0].ends_with("came to the default export"), "{came:?}");
    peer.send(&request(command::READ, 0, 1, 0, 512));
    peer.send(&request(command::FLUSH, 0, 2, 0, 0));
    rig.settle();
    let stranger = rig.connect();
    drop((peer, stranger));
    rig.settle();
    let left = rig.clients.take_visits();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].ends_with("s: 2 requests, 512 bytes read, 0 written"), "{left:?}");
    assert!(rig.clients.take_visits().is_empty());
}

#[test]
fn of_many_who_come_at_once_a_bounded_number_is_told_one_by_one() {
    let mut rig = Rig::new();
    let peers: Vec<_> = (0..70).map(|_| rig.connect_and_go()).collect();
    let came = rig.clients.take_visits();
    assert_eq!(came.len(), 65, "{came:?}");
    assert_eq!(came[64], "6 more clients came or left");
    drop(peers);
}

#[test]
fn an_answer_never_reaches_the_successor_of_who_asked_for_it() {
    let mut rig = Rig::new();
    let mut leaving = rig.connect_and_go();
    leaving.send(&request(command::FLUSH, 0, 7, 0, 0));
    rig.settle();
    drop(leaving);
    rig.settle();
    let mut successor = rig.connect_and_go();
    rig.service.answer();
    rig.settle();
    assert_eq!(successor.receive(), []);
    successor.send(&request(command::FLUSH, 0, 8, 0, 0));
    rig.settle();
    rig.service.answer();
    rig.settle();
    assert_eq!(replies(&successor.receive()), [(0, 8)]);
}

#[test]
fn a_token_names_a_place_and_tells_those_apart_that_follow_each_other_there() {
    for place in [0, 1, 77, u32::MAX] {
        for id in [0, 1, 2, 0xff_ffff, 0x100_0000, u64::MAX - 1] {
            let found = token(place, id);
            assert_eq!(found & 0xff << 56, CLIENT_TOKENS, "id {id:#x}");
            assert_eq!(found as u32, place);
            assert_ne!(found, token(place, id + 1));
        }
    }
}

#[test]
fn who_leaves_while_it_waits_for_room_is_let_go() {
    let mut rig = Rig::with(|_| (), Budget::new(1 << 20, 100, 1 << 20, 1));
    let mut client = rig.connect_and_go();
    client.send(&request(command::READ, 0, 1, 0, 512).repeat(2));
    rig.settle();
    assert_eq!(rig.service.taken.len(), 1, "the second one waits");
    drop(client);
    rig.settle();
    assert_eq!(rig.clients.statistics().connections_open, 0);
    rig.service.answer();
    rig.settle();
    assert_eq!(rig.clients.unanswered(), 0);
}

#[test]
fn what_a_client_sent_before_it_left_is_still_done() {
    let mut rig = Rig::new();
    let mut client = rig.connect_and_go();
    client.send(&[request(command::WRITE, 0, 1, 512, 512), vec![7; 512]].concat());
    drop(client);
    rig.settle();
    let done = rig.service.answer();
    assert!(matches!(done, Operation::Write { offset: 512, .. }), "{done:?}");
    rig.settle();
    assert_eq!(rig.clients.statistics().connections_open, 0);
}

#[test]
fn of_those_who_hold_memory_only_who_does_nothing_for_the_whole_time_is_cut_off() {
    let mut rig = Rig::with(|_| (), Budget::new(300 << 10, 100, 300 << 10, 100));
    let mut slow = rig.connect_and_go();
    slow.send(
        &[request(command::READ, 0, 1, 0, 256 << 10), request(command::FLUSH, 0, 2, 0, 0)].concat(),
    );
    rig.settle();
    rig.service.answer();
    rig.settle();
    let mut needy = rig.connect_and_go();
    needy.send(&request(command::READ, 0, 3, 0, 256 << 10));
    rig.settle();
    assert!(rig.clients.anyone_to_look_after(), "it waits for what the slow one holds");
    let look = |rig: &mut Rig, seconds: u64| {
        rig.now = Nanos::from_secs(seconds);
        rig.clients.cut_off_stalled(rig.now);
        rig.settle();
        rig.clients.statistics().connections_stalled
    };
    // Whoever takes a little is not stalled.
    rig.now = Nanos::from_secs(5);
    assert!(!slow.receive().is_empty());
    rig.settle();
    assert_eq!(look(&mut rig, 12), 0);
    // An answer that it does not take is nothing that it did.
    rig.service.answer();
    rig.settle();
    assert_eq!(look(&mut rig, 14), 0);
    assert_eq!(look(&mut rig, 15), 1);
    let notices = rig.clients.take_notices();
    let words = "a client was cut off: it held memory that others need and did nothing for 10 s";
    assert_eq!(notices, [words]);
    rig.settle();
    assert_eq!(rig.service.taken.len(), 1, "who needed it is served");
}

#[test]
fn handshakes_are_let_go_when_their_time_is_over_and_told_in_one_line() {
    let mut rig = Rig::new();
    let look = |rig: &mut Rig, millis: u64| {
        rig.now = Nanos::from_millis(millis);
        rig.clients.let_go_unfinished(rig.now);
        rig.settle();
        (rig.clients.statistics().connections_unfinished, rig.clients.take_notices())
    };
    let served = rig.connect_and_go();
    let mut late = rig.connect();
    assert_eq!(look(&mut rig, 9_999), (0, vec![]));
    let one = "a client was let go: its handshake did not end within 10 s";
    assert_eq!(look(&mut rig, 10_000), (1, vec![one.to_owned()]));
    assert!(late.is_closed());
    let _late = [rig.connect(), rig.connect()];
    assert_eq!(look(&mut rig, 19_999), (1, vec![]));
    let two = "2 clients were let go: their handshake did not end within 10 s";
    assert_eq!(look(&mut rig, 20_000), (3, vec![two.to_owned()]));
    assert_eq!(look(&mut rig, 99_000), (3, vec![]));
    assert_eq!(rig.clients.statistics().connections_open, 1);
    drop(served);
}

#[test]
fn all_is_quiet_once_every_request_is_answered_and_every_answer_sent() {
    let mut rig = Rig::new();
    let mut client = rig.connect_and_go();
    assert!(rig.clients.is_quiet());
    client.send(&request(command::READ, 0, 1, 0, 256 << 10));
    rig.settle();
    assert!(!rig.clients.is_quiet(), "asked");
    rig.service.answer();
    rig.settle();
    assert!(!rig.clients.is_quiet(), "answered and not sent");
    assert_eq!(rig.clients.unanswered(), 0);
    let mut found = 0;
    while found < 16 + (256 << 10) {
        found += client.receive().len();
        rig.settle();
    }
    assert!(rig.clients.is_quiet());
}

#[test]
fn replies_that_nobody_reads_stop_the_conversation_and_are_there_afterwards() {
    let mut rig = Rig::with(|_| (), Budget::new(1 << 20, 100, 64 << 10, 100));
    let mut flooding = rig.connect_and_go();
    // Answered from here, and no memory is asked for them.
    let all = request(command::CACHE, 0, 5, 0, 512).repeat(60_000);
    let mut sent = 0;
    loop {
        let now = flooding.send_some(&all[sent..]);
        rig.settle();
        sent += now;
        if now == 0 {
            break;
        }
    }
    assert!(sent < all.len(), "any number of requests is taken");
    let answered = rig.clients.statistics().other_requests;
    assert!((4096..12_000).contains(&answered), "{answered} answers wait");
    let mut found = Vec::new();
    while found.len() < 60_000 * 16 {
        found.extend(flooding.receive());
        sent += flooding.send_some(&all[sent..]);
        rig.settle();
    }
    assert!(replies(&found).iter().all(|reply| *reply == (0, 5)));
}

#[test]
fn who_asks_for_no_memory_is_served_when_there_is_none() {
    let mut rig = Rig::with(|_| (), Budget::new(256 << 10, 100, 256 << 10, 100));
    let mut hoarding = rig.connect_and_go();
    let mut modest = rig.connect_and_go();
    hoarding.send(&request(command::WRITE, 0, 1, 0, 256 << 10));
    rig.settle();
    modest.send(&request(command::CACHE, 0, 2, 0, 512));
    rig.settle();
    assert_eq!(replies(&modest.receive()), [(0, 2)]);
    modest.send(&request(command::READ, 0, 3, 0, 512));
    rig.settle();
    assert!(rig.service.taken.is_empty(), "a read needs some");
}

#[test]
fn only_what_went_wrong_is_told() {
    let mut rig = Rig::new();
    let mut client = rig.connect_and_go();
    client.send(&request(command::DISC, 0, 0, 0, 0));
    rig.settle();
    let mut leaving = rig.connect();
    leaving.send(&[&CLIENT_FLAGS[..], &opt(option::ABORT, &[])].concat());
    rig.settle();
    let reset = rig.connect_and_go();
    drop(reset);
    rig.settle();
    assert_eq!(rig.clients.take_notices(), [""; 0]);
    let mut lost = rig.connect_and_go();
    lost.send(&[0; 28]);
    rig.settle();
    let words = "a client was let go: it sent a request without its magic number";
    assert_eq!(rig.clients.take_notices(), [words]);
    assert_eq!(rig.clients.take_notices(), [""; 0], "once");
    rig.service.replies.push_back(failed(RequestId(12_345)));
    rig.settle();
    assert_eq!(rig.clients.take_notices(), ["the service answered RequestId(12345) twice"]);
    assert_eq!(rig.clients.statistics().errors, 0);
    assert!(!rig.clients.take_submitted(), "nothing went to the service");
    let mut client = rig.connect_and_go();
    client.send(&request(command::FLUSH, 0, 4, 0, 0));
    rig.settle();
    rig.service.fail();
    rig.settle();
    assert_eq!(replies(&client.receive()), [(errno::IO, 4)]);
    assert_eq!(rig.clients.statistics().errors, 1);
}
