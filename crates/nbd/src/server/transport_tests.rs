//! Conversations through a session that scrambles every byte, takes and gives little at a time, and holds its owner to
//! the contract of [`Session`]: real ones are slower to go wrong.

use super::*;
use crate::protocol::TlsMode;
use crate::protocol::constants::{SIMPLE_REPLY_MAGIC, command, option, option_reply};
use crate::protocol::testing::{CLIENT_FLAGS, info_data, option as opt, option_replies, request};
use crate::server::memory::Budget;
use crate::server::testing::Rig;
use nearhead_service::Operation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the scrambling adds to each byte.
const KEY: u8 = 0x55;
const GOODBYE: &[u8] = b"goodbye";
/// Most bytes that wait to be sent, and most given at once.
const UNSENT_MAX: usize = 5000;
const PULLED_MAX: usize = 7;
/// A plain byte that ends a session, and one that breaks it.
const END: u8 = 0xee;
const BREAK: u8 = 0xbb;

fn scrambled(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ KEY).collect()
}

#[derive(Default)]
struct Scrambler {
    fails: AtomicBool,
}

impl Sessions for Scrambler {
    fn begin(&self) -> io::Result<TlsSession> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("no luck"));
        }
        Ok(Box::new(Scrambled { starved: true, ..Scrambled::default() }))
    }
}

#[derive(Default)]
struct Scrambled {
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// The last pull had nothing.
    starved: bool,
    /// Sends are gathered every other time.
    gathers: bool,
}

impl Session for Scrambled {
    fn take_encrypted(&mut self, bytes: &[u8]) {
        assert!(self.starved, "only when it was starved");
        self.received.extend(scrambled(bytes));
    }

    fn pull(&mut self, target: &mut [u8]) -> io::Result<Pulled> {
        self.starved = self.received.is_empty();
        let len = self.received.len().min(target.len()).min(PULLED_MAX);
        match self.received.first() {
            _ if target.is_empty() => Ok(Pulled::Bytes(0)),
            None => Ok(Pulled::Starved),
            Some(&END) => Ok(Pulled::End),
            Some(&BREAK) => Err(io::Error::other("it broke the session")),
            Some(_) => {
                target[..len].copy_from_slice(&self.received[..len]);
                self.received.drain(..len);
                Ok(Pulled::Bytes(len))
            }
        }
    }

    fn push(&mut self, plain: &[IoSlice<'_>]) -> io::Result<usize> {
        let before = self.unsent.len();
        for slice in plain {
            let room = UNSENT_MAX - self.unsent.len();
            self.unsent.extend(scrambled(&slice[..slice.len().min(room)]));
        }
        Ok(self.unsent.len() - before)
    }

    fn wants_send(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn send(&mut self, socket: &mut dyn Write) -> io::Result<usize> {
        self.gathers = !self.gathers;
        let half = self.unsent.len() / 2;
        let sent = if self.gathers {
            let (one, other) = self.unsent.split_at(half);
            socket.write_vectored(&[IoSlice::new(one), IoSlice::new(other)])?
        } else {
            socket.write(&self.unsent)?
        };
        assert!((1..=self.unsent.len()).contains(&sent), "{sent} of {}", self.unsent.len());
        self.unsent.drain(..sent);
        Ok(sent)
    }

    fn close(&mut self) {
        self.unsent.extend(scrambled(GOODBYE));
    }
}

fn rig() -> (Rig, Arc<Scrambler>) {
    let sessions = Arc::new(Scrambler::default());
    let known = Arc::clone(&sessions) as Arc<dyn Sessions>;
    let budget = Budget::new(64 << 20, 1000, 64 << 20, 100);
    let rig = Rig::with(
        |policy| {
            policy.tls_mode = TlsMode::Required;
            policy.tls = Some(known);
        },
        budget,
    );
    (rig, sessions)
}

fn start_tls() -> Vec<u8> {
    [&CLIENT_FLAGS[..], &opt(option::STARTTLS, &[])].concat()
}

fn ack(number: u32) -> (u32, u32, Vec<u8>) {
    (number, option_reply::ACK, Vec::new())
}

#[test]
fn a_conversation_goes_through_a_session_in_however_small_pieces() {
    let (mut rig, _) = rig();
    let mut client = rig.connect();
    client.send(&start_tls());
    rig.settle();
    assert_eq!(option_replies(&client.receive()[18..]), [ack(option::STARTTLS)]);
    // All at once: what waits inside of the session shows on no descriptor.
    let payload: Vec<u8> = (0..20_480_u32).map(|at| (at % 101) as u8).collect();
    let go = opt(option::GO, &info_data(b"", &[]));
    let write = request(command::WRITE, 0, 1, 512, 20_480);
    let read = request(command::READ, 0, 2, 0, 256 << 10);
    client.send(&scrambled(&[go, write, payload.clone(), read].concat()));
    rig.settle();
    assert_eq!(rig.service.taken.len(), 2, "both have come");
    let found = scrambled(&client.receive());
    let replies = option_replies(&found);
    assert_eq!(replies.last(), Some(&ack(option::GO)));
    let operation = rig.service.answer();
    let Operation::Write { data, .. } = operation else { panic!("{operation:?}") };
    let mut written = vec![0; data.len()];
    data.copy_to(&mut written);
    assert!(written == payload);
    rig.service.answer();
    rig.settle();
    let expected = 16 + 16 + (256 << 10);
    let mut found = Vec::new();
    while found.len() < expected {
        let now = client.receive();
        assert!(!now.is_empty(), "{} of {expected} bytes came", found.len());
        found.extend(scrambled(&now));
        rig.settle();
    }
    assert_eq!(found.len(), expected);
    assert_eq!(found[..4], SIMPLE_REPLY_MAGIC.to_be_bytes());
    assert!(found[32..].iter().all(|byte| *byte == 0));
    client.send(&scrambled(&[END]));
    rig.settle();
    assert_eq!(client.receive_some(usize::MAX), (scrambled(GOODBYE), true));
    assert_eq!(rig.clients.take_notices(), [""; 0], "it left as it should");
    assert_eq!(rig.clients.statistics().connections_open, 0);
}

#[test]
fn bytes_ahead_of_tls_and_sessions_that_cannot_begin_end_the_connection() {
    for (ahead, fails) in [(true, false), (false, true), (false, false)] {
        let (mut rig, sessions) = rig();
        sessions.fails.store(fails, Ordering::Relaxed);
        let mut client = rig.connect();
        let more = if ahead { opt(option::LIST, &[]) } else { Vec::new() };
        client.send(&[start_tls(), more].concat());
        rig.settle();
        let is_cut_off = ahead || fails;
        let (_, is_closed) = client.receive_some(usize::MAX);
        assert_eq!(is_closed, is_cut_off, "ahead: {ahead}, fails: {fails}");
        let notices = rig.clients.take_notices();
        assert_eq!(notices.len(), usize::from(is_cut_off), "{notices:?}");
        assert!(notices.iter().all(|notice| notice.contains("cut off")), "{notices:?}");
    }
}

#[test]
fn a_session_that_its_client_breaks_is_told_and_a_plain_connection_that_breaks_is_not() {
    let (mut rig, _) = rig();
    let mut client = rig.connect();
    client.send(&start_tls());
    rig.settle();
    client.send(&scrambled(&[BREAK]));
    rig.settle();
    assert!(client.is_closed());
    assert_eq!(rig.clients.take_notices(), ["a client was cut off: it broke the session"]);
    // Whoever leaves without reading everything resets a connection.
    for is_reset_late in [false, true] {
        let mut plain = rig.connect();
        if is_reset_late {
            plain.send(&CLIENT_FLAGS);
        }
        drop(plain);
        rig.settle();
    }
    assert_eq!(rig.clients.take_notices(), [""; 0]);
    assert_eq!(rig.clients.statistics().connections_open, 0);
}

#[test]
fn an_answer_through_a_session_that_its_client_has_left_ends_the_connection() {
    let (mut rig, _) = rig();
    let mut client = rig.connect();
    client.send(&start_tls());
    rig.settle();
    let go = opt(option::GO, &info_data(b"", &[]));
    client.send(&scrambled(&[go, request(command::READ, 0, 1, 0, 4096)].concat()));
    rig.settle();
    drop(client);
    rig.service.answer();
    rig.settle();
    assert_eq!(rig.clients.statistics().connections_open, 0);
}
