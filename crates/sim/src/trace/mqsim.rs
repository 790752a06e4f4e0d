//! The text form of MQSim (Tavakkol et al., "MQSim", FAST 2018).
//!
//! ```text
//! 938513000 4 264719034 16 0
//! |         | |         |  0 = write, 1 = read
//! |         | |         length, sectors of 512 bytes
//! |         | address, sectors
//! |         device
//! arrival, nanoseconds
//! ```
//!
//! `dtrs` has the same columns and another unit of time.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "nanoseconds device sector sectors 0|1";

pub(super) fn parse(line: &[u8]) -> ParseResult {
    parse_in_units_of(1, COLUMNS, line)
}

/// The same line with times in units of `unit_ns`.
pub(super) fn parse_in_units_of(unit_ns: u64, columns: &'static str, line: &[u8]) -> ParseResult {
    let fields = Fields::by_blanks(line, 5, columns)?;
    let (offset_bytes, len_bytes) = fields.extent_in_sectors((2, 3))?;
    Ok(Parsed::Request(TraceRequest {
        at: fields.time(0, unit_ns, "a time")?,
        device: fields.device(1)?,
        offset_bytes,
        len_bytes,
        write: fields.zero_is_write(4)?,
        ..TraceRequest::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn zero_means_write_and_times_are_nanoseconds() {
        let expected = TraceRequest {
            at: Nanos(938_513_001),
            device: 4,
            offset_bytes: 5120,
            len_bytes: 8192,
            write: true,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"938513001 4 10 16 0"), Ok(Parsed::Request(expected)));
        assert!(parse(b"938513001 4 10 16 2").is_err());
    }
}
