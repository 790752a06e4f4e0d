//! The default text form of DiskSim (Bucy, Schindler, Schlosser, Ganger, "The DiskSim Simulation
//! Environment Version 4.0 Reference Manual", CMU-PDL-08-101, section on input formats).
//!
//! ```text
//! 0.041200 0 1064960 16 1
//! |        | |       |  flags, hexadecimal; lowest bit: 1 = read, 0 = write
//! |        | |       length, sectors of 512 bytes
//! |        | address, sectors
//! |        device
//! arrival, milliseconds
//! ```

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

pub(super) const COLUMNS: &str = "milliseconds device sector sectors flags";
const MILLISECOND_NS: u64 = 1_000_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_blanks(line, 5, COLUMNS)?;
    let (offset_bytes, len_bytes) = fields.extent_in_sectors((2, 3))?;
    Ok(Parsed::Request(TraceRequest {
        at: fields.time(0, MILLISECOND_NS, "a time in milliseconds")?,
        device: fields.device(1)?,
        offset_bytes,
        len_bytes,
        write: flags(fields.raw(4)).ok_or_else(|| fields.problem(4, "hexadecimal flags"))? & 1 == 0,
        ..TraceRequest::default()
    }))
}

fn flags(field: &[u8]) -> Option<u32> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn the_lowest_flag_tells_reads_from_writes() {
        let expected = TraceRequest {
            at: Nanos(41_200),
            device: 2,
            offset_bytes: 5120,
            len_bytes: 8192,
            write: false,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"0.041200 2 10 16 1"), Ok(Parsed::Request(expected)));
        for (flag, write) in [("0", true), ("b", false), ("0x10", true)] {
            let line = format!("0.041200 2 10 16 {flag}");
            assert_eq!(
                parse(line.as_bytes()),
                Ok(Parsed::Request(TraceRequest { write, ..expected })),
                "{line}"
            );
        }
    }

    #[test]
    fn letters_are_no_flags() {
        assert!(parse(b"0.041200 2 10 16 R").is_err());
        assert!(parse(b"0.041200 2 10 16 +1").is_err());
    }
}
