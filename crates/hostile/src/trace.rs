//! The trace readers: any bytes as a trace of each form, plain or compressed.
//!
//! The laws: no panic and no more requests than lines; times never go back; what is yielded fits
//! the disk that was asked for; strict or not only decides whether a bad line ends it; and how the
//! bytes arrive does not matter.

use crate::input::Input;
use nearhead_disk::Nanos;
use nearhead_sim::trace::{
    AddressFit, AddressOptions, Format, Input as Trace, TraceOptions, TraceReader, TraceRequest,
};
use std::io::Read;

/// The disk that requests must fit, in bytes.
const CAPACITY_BYTES: u64 = 1 << 30;
/// Requests read, at most: a small archive may hold a large trace.
const REQUESTS_MAX: u64 = 2000;

/// Gives a reader its bytes in small pieces.
struct Dripping {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl Read for Dripping {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let len = (self.bytes.len() - self.at).min(self.step).min(target.len());
        target[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// Reads the input as a trace.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let more = input.byte();
    let bytes = input.rest();
    let format = Format::ALL.get(usize::from(choice & 15)).copied();
    let fit = match more & 3 {
        0 => AddressFit::Error,
        1 => AddressFit::Wrap,
        _ => AddressFit::Scale { span_bytes: 1 << (more >> 4 & 15) << 20 },
    };
    let options = TraceOptions {
        format,
        strict: choice & 16 != 0,
        device: (choice & 32 != 0).then_some(1),
        time_scale: if choice & 64 != 0 { 0.25 } else { 1.0 },
        address: AddressOptions {
            capacity_bytes: (choice & 128 == 0).then_some(CAPACITY_BYTES),
            fit: if choice & 128 == 0 { fit } else { AddressFit::Error },
            align_bytes: if more & 4 == 0 { 512 } else { 1 },
        },
        reorder_requests_max: 1 + usize::from(more & 8),
        requests_max: Some(REQUESTS_MAX),
    };
    let whole = read(bytes, usize::MAX, &options);
    let pieces = read(bytes, 3, &options);
    // When a corrupt archive is noticed depends on how much of it is there, and a strict reader may
    // meet a bad line first; that it ends with an error does not.
    if whole.1.contains("cannot read") {
        assert!(!pieces.1.starts_with(' '), "how the bytes arrive matters: {whole:?} {pieces:?}");
    } else {
        assert_eq!(pieces, whole, "how the bytes arrive matters");
    }
    check(&whole.0, &options);
}

/// The requests, and how it ended.
fn read(bytes: &[u8], step: usize, options: &TraceOptions) -> (Vec<TraceRequest>, String) {
    let dripping = Dripping { bytes: bytes.to_vec(), at: 0, step };
    let made = Trace::from_reader("trace", dripping)
        .and_then(|input| TraceReader::new(input, options.clone()));
    let mut reader = match made {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), error.to_string()),
    };
    let mut requests = Vec::new();
    let mut end = String::new();
    for found in reader.by_ref() {
        match found {
            Ok(request) => requests.push(request),
            Err(error) => end = error.to_string(),
        }
    }
    let counts = reader.counts();
    assert_eq!(counts.requests, requests.len() as u64);
    assert!(counts.requests + counts.skipped <= counts.lines, "{counts:?}");
    (requests, format!("{end} {counts:?} {:?}", reader.problems()))
}

fn check(requests: &[TraceRequest], options: &TraceOptions) {
    let mut last = Nanos::ZERO;
    for request in requests {
        assert!(request.at >= last, "back in time: {request:?}");
        last = request.at;
        assert!(request.len_bytes > 0 || request.flush, "{request:?}");
        if let Some(capacity) = options.address.capacity_bytes {
            assert!(request.end_bytes() <= capacity, "past the disk: {request:?}");
        }
        let align = u64::from(options.address.align_bytes);
        assert!(request.offset_bytes.is_multiple_of(align), "{request:?}");
        assert!(u64::from(request.len_bytes).is_multiple_of(align), "{request:?}");
        assert!(options.device.is_none_or(|device| request.device == device), "{request:?}");
    }
}

/// An event of `blktrace`, with `pdu` behind it.
fn event(sequence: u32, sector: u64, bytes: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
    let mut event = Vec::new();
    for number in [0x6561_7407, sequence] {
        event.extend(number.to_le_bytes());
    }
    for number in [u64::from(sequence) * 1000, sector] {
        event.extend(number.to_le_bytes());
    }
    for number in [bytes, action, 119, 8 << 20, 0] {
        event.extend(number.to_le_bytes());
    }
    event.extend(0_u16.to_le_bytes());
    event.extend((pdu.len() as u16).to_le_bytes());
    event.extend(pdu);
    event
}

/// A write that is queued, issued and completed, beside the name of a process and a flush.
fn events() -> Vec<u8> {
    [
        event(0, 0, 0, 0x0400_0000, b"dd\0\0"),
        event(1, 2048, 4096, 0x001a_0001, &[]),
        event(2, 2056, 4096, 0x001a_0001, &[]),
        event(3, 0, 0, 0x001e_0001, &[]),
        event(4, 2048, 8192, 0x014a_0007, &[]),
        event(5, 2048, 8192, 0x018a_0008, &[]),
        event(6, 0, 0, 0x018a_0008, &[]),
    ]
    .concat()
}

/// Lines of each form, as their files document them.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let lines: [(Format, &str); 12] = [
        (Format::Msr, "128166372003061629,usr,1,Read,7014609920,24576,41286\n"),
        (Format::Systor17, "1455592149.000212000,0.000123,R,0,90112,4096\n"),
        (Format::Tencent, "1538323200,12910952,128,0,1063\n"),
        (Format::Alibaba, "3,W,4096,8192,1577808000000046\n"),
        (Format::CloudPhysics, "0,1,8,512,42,20,100\n"),
        (Format::DiskSimAscii, "12.5 0 16 8 1\n13.75 1 264719034 16 0\n"),
        (Format::DiskSimValidation, "0.5 R 100 8 3.2 1.5\n"),
        (Format::Mqsim, "938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n"),
        (Format::Dtrs, "12 1 100 8 0\n13 1 108 8 1\n"),
        (Format::Heimdall, "1.5 0 4096 512 1\n"),
        (Format::Blkparse, "  8,0    1       21     0.000123456  1234  Q  WS 5242888 + 8 [jbd2]\n"),
        (Format::FioIolog, "fio version 3 iolog\n27 f add\n146 f read 61440 4096\n"),
    ];
    let mut seeds = Vec::new();
    for (format, text) in lines {
        let number = Format::ALL.iter().position(|known| *known == format).unwrap_or(0) as u8;
        seeds.push([&[number, 1][..], text.as_bytes()].concat());
        seeds.push([&[15, 0x42][..], text.repeat(3).as_bytes()].concat());
    }
    let number = Format::ALL.iter().position(|known| *known == Format::Blktrace).unwrap_or(0) as u8;
    seeds.push([&[number, 1][..], &events()].concat());
    seeds.push([&[15, 0x42][..], &events()].concat());
    let gzip: [u8; 13] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0];
    seeds.push([&[7, 0][..], &gzip].concat());
    seeds.push([&[7, 0], &b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0"[..]].concat());
    seeds.push([&[7, 0], &b"\x28\xb5\x2f\xfd\x04\x00\x01\0\0"[..]].concat());
    seeds
}
