//! Replies, byte by byte.

use super::*;
use nearhead_disk::BufferMut;

fn data(byte: u8, len: usize) -> Payload {
    Payload::Bytes(BufferMut::copy_of(&vec![byte; len]).freeze())
}

const HANDLE: Handle = Handle { cookie: 7, offset: 4096 };

/// Replies of one form.
fn replies(outbox: &mut Outbox, is_structured: bool) -> Replies<'_> {
    let form = if is_structured { Form::Structured } else { Form::Simple };
    Replies { outbox, form }
}

fn asked(len: u32, one_chunk: bool) -> ReadAsked {
    ReadAsked { handle: HANDLE, len, one_chunk }
}

/// Chunks of structured replies, taken apart: flags, type, payload.
fn chunks(outbox: &Outbox) -> Vec<(u16, u16, Vec<u8>)> {
    let bytes = outbox.to_bytes();
    let mut rest = &bytes[..];
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        assert_eq!(rest[..4], STRUCTURED_REPLY_MAGIC.to_be_bytes());
        assert_eq!(rest[8..16], 7_u64.to_be_bytes());
        let len = u32::from_be_bytes(rest[16..20].try_into().unwrap()) as usize;
        let flags = u16::from_be_bytes(rest[4..6].try_into().unwrap());
        let kind = u16::from_be_bytes(rest[6..8].try_into().unwrap());
        chunks.push((flags, kind, rest[20..20 + len].to_vec()));
        rest = &rest[20 + len..];
    }
    chunks
}

#[test]
fn a_simple_read_is_a_header_and_the_bytes() {
    let mut outbox = Outbox::default();
    let parts = vec![data(1, 512), Payload::Zeros(512)];
    replies(&mut outbox, false).put_read(asked(1024, false), parts);
    let mut expected = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
    expected.extend_from_slice(&[0; 4]);
    expected.extend_from_slice(&7_u64.to_be_bytes());
    expected.extend_from_slice(&[1; 512]);
    expected.extend_from_slice(&[0; 512]);
    assert_eq!(outbox.to_bytes(), expected);
}

#[test]
fn holes_travel_as_numbers_unless_one_chunk_was_asked_for() {
    let parts =
        || vec![Payload::Zeros(512), Payload::Zeros(512), data(1, 512), data(2, 512), data(3, 0)];
    let mut outbox = Outbox::default();
    replies(&mut outbox, true).put_read(asked(2048, false), parts());
    let sparse = chunks(&outbox);
    assert_eq!(sparse.len(), 2);
    let hole = [&4096_u64.to_be_bytes()[..], &1024_u32.to_be_bytes()].concat();
    assert_eq!(sparse[0], (0, chunk::OFFSET_HOLE, hole));
    assert_eq!((sparse[1].0, sparse[1].1), (chunk::DONE, chunk::OFFSET_DATA));
    assert_eq!(sparse[1].2[..8], 5120_u64.to_be_bytes());
    assert_eq!(sparse[1].2.len(), 8 + 1024);
    let mut outbox = Outbox::default();
    replies(&mut outbox, true).put_read(asked(2048, true), parts());
    let whole = chunks(&outbox);
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].2.len(), 8 + 2048);
}

#[test]
fn a_read_of_the_wrong_length_never_shifts_the_stream() {
    for structured in [false, true] {
        let mut outbox = Outbox::default();
        replies(&mut outbox, structured).put_read(asked(1024, false), vec![data(1, 512)]);
        let bytes = outbox.to_bytes();
        assert!(bytes.len() < 512, "no data follows an error");
        let at = if structured { 20 } else { 4 };
        assert_eq!(bytes[at..at + 4], errno::IO.to_be_bytes());
    }
}

#[test]
fn errors_carry_bounded_words_where_the_client_takes_them() {
    let mut outbox = Outbox::default();
    replies(&mut outbox, true).put_error(HANDLE, errno::IO, &"ä".repeat(1000));
    let error = &chunks(&outbox)[0];
    assert_eq!((error.0, error.1), (chunk::DONE, chunk::ERROR));
    assert_eq!(error.2.len(), 6 + WORDS_BYTES_MAX);
    assert!(std::str::from_utf8(&error.2[6..]).is_ok());
    let mut outbox = Outbox::default();
    replies(&mut outbox, false).put_error(HANDLE, errno::IO, "words");
    assert_eq!(outbox.len(), 16);
}

#[test]
fn extents_are_cut_merged_and_never_empty() {
    let extent = |len, zero| Extent { len, hole: zero, zero };
    let messy = vec![extent(0, true), extent(512, false), extent(512, false), extent(9999, true)];
    assert_eq!(tidy_extents(messy.clone(), 2048, 10), [extent(1024, false), extent(1024, true)]);
    assert_eq!(tidy_extents(messy, 2048, 1), [extent(1024, false)]);
    assert_eq!(tidy_extents(Vec::new(), 2048, 1), [extent(2048, false)]);
}

#[test]
fn block_status_names_the_context_and_each_run() {
    let mut outbox = Outbox::default();
    let runs = [
        Extent { len: 512, hole: false, zero: false },
        Extent { len: 1024, hole: true, zero: true },
    ];
    replies(&mut outbox, true).put_block_status(HANDLE, &runs);
    let expected = [1, 512, 0, 1024, 3].map(u32::to_be_bytes).concat();
    assert_eq!(chunks(&outbox), [(chunk::DONE, chunk::BLOCK_STATUS, expected)]);
}

/// A chunk under extended headers, byte by byte.
fn extended_chunk(flags: u16, kind: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x6e, 0x8a, 0x27, 0x8c];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(7_u64.to_be_bytes());
    bytes.extend(4096_u64.to_be_bytes());
    bytes.extend((content.len() as u64).to_be_bytes());
    bytes.extend(content);
    bytes
}

#[test]
fn extended_replies_repeat_the_offset_and_count_in_64_bits() {
    let mut outbox = Outbox::default();
    let mut replies = Replies { outbox: &mut outbox, form: Form::Extended };
    replies.put_done(HANDLE);
    replies.put_error(HANDLE, errno::INVAL, "no");
    replies.put_read(asked(1024, false), vec![Payload::Zeros(512), data(3, 512)]);
    let runs = [
        Extent { len: 5 << 32, hole: true, zero: true },
        Extent { len: 512, hole: false, zero: false },
    ];
    replies.put_block_status(HANDLE, &runs);
    let hole = [&4096_u64.to_be_bytes()[..], &512_u32.to_be_bytes()].concat();
    let status = [
        &[0, 0, 0, 1, 0, 0, 0, 2][..],
        &(5_u64 << 32).to_be_bytes(),
        &3_u64.to_be_bytes(),
        &512_u64.to_be_bytes(),
        &0_u64.to_be_bytes(),
    ];
    let expected = [
        extended_chunk(1, 0, &[]),
        extended_chunk(1, 0x8001, &[0, 0, 0, 22, 0, 2, b'n', b'o']),
        extended_chunk(0, 2, &hole),
        extended_chunk(1, 1, &[&4608_u64.to_be_bytes()[..], &[3; 512]].concat()),
        extended_chunk(1, 6, &status.concat()),
    ];
    assert_eq!(outbox.to_bytes(), expected.concat());
}
