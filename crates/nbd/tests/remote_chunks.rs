//! Replies in chunks as a server may send them, as one must not, and what an export used as a disk makes of either.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_disk::{Disk, DiskErrorKind, Run};
use nearhead_nbd::client::{Address, RemoteDisk};
use nearhead_nbd::protocol::constants::{
    EXTENDED_REPLY_MAGIC, allocation, chunk, flag, info, option, option_reply,
};
use nearhead_volume::SyncIo;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;
use support::Directory;

fn connect(socket: &Path) -> RemoteDisk {
    let text = format!("nbd+unix:///?socket={}", socket.display());
    RemoteDisk::connect(&Address::parse(&text).unwrap()).unwrap()
}

fn read(disk: &mut RemoteDisk, offset: u64, len: u64) -> Vec<u8> {
    SyncIo::in_real_time(disk, Instant::now()).read(offset, len as usize).unwrap().to_vec()
}

fn option_reply_to(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let header = [0x0003_e889_u32, 0x0455_65a9, number, kind, data.len() as u32];
    [header.map(u32::to_be_bytes).concat(), data.to_vec()].concat()
}

const SIZE: u64 = 1 << 30;
const CONTEXT: u32 = 5;

/// Leads a client to a disk over extended headers.
fn welcome(stream: &mut UnixStream) {
    let flags = flag::HAS_FLAGS | flag::SEND_TRIM | flag::SEND_WRITE_ZEROES;
    let export =
        [&info::EXPORT.to_be_bytes()[..], &SIZE.to_be_bytes(), &flags.to_be_bytes()].concat();
    let context = [&CONTEXT.to_be_bytes()[..], b"base:allocation"].concat();
    let ack = |number| option_reply_to(number, option_reply::ACK, &[]);
    let bytes = [
        b"NBDMAGICIHAVEOPT\0\x03".to_vec(),
        ack(option::EXTENDED_HEADERS),
        option_reply_to(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &context),
        ack(option::SET_META_CONTEXT),
        option_reply_to(option::GO, option_reply::INFO, &export),
        ack(option::GO),
    ];
    stream.write_all(&bytes.concat()).unwrap();
    stream.read_exact(&mut [0; 4 + 16 + (16 + 4 + 4 + 4 + 15) + (16 + 8)]).unwrap();
}

/// A chunk under extended headers of the reply to the request that was read into `request`.
fn chunk_of(request: &[u8], flags: u16, kind: u16, len: Option<u64>, payload: &[u8]) -> Vec<u8> {
    let len = len.unwrap_or(payload.len() as u64);
    [
        &EXTENDED_REPLY_MAGIC.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &request[8..16],
        &request[16..24],
        &len.to_be_bytes(),
        payload,
    ]
    .concat()
}

/// A server that answers the first request as `answer` says; the disk behind it.
fn with_server<T>(
    answer: impl FnOnce(&[u8], &mut UnixStream) + Send + 'static,
    talk: impl FnOnce(&mut RemoteDisk) -> T,
) -> T {
    let directory = Directory::new();
    let listener = UnixListener::bind(directory.path("socket")).unwrap();
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        welcome(&mut stream);
        let mut request = [0; 32];
        stream.read_exact(&mut request).unwrap();
        answer(&request, &mut stream);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut disk = connect(&directory.path("socket"));
    let found = talk(&mut disk);
    drop(disk);
    thread.join().unwrap();
    found
}

/// Data or a hole from a place on.
fn piece(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes()[..], rest].concat()
}

#[test]
fn a_read_may_come_in_pieces_in_any_order() {
    let read = with_server(
        |request, stream| {
            assert_eq!(u64::from_be_bytes(request[24..].try_into().unwrap()), 8192);
            let pieces = [
                chunk_of(request, 0, chunk::OFFSET_DATA, None, &piece(4096 + 4096, &[2; 4000])),
                chunk_of(
                    request,
                    0,
                    chunk::OFFSET_HOLE,
                    None,
                    &piece(4096, &4096_u32.to_be_bytes()),
                ),
                chunk_of(request, 0, chunk::OFFSET_DATA, None, &piece(4096 + 8096, &[3; 96])),
                chunk_of(request, chunk::DONE, chunk::NONE, None, &[]),
            ];
            // Cut anywhere.
            for part in pieces.concat().chunks(77) {
                stream.write_all(part).unwrap();
            }
        },
        |disk| read(disk, 4096, 8192),
    );
    assert_eq!(read, [vec![0; 4096], vec![2; 4000], vec![3; 96]].concat());
}

#[test]
fn an_error_of_a_read_is_that_commands_and_its_words_are_let_pass() {
    let words = [&5_u32.to_be_bytes()[..], &4_u16.to_be_bytes(), b"oops"].concat();
    let error = with_server(
        move |first, stream| {
            let mut request: [u8; 32] = first.try_into().unwrap();
            loop {
                let data = chunk_of(&request, 0, chunk::OFFSET_DATA, None, &piece(0, &[1; 512]));
                let error = chunk_of(&request, chunk::DONE, chunk::ERROR, None, &words);
                stream.write_all(&[data, error].concat()).unwrap();
                // A read that failed is tried again.
                if stream.read_exact(&mut request).is_err() {
                    break;
                }
            }
        },
        |disk| {
            let error = SyncIo::in_real_time(&mut *disk, Instant::now()).read(0, 4096).unwrap_err();
            assert!(disk.trouble().is_none());
            error
        },
    );
    assert_eq!(error.kind, DiskErrorKind::Io, "{error}");
}

#[test]
fn nonsense_in_a_read_ends_the_disk_and_nothing_else() {
    type Make = fn(&[u8]) -> Vec<u8>;
    let cases: [(Make, &str); 14] = [
        (
            |r| chunk_of(r, 0, chunk::OFFSET_DATA, None, &piece(4096, &[1; 512])),
            "expected some of 4096 bytes",
        ),
        (
            |r| chunk_of(r, 0, chunk::OFFSET_DATA, None, &piece(u64::MAX, &[1; 512])),
            "expected some of",
        ),
        (
            |r| chunk_of(r, 0, chunk::OFFSET_DATA, Some(u64::MAX), &piece(0, &[1; 512])),
            "expected some of",
        ),
        (|r| chunk_of(r, 0, chunk::OFFSET_DATA, None, &piece(0, &[])), "of 8 bytes"),
        (|r| chunk_of(r, 0, chunk::OFFSET_HOLE, None, &piece(0, &[0; 4])), "found 0 from byte 0"),
        (
            |r| chunk_of(r, 0, chunk::OFFSET_HOLE, None, &piece(0, &[255; 4])),
            "found 4294967295 from byte 0",
        ),
        (
            |r| chunk_of(r, chunk::DONE, chunk::OFFSET_DATA, None, &piece(0, &[1; 4000])),
            "found 4000",
        ),
        (
            |r| chunk_of(r, chunk::DONE, chunk::NONE, None, &[]),
            "expected 4096 bytes in the reply to a read, found 0",
        ),
        (|r| chunk_of(r, 0, chunk::NONE, None, &[]), "not the last one"),
        (|r| chunk_of(r, chunk::DONE, chunk::NONE, None, &[1]), "of 1 bytes"),
        (|r| chunk_of(r, chunk::DONE, chunk::ERROR, None, &[0; 6]), "expected an error's number"),
        (
            |r| chunk_of(r, chunk::DONE, chunk::ERROR, Some(1 << 40), &[1; 6]),
            "of 1099511627776 bytes",
        ),
        (
            |r| {
                let twice = chunk_of(r, 0, chunk::OFFSET_DATA, None, &piece(512, &[1; 512]));
                [twice.clone(), twice].concat()
            },
            "expected each byte of a read once",
        ),
        (|r| chunk_of(r, 0, chunk::BLOCK_STATUS_EXT, None, &[0; 24]), "at least one byte"),
    ];
    for (make, expected) in cases {
        let error = with_server(
            move |request, stream| stream.write_all(&make(request)).unwrap(),
            |disk| {
                let error =
                    SyncIo::in_real_time(&mut *disk, Instant::now()).read(0, 4096).unwrap_err();
                assert_eq!(disk.run_at(0), Run::UNKNOWN);
                assert!(
                    SyncIo::in_real_time(&mut *disk, Instant::now()).flush().is_ok()
                        || disk.trouble().is_some()
                );
                error
            },
        );
        assert_eq!(error.kind, DiskErrorKind::Gone, "{expected}: {error}");
        assert!(error.detail.contains(expected), "{expected}: {error}");
    }
}

/// A block status of extents: length and flags.
fn status_of(context: u32, extents: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = [context, extents.len() as u32].map(u32::to_be_bytes).concat();
    for (len, flags) in extents {
        bytes.extend([*len, *flags].map(u64::to_be_bytes).concat());
    }
    bytes
}

/// What the disk says of its beginning when the server answers so.
fn told(extents: Vec<u8>, kind: u16, flags: u16) -> (Run, Option<String>) {
    with_server(
        move |request, stream| {
            stream.write_all(&chunk_of(request, flags, kind, None, &extents)).unwrap();
        },
        |disk| (disk.run_at(0), disk.trouble()),
    )
}

#[test]
fn only_the_flag_that_says_zero_is_believed() {
    let (hole, zero) = (u64::from(allocation::HOLE), u64::from(allocation::ZERO));
    for (extents, expected) in [
        (vec![(4096, hole)], Run { len: 4096, zero: false }),
        (vec![(4096, zero)], Run { len: 4096, zero: true }),
        (vec![(4096, zero | hole), (512, zero), (512, 0)], Run { len: 4608, zero: true }),
        (vec![(u64::MAX, zero), (u64::MAX, zero)], Run { len: SIZE, zero: true }),
        (vec![(4096, 0)], Run { len: 4096, zero: false }),
        (vec![(4096, 1 << 63)], Run { len: 4096, zero: false }),
    ] {
        let found = told(status_of(CONTEXT, &extents), chunk::BLOCK_STATUS_EXT, chunk::DONE);
        assert_eq!(found, (expected, None), "{extents:?}");
    }
}

#[test]
fn nonsense_about_blanks_ends_the_disk_and_promises_nothing() {
    let zero = u64::from(allocation::ZERO);
    for (payload, kind, expected) in [
        (
            status_of(CONTEXT + 1, &[(4096, zero)]),
            chunk::BLOCK_STATUS_EXT,
            "expected what context 5 says",
        ),
        (status_of(CONTEXT, &[(0, zero)]), chunk::BLOCK_STATUS_EXT, "at least one byte"),
        (status_of(CONTEXT, &[]), chunk::BLOCK_STATUS_EXT, "of 8 bytes"),
        (vec![0; 12], chunk::BLOCK_STATUS, "found type 0x5"),
        (piece(0, &[0; 512]), chunk::OFFSET_DATA, "a command that does not read"),
    ] {
        let (run, trouble) = told(payload, kind, chunk::DONE);
        assert_eq!(run, Run::UNKNOWN, "{expected}");
        assert!(
            trouble.as_ref().is_some_and(|words| words.contains(expected)),
            "{expected}: {trouble:?}"
        );
    }
    // An error, or an end without a word, is no nonsense: nothing is known.
    let refused = [&95_u32.to_be_bytes()[..], &[0; 2]].concat();
    assert_eq!(told(refused, chunk::ERROR, chunk::DONE), (Run::UNKNOWN, None));
    assert_eq!(told(Vec::new(), chunk::NONE, chunk::DONE), (Run::UNKNOWN, None));
}

#[test]
fn a_server_that_does_not_tell_of_blanks_is_waited_for_once_and_used_all_the_same() {
    let late = with_server(
        |status, stream| {
            let mut read = [0; 32];
            stream.read_exact(&mut read).unwrap();
            // The answer comes late, and is not believed: much may have changed.
            let all = status_of(CONTEXT, &[(SIZE, u64::from(allocation::ZERO))]);
            let status = chunk_of(status, chunk::DONE, chunk::BLOCK_STATUS_EXT, None, &all);
            let data = chunk_of(&read, chunk::DONE, chunk::OFFSET_DATA, None, &piece(0, &[8; 512]));
            stream.write_all(&[status, data].concat()).unwrap();
        },
        |disk| {
            assert_eq!(disk.run_at(0), Run::UNKNOWN);
            assert_eq!(disk.run_at(4096), Run::UNKNOWN);
            assert_eq!(read(disk, 0, 512), [8; 512]);
            disk.run_at(0)
        },
    );
    assert_eq!(late, Run::UNKNOWN);
}
