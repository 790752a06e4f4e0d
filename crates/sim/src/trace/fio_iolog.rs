//! The third version of fio's I/O log, as `fio --write_iolog` writes it (seen of fio 3.33: times are microseconds).
//!
//! ```text
//! fio version 3 iolog
//! 27 /dev/sdb add
//! 74258 /dev/sdb write 491520 4096
//! |     |        |     |      length, bytes
//! |     |        |     address, bytes
//! |     |        read or write, sync or datasync; others, without numbers or with, move no bytes
//! |     file
//! time, microseconds
//! ```
//!
//! Files are not told apart: all of them are device 0, as if one lay over the other. The second version has no times, so nobody could say when
//! its requests came; it is refused.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "microseconds file action [address length]";
const MICROSECOND_NS: u64 = 1000;
/// What fio does besides reading, writing and making durable.
const OTHERS: [&[u8]; 5] = [b"add", b"open", b"close", b"trim", b"wait"];

pub(super) fn parse(line: &[u8]) -> ParseResult {
    if line.trim_ascii() == b"fio version 3 iolog" {
        return Ok(Parsed::NotATransfer);
    }
    let fields = Fields::least_by_blanks(line, 3, COLUMNS)?;
    let at = fields.time(0, MICROSECOND_NS, "a time in microseconds")?;
    let write = match fields.raw(2) {
        b"write" => true,
        b"read" => false,
        b"sync" | b"datasync" => {
            return Ok(Parsed::Request(TraceRequest {
                at,
                write: true,
                flush: true,
                ..Default::default()
            }));
        }
        other if OTHERS.contains(&other) => return Ok(Parsed::NotATransfer),
        _ => return Err(fields.problem(2, "read, write or another action of fio")),
    };
    if !fields.raw(5).is_empty() {
        return Err(fields.problem(5, "no more than five fields"));
    }
    let (offset_bytes, len_bytes) = fields.extent((3, 4), 1)?;
    let request = TraceRequest { at, offset_bytes, len_bytes, write, ..Default::default() };
    Ok(Parsed::Request(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn reads_and_writes_count_and_what_moves_no_bytes_does_not() {
        let expected = TraceRequest {
            at: Nanos(74_258_000),
            offset_bytes: 491_520,
            len_bytes: 4096,
            write: true,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"74258 f write 491520 4096"), Ok(Parsed::Request(expected)));
        let flush =
            TraceRequest { at: Nanos(9000), write: true, flush: true, ..Default::default() };
        assert_eq!(parse(b"9 f sync"), Ok(Parsed::Request(flush)));
        assert_eq!(parse(b"9 f datasync 0 0"), Ok(Parsed::Request(flush)));
        for other in
            ["fio version 3 iolog", "27 f add", "142 f open", "9 f trim 0 4096", "9 f close"]
        {
            assert_eq!(parse(other.as_bytes()), Ok(Parsed::NotATransfer), "{other}");
        }
        for bad in ["fio version 2 iolog", "f read 0 4096", "9 f read 0", "9 f rename"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
