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
//! Each request has a line for each thing that happened to it, of which three count (`actions.rs`): `Q` asked for, `D` issued, `C` completed. A flush
//! alone has no sectors. Lines that begin with `#` are notes: `nearhead trace` writes this form, and says above it what was traced. Devices
//! are numbered as the kernel does: 2^20 times the major number, and the minor one.

use super::actions::{Action, What, of_letters};
use super::fields::{Fields, ParseResult, Parsed, whole_number};
use nearhead_disk::SECTOR_BYTES;

const COLUMNS: &str = "major,minor processor sequence seconds process action RWBS sector + sectors";
const SECOND_NS: u64 = 1_000_000_000;
/// Minor numbers of a device (`MINORBITS` of the kernel).
const MINORS: u64 = 1 << 20;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    if line.starts_with(b"#") {
        return Ok(Parsed::NotATransfer);
    }
    let fields = Fields::least_by_blanks(line, 7, COLUMNS)?;
    let device = device(&fields)?;
    let at = fields.time(3, SECOND_NS, "a time in seconds")?;
    for index in [1, 2] {
        fields.number(index, "a whole number")?;
    }
    let process = fields.process(4)?;
    let action = fields.raw(5);
    if action.is_empty() || !action.iter().all(u8::is_ascii_alphabetic) {
        return Err(fields.problem(5, "an action such as Q"));
    }
    let what = match action {
        b"Q" => What::Queued,
        b"D" => What::Issued,
        b"C" => What::Completed,
        _ => return Ok(Parsed::NotATransfer),
    };
    let Some(mut request) = of_letters(fields.raw(6)) else { return Ok(Parsed::NotATransfer) };
    (request.at, request.device, request.process) = (at, device, process);
    if fields.raw(8) == b"+" {
        (request.offset_bytes, request.len_bytes) = fields.extent_in_sectors((7, 9))?;
    } else if what == What::Completed && whole_number(fields.raw(7)).is_some() {
        request.offset_bytes = fields.offset(7, SECTOR_BYTES)?;
    } else if what == What::Completed || !request.flush {
        // What a passed-through command moves is told in another form.
        return Ok(Parsed::NotATransfer);
    }
    Ok(Parsed::Action(Action { what, request }))
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
    use super::super::TraceRequest;
    use super::*;
    use nearhead_disk::Nanos;

    fn request(letters: &str, offset_bytes: u64, len_bytes: u32) -> TraceRequest {
        TraceRequest {
            at: Nanos(123_456),
            device: (8 << 20) + 1,
            process: 1234,
            offset_bytes,
            len_bytes,
            ..of_letters(letters.as_bytes()).unwrap()
        }
    }

    #[test]
    fn what_is_asked_for_issued_and_completed_counts_and_nothing_else_does() {
        let place = 5_242_888 * 512;
        for (line, what, expected) in [
            ("Q  WS 5242888 + 8 [jbd2/sda1-8]", What::Queued, request("WS", place, 4096)),
            ("Q RA 5242888 + 8 [some process]", What::Queued, request("RA", place, 4096)),
            ("Q FWFSM 5242888 + 8 [a]", What::Queued, request("FWFSM", place, 4096)),
            ("Q FWS [dd]", What::Queued, request("FWS", 0, 0)),
            ("D FN [kworker/1:1H]", What::Issued, request("FN", 0, 0)),
            ("D WSM 5242888 + 8 [a]", What::Issued, request("WSM", place, 4096)),
            ("C FN 0 [0]", What::Completed, request("FN", 0, 0)),
            ("C WS 5242888 + 8 [0]", What::Completed, request("WS", place, 4096)),
            ("C WSM 5242888 [0]", What::Completed, request("WSM", place, 0)),
        ] {
            let parsed = parse(format!("  8,1  1   21   0.000123456  1234  {line}").as_bytes());
            assert_eq!(parsed, Ok(Parsed::Action(Action { what, request: expected })), "{line}");
        }
        for other in [
            "8,0 1 22 0.000130000 1234 G WS 5242888 + 8 [jbd2/sda1-8]",
            "8,0 1 24 0.000150000 1234 A WS 5242888 + 8 <- (8,1) 5240840",
            "8,0 1 25 0.000160000 1234 P N [jbd2/sda1-8]",
            "8,0 1 27 0.000180000 1234 Q DS 2048 + 64 [fstrim]",
            "8,0 1 28 0.000190000 1234 UT N [kworker/1:0] 1",
            "8,0 1 28 0.000190000 1234 D R 36 (12 00 00 00 24 00) [smartctl]",
            "8,0 1 29 0.000190000 1234 C R (12 00 00 00 24 00) [0]",
            "# device 8,0 sda",
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
            "8,0 1 21 0.1 4294967296 Q WS 5242888 + 8 [a]",
            "8,0 1 21 0.1 1234 Q WS 99999999999999999999 + 8 [a]",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
