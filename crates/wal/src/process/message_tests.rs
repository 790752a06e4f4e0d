//! The golden bytes of docs/wal-helper.md, and every way in which a body can be wrong.

use super::*;
use crate::codec::hex;
use crate::process::frame::{FrameKind, Header};
use nearhead_basics::SplitMix;

fn frame(kind: FrameKind, tag: u64, handle: u32, body: &[u8]) -> String {
    let header = Header { body_bytes: body.len() as u32, kind, tag, handle };
    hex(&[&header.encode()[..], body].concat())
}

fn request(request: &Request<'_>, tag: u64, handle: u32) -> String {
    let (ask, body) = request.encode();
    assert_eq!(Request::decode(ask, &body).as_ref(), Ok(request));
    frame(FrameKind::Request(ask), tag, handle, &body)
}

fn stream() -> OpenStream {
    OpenStream {
        path: "/f".into(),
        begin: Begin::Emptied,
        permissions: 0o666,
        options: StreamOptions::default(),
    }
}

/// The lines of the page's last section, one text for each frame.
fn golden() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wal-helper.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## Golden bytes").unwrap();
    let mut frames: Vec<String> = Vec::new();
    for line in section.lines().filter(|line| line.len() > 33) {
        let (title, bytes) = line.split_at(33);
        if !bytes.chars().all(|character| character.is_ascii_hexdigit() || character == ' ') {
            continue;
        }
        let bytes = bytes.replace(' ', "");
        if title.starts_with(' ') {
            frames.last_mut().unwrap().push_str(&bytes);
        } else {
            frames.push(bytes);
        }
    }
    frames
}

#[test]
fn frames_are_the_golden_bytes_of_the_page() {
    let reply = FrameKind::Reply;
    let hello = HelloReply { pid: 258, handles: 64, choice: "x".to_owned() };
    assert_eq!(HelloReply::decode(&hello.encode()), Ok(hello.clone()));
    let full = ErrorReply {
        error: WalError::new(WalErrorKind::NoSpace, "x"),
        ask: Ask::Write as u16,
        position: 3,
        durable: 0,
    };
    assert_eq!(ErrorReply::decode(&full.encode()), Ok(full.clone()));
    let two =
        |position: u64, durable: u64| [position.to_le_bytes(), durable.to_le_bytes()].concat();
    let expected = golden();
    let found = [
        request(&Request::Hello { directory: Some("/d".into()) }, 1, 0),
        frame(reply(Ask::Hello), 1, 0, &hello.encode()),
        request(&Request::OpenStream(stream()), 2, 5),
        frame(reply(Ask::OpenStream), 2, 5, &[&two(0, 0)[..], b"x"].concat()),
        request(&Request::Write(b"abc"), 3, 5),
        request(&Request::Sync, 4, 5),
        frame(reply(Ask::Sync), 4, 5, &two(3, 3)),
        frame(FrameKind::Error, 3, 5, &full.encode()),
    ];
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found);
    }
}

#[test]
fn every_request_is_read_as_it_was_written() {
    for begin in [Begin::New, Begin::End, Begin::Position(7), Begin::Emptied, Begin::EndOrNew] {
        request(&Request::OpenStream(OpenStream { begin, ..stream() }), 1, 0);
    }
    let options = LogOptions { record_bytes_max: 1000, ..LogOptions::default() };
    let log = OpenLog { path: "d".into(), create: true, options };
    let others = [
        Request::Hello { directory: None },
        Request::Position,
        Request::Truncate(u64::MAX),
        Request::Close,
        Request::Read { offset: 5, len: 6 },
        Request::Resume,
        Request::OpenLog(log),
        Request::Append(b""),
        Request::Commit,
        Request::TruncatePrefix(Lsn(9)),
        Request::Records { from: Lsn(8) },
        Request::OpenFile,
        Request::WriteAt { offset: 4096, bytes: b"bytes" },
    ];
    for other in &others {
        request(other, 1, 0);
    }
}

#[test]
fn a_body_of_any_other_form_is_refused() {
    let (_, open) = Request::OpenStream(stream()).encode();
    let changed = |at: usize, byte: u8| {
        let mut body = open.clone();
        body[at] = byte;
        body
    };
    let bad = [
        (Ask::OpenStream, changed(0, 5)),
        (Ask::OpenStream, changed(1, 2)),
        (Ask::OpenStream, changed(2, 1)),
        (Ask::OpenStream, changed(6, 1)),
        (Ask::OpenStream, changed(11, 2)),
        (Ask::OpenStream, changed(12, 1)),
        (Ask::OpenStream, changed(22, 1)),
        (Ask::OpenStream, changed(24, 1)),
        (Ask::OpenStream, changed(33, 0)),
        (Ask::OpenStream, open[..32].to_vec()),
        (Ask::OpenStream, open[..31].to_vec()),
        (Ask::OpenStream, [&open[..], &[b'x'; 5000]].concat()),
        (Ask::Sync, vec![0]),
        (Ask::Truncate, vec![0; 7]),
        (Ask::Truncate, vec![0; 9]),
        (Ask::Read, vec![1; 16]),
        (Ask::Records, vec![1; 16]),
        (Ask::OpenFile, vec![1; 8]),
        (Ask::WriteAt, vec![1; 7]),
        (Ask::Hello, b"NHWQ\x01\0\0\0".to_vec()),
        (Ask::Hello, b"NHWP\x02\0\0\0".to_vec()),
        (Ask::Hello, b"NHWP\x01\0\0\x01".to_vec()),
        (Ask::OpenLog, [&[2][..], &[0; 15], b"d"].concat()),
        (Ask::OpenLog, [&[0; 8][..], &[0xFF; 4], &[0; 4], b"d"].concat()),
    ];
    for (ask, body) in bad {
        let outcome = Request::decode(ask, &body);
        let kind = outcome.as_ref().map_err(|error| error.kind).map(drop);
        assert_eq!(kind, Err(WalErrorKind::OutOfRange), "{ask:?} {body:?}: {outcome:?}");
    }
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let mut random = SplitMix::new(1);
    let mut next = || random.next_u64() as u8;
    for round in 0..20_000 {
        let body: Vec<u8> =
            (0..round % 50).map(|_| if round % 3 == 0 { 0 } else { next() }).collect();
        for ask in Ask::ALL {
            let _ = Request::decode(ask, &body);
        }
        let _ = (HelloReply::decode(&body), ErrorReply::decode(&body));
    }
}

#[test]
fn every_kind_of_error_has_a_number_of_its_own_and_long_texts_are_clipped() {
    for (index, kind) in KINDS.into_iter().enumerate() {
        assert_eq!(code_of(kind) as usize, index + 1);
    }
    let long = "ä".repeat(5000);
    assert_eq!(clipped(&long).len(), TEXT_BYTES_MAX);
    assert_eq!(clipped(&format!("a{long}")).len(), TEXT_BYTES_MAX - 1);
}
