//! The form of DiskSim's validation traces: requests measured on a real drive, one at a time.
//!
//! ```text
//! R Hit 31853640 8 4067.00000 11099.00000
//! | |   |        | |          time from this completion to the next issue, microseconds
//! | |   |        | response time, microseconds
//! | |   |        length, sectors of 512 bytes
//! | |   address, sectors
//! | what the on-disk cache is thought to have done: not used
//! R or W
//! ```
//!
//! There is no time of arrival; the reader adds up response and think times.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "R|W Hit|Miss sector sectors response_us think_us";
const MICROSECOND_NS: u64 = 1_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_blanks(line, 6, COLUMNS)?;
    let write = match fields.raw(0) {
        b"W" => true,
        b"R" => false,
        _ => return Err(fields.problem(0, "R or W")),
    };
    let (offset_bytes, len_bytes) = fields.extent_in_sectors((2, 3))?;
    Ok(Parsed::Request(TraceRequest {
        offset_bytes,
        len_bytes,
        write,
        response: Some(fields.time(4, MICROSECOND_NS, "a response time in microseconds")?),
        think: Some(fields.time(5, MICROSECOND_NS, "a think time in microseconds")?),
        ..TraceRequest::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn response_and_think_times_are_kept() {
        let expected = TraceRequest {
            offset_bytes: 5120,
            len_bytes: 4096,
            write: true,
            response: Some(Nanos(1_414_270)),
            think: Some(Nanos(15_000)),
            ..TraceRequest::default()
        };
        assert_eq!(
            parse(b"W Doub   10     8      1414.270        15.000"),
            Ok(Parsed::Request(expected))
        );
    }

    #[test]
    fn a_missing_think_time_is_an_error() {
        assert!(parse(b"W Doub 10 8 1414.270").unwrap_err().to_string().contains("think_us"));
    }
}
