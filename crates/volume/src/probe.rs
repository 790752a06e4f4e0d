//! What a device holds already, so that no command destroys it unasked: told from its two ends, and for what is
//! left of our own volumes from some places in between ([`remains`]).
//!
//! [`probe`] is a pure function over bytes: it performs no I/O and trusts nothing it reads. It must never call
//! a device empty that is not, as far as the bytes it was given can tell; naming one format too many
//! is the lesser mistake, so tests of a signature are short and its weak ones (two bytes) are
//! backed by a check of neighbouring fields. Where each offset comes from stands beside it in
//! [`signatures`] and [`structures`].

mod remains;
mod signatures;
mod structures;

pub(crate) use remains::{Remnant, look_for_remains, look_for_remains_on, places_of};

use std::fmt;

/// How much of the device's start to hand to [`probe`]: it reaches the uberblocks of a ZFS label,
/// the farthest of all. Less is allowed and sees less.
pub const HEAD_BYTES: usize = 256 * 1024;

/// How much of the device's end to hand to [`probe`]: the last ZFS label ends at a multiple of 256 KiB,
/// and its uberblocks begin 128 KiB before that. A RAID superblock of version 0.90 begins up to 128 KiB
/// before the end. Less is allowed and sees less.
pub const TAIL_BYTES: usize = 384 * 1024;

/// Something recognised on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is, as a noun: `ext4 file system`.
    pub what: &'static str,
    /// What its owner called it, if it carries a name.
    pub label: Option<String>,
    /// Where on the device it was recognised, in bytes.
    pub offset: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.what)?;
        if let Some(label) = &self.label {
            write!(formatter, " {label:?}")?;
        }
        write!(formatter, " (at byte {})", self.offset)
    }
}

/// What a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing but zeros at either end.
    Empty,
    /// These, in the order of their offsets; never none.
    Known(Vec<Finding>),
    /// Nothing that has a name, but not zeros either.
    Unknown {
        /// The first byte that is not zero.
        offset: u64,
    },
}

impl Contents {
    /// Whether it can be overwritten without asking.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(formatter, "nothing"),
            Self::Known(findings) => {
                for (index, finding) in findings.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(formatter, "{separator}{finding}")?;
                }
                Ok(())
            }
            Self::Unknown { offset } => {
                write!(formatter, "data of an unknown kind (first nonzero byte at {offset})")
            }
        }
    }
}

/// The two ends of a device, as [`structures`] and [`signatures`] look at them.
struct Device<'a> {
    bytes: u64,
    head: &'a [u8],
    tail: &'a [u8],
}

impl<'a> Device<'a> {
    /// `len` bytes at `offset`, if they are in one of the ends.
    fn at(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        let within = |bytes: &'a [u8], start: u64| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        };
        within(self.head, 0).or_else(|| within(self.tail, self.tail_start()))
    }

    fn tail_start(&self) -> u64 {
        self.bytes - self.tail.len() as u64
    }

    fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    fn u16_le(&self, offset: u64) -> Option<u16> {
        self.at(offset, 2)?.try_into().ok().map(u16::from_le_bytes)
    }

    fn u32_le(&self, offset: u64) -> Option<u32> {
        self.at(offset, 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Readable text of at most `len` bytes, up to the first zero byte.
    fn label(&self, offset: u64, len: usize) -> Option<String> {
        let bytes = self.at(offset, len)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        let text = String::from_utf8_lossy(text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn first_nonzero(&self) -> Option<u64> {
        let position = |bytes: &[u8]| bytes.iter().position(|byte| *byte != 0);
        let in_head = position(self.head).map(|at| at as u64);
        in_head.or_else(|| position(self.tail).map(|at| self.tail_start() + at as u64))
    }
}

/// Names what a device of `device_bytes` bytes holds, from its first bytes `head` and its last
/// bytes `tail` (see [`HEAD_BYTES`] and [`TAIL_BYTES`]; on a small device they may overlap).
pub fn probe(device_bytes: u64, head: &[u8], tail: &[u8]) -> Contents {
    // A head or tail longer than the device would only be a caller's slip: cut, do not trust.
    let limit = usize::try_from(device_bytes).unwrap_or(usize::MAX);
    let head = &head[..head.len().min(limit)];
    let tail = &tail[tail.len() - tail.len().min(limit)..];
    let device = Device { bytes: device_bytes, head, tail };
    let mut findings = Vec::new();
    signatures::find(&device, &mut findings);
    structures::find(&device, &mut findings);
    findings.sort_by_key(|finding| finding.offset);
    findings.dedup();
    match device.first_nonzero() {
        _ if !findings.is_empty() => Contents::Known(findings),
        Some(offset) => Contents::Unknown { offset },
        None => Contents::Empty,
    }
}

/// The same of a device that is read by `read(offset, len)`: only its two ends are. A failure to read is the caller's to report; it
/// never means that nothing is there.
pub fn probe_ends<B: std::ops::Deref<Target = [u8]>, E>(
    device_bytes: u64,
    mut read: impl FnMut(u64, usize) -> Result<B, E>,
) -> Result<Contents, E> {
    // Both fit: they are at most the constants.
    let head_bytes = device_bytes.min(HEAD_BYTES as u64) as usize;
    let tail_bytes = device_bytes.min(TAIL_BYTES as u64) as usize;
    let head = read(0, head_bytes)?;
    let tail = read(device_bytes - tail_bytes as u64, tail_bytes)?;
    Ok(probe(device_bytes, &head, &tail))
}

#[cfg(test)]
mod tests;
