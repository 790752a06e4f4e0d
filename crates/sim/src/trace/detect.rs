//! Which format a trace has, told from its first lines and, where those leave a choice, its name.
//!
//! First every parser is tried on the sample; a format is a candidate if it understands most of the
//! lines. The comma-separated forms exclude each other by their columns. Four forms share "time
//! device address size operation", so the candidates among them are told apart by, in this order:
//!
//! 1. flags beyond 0 and 1: `disksim`;
//! 2. the name of the file or of its folder (`mqsim`, `dtrs`, `heimdall`, `disksim`);
//! 3. addresses and sizes that are all multiples of 512: bytes, so `heimdall`;
//! 4. times with a decimal point: milliseconds, so `disksim`;
//! 5. whole times: `mqsim` (nanoseconds) if they are all multiples of 1000, or if the arrivals would
//!    otherwise be fewer than 10 a second; else `dtrs` (microseconds).

use super::fields::{Fields, Parsed, decimal_time, whole_number};
use super::{Format, disksim_ascii};
use std::path::Path;

/// Lines looked at.
pub(super) const SAMPLE_LINES: usize = 200;

/// A format and why it was chosen.
pub(super) struct Detected {
    pub(super) format: Format,
    pub(super) reason: &'static str,
}

/// The format of the trace called `name` that starts with the lines `sample`.
pub(super) fn detect(name: &str, sample: &[Vec<u8>]) -> Option<Detected> {
    let scores = Format::ALL.map(|format| (understood(format, sample), format));
    let best = scores.iter().map(|(score, _)| *score).max().filter(|best| *best > 0)?;
    let lines = sample.iter().filter(|line| !is_blank(line)).count();
    if best * 2 < lines {
        return None;
    }
    // A form whose flags are read more loosely must not win by a few more lines.
    let candidates: Vec<Format> = scores
        .iter()
        .filter(|(score, _)| score * 10 >= best * 9)
        .map(|(_, format)| *format)
        .collect();
    match candidates[..] {
        [format] => Some(Detected { format, reason: "the columns of its first lines" }),
        _ => among_five_columns(name, sample, &candidates),
    }
}

pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

fn understood(format: Format, sample: &[Vec<u8>]) -> usize {
    let Some(parse) = format.parser() else { return 0 };
    let counts = |parsed| match parsed {
        Ok(Parsed::Request(_) | Parsed::Action(_)) => true,
        Ok(Parsed::NotATransfer) => format.has_lines_of_its_own(),
        Err(_) => false,
    };
    sample.iter().filter(|line| counts(parse(line))).count()
}

fn among_five_columns(name: &str, sample: &[Vec<u8>], candidates: &[Format]) -> Option<Detected> {
    let sample = FiveColumns::of(sample);
    let chosen = |format, reason| Some(Detected { format, reason });
    if sample.has_other_flags {
        return chosen(Format::DiskSimAscii, "flags other than 0 and 1");
    }
    if let Some(format) = named(name).filter(|format| candidates.contains(format)) {
        return chosen(format, "its name");
    }
    if sample.in_bytes {
        return chosen(Format::Heimdall, "addresses and sizes that are multiples of 512: bytes");
    }
    if sample.has_points {
        return chosen(Format::DiskSimAscii, "decimal times and addresses in sectors");
    }
    let rate_if_micros = sample.requests as f64 / (sample.span_of_times as f64 / 1e6);
    if sample.whole_thousands || rate_if_micros < 10.0 {
        chosen(Format::Mqsim, "times that look like nanoseconds")
    } else {
        chosen(Format::Dtrs, "times that look like microseconds")
    }
}

/// What the file or its folder is called after.
fn named(name: &str) -> Option<Format> {
    let hints = [
        ("mqsim", Format::Mqsim),
        ("dtrs", Format::Dtrs),
        ("heimdall", Format::Heimdall),
        ("disksim", Format::DiskSimAscii),
    ];
    let names: Vec<String> = Path::new(name)
        .iter()
        .rev()
        .take(2)
        .map(|part| part.to_string_lossy().to_ascii_lowercase())
        .collect();
    // The file's own name counts before its folder's.
    names.iter().find_map(|part| {
        hints.iter().find(|(hint, _)| part.contains(hint)).map(|(_, format)| *format)
    })
}

/// What tells the forms with five columns apart.
#[expect(clippy::struct_excessive_bools, reason = "independent observations, not a state")]
struct FiveColumns {
    requests: u64,
    has_other_flags: bool,
    has_points: bool,
    in_bytes: bool,
    whole_thousands: bool,
    span_of_times: u64,
}

impl FiveColumns {
    fn of(sample: &[Vec<u8>]) -> Self {
        let mut found = Self {
            requests: 0,
            has_other_flags: false,
            has_points: false,
            in_bytes: true,
            whole_thousands: true,
            span_of_times: 0,
        };
        let (mut earliest, mut latest) = (u64::MAX, 0);
        for fields in
            sample.iter().filter_map(|line| Fields::by_blanks(line, 5, disksim_ascii::COLUMNS).ok())
        {
            let Some(time) = decimal_time(fields.raw(0), 1) else { continue };
            let multiple = |index: usize, unit| {
                whole_number(fields.raw(index)).is_some_and(|number| number.is_multiple_of(unit))
            };
            found.requests += 1;
            found.has_other_flags |= !matches!(fields.raw(4), b"0" | b"1");
            found.has_points |= fields.raw(0).contains(&b'.');
            found.in_bytes &= multiple(2, 512) && multiple(3, 512);
            found.whole_thousands &= time.0.is_multiple_of(1000);
            (earliest, latest) = (earliest.min(time.0), latest.max(time.0));
        }
        found.span_of_times = latest.saturating_sub(earliest);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(name: &str, lines: &[&str]) -> Option<Format> {
        let sample: Vec<_> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        detect(name, &sample).map(|detected| detected.format)
    }

    #[test]
    fn the_contents_alone_tell_every_format() {
        for (lines, format) in [
            (["128166385295514663,web,3,Write,1048576,8192,2833", ""], Format::Msr),
            (["Timestamp,Response,IOType,LUN,Offset,Size", "14.1,0.1,R,0,8,512"], Format::Systor17),
            (["1538323200,4247200,128,1,1058", ""], Format::Tencent),
            (["1538323200,42,28,0,1058", "1538323200,42,28,0,1"], Format::Tencent),
            (["419,W,8192,16384,1577808144360767", ""], Format::Alibaba),
            (["version,time,op,size,lbn", "1,5633898,2a,512,42932745"], Format::CloudPhysics),
            (["0.0412 0 1064960 16 1", "3.1 0 7 24 0"], Format::DiskSimAscii),
            (["0.0412 0 1064960 16 b", "3.1 0 7 24 8"], Format::DiskSimAscii),
            (["R Hit   31853640   8   4067.00000      9.00000", ""], Format::DiskSimValidation),
            (["938513000 4 264719034 16 0", "938828000 3 1 16 0"], Format::Mqsim),
            (["0 0 280605840 2 1", "979 0 287641400 128 1"], Format::Dtrs),
            (["223.412 0 3159347200 36864 0", "223.434 0 3154132992 4096 1"], Format::Heimdall),
            (["8,0 1 21 0.1 7 G WS 8 + 8 [a b]", "8,0 1 22 0.1 7 P N [a b]"], Format::Blkparse),
            (["fio version 3 iolog", "27 /dev/sdb read 0 4096"], Format::FioIolog),
        ] {
            assert_eq!(detected("trace", &lines), Some(format), "{lines:?}");
        }
    }

    #[test]
    fn the_name_decides_where_the_columns_cannot() {
        let lines = ["1000 0 280605840 2 1", "979 0 287641400 128 1"];
        for (name, format) in [
            ("mqsim/a.trace", Format::Mqsim),
            ("x/DTRS1K.trace.zst", Format::Dtrs),
            ("mqsim/dtrs.trace", Format::Dtrs),
            ("dtrs/deeper/still/a.trace", Format::Dtrs),
        ] {
            assert_eq!(detected(name, &lines), Some(format), "{name}");
        }
    }

    #[test]
    fn a_name_never_overrules_the_columns() {
        let line = "128166385295514663,web,3,Write,1048576,8192,2833";
        assert_eq!(detected("mqsim/dtrs.trace", &[line]), Some(Format::Msr));
    }

    #[test]
    fn a_few_bad_lines_do_not_confuse_and_many_do() {
        let good = "1538323200,4247200,128,1,1058";
        assert_eq!(detected("t", &[good, good, "gibberish"]), Some(Format::Tencent));
        assert_eq!(detected("t", &[good, "x", "y", "z"]), None);
        assert_eq!(detected("t", &["13.258416 0.026977"]), None);
        assert_eq!(detected("t", &[]), None);
    }
}
