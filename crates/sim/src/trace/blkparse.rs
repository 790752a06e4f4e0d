//! What `blkparse` prints of a trace that `blktrace` took of a Linux block device (its default form, man page `blkparse(1)`).
//!
//! ```text
//!   8,0    1       21     0.000123456  1234  Q  WS 5242888 + 8 [jbd2/sda1-8]
//!   |      |       |      |            |     |  |  |         |
//!   |      |       |      |            |     |  |  |         length, sectors of 512 bytes
//!   |      |       |      |            |     |  |  address, sectors of the whole disk
//!   |      |       |      |            |     |  R or W with what else it is: S sync, F flush or FUA, M metadata, A read ahead
//!   |      |       |      |            |     what happened to it
//!   |      |       |      |            process
//!   |      |       |      seconds
//!   |      |       sequence
//!   |      processor
//!   device: major,minor
//! ```
//!
//! Each request has a line for each thing that happened to it; it counts when it was queued (`Q`), which is when its client asked. Devices
//! are numbered as the kernel does: 2^20 times the major number, and the minor one.

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed, whole_number};

const COLUMNS: &str = "major,minor processor sequence seconds process action RWBS sector + sectors";
const SECOND_NS: u64 = 1_000_000_000;
/// Minor numbers of a device (`MINORBITS` of the kernel).
const MINORS: u64 = 1 << 20;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::least_by_blanks(line, 7, COLUMNS)?;
    let device = device(&fields)?;
    let at = fields.time(3, SECOND_NS, "a time in seconds")?;
    for index in [1, 2, 4] {
        fields.number(index, "a whole number")?;
    }
    let (action, kind) = (fields.raw(5), fields.raw(6));
    if action.is_empty() || !action.iter().all(u8::is_ascii_alphabetic) {
        return Err(fields.problem(5, "an action such as Q"));
    }
    let (reads, writes) = (kind.contains(&b'R'), kind.contains(&b'W'));
    // Discards are neither, and a flush by itself has no place.
    if action != b"Q" || reads == writes || kind.contains(&b'D') {
        return Ok(Parsed::NotATransfer);
    }
    if fields.raw(8) != b"+" {
        return Ok(Parsed::NotATransfer);
    }
    let (offset_bytes, len_bytes) = fields.extent_in_sectors((7, 9))?;
    if len_bytes == 0 {
        return Ok(Parsed::NotATransfer);
    }
    let request =
        TraceRequest { at, device, offset_bytes, len_bytes, write: writes, ..Default::default() };
    Ok(Parsed::Request(request))
}

fn device(fields: &Fields<'_>) -> Result<u32, super::Problem> {
    let field = fields.raw(0);
    let comma = field.iter().position(|&byte| byte == b',');
    let number = comma.and_then(|at| {
        let major = whole_number(&field[..at]).filter(|major| *major < 1 << 12)?;
        let minor = whole_number(&field[at + 1..]).filter(|minor| *minor < MINORS)?;
        u32::try_from(major * MINORS + minor).ok()
    });
    number.ok_or_else(|| fields.problem(0, "a device as MAJOR,MINOR"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn a_request_counts_when_it_is_queued_and_nothing_else_does() {
        let expected = TraceRequest {
            at: Nanos(123_456),
            device: (8 << 20) + 1,
            offset_bytes: 5_242_888 * 512,
            len_bytes: 4096,
            write: true,
            ..TraceRequest::default()
        };
        let line = b"  8,1    1       21     0.000123456  1234  Q  WS 5242888 + 8 [jbd2/sda1-8]";
        assert_eq!(parse(line), Ok(Parsed::Request(expected)));
        let read = b"8,1 0 1 0.000123456 7 Q RA 5242888 + 8 [some process]";
        assert_eq!(parse(read), Ok(Parsed::Request(TraceRequest { write: false, ..expected })));
        for other in [
            "8,0 1 22 0.000130000 1234 G WS 5242888 + 8 [jbd2/sda1-8]",
            "8,0 1 23 0.000140000 0 C WS 5242888 + 8 [0]",
            "8,0 1 24 0.000150000 1234 A WS 5242888 + 8 <- (8,1) 5240840",
            "8,0 1 25 0.000160000 1234 P N [jbd2/sda1-8]",
            "8,0 1 26 0.000170000 1234 Q FWS [jbd2/sda1-8]",
            "8,0 1 27 0.000180000 1234 Q DS 2048 + 64 [fstrim]",
            "8,0 1 28 0.000190000 1234 UT N [kworker/1:0] 1",
        ] {
            assert_eq!(parse(other.as_bytes()), Ok(Parsed::NotATransfer), "{other}");
        }
    }

    #[test]
    fn what_blkparse_sums_up_at_the_end_is_no_request() {
        for bad in [
            "CPU0 (sda):",
            " Reads Queued:           0,        0KiB\t Writes Queued:         7,       28KiB",
            "8 1 21 0.1 1234 Q WS 5242888 + 8",
            "8,x 1 21 0.1 1234 Q WS 5242888 + 8 [a]",
            "8,0 1 21 0.1 1234 Q WS 99999999999999999999 + 8 [a]",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
