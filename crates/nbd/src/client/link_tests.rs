//! Whatever a server sends and wherever it stops: every command is answered once, and a read that went well has all of
//! its bytes.

use super::error_of;
use super::link::Link;
use super::stream::Stream;
use crate::protocol::Form;
use crate::protocol::constants::{
    EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, allocation, chunk, command,
    errno,
};
use nearhead_basics::SplitMix;
use nearhead_disk::{CommandId, DiskErrorKind, Run, Ticket};
use std::io::{Read, Write};
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

#[test]
fn every_error_number_has_its_kind() {
    for (number, kind) in [
        (errno::PERM, DiskErrorKind::ReadOnly),
        (errno::INVAL, DiskErrorKind::Invalid),
        (errno::NOTSUP, DiskErrorKind::Invalid),
        (errno::NOSPC, DiskErrorKind::OutOfSpace),
        (errno::SHUTDOWN, DiskErrorKind::Gone),
        (errno::IO, DiskErrorKind::Io),
        (12, DiskErrorKind::Io),
        (u32::MAX, DiskErrorKind::Io),
    ] {
        assert_eq!(error_of("export", number).kind, kind, "number {number}");
    }
}

#[test]
fn what_is_no_reply_is_told_as_what_was_expected_in_its_place() {
    for (form, expected) in
        [(Form::Simple, "a simple reply"), (Form::Structured, "chunks"), (Form::Extended, "chunks")]
    {
        let (mut link, _server) = link_with(form, &[0x5a; 64]);
        link.read(Ticket::new(CommandId(0)), 0, READ_BYTES);
        link.pump();
        let error = link.next_done().unwrap().result.unwrap_err();
        assert!(error.detail.contains(expected), "{form:?}: {}", error.detail);
    }
}

#[test]
fn replies_mean_the_same_however_they_are_cut() {
    for (form, expected) in [(Form::Simple, 3), (Form::Structured, 2), (Form::Extended, 2)] {
        for step in [1, 3, 15, 16, 17, 100] {
            let (mut link, mut server) = link_with(form, &[]);
            link.change(Ticket::new(CommandId(0)), (command::FLUSH, 0, 0, 0), &[]);
            link.read(Ticket::new(CommandId(1)), 0, READ_BYTES);
            link.read(Ticket::new(CommandId(2)), 0, READ_BYTES);
            for part in right_replies(form).chunks(step) {
                server.write_all(part).unwrap();
                link.pump();
            }
            let done: Vec<_> = std::iter::from_fn(|| link.next_done()).collect();
            let well = done.iter().filter(|done| done.result.is_ok()).count();
            assert_eq!((well, done.len()), (expected, 3), "{form:?} in steps of {step}");
            assert!(!link.is_gone());
        }
    }
}

/// What becomes of two reads when the server says this about the first and then all is well with the second: the kind
/// of the first one's error if it is told, and whether the link goes on.
fn told_of_the_first(form: Form, first: &[u8]) -> (Option<DiskErrorKind>, bool) {
    let second = [&0_u64.to_be_bytes()[..], &[7; READ_BYTES as usize]].concat();
    let second = piece(form, 1, chunk::DONE, chunk::OFFSET_DATA, &second);
    let (mut link, server) = link_with(form, &[first, &second].concat());
    link.read(Ticket::new(CommandId(0)), 0, READ_BYTES);
    link.read(Ticket::new(CommandId(1)), 0, READ_BYTES);
    link.pump();
    let first = link.next_done().and_then(|done| done.result.err()).map(|error| error.kind);
    let is_well = !link.is_gone() && link.next_done().is_some_and(|done| done.result.is_ok());
    drop(server);
    (first, is_well)
}

#[test]
fn an_error_with_words_of_any_length_is_its_commands_alone() {
    for form in [Form::Structured, Form::Extended] {
        let error = |kind: u16, number: u32, words: usize| {
            let start = [&number.to_be_bytes()[..], &(words as u16).to_be_bytes()].concat();
            let payload = [start, vec![b'x'; words]].concat();
            piece(form, 0, chunk::DONE, kind, &payload)
        };
        let known = Some(DiskErrorKind::OutOfSpace);
        for words in [0, 1, 3, 5, 6, 7, 4095, 4096, 4097, 8192 - 6] {
            let bytes = error(chunk::ERROR, errno::NOSPC, words);
            assert_eq!(told_of_the_first(form, &bytes), (known, true), "{form:?}, {words}");
        }
        // Types that are not known yet are errors as long as their first bit says so.
        for kind in [chunk::ERRORS, chunk::ERROR + 1, u16::MAX] {
            let bytes = error(kind, errno::NOSPC, 2);
            assert_eq!(told_of_the_first(form, &bytes), (known, true), "type {kind:#x}");
        }
        let gone = (Some(DiskErrorKind::Gone), false);
        for kind in [3, 4, 7, 8, 99, chunk::ERRORS - 1] {
            let bytes = error(kind, errno::NOSPC, 2);
            assert_eq!(told_of_the_first(form, &bytes), gone, "type {kind:#x}");
        }
        let too_long = error(chunk::ERROR, errno::NOSPC, 8192 - 5);
        assert_eq!(told_of_the_first(form, &too_long), gone);
    }
}

#[test]
fn a_server_that_says_nothing_of_blanks_is_not_asked_again() {
    for form in [Form::Structured, Form::Extended] {
        let error = [&errno::NOTSUP.to_be_bytes()[..], &[0; 2]].concat();
        let error = piece(form, 0, chunk::DONE, chunk::ERROR, &error);
        let nothing = piece(form, 0, chunk::DONE, chunk::NONE, &[]);
        let mut begun = right_status(form);
        begun[5] = 0; // Not the last chunk.
        for (number, says) in
            [error.clone(), nothing, [begun, error].concat()].into_iter().enumerate()
        {
            let (mut link, mut server) = link_with(form, &says);
            for _ in 0..3 {
                assert_eq!(link.run_at(0, END, 512), Run::UNKNOWN, "{form:?}, case {number}");
            }
            assert!(!link.is_gone(), "{form:?}, case {number}");
            drop(link);
            let mut heard = Vec::new();
            server.read_to_end(&mut heard).unwrap();
            assert_eq!(heard.len(), if form == Form::Extended { 32 } else { 28 });
        }
    }
}

#[test]
fn a_connection_that_breaks_in_either_direction_is_noticed_at_once_and_told_as_it_was() {
    // Nothing can be sent any more, and nothing comes.
    let (mut link, server) = link_with(Form::Simple, &[]);
    server.shutdown(Shutdown::Read).unwrap();
    link.read(Ticket::new(CommandId(0)), 0, READ_BYTES);
    link.pump();
    assert_eq!(link.next_done().unwrap().result.unwrap_err().kind, DiskErrorKind::Gone);
    // A server that leaves without having read everything resets the connection.
    let (mut link, server) = link_with(Form::Simple, &[]);
    link.read(Ticket::new(CommandId(0)), 0, READ_BYTES);
    link.pump();
    assert!(!link.is_gone());
    drop(server);
    link.pump();
    assert!(link.is_gone());
    let error = link.next_done().unwrap().result.unwrap_err();
    assert!(error.detail.contains("reset"), "{error}");
}

#[test]
fn what_was_sent_does_not_pile_up_before_what_waits() {
    const WRITE_BYTES: usize = 1 << 20;
    let (mut link, mut server) = link_with(Form::Simple, &[]);
    let parts = [nearhead_disk::Payload::Zeros(WRITE_BYTES)];
    let mut room = vec![0; WRITE_BYTES];
    for number in 0..24 {
        let ticket = Ticket::new(CommandId(number));
        link.change(ticket, (command::WRITE, 0, 0, WRITE_BYTES as u64), &parts);
        link.pump();
        // Always one behind, so that something waits at any time.
        let mut taken = 0;
        while number > 0 && taken < WRITE_BYTES {
            taken += server.read(&mut room[..WRITE_BYTES - taken]).unwrap();
            link.pump();
        }
    }
    assert!(link.held_bytes() < 8 << 20, "{} bytes are held", link.held_bytes());
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
