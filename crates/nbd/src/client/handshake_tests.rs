//! The handshake against a peer that says each thing it may say, each that it may not, and each bound to the byte.

use super::handshake::{Facts, choose, what_is_missing};
use crate::protocol::Form;
use crate::protocol::constants::{
    OPTION_REPLY_MAGIC, STRING_BYTES_MAX, flag, info, option, option_reply,
};
use std::io::{self, Cursor, Read, Write};

/// Says what it was told to say and hears everything.
struct Peer {
    says: Cursor<Vec<u8>>,
    heard: Vec<u8>,
}

impl Read for Peer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.says.read(buffer)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.heard.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
const SIZE: u64 = 1 << 30;
const FLAGS: u16 = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_WRITE_ZEROES;

fn reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let numbers = [number, kind, data.len() as u32].map(u32::to_be_bytes).concat();
    [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &numbers, data].concat()
}

fn no(number: u32) -> Vec<u8> {
    reply(number, option_reply::ERR_UNSUP, &[])
}

fn ack(number: u32) -> Vec<u8> {
    reply(number, option_reply::ACK, &[])
}

fn export() -> Vec<u8> {
    let facts = [&info::EXPORT.to_be_bytes()[..], &SIZE.to_be_bytes(), &FLAGS.to_be_bytes()];
    reply(option::GO, option_reply::INFO, &facts.concat())
}

fn blocks(sizes: [u32; 3]) -> Vec<u8> {
    let sizes = sizes.map(u32::to_be_bytes).concat();
    let facts = [&info::BLOCK_SIZE.to_be_bytes()[..], &sizes].concat();
    reply(option::GO, option_reply::INFO, &facts)
}

/// A context's number and its name.
fn context(number: u32, name: &[u8]) -> Vec<u8> {
    let data = [&number.to_be_bytes()[..], name].concat();
    reply(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &data)
}

/// What a client makes of a peer that says this, and what the peer heard.
fn told(export: &str, says: &[Vec<u8>]) -> (Result<Facts, String>, Vec<u8>) {
    let mut peer = Peer { says: Cursor::new(says.concat()), heard: Vec::new() };
    (choose(&mut peer, export), peer.heard)
}

/// The same with a right greeting, and no to all forms but the simple one, before it.
fn told_simply(says: &[Vec<u8>]) -> Result<Facts, String> {
    let before = [GREETING.to_vec(), no(option::EXTENDED_HEADERS), no(option::STRUCTURED_REPLY)];
    told("", &[&before, says].concat()).0
}

#[test]
fn a_greeting_is_right_in_each_of_its_parts_and_answered_with_what_both_know() {
    let rest = [no(11), no(8), export(), ack(option::GO)];
    for (flags, own) in [(1_u16, Some(1)), (3, Some(3)), (0xffff, Some(3)), (0, None), (2, None)] {
        let greeting = [&GREETING[..16], &flags.to_be_bytes()].concat();
        let (facts, heard) = told("", &[&[greeting], &rest[..]].concat());
        assert_eq!(facts.is_ok(), own.is_some(), "flags {flags:#x}: {facts:?}");
        let found = heard.first_chunk().map(|first| u32::from_be_bytes(*first));
        assert_eq!(found, own, "flags {flags:#x}");
    }
    for at in 0..16 {
        let mut greeting = GREETING.to_vec();
        greeting[at] ^= 1;
        let problem = told("", &[&[greeting], &rest[..]].concat()).0.unwrap_err();
        assert!(problem.contains("expected fixed newstyle NBD"), "byte {at}: {problem}");
    }
}

#[test]
fn a_name_is_as_long_as_a_string_may_be_and_no_longer() {
    let rest = [GREETING.to_vec(), no(11), no(8), export(), ack(option::GO)];
    for (len, is_right) in
        [(STRING_BYTES_MAX, true), (STRING_BYTES_MAX + 1, false), (STRING_BYTES_MAX + 2, false)]
    {
        let (facts, heard) = told(&"x".repeat(len), &rest);
        assert_eq!((facts.is_ok(), !heard.is_empty()), (is_right, is_right), "{len} bytes");
    }
}

/// Types of replies that are neither a yes nor a no.
const NONSENSE: [u32; 6] = [0, option_reply::SERVER, 5, 99, 1 << 30, u32::MAX >> 1];
/// Types of replies that say no, known or not.
const REFUSALS: [u32; 5] = [
    option_reply::ERRORS,
    option_reply::ERR_UNSUP,
    option_reply::ERR_POLICY,
    option_reply::ERR_INVALID,
    u32::MAX,
];

#[test]
fn each_form_is_a_yes_or_a_no_and_the_best_one_is_taken() {
    let go = [export(), ack(option::GO)].concat();
    let (extended, structured) = (option::EXTENDED_HEADERS, option::STRUCTURED_REPLY);
    let no_context = no(option::SET_META_CONTEXT);
    for kind in REFUSALS {
        for (says, form) in [
            (vec![ack(extended), no_context.clone()], Form::Extended),
            (
                vec![reply(extended, kind, b"no"), ack(structured), no_context.clone()],
                Form::Structured,
            ),
            (vec![reply(extended, kind, b"no"), reply(structured, kind, &[])], Form::Simple),
        ] {
            let facts =
                told("", &[&[GREETING.to_vec()], &says[..], std::slice::from_ref(&go)].concat()).0;
            let facts = facts.unwrap();
            assert_eq!((facts.form, facts.allocation), (form, None), "{kind:#x}");
            assert_eq!((facts.size_bytes, facts.flags), (SIZE, FLAGS));
        }
    }
    for kind in NONSENSE.into_iter().chain([option_reply::INFO, option_reply::META_CONTEXT]) {
        for says in [
            vec![reply(extended, kind, &[]), ack(structured), no_context.clone()],
            vec![no(extended), reply(structured, kind, &[])],
        ] {
            let facts =
                told("", &[&[GREETING.to_vec()], &says[..], std::slice::from_ref(&go)].concat()).0;
            let problem = facts.unwrap_err();
            assert!(problem.contains("expected a yes or a no"), "{kind:#x}: {problem}");
        }
    }
}

#[test]
fn only_the_context_that_was_asked_for_is_taken() {
    let begin = [GREETING.to_vec(), ack(option::EXTENDED_HEADERS)].concat();
    let end = ack(option::SET_META_CONTEXT);
    let go = [export(), ack(option::GO)].concat();
    let base: &[u8] = b"base:allocation";
    for (contexts, expected) in [
        (vec![], None),
        (vec![context(7, base)], Some(7)),
        (
            vec![context(8, b"qemu:dirty"), context(7, base), context(9, b"base:allocatiom")],
            Some(7),
        ),
        (vec![context(8, b"base:allocation2")], None),
        (vec![context(8, b"base:")], None),
        (vec![reply(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &[0; 3])], None),
    ] {
        let says = [begin.clone(), contexts.concat(), end.clone(), go.clone()];
        assert_eq!(told("", &says).0.unwrap().allocation, expected);
    }
    for kind in REFUSALS {
        let refusal = reply(option::SET_META_CONTEXT, kind, b"words");
        let says = [begin.clone(), context(7, base), refusal, go.clone()];
        assert_eq!(told("", &says).0.unwrap().allocation, None, "{kind:#x}");
    }
    for kind in NONSENSE.into_iter().chain([option_reply::INFO]) {
        let nonsense = reply(option::SET_META_CONTEXT, kind, &[]);
        let problem = told("", &[begin.clone(), nonsense, end.clone(), go.clone()]).0.unwrap_err();
        assert!(problem.contains("expected a context or an end"), "{kind:#x}: {problem}");
    }
}

#[test]
fn a_reply_has_its_magic_the_option_it_answers_and_a_length_that_can_be_listened_to() {
    let (go, longest) = (option::GO, 2 * STRING_BYTES_MAX);
    let words = |len| reply(go, option_reply::INFO, &[&[0, 9][..], &vec![b'x'; len - 2]].concat());
    for (len, is_right) in [(2, true), (longest, true), (longest + 1, false)] {
        let facts = told_simply(&[words(len), export(), ack(go)]);
        assert_eq!(facts.is_ok(), is_right, "{len} bytes: {facts:?}");
    }
    for at in 0..12 {
        let mut bent = ack(go);
        bent[at] ^= 1;
        let problem = told_simply(&[export(), bent]).unwrap_err();
        assert!(problem.contains("expected a reply to GO"), "byte {at}: {problem}");
    }
}

#[test]
fn block_sizes_are_powers_of_two_and_the_largest_request_has_room_for_the_smallest() {
    for (sizes, is_right) in [
        ([1, 4096, u32::MAX], true),
        ([512, 4096, 65_536], true),
        ([4096, 4096, 4096], true),
        ([4096, 4096, 4097], true),
        ([4096, 4096, 4095], false),
        ([4096, 4096, 0], false),
        ([0, 4096, 65_536], false),
        ([3, 4096, 65_536], false),
        ([512, 0, 65_536], false),
        ([512, 4095, 65_536], false),
    ] {
        let facts = told_simply(&[export(), blocks(sizes), ack(option::GO)]);
        match facts {
            Ok(facts) => {
                let found =
                    [facts.block_bytes_min, facts.block_bytes_preferred, facts.request_bytes_max];
                assert!(is_right && found == sizes, "{sizes:?}: {found:?}");
            }
            Err(problem) => assert!(!is_right && problem.contains("in order"), "{problem}"),
        }
    }
}

#[test]
fn every_refusal_is_told_in_its_own_words() {
    for (kind, expected) in [
        (option_reply::ERR_UNKNOWN, "there is no such export"),
        (option_reply::ERR_TLS_REQD, "it wants TLS"),
        (option_reply::ERR_UNSUP, "its protocol is too old"),
        (option_reply::ERR_POLICY, "it is not allowed"),
        (option_reply::ERR_INVALID, "it says no"),
        (option_reply::SERVER, "it says no"),
    ] {
        let problem = told_simply(&[reply(option::GO, kind, b"because")]).unwrap_err();
        assert!(problem.contains(expected) && problem.ends_with("because"), "{problem}");
    }
}

#[test]
fn a_volume_needs_blocks_of_a_page_at_most_and_requests_of_64_kib_at_least() {
    let facts = told_simply(&[export(), ack(option::GO)]).unwrap();
    for (least, most, is_enough) in [
        (1, 32 << 20, true),
        (4096, 65_536, true),
        (8192, 65_536, false),
        (4097, 65_536, false),
        (4096, 65_535, false),
        (512, 1088, false),
        (512, 1089, false),
        (512, u32::MAX, true),
    ] {
        let facts = Facts { block_bytes_min: least, request_bytes_max: most, ..facts };
        let missing = what_is_missing(&facts);
        assert_eq!(missing.is_none(), is_enough, "{least} to {most}: {missing:?}");
    }
    for (flags, is_enough) in [
        (FLAGS, true),
        (FLAGS & !flag::SEND_WRITE_ZEROES, false),
        (FLAGS & !flag::SEND_FUA, false),
        (FLAGS & !flag::SEND_FLUSH, true),
        (FLAGS & !flag::SEND_FLUSH & !flag::SEND_FUA, true),
        (flag::READ_ONLY, true),
    ] {
        let missing = what_is_missing(&Facts { flags, ..facts });
        assert_eq!(missing.is_none(), is_enough, "{flags:#x}: {missing:?}");
    }
}
