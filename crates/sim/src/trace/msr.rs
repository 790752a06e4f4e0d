//! MSR Cambridge: servers of an enterprise data centre (Narayanan, Donnelly, Rowstron, "Write
//! Off-Loading", FAST 2008; SNIA IOTTA set 388).
//!
//! ```text
//! 128166372003061629,hm,0,Write,9056014336,2048,2833
//! issue time         |  | |     |          |    response time, 100 ns units
//! (Windows FILETIME, |  | |     |          length, bytes
//!  100 ns units)     |  | |     offset, bytes
//!                    |  | Read or Write
//!                 host  disk number: the device
//! ```

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};
use nearhead_disk::Nanos;

const COLUMNS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
/// FILETIME counts 100 ns since 1601; times until the year 2185 fit in 64 bits of nanoseconds.
const TICK_NS: u64 = 100;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_comma(line, 7, COLUMNS)?;
    let kind = fields.raw(3);
    let write = if kind.eq_ignore_ascii_case(b"write") {
        true
    } else if kind.eq_ignore_ascii_case(b"read") {
        false
    } else {
        return Err(fields.problem(3, "Read or Write"));
    };
    let time = |index, expected| -> Result<Nanos, super::Problem> {
        let ticks = fields.number(index, expected)?;
        ticks.checked_mul(TICK_NS).map(Nanos).ok_or_else(|| fields.problem(index, expected))
    };
    let (offset_bytes, len_bytes) = fields.extent((4, 5), 1)?;
    Ok(Parsed::Request(TraceRequest {
        at: time(0, "a time in 100 ns units")?,
        device: fields.device(2)?,
        offset_bytes,
        len_bytes,
        write,
        response: Some(time(6, "a response time in 100 ns units")?),
        ..TraceRequest::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_read_with_all_its_parts() {
        let parsed = parse(b"128166385295514663,web,3,Write,1048576,8192,2833").unwrap();
        let expected = TraceRequest {
            at: Nanos(12_816_638_529_551_466_300),
            device: 3,
            offset_bytes: 1_048_576,
            len_bytes: 8192,
            write: true,
            response: Some(Nanos(283_300)),
            ..TraceRequest::default()
        };
        assert_eq!(parsed, Parsed::Request(expected));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, part) in [
            ("1,web,0,Trim,0,512,9", "Read or Write in field 4"),
            ("1,web,0,Read,0,512", "7 fields"),
            ("1844674407370955162,web,0,Read,0,512,9", "100 ns units in field 1"),
            ("1,web,4294967296,Read,0,512,9", "device number"),
            ("1,web,0,Read,-512,512,9", "address"),
        ] {
            let text = parse(line.as_bytes()).unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
