//! Whatever a server sends and wherever it stops: every command is answered once, and a read that went well has all of
//! its bytes.

use super::link::Link;
use super::stream::Stream;
use crate::protocol::Form;
use crate::protocol::constants::{
    EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, allocation, chunk, command,
};
use nearhead_basics::SplitMix;
use nearhead_disk::{CommandId, Run, Ticket};
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

const READ_BYTES: u32 = 1024;
const END: u64 = 1 << 20;

fn piece(form: Form, cookie: u64, flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let magic = if form == Form::Extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
    bytes.extend(magic.to_be_bytes());
    bytes.extend([flags, kind].map(u16::to_be_bytes).concat());
    bytes.extend(cookie.to_be_bytes());
    if form == Form::Extended {
        bytes.extend([0, payload.len() as u64].map(u64::to_be_bytes).concat());
    } else {
        bytes.extend((payload.len() as u32).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// Right replies to a change (cookie 0) and two reads (1 and 2).
fn right_replies(form: Form) -> Vec<u8> {
    let simple = |cookie: u64| {
        [&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat()
    };
    if form == Form::Simple {
        let data = [7; READ_BYTES as usize];
        return [simple(1), data.to_vec(), simple(0), simple(2), data.to_vec()].concat();
    }
    let at = |offset: u64, rest: &[u8]| [&offset.to_be_bytes()[..], rest].concat();
    let change = match form {
        Form::Structured => simple(0),
        _ => piece(form, 0, chunk::DONE, chunk::NONE, &[]),
    };
    let words = [&5_u32.to_be_bytes()[..], &3_u16.to_be_bytes(), b"why"].concat();
    [
        piece(form, 1, 0, chunk::OFFSET_DATA, &at(512, &[7; 512])),
        change,
        piece(form, 2, 0, chunk::OFFSET_HOLE, &at(0, &600_u32.to_be_bytes())),
        piece(form, 1, chunk::DONE, chunk::OFFSET_DATA, &at(0, &[7; 512])),
        piece(form, 2, chunk::DONE, chunk::ERROR, &words),
    ]
    .concat()
}

/// A right answer to the question what is blank (cookie 0).
fn right_status(form: Form) -> Vec<u8> {
    let (zero, mut status) = (allocation::ZERO, 9_u32.to_be_bytes().to_vec());
    if form == Form::Extended {
        status.extend(2_u32.to_be_bytes());
        status.extend([4096, u64::from(zero), 512, 0].map(u64::to_be_bytes).concat());
        return piece(form, 0, chunk::DONE, chunk::BLOCK_STATUS_EXT, &status);
    }
    status.extend([4096, zero, 512, 0].map(u32::to_be_bytes).concat());
    piece(form, 0, chunk::DONE, chunk::BLOCK_STATUS, &status)
}

/// A link whose server sends this, and its server.
fn link_with(form: Form, replies: &[u8]) -> (Link, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(replies).unwrap();
    let link = Link::new("export".to_owned(), Stream::Unix(ours), form, Some(9)).unwrap();
    (link, theirs)
}

/// What a link answers to these replies and the end of the connection: well, and at all.
fn answers_to(form: Form, replies: &[u8]) -> (usize, usize) {
    let (mut link, server) = link_with(form, replies);
    server.shutdown(Shutdown::Write).unwrap();
    link.change(Ticket::new(CommandId(0)), (command::FLUSH, 0, 0, 0), &[]);
    link.read(Ticket::new(CommandId(1)), 0, READ_BYTES);
    link.read(Ticket::new(CommandId(2)), 0, READ_BYTES);
    link.pump();
    let (mut well, mut all) = (0, 0);
    while let Some(done) = link.next_done() {
        all += 1;
        if let Ok(bytes) = done.result {
            well += 1;
            assert!(bytes.is_empty() || bytes.len() == READ_BYTES as usize);
        }
    }
    assert!(link.is_gone());
    (well, all)
}

/// A source of small numbers, the same in every run.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut random = SplitMix::new(3);
    move |most| random.below(most as u64) as usize
}

/// A few bytes of `right` are other ones, more or fewer.
fn bend(right: &[u8], below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut bent = right.to_vec();
    for _ in 0..=below(3) {
        let at = below(bent.len());
        match below(4) {
            0 => bent[at] = [0, 1, 127, 128, 255][below(5)],
            1 => bent[at] ^= 1 << below(8),
            2 => bent.insert(at, below(256) as u8),
            _ => drop(bent.remove(at)),
        }
    }
    bent
}

#[test]
fn every_command_is_answered_once_whatever_comes_back() {
    let mut below = numbers();
    for (form, expected) in [(Form::Simple, 3), (Form::Structured, 2), (Form::Extended, 2)] {
        let right = right_replies(form);
        assert_eq!(answers_to(form, &right), (expected, 3), "{form:?}");
        for len in 0..right.len() {
            assert_eq!(answers_to(form, &right[..len]).1, 3, "{form:?} cut at {len}");
        }
        for turn in 0..3000 {
            let bent = bend(&right, &mut below);
            assert_eq!(answers_to(form, &bent).1, 3, "{form:?}, turn {turn}");
        }
    }
}

#[test]
fn an_answer_about_blanks_that_is_cut_or_bent_ends_at_most_the_link() {
    let mut below = numbers();
    for form in [Form::Structured, Form::Extended] {
        let right = right_status(form);
        let (mut link, server) = link_with(form, &right);
        assert_eq!(link.run_at(100, END, 512), Run { len: 3996, zero: true });
        assert_eq!(link.run_at(4096, END, 512), Run { len: 512, zero: false });
        drop(server);
        let ended = |bytes: &[u8]| {
            let (mut link, server) = link_with(form, bytes);
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(link.run_at(0, END, 512), Run::UNKNOWN, "of a disk that is gone");
            assert!(link.is_gone());
        };
        (0..right.len()).for_each(|len| ended(&right[..len]));
        (0..3000).for_each(|_| ended(&bend(&right, &mut below)));
    }
}
