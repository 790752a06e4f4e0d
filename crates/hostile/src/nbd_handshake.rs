//! The NBD handshake: everything a client may say before it may send requests.
//!
//! The laws: the machine never panics and never loops; how the bytes are cut into receives does
//! not matter; it holds at most one staging buffer; and what it answers can be taken apart by a
//! client: the greeting, then whole replies to options that were asked.

use crate::input::Input;
use crate::nbd_transmission::{Conversation, Talk, option_bytes};
use nearhead_nbd::TlsMode;
use nearhead_nbd::protocol::constants::{OPTION_REPLY_MAGIC, handshake, option};

/// Speaks the input to a server.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let step = 1 + usize::from(input.byte());
    let bytes = input.rest();
    let tls = [TlsMode::Off, TlsMode::Optional, TlsMode::Required][usize::from(choice & 3) % 3];
    let refusal = (choice & 4 != 0).then(|| "too many clients".to_owned());
    let speak = |step| {
        let mut talk = Talk::new(tls, refusal.clone(), choice & 8 != 0);
        talk.speak(bytes, step);
        talk.end()
    };
    let whole = speak(usize::MAX);
    let single = speak(1);
    // Bytes that come in the clear together with STARTTLS end it, as they must.
    if !whole.began_tls {
        assert!(single.is_same(&whole), "single bytes matter: {single:?} {whole:?}");
        let pieces = speak(step);
        assert!(pieces.is_same(&whole), "pieces of {step} bytes matter: {pieces:?} {whole:?}");
    }
    check_answers(&single);
}

/// The greeting, and replies up to the end of the handshake.
fn check_answers(talk: &Conversation) {
    let sent = &talk.sent;
    assert!(sent.len() >= 18, "no greeting: {sent:02x?}");
    if !talk.stayed_in_handshake {
        return;
    }
    let mut rest = &sent[18..];
    while !rest.is_empty() {
        let whole = rest.len() >= 20 && rest[..8] == OPTION_REPLY_MAGIC.to_be_bytes();
        assert!(whole, "not a reply to an option: {rest:02x?}");
        let len = u32::from_be_bytes([rest[16], rest[17], rest[18], rest[19]]) as usize;
        assert!(rest.len() >= 20 + len, "a reply of {len} bytes is not whole: {rest:02x?}");
        rest = &rest[20 + len..];
    }
}

/// The flags of a client that knows everything.
pub(crate) fn client_flags() -> Vec<u8> {
    u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes().to_vec()
}

fn counted(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text].concat()
}

/// Name and information requests, as INFO and GO carry them.
pub(crate) fn info_data(name: &[u8], facts: &[u16]) -> Vec<u8> {
    let mut bytes = counted(name);
    bytes.extend((facts.len() as u16).to_be_bytes());
    bytes.extend(facts.iter().flat_map(|fact| fact.to_be_bytes()));
    bytes
}

/// Name and queries, as the metadata context options carry them.
pub(crate) fn context_data(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = counted(name);
    bytes.extend((queries.len() as u32).to_be_bytes());
    bytes.extend(queries.iter().flat_map(|query| counted(query)));
    bytes
}

/// Every option, alone and in a conversation.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let options: Vec<Vec<u8>> = vec![
        option_bytes(option::LIST, &[]),
        option_bytes(option::STRUCTURED_REPLY, &[]),
        option_bytes(option::LIST_META_CONTEXT, &context_data(b"", &[])),
        option_bytes(option::SET_META_CONTEXT, &context_data(b"disk", &[b"base:allocation"])),
        option_bytes(option::INFO, &info_data(b"disk", &[0, 1, 2, 3])),
        option_bytes(99, b"what"),
        option_bytes(option::STARTTLS, &[]),
        option_bytes(option::GO, &info_data(b"", &[3])),
        option_bytes(option::EXPORT_NAME, b"alias"),
        option_bytes(option::ABORT, &[]),
    ];
    let speech = |choice: u8, options: &[Vec<u8>]| {
        [vec![choice, 6], client_flags(), options.concat()].concat()
    };
    let mut seeds: Vec<Vec<u8>> =
        options.iter().map(|option| speech(0, std::slice::from_ref(option))).collect();
    seeds.extend((0..16).map(|choice| speech(choice, &options[choice as usize % 6..])));
    let mut oldest = speech(0, &options[8..9]);
    oldest[5] = 0;
    seeds.push(oldest);
    seeds
}
