//! Sizes, spans of time and times of day as people type and read them.
//!
//! The same types are read from flags and from a volume file. What is printed for programs is
//! always a plain number whose name ends in its unit; the forms made here are for people.

use nearhead_disk::Nanos;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, typed as `4096`, `64MiB`, `1.5G` (powers of 1024) or `10GB` (powers of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// A span of time, typed as `30s`, `500ms`, `10m` or `1.5h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Nanos);

/// A part of the day, typed as `22:00-06:00`: start and end in seconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it opens.
    pub start_s: u32,
    /// When it closes; before `start_s` if it passes midnight.
    pub end_s: u32,
}

/// Most digits after the point: more than any size or time has that is whole in its smallest unit.
const DECIMALS_MAX: usize = 18;

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// A decimal number of units in the smallest unit, exactly; `None` if it is none or not whole.
fn whole(number: &str, unit: u64) -> Option<u64> {
    let (digits, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if digits.is_empty() || decimals.is_empty() || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let units = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    let part = u128::from(decimals.parse::<u64>().ok()?) * u128::from(unit);
    let scale = 10_u128.pow(decimals.len() as u32);
    let is_whole = part.is_multiple_of(scale);
    units.checked_add(u64::try_from(part / scale).ok()?).filter(|_| is_whole)
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected a size of whole bytes such as 4096, 64MiB, 1.5G or 10GB, found {text:?}"
            )
        };
        let (number, unit) = split_number(text.trim());
        let unit = unit.trim().to_ascii_lowercase();
        let mut letters = unit.chars();
        let power = match letters.next() {
            None | Some('b') => 0,
            Some('k') => 1,
            Some('m') => 2,
            Some('g') => 3,
            Some('t') => 4,
            Some('p') => 5,
            Some(_) => return Err(wrong()),
        };
        let base: u64 = match (letters.as_str(), power) {
            ("", _) | ("ib", 1..) => 1024,
            ("b", 1..) => 1000,
            _ => return Err(wrong()),
        };
        whole(number, base.pow(power)).map(Self).ok_or_else(wrong)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a time such as 30s, 500ms, 10m or 1.5h, found {text:?}");
        let (number, unit) = split_number(text.trim());
        let unit_ns = match unit.trim() {
            "ms" => 1_000_000,
            "" | "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        whole(number, unit_ns).map(|ns| Self(Nanos(ns))).ok_or_else(wrong)
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('-').and_then(|(start, end)| {
            let (start_s, end_s) = (second_of_day(start)?, second_of_day(end)?);
            (start_s != end_s).then_some(Self { start_s, end_s })
        });
        parsed.ok_or_else(|| {
            format!("expected a part of the day such as 22:00-06:00, found {text:?}")
        })
    }
}

fn second_of_day(text: &str) -> Option<u32> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)
}

impl Span {
    /// As it could be typed, and is read again: in the largest unit that leaves no fraction.
    pub fn typed(self) -> String {
        let ns = self.0.0;
        for (unit_ns, unit) in [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
        ] {
            if ns > 0 && ns.is_multiple_of(unit_ns) {
                return format!("{}{unit}", ns / unit_ns);
            }
        }
        if ns == 0 { "0".to_owned() } else { format!("{}ms", ns as f64 / 1e6) }
    }
}

impl ByteSize {
    /// As it could be typed, and is read again: in the largest unit that leaves no fraction.
    pub fn typed(self) -> String {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = |power: u32| self.0 > 0 && self.0.is_multiple_of(1 << power);
        let found = units.into_iter().find(|(power, _)| whole(*power));
        found.map_or_else(
            || self.0.to_string(),
            |(power, unit)| format!("{}{unit}", self.0 >> power),
        )
    }
}

impl Window {
    /// As it could be typed, and is read again.
    pub fn typed(self) -> String {
        let time = |s: u32| format!("{:02}:{:02}", s / 3600, s / 60 % 60);
        format!("{}-{}", time(self.start_s), time(self.end_s))
    }
}

/// Seconds since 1970 as a date and time of day in UTC, to the second.
pub fn date_of(unix_s: u64) -> String {
    let date = i64::try_from(unix_s).ok().and_then(|s| chrono::DateTime::from_timestamp(s, 0));
    date.map_or_else(
        || format!("{unix_s} s after 1970"),
        |date| date.naive_utc().to_string().replace(' ', "T") + "Z",
    )
}

/// What a volume file may hold for any of these: the typed form, or a plain number.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(u64),
}

pub(crate) fn from_file<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = match TextOrNumber::deserialize(deserializer)? {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    };
    text.parse().map_err(serde::de::Error::custom)
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_file(deserializer)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_file(deserializer)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_file(deserializer)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(formatter, "{} bytes", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = usize::from(value.fract() != 0.0);
        write!(formatter, "{value:.digits$} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_as_typed_is_read_again_as_the_same() {
        for ns in [0, 1_000_000, 15_000_000, 1_500_000_000, 90_000_000_000, 7_200_000_000_000] {
            let typed = Span(Nanos(ns)).typed();
            assert_eq!(typed.parse(), Ok(Span(Nanos(ns))), "{typed}");
        }
        for bytes in [0, 1, 512, 1025, 4096, 16 << 20, (16 << 20) + 512, 3 << 40] {
            let typed = ByteSize(bytes).typed();
            assert_eq!(typed.parse(), Ok(ByteSize(bytes)), "{typed}");
        }
        assert_eq!(ByteSize(16 << 20).typed(), "16MiB");
        let window = Window { start_s: 300, end_s: 86_340 };
        assert_eq!((window.typed().as_str(), window.typed().parse()), ("00:05-23:59", Ok(window)));
    }

    #[test]
    fn sizes_are_read_in_both_kinds_of_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("512b", 512),
            ("64MiB", 64 << 20),
            ("64M", 64 << 20),
            ("10GB", 10_000_000_000),
            ("1 TiB", 1 << 40),
            ("1.5GiB", 3 << 29),
            ("0.5k", 512),
            ("2.5 GB", 2_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_span_or_window_is_refused_with_what_was_found() {
        for text in [
            "",
            "MiB",
            "12x",
            "-1",
            "99999999P",
            "1bb",
            "5ib",
            "1.5",
            "0.3k",
            "1.G",
            ".5G",
            "1.2.3G",
            "1.-5G",
            "16383.99999P",
            "0.0000000000000000001G",
        ] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        for text in ["", "s", "5y", "99999999999999h", "1.s", "0.0000000001s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        for text in ["22:00", "24:00-01:00", "10:60-11:00", "10:00-10:00", "a-b"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_and_windows_are_read() {
        assert_eq!("500ms".parse(), Ok(Span(Nanos::from_millis(500))));
        assert_eq!("2h".parse(), Ok(Span(Nanos::from_secs(7200))));
        assert_eq!("1.5h".parse(), Ok(Span(Nanos::from_secs(5400))));
        assert_eq!("0.25s".parse(), Ok(Span(Nanos::from_millis(250))));
        assert_eq!("22:30-06:00".parse(), Ok(Window { start_s: 81_000, end_s: 21_600 }));
    }

    #[test]
    fn dates_are_shown_as_people_read_them() {
        assert_eq!(date_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_of(1_795_453_878), "2026-11-23T17:11:18Z");
        assert_eq!(date_of(u64::MAX), "18446744073709551615 s after 1970");
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_suits_them() {
        assert_eq!(ByteSize(100).to_string(), "100 bytes");
        assert_eq!(ByteSize(64 << 20).to_string(), "64 MiB");
        assert_eq!(ByteSize(3 << 29).to_string(), "1.5 GiB");
    }
}
