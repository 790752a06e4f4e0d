//! Traces of a Linux block device: what `blktrace` wrote of a real one beside what `blkparse` made of it, and made-up ones written
//! field by field here, by no code of the reader's.
//!
//! `recorded/linux-6.1.*` are of one run on a virtio disk with a write cache under Linux 6.1.0-56 (Debian): `blktrace -d /dev/vda -o NAME` (a file for each
//! processor), what `blkparse -i NAME` made of it, and the `trace_pipe` of an instance with the events that `nearhead trace` records. Meanwhile small files
//! were written with fsync and `O_DSYNC`, large ones with `O_DIRECT` and through the page cache, and read again, on an ext4 in the disk's first partition.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_disk::Nanos;
use nearhead_sim::replay::{Durability, Makeup};
use nearhead_sim::trace::{Format, Input, TraceError, TraceOptions, TraceReader, TraceRequest};
use std::io::Cursor;
use std::path::PathBuf;

fn recorded(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn all(reader: &mut TraceReader) -> Vec<TraceRequest> {
    reader.map(Result::unwrap).collect()
}

fn of_bytes(bytes: Vec<u8>, options: TraceOptions) -> TraceReader {
    TraceReader::new(Input::from_reader("made-up", Cursor::new(bytes)).unwrap(), options).unwrap()
}

#[test]
fn what_blktrace_wrote_reads_as_what_blkparse_made_of_it() {
    let open = |name: &str| TraceReader::open(recorded(name), TraceOptions::default()).unwrap();
    let mut text = open("linux-6.1.blkparse.txt");
    let expected = all(&mut text);
    // 32 lines with a `Q`, of which 4, 4 and 1 were merged with the one before them.
    assert_eq!((text.format(), expected.len()), (Format::Blkparse, 23));
    // Any of its files, and what they share, name all of them.
    for name in ["linux-6.1", "linux-6.1.blktrace.0", "linux-6.1.blktrace.1"] {
        let mut binary = open(name);
        assert_eq!(
            (binary.format(), all(&mut binary)),
            (Format::Blktrace, expected.clone()),
            "{name}"
        );
        assert_eq!(binary.counts().skipped, 0);
    }
    // One stream of pieces of each processor, as `blktrace -o -` gives.
    let pieces = ["linux-6.1.blktrace.1", "linux-6.1.blktrace.0"];
    let stream = pieces.map(|name| std::fs::read(recorded(name)).unwrap()).concat();
    assert_eq!(all(&mut of_bytes(stream, TraceOptions::default())), expected);
}

/// Looked up in the text by hand.
#[test]
fn the_recorded_trace_is_what_was_done() {
    let mut trace =
        TraceReader::open(recorded("linux-6.1.blkparse.txt"), TraceOptions::default()).unwrap();
    let requests = all(&mut trace);
    let at = |ns: u64| Nanos(ns).since(Nanos(646_250));
    let first_on =
        |sector: u64| requests.iter().find(|it| it.offset_bytes == sector * 512).unwrap();
    // Five blocks of a journal, asked for one by one and issued as one, then its commit between two flushes.
    let journal = first_on(27_352);
    assert_eq!((journal.at, journal.len_bytes, journal.process), (at(62_211_670), 20_480, 112));
    assert_eq!(journal.response, Some(Nanos(65_720_880 - 62_211_670)));
    let commit = first_on(27_392);
    assert!(commit.flush && commit.fua && commit.write && !commit.in_background);
    assert_eq!(commit.response, Some(Nanos(96_497_880 - 71_074_670)), "until the last flush");
    // Written back by nobody's wish.
    let back = first_on(278_528);
    assert_eq!((back.in_background, back.len_bytes), (true, 1280 * 512));
    let alone: Vec<Option<Nanos>> =
        requests.iter().filter(|it| it.len_bytes == 0).map(|it| it.response).collect();
    assert_eq!(alone.len(), 4, "three of O_DSYNC, and one of sync");
    assert_eq!(alone[0], Some(Nanos(160_868_670 - 157_397_540)));

    let mut trace =
        TraceReader::open(recorded("linux-6.1.blkparse.txt"), TraceOptions::default()).unwrap();
    let makeup = Makeup::of(&mut trace).unwrap();
    assert_eq!((makeup.durability, makeup.points), (Durability::Asked, 6));
    assert_eq!((makeup.bulk_requests, makeup.bulk_bytes), (0, 0), "three megabytes are no stream");
    let points = makeup.recorded.unwrap().points;
    assert_eq!(points.count(), 6);
    // The longest is the first: two writes of the journal, and its commit; what lies between them was no wait for the disk.
    let waits = [(24_283_840, 60_658_380), (62_211_670, 65_720_880), (71_074_670, 96_497_880)];
    assert_eq!(points.max(), waits.iter().map(|(from, to)| to - from).sum::<u64>());
}

/// An event as `blktrace_api.h` lays it out.
struct Made {
    magic: u32,
    at_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pdu: Vec<u8>,
}

const MAGIC_7: u32 = 0x6561_7407;
const READ: u32 = 0x0001_0000;
const WRITE: u32 = 0x0002_0000;
const SYNC: u32 = 0x0008_0000;
const DISCARD: u32 = 0x2000_0000;
const NOTIFY: u32 = 0x0400_0000;
const QUEUE: u32 = 1;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;

fn made(at_ns: u64, sector: u64, bytes: u32, action: u32) -> Made {
    Made { magic: MAGIC_7, at_ns, sector, bytes, action, pdu: Vec::new() }
}

/// The events as a machine of this byte order writes them.
fn written(events: &[Made], is_big_endian: bool) -> Vec<u8> {
    let mut all = Vec::new();
    let mut number = |bytes: &mut Vec<u8>| {
        if is_big_endian {
            bytes.reverse();
        }
        all.append(bytes);
    };
    for (sequence, event) in (0_u32..).zip(events) {
        number(&mut event.magic.to_le_bytes().to_vec());
        number(&mut sequence.to_le_bytes().to_vec());
        number(&mut event.at_ns.to_le_bytes().to_vec());
        number(&mut event.sector.to_le_bytes().to_vec());
        number(&mut event.bytes.to_le_bytes().to_vec());
        number(&mut event.action.to_le_bytes().to_vec());
        number(&mut 4711_u32.to_le_bytes().to_vec());
        number(&mut (8_u32 << 20 | 1).to_le_bytes().to_vec());
        number(&mut 3_u32.to_le_bytes().to_vec());
        number(&mut 0_u16.to_le_bytes().to_vec());
        number(&mut (event.pdu.len() as u16).to_le_bytes().to_vec());
        let mut pdu = event.pdu.clone();
        if is_big_endian {
            pdu.reverse();
        }
        number(&mut pdu);
    }
    all
}

fn some_events() -> Vec<Made> {
    vec![
        Made { pdu: b"postgres\0\0\0\0\0\0\0\0".to_vec(), ..made(5, 0, 0, NOTIFY) },
        made(1000, 2048, 4096, WRITE | SYNC | QUEUE),
        Made { pdu: vec![0xee; 65_535], ..made(1500, 2048, 4096, WRITE | 15) },
        made(2000, 1 << 40, 65_536, READ | QUEUE),
        made(2500, 8, 4096, DISCARD | WRITE | QUEUE),
        made(3000, 2048, 4096, WRITE | SYNC | ISSUE),
        made(9000, 2048, 4096, WRITE | SYNC | COMPLETE),
    ]
}

#[test]
fn events_of_either_byte_order_are_requests_whatever_stands_behind_them() {
    for is_big_endian in [false, true] {
        let mut trace = of_bytes(written(&some_events(), is_big_endian), TraceOptions::default());
        assert_eq!(trace.format(), Format::Blktrace);
        let write = TraceRequest {
            device: 8 << 20 | 1,
            offset_bytes: 2048 * 512,
            len_bytes: 4096,
            write: true,
            process: 4711,
            response: Some(Nanos(8000)),
            ..TraceRequest::default()
        };
        let read = TraceRequest {
            at: Nanos(1000),
            offset_bytes: 1 << 49,
            len_bytes: 65_536,
            write: false,
            response: None,
            ..write
        };
        assert_eq!(all(&mut trace), [write, read]);
        let counts = trace.counts();
        assert_eq!((counts.lines, counts.requests, counts.not_transfers), (7, 2, 5));
    }
}

#[test]
fn a_trace_that_ends_in_the_middle_of_an_event_is_read_up_to_there() {
    let whole = written(&some_events(), false);
    for cut in [1, 40, 47, 48] {
        let bytes = whole[..whole.len() - cut].to_vec();
        let mut trace = of_bytes(bytes.clone(), TraceOptions::default());
        assert_eq!(all(&mut trace).len(), 2, "cut {cut}");
        assert_eq!(trace.counts().skipped, u64::from(cut < 48), "cut {cut}");
        let strict = TraceOptions { strict: true, ..TraceOptions::default() };
        let problem = of_bytes(bytes, strict).find_map(Result::err);
        assert_eq!(problem.is_some(), cut < 48, "cut {cut}: {problem:?}");
    }
}

#[test]
fn what_is_no_event_and_another_version_are_errors_that_say_which_event() {
    for (magic, part) in [
        (0x6561_7408, "expected version 7 of blktrace's form, found 8"),
        (0x1234_5678, "expected the mark 65617407 of blktrace's form, found 12345678"),
    ] {
        let mut events = some_events();
        events[4].magic = magic;
        let mut trace = of_bytes(written(&events, false), TraceOptions::default());
        let error = trace.find_map(Result::err).unwrap();
        let text = error.to_string();
        assert!(matches!(error, TraceError::Io { .. }), "{text}");
        assert!(text.contains("event 5") && text.contains(part), "{text}");
    }
    let forced = TraceOptions { format: Some(Format::Blktrace), ..TraceOptions::default() };
    let error = of_bytes(vec![b'x'; 200], forced).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("event 1"), "{error}");
}

#[test]
fn an_address_that_no_disk_has_is_a_bad_event_and_no_request() {
    let events = [made(1, u64::MAX / 512, 4096, WRITE | QUEUE), made(2, 8, 4096, WRITE | QUEUE)];
    let mut trace = of_bytes(written(&events, false), TraceOptions::default());
    assert_eq!(all(&mut trace).len(), 1);
    assert_eq!(trace.counts().skipped, 1);
    assert!(trace.problems()[0].to_string().contains("below 2^63"), "{:?}", trace.problems());
}

#[test]
fn a_text_trace_says_what_its_notes_say() {
    let text = "# nearhead trace, version 1\n  8,0    1       21     0.000123456  1234  Q  WS 8 + 8 [a]\n# 0 events were lost\n";
    let mut trace = of_bytes(text.as_bytes().to_vec(), TraceOptions::default());
    assert_eq!((trace.format(), all(&mut trace).len()), (Format::Blkparse, 1));
    assert_eq!(trace.notes(), ["nearhead trace, version 1", "0 events were lost"]);
}
