//! The names of the trace formats, and which parser belongs to which.

use super::fields::ParseResult;
use super::{
    alibaba, blkparse, cloudphysics, disksim_ascii, disksim_validation, dtrs, fio_iolog, heimdall,
    mqsim, msr, systor17, tencent,
};
use std::fmt;
use std::str::FromStr;

/// A published form of block traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// MSR Cambridge, comma separated.
    Msr,
    /// SYSTOR'17 virtual desktops, comma separated.
    Systor17,
    /// Tencent cloud block storage, comma separated.
    Tencent,
    /// Alibaba cloud block storage, comma separated.
    Alibaba,
    /// CloudPhysics virtual disks, comma separated.
    CloudPhysics,
    /// DiskSim's default text form.
    DiskSimAscii,
    /// DiskSim's validation traces: measured, one request at a time.
    DiskSimValidation,
    /// MQSim's text form, nanoseconds.
    Mqsim,
    /// The release server's trace in MQSim's columns, microseconds.
    Dtrs,
    /// The Heimdall replayer's text form, milliseconds and bytes.
    Heimdall,
    /// What blkparse prints of a Linux block device.
    Blkparse,
    /// fio's I/O log, version 3.
    FioIolog,
    /// What blktrace writes of a Linux block device, binary.
    Blktrace,
    /// None: requests that a program hands over ([`super::TraceReader::of_requests`]).
    Requests,
}

impl Format {
    /// Every format that a file can have.
    pub const ALL: [Self; 13] = [
        Self::Msr,
        Self::Systor17,
        Self::Tencent,
        Self::Alibaba,
        Self::CloudPhysics,
        Self::DiskSimAscii,
        Self::DiskSimValidation,
        Self::Mqsim,
        Self::Dtrs,
        Self::Heimdall,
        Self::Blkparse,
        Self::FioIolog,
        Self::Blktrace,
    ];

    /// The name to give on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msr => "msr",
            Self::Systor17 => "systor17",
            Self::Tencent => "tencent",
            Self::Alibaba => "alibaba",
            Self::CloudPhysics => "cloudphysics",
            Self::DiskSimAscii => "disksim",
            Self::DiskSimValidation => "disksim-validation",
            Self::Mqsim => "mqsim",
            Self::Dtrs => "dtrs",
            Self::Heimdall => "heimdall",
            Self::Blkparse => "blkparse",
            Self::FioIolog => "fio-iolog",
            Self::Blktrace => "blktrace",
            Self::Requests => "requests",
        }
    }

    /// Whether the trace holds no arrivals but response and think times of one request at a time,
    /// to be replayed in a closed loop.
    pub const fn is_closed_loop(self) -> bool {
        matches!(self, Self::DiskSimValidation)
    }

    /// Whether every line says what it is, requests or not, so that a trace can be told by lines of which few are requests.
    pub(super) const fn has_lines_of_its_own(self) -> bool {
        matches!(self, Self::Blkparse | Self::FioIolog)
    }

    /// What reads a line; `None` of those that have no lines.
    pub(super) fn parser(self) -> Option<fn(&[u8]) -> ParseResult> {
        Some(match self {
            Self::Msr => msr::parse,
            Self::Systor17 => systor17::parse,
            Self::Tencent => tencent::parse,
            Self::Alibaba => alibaba::parse,
            Self::CloudPhysics => cloudphysics::parse,
            Self::DiskSimAscii => disksim_ascii::parse,
            Self::DiskSimValidation => disksim_validation::parse,
            Self::Mqsim => mqsim::parse,
            Self::Dtrs => dtrs::parse,
            Self::Heimdall => heimdall::parse,
            Self::Blkparse => blkparse::parse,
            Self::FioIolog => fio_iolog::parse,
            Self::Blktrace | Self::Requests => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    /// The name given.
    pub found: String,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        write!(
            formatter,
            "trace format: expected one of {}, found {}",
            names.join(", "),
            self.found
        )
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat { found: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_format() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        let text = "blkreplay".parse::<Format>().unwrap_err().to_string();
        assert!(text.contains("blkreplay") && text.contains("disksim-validation"), "{text}");
    }

    #[test]
    fn no_parser_panics_on_damaged_lines() {
        let good: [&[u8]; 4] = [
            b"128166385295514663,web,3,Write,1048576,8192,2833",
            b"1456095145.000000005,0.000806000,R,2,4096,512",
            b"W Doub   10     8      1414.270        15.000",
            b"223.412 1 4096 36864 0",
        ];
        let mut random = nearhead_basics::Random::new(2);
        for round in 0..20_000 {
            let mut line = good[round % 4].to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(line.len() as u64) as usize;
                match random.below(3) {
                    0 => line[at] = random.next_u64() as u8,
                    1 => line.insert(at, b"0123456789,. -eRW"[random.below(17) as usize]),
                    _ => line.truncate(at.max(1)),
                }
            }
            for format in Format::ALL {
                let _ = format.parser().map(|parse| parse(&line));
            }
        }
    }
}
