//! Fields of a line and the numbers in them: bytes in, checked integers out.
//!
//! Traces are untrusted and long, so this neither allocates for a good line nor accepts anything
//! loosely: a number is digits (one decimal point where times have it) and must fit its type.

use super::actions::Action;
use super::{Problem, TraceRequest};
use nearhead_disk::{Nanos, SECTOR_BYTES};

/// Most fields that are looked at of any form (ten), plus one to notice that there are more.
const FIELDS_MAX: usize = 11;

/// No disk is larger, and an end (offset and length added) still fits in 64 bits.
pub(super) const ADDRESS_BYTES_MAX: u64 = 1 << 63;

/// What a line turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A read, a write or a flush.
    Request(TraceRequest),
    /// Something that happened to one.
    Action(Action),
    /// A well-formed line about something else (another command, the column titles).
    NotATransfer,
}

pub(super) type ParseResult = Result<Parsed, Problem>;

/// The fields of one line.
pub(super) struct Fields<'line> {
    line: &'line [u8],
    all: [&'line [u8]; FIELDS_MAX],
}

impl<'line> Fields<'line> {
    /// Exactly `count` fields between commas; `columns` names them for the error.
    pub(super) fn by_comma(
        line: &'line [u8],
        count: usize,
        columns: &'static str,
    ) -> Result<Self, Problem> {
        Self::collect(line, line.split(|&byte| byte == b','), count, columns)
    }

    /// Exactly `count` fields between runs of blanks; `columns` names them for the error.
    pub(super) fn by_blanks(
        line: &'line [u8],
        count: usize,
        columns: &'static str,
    ) -> Result<Self, Problem> {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        Self::collect(line, words, count, columns)
    }

    /// At least `least` fields between runs of blanks; of more the first [`FIELDS_MAX`] are looked at, and those that are not there are empty.
    pub(super) fn least_by_blanks(
        line: &'line [u8],
        least: usize,
        columns: &'static str,
    ) -> Result<Self, Problem> {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (all, found) = Self::first(words);
        if found < least {
            return Err(Problem::new(format!("{least} fields or more: {columns}"), line));
        }
        Ok(Self { line, all })
    }

    /// As many as are looked at, and how many of them are there.
    fn first(pieces: impl Iterator<Item = &'line [u8]>) -> ([&'line [u8]; FIELDS_MAX], usize) {
        let mut all: [&[u8]; FIELDS_MAX] = [&[]; FIELDS_MAX];
        let mut found = 0;
        for (slot, piece) in all.iter_mut().zip(pieces) {
            *slot = piece;
            found += 1;
        }
        (all, found)
    }

    fn collect(
        line: &'line [u8],
        pieces: impl Iterator<Item = &'line [u8]>,
        count: usize,
        columns: &'static str,
    ) -> Result<Self, Problem> {
        let (all, found) = Self::first(pieces);
        if found != count {
            return Err(Problem::new(format!("{count} fields: {columns}"), line));
        }
        Ok(Self { line, all })
    }

    /// Field `index`, counted from 0.
    pub(super) fn raw(&self, index: usize) -> &'line [u8] {
        self.all[index]
    }

    /// A problem with field `index`.
    pub(super) fn problem(&self, index: usize, expected: &str) -> Problem {
        let found = [self.raw(index), b" in the line ", self.line].concat();
        Problem::new(format!("{expected} in field {}", index + 1), &found)
    }

    /// Field `index` as a whole number.
    pub(super) fn number(&self, index: usize, expected: &str) -> Result<u64, Problem> {
        whole_number(self.raw(index)).ok_or_else(|| self.problem(index, expected))
    }

    /// Field `index` as a device number.
    pub(super) fn device(&self, index: usize) -> Result<u32, Problem> {
        whole_number(self.raw(index))
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.problem(index, "a device number below 2^32"))
    }

    /// Field `index` as the number of a process.
    pub(super) fn process(&self, index: usize) -> Result<u32, Problem> {
        whole_number(self.raw(index))
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.problem(index, "a process number below 2^32"))
    }

    /// Field `index`, a decimal number of `unit_ns` nanoseconds (a power of ten), as a time.
    pub(super) fn time(
        &self,
        index: usize,
        unit_ns: u64,
        expected: &str,
    ) -> Result<Nanos, Problem> {
        decimal_time(self.raw(index), unit_ns).ok_or_else(|| self.problem(index, expected))
    }

    /// Field `index`, in units of `unit_bytes`, as an offset in bytes.
    pub(super) fn offset(&self, index: usize, unit_bytes: u64) -> Result<u64, Problem> {
        whole_number(self.raw(index))
            .and_then(|offset| offset.checked_mul(unit_bytes))
            .filter(|offset| *offset < ADDRESS_BYTES_MAX)
            .ok_or_else(|| self.problem(index, "an address below 2^63 bytes"))
    }

    /// Field `index`, in units of `unit_bytes`, as a length in bytes.
    pub(super) fn len(&self, index: usize, unit_bytes: u64) -> Result<u32, Problem> {
        whole_number(self.raw(index))
            .and_then(|len| len.checked_mul(unit_bytes))
            .and_then(|len| u32::try_from(len).ok())
            .ok_or_else(|| self.problem(index, "a length below 2^32 bytes"))
    }

    /// Fields holding an offset and a length in units of `unit_bytes`, as bytes.
    pub(super) fn extent(
        &self,
        (offset_index, len_index): (usize, usize),
        unit_bytes: u64,
    ) -> Result<(u64, u32), Problem> {
        Ok((self.offset(offset_index, unit_bytes)?, self.len(len_index, unit_bytes)?))
    }

    /// As [`Fields::extent`], both in sectors of 512 bytes.
    pub(super) fn extent_in_sectors(
        &self,
        offset_and_len: (usize, usize),
    ) -> Result<(u64, u32), Problem> {
        self.extent(offset_and_len, SECTOR_BYTES)
    }

    /// Field `index` as 0 (write) or 1 (read), the polarity of the DiskSim family.
    pub(super) fn zero_is_write(&self, index: usize) -> Result<bool, Problem> {
        match self.raw(index) {
            b"0" => Ok(true),
            b"1" => Ok(false),
            _ => Err(self.problem(index, "0 (write) or 1 (read)")),
        }
    }
}

/// Decimal digits only, below 2^64.
pub(super) fn whole_number(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

/// Digits, perhaps a point and more digits, times `unit_ns`; digits below a nanosecond are cut.
pub(super) fn decimal_time(field: &[u8], unit_ns: u64) -> Option<Nanos> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let mut nanos = whole_number(&field[..point])?.checked_mul(unit_ns)?;
    let mut digit_ns = unit_ns;
    for &byte in field.get(point + 1..).unwrap_or_default() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        digit_ns /= 10;
        nanos = nanos.checked_add(u64::from(digit) * digit_ns)?;
    }
    Some(Nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(whole_number(b"0"), Some(0));
        assert_eq!(whole_number(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "18446744073709551616", "-1", "+1", " 1", "1 ", "1.0", "0x10", "1e3"] {
            assert_eq!(whole_number(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn decimal_times_are_exact_to_the_nanosecond() {
        assert_eq!(
            decimal_time(b"1455591804.310701000", 1_000_000_000),
            Some(Nanos(1_455_591_804_310_701_000))
        );
        assert_eq!(decimal_time(b"223.412", 1_000_000), Some(Nanos(223_412_000)));
        assert_eq!(decimal_time(b"4067.00000", 1_000), Some(Nanos(4_067_000)));
        assert_eq!(decimal_time(b"7", 1_000), Some(Nanos(7_000)));
        assert_eq!(decimal_time(b"0.0019999", 1_000), Some(Nanos(1)));
        for bad in ["", ".", ".5", "-1.0", "1..2", "1.2.3", "1.x", "nan", "99999999999999999999.0"]
        {
            assert_eq!(decimal_time(bad.as_bytes(), 1_000_000_000), None, "{bad:?}");
        }
    }

    #[test]
    fn the_wrong_number_of_fields_names_the_columns() {
        let problem = Fields::by_comma(b"1,2,3", 4, "a, b, c, d").err().unwrap();
        assert_eq!(problem.to_string(), "expected 4 fields: a, b, c, d, found \"1,2,3\"");
        assert!(Fields::by_comma(b"1,2,3,4,5,6,7,8,9", 7, "").is_err());
        assert!(Fields::by_blanks(b"  1\t 2  3 ", 3, "").is_ok());
    }

    #[test]
    fn addresses_and_lengths_past_their_bounds_are_refused() {
        let fields =
            Fields::by_blanks(b"18014398509481984 18014398509481983 8388608", 3, "").unwrap();
        assert!(fields.offset(0, 512).is_err(), "2^63 bytes");
        assert_eq!(fields.offset(1, 512).unwrap(), (1 << 63) - 512);
        assert!(fields.len(2, 512).is_err(), "2^32 bytes");
        assert_eq!(fields.extent((1, 2), 1).unwrap(), (18_014_398_509_481_983, 8_388_608));
    }
}
