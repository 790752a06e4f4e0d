//! The text form of the Heimdall replayer (Kurniawan et al., "Heimdall", 2025), in which cuts of the MSR traces are passed around.
//!
//! ```text
//! 223.412 0 3159347200 36864 0
//! |       | |          |     0 = write, 1 = read
//! |       | |          length, bytes
//! |       | offset, bytes
//! |       device
//! arrival, milliseconds
//! ```

use super::TraceRequest;
use super::fields::{Fields, ParseResult, Parsed};

const COLUMNS: &str = "milliseconds device offset_bytes size_bytes 0|1";
const MILLISECOND_NS: u64 = 1_000_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    let fields = Fields::by_blanks(line, 5, COLUMNS)?;
    let (offset_bytes, len_bytes) = fields.extent((2, 3), 1)?;
    Ok(Parsed::Request(TraceRequest {
        at: fields.time(0, MILLISECOND_NS, "a time in milliseconds")?,
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
    fn addresses_and_sizes_are_bytes() {
        let expected = TraceRequest {
            at: Nanos(223_412_000),
            device: 1,
            offset_bytes: 4096,
            len_bytes: 36_864,
            write: true,
            ..TraceRequest::default()
        };
        assert_eq!(parse(b"223.412 1 4096 36864 0"), Ok(Parsed::Request(expected)));
    }
}
