//! The handshake, option by option.

use super::*;
use crate::protocol::constants::flag;
use crate::protocol::testing::{
    CLIENT_FLAGS, context_data, counted, feed, info, info_data, machine, machine_with,
    option as opt, option_replies, sent,
};
use crate::protocol::{Event, Machine};
use nearhead_service::ServiceInfo;

/// Sends one option after the client flags; its replies.
fn ask(machine: &mut Machine, number: u32, data: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let events = feed(machine, &opt(number, data), 5);
    assert!(events.is_empty(), "{events:?}");
    option_replies(&sent(machine))
}

fn greeted(mut machine: Machine) -> Machine {
    let greeting = sent(&mut machine);
    assert_eq!(greeting, [&b"NBDMAGICIHAVEOPT"[..], &[0, 3]].concat());
    feed(&mut machine, &CLIENT_FLAGS, 1);
    machine
}

fn kinds(replies: &[(u32, u32, Vec<u8>)]) -> Vec<u32> {
    replies.iter().map(|(_, kind, _)| *kind).collect()
}

#[test]
fn an_unknown_option_is_unsupported_and_the_next_one_is_understood() {
    let mut machine = greeted(machine());
    for number in [0, 4, 12, 77, u32::MAX] {
        assert_eq!(kinds(&ask(&mut machine, number, b"whatever")), [reply::ERR_UNSUP]);
    }
    assert_eq!(kinds(&ask(&mut machine, option::STRUCTURED_REPLY, &[])), [reply::ACK]);
}

#[test]
fn list_names_every_export() {
    let mut machine = greeted(machine());
    let replies = ask(&mut machine, option::LIST, &[]);
    assert_eq!(kinds(&replies), [reply::SERVER, reply::SERVER, reply::ACK]);
    assert_eq!(replies[0].2, counted(b"disk"));
    assert_eq!(kinds(&ask(&mut machine, option::LIST, b"x")), [reply::ERR_INVALID]);
}

#[test]
fn info_tells_what_was_asked_and_stays_in_the_handshake() {
    let mut machine = greeted(machine());
    let facts = [info::BLOCK_SIZE, info::NAME, info::DESCRIPTION, 99];
    let replies = ask(&mut machine, option::INFO, &info_data(b"alias", &facts));
    assert_eq!(kinds(&replies), [3, 3, 3, 3, reply::ACK]);
    assert_eq!(replies[0].2[..10], [&[0, 0][..], &(1_u64 << 20).to_be_bytes()].concat());
    assert_eq!(replies[1].2, b"\0\x01alias");
    assert_eq!(replies[2].2, b"\0\x02a test disk");
    assert_eq!(replies[3].2, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 0, 4, 0, 0]);
    assert!(!machine.is_transmitting());
}

#[test]
fn go_enters_the_transmission_phase_of_an_export_that_exists() {
    let mut machine = greeted(machine());
    let replies = ask(&mut machine, option::GO, &info_data(b"missing", &[]));
    assert_eq!(kinds(&replies), [reply::ERR_UNKNOWN]);
    assert!(!machine.is_transmitting());
    let replies = ask(&mut machine, option::GO, &info_data(b"", &[]));
    assert_eq!(kinds(&replies), [reply::INFO, reply::ACK]);
    assert!(machine.is_transmitting());
}

#[test]
fn malformed_options_are_told_apart_from_unknown_exports() {
    let mut machine = greeted(machine());
    let good = info_data(b"disk", &[info::NAME]);
    for cut in 0..good.len() {
        let replies = ask(&mut machine, option::GO, &good[..cut]);
        assert_eq!(kinds(&replies), [reply::ERR_INVALID], "cut at {cut}");
    }
    let longer = [&good[..], b"x"].concat();
    assert_eq!(kinds(&ask(&mut machine, option::GO, &longer)), [reply::ERR_INVALID]);
    let lying = [&[0xff; 4][..], b"disk"].concat();
    assert_eq!(kinds(&ask(&mut machine, option::INFO, &lying)), [reply::ERR_INVALID]);
}

#[test]
fn df_is_offered_only_with_structured_replies() {
    for structured in [false, true] {
        let mut machine = greeted(machine());
        if structured {
            ask(&mut machine, option::STRUCTURED_REPLY, &[]);
        }
        let replies = ask(&mut machine, option::INFO, &info_data(b"", &[]));
        let flags = u16::from_be_bytes(replies[0].2[10..12].try_into().unwrap());
        assert_eq!(flags & flag::SEND_DF != 0, structured);
    }
}

#[test]
fn large_blocks_must_be_asked_for() {
    let large = ServiceInfo { block_bytes_min: 4096, ..info() };
    let mut machine = greeted(machine_with(large, TlsMode::Off));
    let replies = ask(&mut machine, option::GO, &info_data(b"", &[]));
    assert_eq!(kinds(&replies), [reply::ERR_BLOCK_SIZE_REQD]);
    ask(&mut machine, option::GO, &info_data(b"", &[info::BLOCK_SIZE]));
    assert!(machine.is_transmitting());
}

#[test]
fn export_name_answers_with_or_without_the_zeros() {
    for (flags, len) in [([0, 0, 0, 3], 10), ([0, 0, 0, 1], 134), ([0, 0, 0, 0], 134)] {
        let mut machine = machine();
        sent(&mut machine);
        feed(&mut machine, &flags, 4);
        feed(&mut machine, &opt(option::EXPORT_NAME, b"disk"), 100);
        assert_eq!(sent(&mut machine).len(), len);
        assert!(machine.is_transmitting());
    }
}

#[test]
fn an_old_client_may_send_nothing_but_export_name() {
    let mut machine = machine();
    feed(&mut machine, &[0, 0, 0, 0], 4);
    let events = feed(&mut machine, &opt(option::LIST, &[]), 100);
    assert!(matches!(events[..], [Event::Closed(_)]));
}

#[test]
fn what_has_no_reply_in_the_protocol_ends_the_conversation() {
    for bytes in [
        [&CLIENT_FLAGS[..], &opt(option::EXPORT_NAME, b"missing")].concat(),
        [0, 0, 0, 7].to_vec(),
        [&CLIENT_FLAGS[..], &[9; 16]].concat(),
    ] {
        let events = feed(&mut machine(), &bytes, 3);
        assert!(matches!(events[..], [Event::Closed(_)]), "{bytes:?} gave {events:?}");
    }
}

#[test]
fn an_oversize_option_is_skipped_and_answered() {
    let mut machine = greeted(machine());
    let replies = ask(&mut machine, option::GO, &vec![0; 1 << 20]);
    assert_eq!(kinds(&replies), [reply::ERR_TOO_BIG]);
    assert_eq!(kinds(&ask(&mut machine, option::LIST, &[])).len(), 3);
}

#[test]
fn contexts_need_structured_replies_and_the_same_export() {
    let mut machine = greeted(machine());
    let choice = context_data(b"disk", &[b"base:allocation", b"qemu:dirty"]);
    let replies = ask(&mut machine, option::SET_META_CONTEXT, &choice);
    assert_eq!(kinds(&replies), [reply::ERR_INVALID]);
    ask(&mut machine, option::STRUCTURED_REPLY, &[]);
    let replies = ask(&mut machine, option::SET_META_CONTEXT, &choice);
    assert_eq!(kinds(&replies), [reply::META_CONTEXT, reply::ACK]);
    assert_eq!(replies[0].2, [&[0, 0, 0, 1][..], b"base:allocation"].concat());
    // The empty name is the export "disk".
    let go = info_data(b"", &[]);
    assert_eq!(
        answer(&mut chosen_for("disk"), &export(), option::GO, &go, &mut Vec::new()),
        Outcome::Transmission { allocation: true }
    );
    assert_eq!(
        answer(&mut chosen_for("alias"), &export(), option::GO, &go, &mut Vec::new()),
        Outcome::Transmission { allocation: false }
    );
    // The old way to choose an export follows the same rule.
    for (name, asked, allocation) in
        [("disk", "", true), ("disk", "disk", true), ("disk", "alias", false), ("alias", "", false)]
    {
        let number = option::EXPORT_NAME;
        let outcome =
            answer(&mut chosen_for(name), &export(), number, asked.as_bytes(), &mut Vec::new());
        assert_eq!(outcome, Outcome::Transmission { allocation }, "{name}, {asked:?}");
    }
}

#[test]
fn who_leaves_in_the_handshake_is_told_goodbye() {
    for data in [&b""[..], b"data"] {
        let mut machine = greeted(machine());
        let bytes = [opt(option::ABORT, data), opt(option::LIST, &[])].concat();
        let events = feed(&mut machine, &bytes, usize::MAX);
        assert!(matches!(events[..], [Event::Closed(None)]), "{events:?}");
        let replies = option_replies(&sent(&mut machine));
        assert_eq!(replies, [(option::ABORT, reply::ACK, Vec::new())]);
    }
}

fn export() -> Export {
    Export::new(vec!["disk".into(), "alias".into()], info()).unwrap()
}

fn chosen_for(name: &str) -> Negotiation {
    Negotiation {
        fixed_newstyle: true,
        form: Form::Structured,
        allocation_of: Some(name.to_owned()),
        ..Negotiation::default()
    }
}

#[test]
fn contexts_are_listed_by_name_by_namespace_and_without_a_query() {
    let mut machine = greeted(machine());
    for (queries, found) in [
        (vec![], true),
        (vec![&b"base:"[..]], true),
        (vec![&b"base:allocation"[..]], true),
        (vec![&b"qemu:"[..]], false),
    ] {
        let replies = ask(&mut machine, option::LIST_META_CONTEXT, &context_data(b"", &queries));
        assert_eq!(replies.len() == 2, found, "{queries:?}");
    }
    let most = context_data(b"", &[&b"base:"[..]; CONTEXT_QUERIES_MAX as usize]);
    let replies = ask(&mut machine, option::LIST_META_CONTEXT, &most);
    assert_eq!(kinds(&replies), [reply::META_CONTEXT, reply::ACK]);
    let many = context_data(b"", &[&b"base:"[..]; CONTEXT_QUERIES_MAX as usize + 1]);
    let replies = ask(&mut machine, option::LIST_META_CONTEXT, &many);
    assert_eq!(kinds(&replies), [reply::ERR_INVALID]);
}

#[test]
fn a_failed_choice_leaves_no_context() {
    let mut negotiation = chosen_for("disk");
    let data = context_data(b"missing", &[b"base:allocation"]);
    answer(&mut negotiation, &export(), option::SET_META_CONTEXT, &data, &mut Vec::new());
    assert_eq!(negotiation.allocation_of, None);
}

#[test]
fn required_tls_answers_nothing_else_first() {
    let mut machine = greeted(machine_with(info(), TlsMode::Required));
    for number in [option::LIST, option::GO, option::STRUCTURED_REPLY, 99] {
        assert_eq!(kinds(&ask(&mut machine, number, &[])), [reply::ERR_TLS_REQD]);
    }
    let events = feed(&mut machine, &opt(option::STARTTLS, &[]), 100);
    assert!(matches!(events[..], [Event::StartTls]));
    assert!(machine.begin_tls());
    sent(&mut machine);
    assert_eq!(kinds(&ask(&mut machine, option::LIST, &[])).len(), 3);
    assert_eq!(kinds(&ask(&mut machine, option::STARTTLS, &[])), [reply::ERR_INVALID]);
}

#[test]
fn bytes_smuggled_in_before_tls_are_noticed() {
    let mut machine = greeted(machine_with(info(), TlsMode::Optional));
    let smuggled = [opt(option::STARTTLS, &[]), opt(option::LIST, &[])].concat();
    let events = feed(&mut machine, &smuggled, usize::MAX);
    assert!(matches!(events[..], [Event::StartTls]));
    assert!(!machine.begin_tls());
}

#[test]
fn tls_forgets_what_was_agreed_in_the_clear() {
    let mut negotiation = chosen_for("disk");
    negotiation.restart_under_tls();
    assert_eq!(negotiation.form, Form::Simple);
    assert!(negotiation.allocation_of.is_none());
}

#[test]
fn without_a_certificate_tls_is_refused_by_policy() {
    let mut machine = greeted(machine());
    assert_eq!(kinds(&ask(&mut machine, option::STARTTLS, &[])), [reply::ERR_POLICY]);
}

#[test]
fn a_full_server_says_so() {
    let mut negotiation = Negotiation {
        fixed_newstyle: true,
        refusal: Some("all 3 connections are in use".to_owned()),
        ..Negotiation::default()
    };
    let mut out = Vec::new();
    let outcome = answer(&mut negotiation, &export(), option::GO, &[], &mut out);
    assert!(matches!(outcome, Outcome::Close(_)));
    let replies = option_replies(&out);
    assert_eq!(kinds(&replies), [reply::ERR_POLICY]);
    assert_eq!(replies[0].2, b"all 3 connections are in use");
}

#[test]
fn extended_headers_have_structured_replies_in_them_and_no_way_back() {
    let mut machine = greeted(machine());
    let with_data = ask(&mut machine, option::EXTENDED_HEADERS, b"x");
    assert_eq!(kinds(&with_data), [reply::ERR_INVALID]);
    assert_eq!(kinds(&ask(&mut machine, option::STRUCTURED_REPLY, &[])), [reply::ACK]);
    assert_eq!(kinds(&ask(&mut machine, option::EXTENDED_HEADERS, &[])), [reply::ACK]);
    assert_eq!(kinds(&ask(&mut machine, option::EXTENDED_HEADERS, &[])), [reply::ERR_INVALID]);
    let again = ask(&mut machine, option::STRUCTURED_REPLY, &[]);
    assert_eq!(kinds(&again), [reply::ERR_EXT_HEADER_REQD]);
    let choice = context_data(b"", &[b"base:allocation"]);
    let replies = ask(&mut machine, option::SET_META_CONTEXT, &choice);
    assert_eq!(kinds(&replies), [reply::META_CONTEXT, reply::ACK]);
    let replies = ask(&mut machine, option::INFO, &info_data(b"", &[]));
    let flags = u16::from_be_bytes(replies[0].2[10..12].try_into().unwrap());
    assert_ne!(flags & flag::SEND_DF, 0);
}
