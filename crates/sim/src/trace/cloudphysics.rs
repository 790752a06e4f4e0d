//! CloudPhysics: virtual disks of customers' machines (Waldspurger et al., "Efficient MRC Construction
//! with SHARDS", FAST 2015), in the comma-separated form that cache simulators pass around.
//!
//! ```text
//! version,time,op,size,lbn
//! 1,5633898,2a,512,42932745
//!   seconds |  |   address, sectors of 512 bytes
//!           |  length, bytes
//!           SCSI operation code, hexadecimal
//! ```
//!
//! Times are mostly whole seconds: all requests of a second arrive together.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};
use nearhead_disk::SECTOR_BYTES;

const COLUMNS: &str = "version,time,op,size,lbn";
const SECOND_NS: u64 = 1_000_000_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_comma(line, 5, COLUMNS)?;
    if fields.raw(0) == b"version" {
        return Ok(Parsed::NotATransfer);
    }
    if !matches!(fields.raw(0), b"1" | b"2") {
        return Err(fields.problem(0, "version 1 or 2"));
    }
    let at = fields.time(1, SECOND_NS, "a time in seconds")?;
    // READ and WRITE with 6-, 10-, 12- and 16-byte command blocks (SCSI SBC-3, table 13).
    let write = match operation_code(fields.raw(2)) {
        Some(0x0A | 0x2A | 0xAA | 0x8A) => true,
        Some(0x08 | 0x28 | 0xA8 | 0x88) => false,
        Some(_) => return Ok(Parsed::NotATransfer),
        None => return Err(fields.problem(2, "a SCSI operation code of two hexadecimal digits")),
    };
    let len_bytes = fields.len(3, 1)?;
    let offset_bytes = fields.offset(4, SECTOR_BYTES)?;
    Ok(Parsed::Request(TraceRequest {
        at,
        offset_bytes,
        len_bytes,
        write,
        ..TraceRequest::default()
    }))
}

fn operation_code(field: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(field).ok().filter(|digits| matches!(digits.len(), 1 | 2))?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn sizes_are_bytes_and_addresses_are_sectors() {
        let expected = TraceRequest {
            at: Nanos(5_000_000_000),
            offset_bytes: 5120,
            len_bytes: 4096,
            write: true,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"1,5,2a,4096,10"), Ok(Parsed::Request(expected)));
        assert_eq!(
            parse(b"1,5,88,4096,10"),
            Ok(Parsed::Request(TraceRequest { write: false, ..expected }))
        );
    }

    #[test]
    fn titles_and_other_scsi_commands_are_no_transfers() {
        assert_eq!(parse(COLUMNS.as_bytes()), Ok(Parsed::NotATransfer));
        assert_eq!(parse(b"1,5,35,0,0"), Ok(Parsed::NotATransfer));
    }

    #[test]
    fn what_is_no_operation_code_is_an_error() {
        for line in ["1,5,2g,512,1", "1,5,,512,1", "1,5,+8,512,1", "1,5,128,512,1", "3,5,2a,512,1"]
        {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
        assert!(parse(b"1,5,2a,4294967296,1").unwrap_err().to_string().contains("field 4"));
    }
}
