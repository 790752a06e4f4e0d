//! SYSTOR'17: a virtual desktop infrastructure (Lee et al., "Understanding Storage Traffic
//! Characteristics on Enterprise Virtual Desktop Infrastructure", SYSTOR 2017; SNIA IOTTA set 4928).
//!
//! ```text
//! Timestamp,Response,IOType,LUN,Offset,Size
//! 1456095145.133076000,0.000806000,R,0,899056122368,131072
//! seconds              seconds     |  |  bytes      bytes
//!                                  |  LUN: the device
//!                                  R or W; other commands are in the trace too
//! ```
//!
//! Lines are in the order of completion, so times go back and forth; `Response` and `LUN` may be
//! empty.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "Timestamp,Response,IOType,LUN,Offset,Size";
const SECOND_NS: u64 = 1_000_000_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_comma(line, 6, COLUMNS)?;
    if fields.raw(0) == b"Timestamp" {
        return Ok(Parsed::NotATransfer);
    }
    let at = fields.time(0, SECOND_NS, "a time in seconds")?;
    let write = match fields.raw(2) {
        b"W" => true,
        b"R" => false,
        kind if kind.len() <= 2 && kind.iter().all(u8::is_ascii_alphabetic) => {
            return Ok(Parsed::NotATransfer);
        }
        _ => return Err(fields.problem(2, "R, W or another command's letter")),
    };
    let response = match fields.raw(1) {
        b"" => None,
        _ => Some(fields.time(1, SECOND_NS, "a response time in seconds")?),
    };
    let device = if fields.raw(3).is_empty() { 0 } else { fields.device(3)? };
    let (offset_bytes, len_bytes) = fields.extent((4, 5), 1)?;
    Ok(Parsed::Request(TraceRequest {
        at,
        device,
        offset_bytes,
        len_bytes,
        write,
        response,
        ..TraceRequest::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn a_read_is_read_with_all_its_parts() {
        let expected = TraceRequest {
            at: Nanos(1_456_095_145_000_000_005),
            device: 2,
            offset_bytes: 4096,
            len_bytes: 512,
            write: false,
            response: Some(Nanos(806_000)),
            ..TraceRequest::default()
        };
        let parsed = parse(b"1456095145.000000005,0.000806000,R,2,4096,512").unwrap();
        assert_eq!(parsed, Parsed::Request(expected));
    }

    #[test]
    fn titles_and_other_commands_are_no_transfers() {
        for line in [COLUMNS, "1456095145.1,0.0,,0,,", "1456095145.1,0.0,U,0,0,0"] {
            assert_eq!(parse(line.as_bytes()), Ok(Parsed::NotATransfer), "{line}");
        }
    }

    #[test]
    fn an_empty_response_or_lun_is_allowed_but_not_an_empty_size() {
        let parsed = parse(b"5.0,,W,,0,512").unwrap();
        assert!(matches!(parsed, Parsed::Request(TraceRequest { response: None, device: 0, .. })));
        assert!(parse(b"5.0,,W,,0,").is_err());
    }
}
