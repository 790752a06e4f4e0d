//! The Microsoft "Development Tools Release Server" trace in the columns of [`super::mqsim`].
//!
//! ```text
//! 979 0 287641400 128 1
//! |   | |         |   0 = write, 1 = read
//! |   | |         length, sectors of 512 bytes
//! |   | address, sectors
//! |   device
//! arrival, microseconds
//! ```
//!
//! The unit is not documented where the file comes from; microseconds are inferred from its last
//! request, at 299,999,516: five minutes to within half a millisecond (trace described by
//! Kavalanekar et al., "Characterization of Storage Workload Traces from Production Windows
//! Servers", IISWC 2008). Where that guess is wrong, rescale the time.

use super::fields::ParseResult;
use super::mqsim;

const COLUMNS: &str = "microseconds device sector sectors 0|1";
const MICROSECOND_NS: u64 = 1_000;

pub(super) fn parse(line: &[u8]) -> ParseResult {
    mqsim::parse_in_units_of(MICROSECOND_NS, COLUMNS, line)
}

#[cfg(test)]
mod tests {
    use super::super::fields::Parsed;
    use super::*;
    use nearhead_disk::Nanos;

    #[test]
    fn times_are_microseconds() {
        let Ok(Parsed::Request(request)) = parse(b"979 0 10 128 1") else {
            panic!("not a request")
        };
        assert_eq!((request.at, request.write), (Nanos::from_micros(979), false));
    }
}
