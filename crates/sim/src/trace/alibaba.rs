//! Alibaba cloud block storage (Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads
//! in Large-Scale Production", IISWC 2020).
//!
//! ```text
//! 419,W,8792731648,16384,1577808144360767
//! |   | |          |     microseconds since 1970
//! |   | |          length, bytes
//! |   | offset, bytes
//! |   R or W
//! volume: the device
//! ```

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "device_id,opcode,offset,length,timestamp";
const MICROSECOND_NS: u64 = 1_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_comma(line, 5, COLUMNS)?;
    if fields.raw(0) == b"device_id" {
        return Ok(Parsed::NotATransfer);
    }
    let write = match fields.raw(1) {
        b"W" => true,
        b"R" => false,
        _ => return Err(fields.problem(1, "R or W")),
    };
    let (offset_bytes, len_bytes) = fields.extent((2, 3), 1)?;
    Ok(Parsed::Request(TraceRequest {
        at: fields.time(4, MICROSECOND_NS, "a time in microseconds")?,
        device: fields.device(0)?,
        offset_bytes,
        len_bytes,
        write,
        ..TraceRequest::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn a_write_is_read_with_all_its_parts() {
        let expected = TraceRequest {
            at: Nanos(1_577_808_144_360_767_000),
            device: 419,
            offset_bytes: 8192,
            len_bytes: 16_384,
            write: true,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"419,W,8192,16384,1577808144360767"), Ok(Parsed::Request(expected)));
        assert_eq!(parse(COLUMNS.as_bytes()), Ok(Parsed::NotATransfer));
    }

    #[test]
    fn a_small_letter_is_an_error() {
        assert!(parse(b"419,w,8192,16384,1577808144360767").is_err());
    }
}
