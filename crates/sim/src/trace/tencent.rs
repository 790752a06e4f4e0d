//! Tencent cloud block storage (Zhang et al., "OSCA: An Online-Model Based Cache Allocation
//! Scheme in Cloud Block Storage Systems", USENIX ATC 2020; SNIA IOTTA set 27917).
//!
//! ```text
//! 1538323200,4247200,128,1,1058
//! seconds    |       |   | volume: the device
//!            |       |   0 = read, 1 = write
//!            |       length, sectors of 512 bytes
//!            offset, sectors
//! ```
//!
//! Times are whole seconds: all requests of a second arrive together at its start.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "Timestamp,Offset,Size,IOType,VolumeID";
const SECOND_NS: u64 = 1_000_000_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_comma(line, 5, COLUMNS)?;
    let write = match fields.raw(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(fields.problem(3, "0 (read) or 1 (write)")),
    };
    let (offset_bytes, len_bytes) = fields.extent_in_sectors((1, 2))?;
    Ok(Parsed::Request(TraceRequest {
        at: fields.time(0, SECOND_NS, "a time in seconds")?,
        device: fields.device(4)?,
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
    fn one_means_write_and_sectors_become_bytes() {
        let expected = TraceRequest {
            at: Nanos(1_538_323_200_000_000_000),
            device: 77,
            offset_bytes: 5120,
            len_bytes: 4096,
            write: true,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"1538323200,10,8,1,77"), Ok(Parsed::Request(expected)));
    }

    #[test]
    fn another_operation_is_an_error() {
        assert!(parse(b"1538323200,10,8,2,77").unwrap_err().to_string().contains("field 4"));
    }
}
