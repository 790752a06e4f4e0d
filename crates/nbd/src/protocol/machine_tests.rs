//! The machine under well-formed, cut and arbitrary bytes.

use super::*;
use crate::protocol::constants::{command_flag, errno, option, option_reply};
use crate::protocol::reply::Form;
use crate::protocol::testing::{
    CLIENT_FLAGS, Counter, context_data, extended_request, feed, feed_with, info_data, machine,
    option as opt, option_replies, request, sent, transmitting, transmitting_in,
};
use proptest::prelude::*;

fn requests(events: Vec<Event>) -> Vec<ClientRequest> {
    let request = |event| match event {
        Event::Request(request) => request,
        other => panic!("expected a request, found {other:?}"),
    };
    events.into_iter().map(request).collect()
}

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    bytes
}

#[test]
fn a_pipelined_batch_is_understood_however_it_is_cut() {
    let large = 200 * 1024;
    let mut bytes = Vec::new();
    for cookie in 0..4 {
        let len = if cookie == 2 { large } else { 1024 };
        bytes.extend(request(command::WRITE, command_flag::FUA, cookie, 512 * cookie, len));
        bytes.extend(vec![cookie as u8 + 1; len as usize]);
        bytes.extend(request(command::READ, 0, cookie + 100, 0, 4096));
    }
    for step in [1, 27, 28, 29, 1000, 65_536, usize::MAX] {
        let requests = requests(feed(&mut transmitting(false, false), &bytes, step));
        assert_eq!(requests.len(), 8, "step {step}");
        for (at, request) in requests.iter().step_by(2).enumerate() {
            assert!(request.fua);
            assert_eq!(request.handle.cookie, at as u64);
            let expected = vec![at as u8 + 1; request.len as usize];
            assert!(bytes_of(&request.payload) == expected, "payload {at}, step {step}");
        }
    }
}

#[test]
fn a_refused_write_is_skipped_and_answered_and_the_next_request_is_served() {
    let mut machine = transmitting(false, false);
    let size = 1 << 20;
    let too_long = 300 * 1024;
    let mut bytes = request(command::WRITE, 0, 1, size, 512);
    bytes.extend([9; 512]);
    bytes.extend(request(command::WRITE, 0, 2, 0, too_long));
    bytes.extend(vec![9; too_long as usize]);
    bytes.extend(request(command::WRITE, 0, 3, 0, 0));
    bytes.extend(request(command::READ, 0, 4, 0, 512));
    let served = requests(feed(&mut machine, &bytes, 10_000));
    assert_eq!(served.len(), 1);
    assert_eq!(served[0].handle.cookie, 4);
    let replies = sent(&mut machine);
    assert_eq!(replies.len(), 3 * 16);
    assert_eq!(replies[4..8], errno::NOSPC.to_be_bytes());
    assert_eq!(replies[20..24], errno::INVAL.to_be_bytes());
}

#[test]
fn a_refusal_is_told_only_when_the_whole_payload_is_there() {
    let size = 1 << 20;
    let too_long = 300 * 1024;
    // Outside, too large, an unknown flag.
    for (flags, offset, len) in [(0, size, 512), (0, 0, too_long), (8, 0, 4096)] {
        let mut machine = transmitting(true, false);
        let message = request(command::WRITE, flags, 1, offset, len);
        let payload = vec![9; len as usize];
        assert!(feed(&mut machine, &message, 28).is_empty());
        assert!(feed(&mut machine, &payload[1..], 70_000).is_empty());
        let early = sent(&mut machine);
        assert!(early.is_empty(), "answered while the client still sends: {early:02x?}");
        assert!(machine.inbox.held_bytes() <= STAGING_BYTES, "the payload is dropped as it comes");
        assert!(feed(&mut machine, &payload[..1], 1).is_empty());
        assert!(!sent(&mut machine).is_empty());
        let next = request(command::READ, 0, 2, 0, 512);
        assert_eq!(requests(feed(&mut machine, &next, 28)).len(), 1);
    }
}

#[test]
fn payloads_of_extended_requests_that_have_none_are_dropped_too() {
    let mut machine = transmitting_in(Form::Extended, true);
    let flags = command_flag::PAYLOAD_LEN;
    let mut bytes = extended_request(command::BLOCK_STATUS, flags, 1, 0, 12);
    bytes.extend([7; 12]);
    bytes.extend(extended_request(command::TRIM, 0, 2, 0, 1 << 20));
    bytes.extend(extended_request(command::WRITE, flags, 3, 512, 1024));
    bytes.extend([5; 1024]);
    let served = requests(feed(&mut machine, &bytes, 50));
    assert_eq!(served.len(), 2);
    assert_eq!((served[0].command, served[0].len), (ClientCommand::Trim, 1 << 20));
    assert_eq!(bytes_of(&served[1].payload), vec![5; 1024]);
    let refused = sent(&mut machine);
    assert_eq!(refused[4..8], [0, 1, 0x80, 1], "one chunk, an error");
    let events = feed(&mut machine, &extended_request(9, flags, 1, 0, SKIP_BYTES_MAX + 1), 32);
    assert!(matches!(events[..], [Event::Closed(Some(_))]));
    assert!(!sent(&mut machine).is_empty(), "answered before the end");
}

#[test]
fn a_write_too_long_to_skip_is_answered_and_ends_the_conversation() {
    let mut machine = transmitting(true, false);
    let events = feed(&mut machine, &request(command::WRITE, 0, 1, 0, u32::MAX), 28);
    assert!(matches!(events[..], [Event::Closed(_)]));
    assert!(!machine.outbox().is_empty());
}

#[test]
fn no_payload_memory_is_taken_before_admission() {
    let mut machine = transmitting(false, false);
    let mut intake = Counter { bytes_max: 4096, bytes: 0 };
    let batch = [request(command::WRITE, 0, 1, 0, 8192), vec![5; 8192]].concat();
    let events = feed_with(&mut machine, &batch, usize::MAX, &mut intake);
    assert!(matches!(events[..], [Event::Paused]));
    assert_eq!(intake.bytes, 0);
    intake.bytes_max = 8192;
    let Some(Event::Request(request)) = machine.poll(&mut intake) else { panic!() };
    assert_eq!(bytes_of(&request.payload), vec![5; 8192]);
}

#[test]
fn disconnect_and_lost_streams_end_the_conversation() {
    for bytes in [request(command::DISC, 0, 0, 0, 0), vec![0; 28]] {
        let mut machine = transmitting(false, false);
        let events = feed(&mut machine, &bytes, 28);
        assert!(matches!(events[..], [Event::Closed(_)]));
        assert!(machine.poll(&mut Counter::unlimited()).is_none());
    }
}

#[test]
fn block_status_is_served_once_it_was_negotiated() {
    let bytes = request(command::BLOCK_STATUS, command_flag::REQ_ONE, 1, 0, 4096);
    let served = requests(feed(&mut transmitting(true, true), &bytes, 100));
    assert_eq!(served[0].command, ClientCommand::BlockStatus { one_extent: true });
    let mut machine = transmitting(true, false);
    assert!(feed(&mut machine, &bytes, 100).is_empty());
    assert!(!machine.outbox().is_empty(), "refused with an answer");
}

#[test]
fn unread_refusals_stop_the_conversation_until_they_are_read() {
    let mut machine = transmitting(true, false);
    let batch = request(command::READ, 0, 1, 1, 1).repeat(2000);
    let events = feed(&mut machine, &batch, usize::MAX);
    assert!(matches!(events[..], [Event::Paused]));
    assert!(machine.outbox().len() < UNREAD_BYTES_MAX + 1000);
    sent(&mut machine);
    assert!(machine.waiting_bytes() > 0);
    machine.poll(&mut Counter::unlimited());
    assert!(!machine.outbox().is_empty(), "goes on once the answers were read");
}

#[test]
fn an_idle_connection_holds_no_staging_buffer() {
    let mut machine = transmitting(false, false);
    feed(&mut machine, &request(command::READ, 0, 1, 0, 512)[..20], 20);
    assert!(machine.inbox.held_bytes() < 100);
}

#[test]
fn bounds_hold_at_the_last_byte_inside_them_and_not_one_further() {
    let header = |number, len| [&opt(number, &[])[..12], &u32::to_be_bytes(len)].concat();
    let last_skipped = SKIP_BYTES_MAX as u32;
    for (beyond, expected) in [(false, 0), (true, 1)] {
        let more = u32::from(beyond);
        let mut machine = machine();
        let option = header(77, last_skipped + more);
        let events = feed(&mut machine, &[&CLIENT_FLAGS[..], &option].concat(), usize::MAX);
        assert_eq!(events.len(), expected, "an option of {last_skipped} + {more} bytes");
        let mut machine = transmitting(true, false);
        let events = feed(&mut machine, &request(99, 0, 1, 0, 512), 28);
        assert!(events.is_empty() && !sent(&mut machine).is_empty());
        let events = feed(&mut machine, &request(command::WRITE, 0, 1, 0, last_skipped + more), 28);
        assert_eq!(events.len(), expected, "a write of {last_skipped} + {more} bytes");
    }
    for (beyond, expected) in [(0, option_reply::ERR_UNSUP), (1, option_reply::ERR_TOO_BIG)] {
        let mut machine = machine();
        sent(&mut machine);
        let option = opt(77, &vec![0; OPTION_BYTES_MAX + beyond]);
        feed(&mut machine, &[&CLIENT_FLAGS[..], &option].concat(), usize::MAX);
        let replies = option_replies(&sent(&mut machine));
        assert_eq!(replies.iter().map(|(_, kind, _)| *kind).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn nothing_more_is_answered_from_here_beyond_the_unread_replies_that_may_wait() {
    let options = || {
        let mut machine = machine();
        feed(&mut machine, &CLIENT_FLAGS, 4);
        (machine, opt(option::LIST, &[]))
    };
    let requests = || (transmitting(true, false), request(99, 0, 1, 0, 512));
    for make in [&options as &dyn Fn() -> (Machine, Vec<u8>), &requests] {
        for (unread, expected) in
            [(UNREAD_BYTES_MAX, false), (UNREAD_BYTES_MAX + 1, true), (UNREAD_BYTES_MAX + 2, true)]
        {
            let (mut machine, bytes) = make();
            sent(&mut machine);
            machine.outbox().put_header(|out| out.resize(unread, 0));
            let events = feed(&mut machine, &bytes, usize::MAX);
            assert_eq!(matches!(events[..], [Event::Paused]), expected, "{unread} bytes unread");
            assert_eq!(machine.outbox().len() == unread, expected);
        }
    }
}

#[test]
fn a_message_that_ends_behind_the_staging_buffer_is_understood() {
    // Of every third one at least a kibibyte lies before the end of the buffer.
    let option = opt(77, &[7; 10_000]);
    let count = 40;
    let mut machine = machine();
    sent(&mut machine);
    let bytes = [&CLIENT_FLAGS[..], &option.repeat(count)].concat();
    assert!(feed(&mut machine, &bytes, usize::MAX).is_empty());
    assert_eq!(option_replies(&sent(&mut machine)).len(), count);
}

#[test]
fn large_payloads_are_received_where_they_belong_and_little_behind_them() {
    let rooms =
        |machine: &mut Machine| machine.receive_slices(&mut Vec::new()).map(|slice| slice.len());
    let direct = DIRECT_BYTES as u32;
    for (len, behind) in [
        (direct + 512, HEADER_ROOM_BYTES),
        (direct, HEADER_ROOM_BYTES),
        (direct - 512, STAGING_BYTES),
    ] {
        let mut machine = transmitting(false, false);
        assert_eq!(rooms(&mut machine), [0, STAGING_BYTES]);
        feed(&mut machine, &request(command::WRITE, 0, 1, 0, len), 28);
        let expected = if len >= direct { [len as usize, 0] } else { [len as usize, behind] };
        assert_eq!(rooms(&mut machine), expected, "a payload of {len} bytes");
        feed(&mut machine, &vec![1; len as usize - 1000], usize::MAX);
        assert_eq!(rooms(&mut machine), [1000, behind], "the rest of {len} bytes");
        feed(&mut machine, &[1; 1000], usize::MAX);
        assert_eq!(rooms(&mut machine), [0, behind], "after {len} bytes");
        // What is only dropped goes through the whole buffer.
        feed(&mut machine, &request(command::WRITE, 0, 2, 0, 300 * 1024), 28);
        assert_eq!(rooms(&mut machine), [0, STAGING_BYTES]);
        feed(&mut machine, &vec![1; 300 * 1024], usize::MAX);
        feed(&mut machine, &request(command::READ, 0, 3, 0, 512), 28);
        assert_eq!(rooms(&mut machine), [0, STAGING_BYTES], "a read follows no payload");
    }
}

/// Feeds anything at all; checks the bounds after every step.
fn survive(mut machine: Machine, bytes: &[u8], step: usize) {
    let mut intake = Counter { bytes_max: 1 << 20, bytes: 0 };
    for chunk in bytes.chunks(16 * 1024) {
        let events = feed_with(&mut machine, chunk, step, &mut intake);
        for event in &events {
            if let Event::Request(request) = event {
                assert!(request.offset + request.len <= 1 << 20);
                intake.bytes -= machine.export.memory_bytes(request);
            }
        }
        assert!(machine.inbox.held_bytes() <= STAGING_BYTES);
        assert!(intake.bytes <= 1 << 20);
        assert!(machine.outbox().len() <= UNREAD_BYTES_MAX + 4096);
        if matches!(events.last(), Some(Event::Closed(_) | Event::StartTls)) {
            return;
        }
    }
}

/// Bytes that look like the protocol more often than chance would have it.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0_u32..12, any::<u32>()];
    let options = (number, prop::collection::vec(any::<u8>(), 0..64))
        .prop_map(|(number, data)| opt(number, &data));
    let go = Just(opt(option::GO, &info_data(b"", &[3])));
    let context = Just(opt(option::SET_META_CONTEXT, &context_data(b"", &[b"base:allocation"])));
    let structured = Just(opt(option::STRUCTURED_REPLY, &[]));
    let requests = (0_u16..9, any::<u8>(), any::<u16>(), 0_u32..(1 << 19)).prop_map(
        |(kind, flags, offset, len)| {
            let (offset, len) = (u64::from(offset) * 512, len / 512 * 512);
            let mut bytes = request(kind, u16::from(flags), 1, offset, len);
            if kind == command::WRITE && flags % 8 != 0 {
                bytes.resize(bytes.len() + len as usize, 0xaa);
            }
            bytes
        },
    );
    let extended = (0_u16..9, any::<u8>(), any::<u16>(), 0_u32..(1 << 19)).prop_map(
        |(kind, flags, offset, len)| {
            let (offset, len) = (u64::from(offset) * 512, u64::from(len / 512 * 512));
            let mut bytes = extended_request(kind, u16::from(flags), 1, offset, len);
            if kind == command::WRITE || flags & 32 != 0 {
                bytes.resize(bytes.len() + len as usize, 0xaa);
            }
            bytes
        },
    );
    let with_extended = Just(opt(option::EXTENDED_HEADERS, &[]));
    let noise = prop::collection::vec(any::<u8>(), 0..64);
    let message =
        prop_oneof![options, go, context, structured, with_extended, requests, extended, noise];
    prop::collection::vec(message, 0..24).prop_map(|messages| messages.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_grow(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        step in 1_usize..3000,
    ) {
        survive(machine(), &bytes, step);
        survive(machine(), &[&CLIENT_FLAGS[..], &bytes].concat(), step);
        survive(transmitting(true, true), &bytes, step);
        survive(transmitting_in(Form::Extended, true), &bytes, step);
    }

    #[test]
    fn no_conversation_makes_it_panic_or_grow(
        bytes in conversation(),
        step in 1_usize..70_000,
    ) {
        survive(machine(), &[&CLIENT_FLAGS[..], &bytes].concat(), step);
        survive(transmitting(true, true), &bytes, step);
        survive(transmitting_in(Form::Extended, true), &bytes, step);
    }

    #[test]
    fn cutting_a_conversation_elsewhere_changes_nothing(
        bytes in conversation(),
        step in 1_usize..5000,
        is_extended: bool,
    ) {
        let form = if is_extended { Form::Extended } else { Form::Structured };
        let run = |step| {
            let mut machine = transmitting_in(form, true);
            let events = feed(&mut machine, &bytes, step);
            (format!("{events:?}"), sent(&mut machine))
        };
        prop_assert_eq!(run(usize::MAX), run(step));
    }
}
