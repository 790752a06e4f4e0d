//! Contents of a device, so that no command destroys them without asking: recognised by its two ends, by copies of superblocks in
//! between ([`copies`]), and remains of our own volumes by some more places ([`remains`]).
//!
//! [`probe`] is a pure function over bytes: it performs no I/O and trusts nothing it reads. It must never call
//! a device empty that is not, as far as the bytes it was given can tell; naming one format too many
//! is the lesser mistake, so tests of a signature are short and its weak ones (two bytes) are
//! backed by a check of neighbouring fields. [`signatures`], [`structures`] and [`copies`] name the source of each offset.

mod copies;
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
            write!(formatter, " \"{}\"", readable(label))?;
        }
        write!(formatter, " (at byte {})", self.offset)
    }
}

/// Contents of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing but zeros at either end, and no copy of a superblock in between.
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

/// The parts of a device that were read, for [`structures`], [`signatures`] and [`copies`].
struct Device<'a> {
    bytes: u64,
    /// First byte on the device and content of each.
    windows: Vec<(u64, &'a [u8])>,
}

impl<'a> Device<'a> {
    /// `len` bytes at `offset`, if they are in one of the windows.
    fn at(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        self.windows.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        })
    }

    /// Offsets of all sectors of 512 bytes in the windows.
    fn sectors(&self) -> impl Iterator<Item = u64> {
        let sectors = |(start, bytes): &(u64, &'a [u8])| {
            (start.next_multiple_of(512)..start + bytes.len() as u64).step_by(512)
        };
        self.windows.iter().flat_map(sectors)
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
        let position = |(start, bytes): &(u64, &[u8])| {
            let at = bytes.iter().position(|byte| *byte != 0);
            at.map(|at| start + at as u64)
        };
        self.windows.iter().find_map(position)
    }
}

/// Names what a device of `device_bytes` bytes holds, from its first bytes `head` and its last
/// bytes `tail` (see [`HEAD_BYTES`] and [`TAIL_BYTES`]; on a small device they may overlap).
pub fn probe(device_bytes: u64, head: &[u8], tail: &[u8]) -> Contents {
    // A head or tail longer than the device would only be a caller's slip: cut, do not trust.
    let limit = usize::try_from(device_bytes).unwrap_or(usize::MAX);
    let head = &head[..head.len().min(limit)];
    let tail = &tail[tail.len() - tail.len().min(limit)..];
    let tail_start = device_bytes - tail.len() as u64;
    let device = Device { bytes: device_bytes, windows: vec![(0, head), (tail_start, tail)] };
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

/// The same of a device that is read by `read(offset, len)`. Where neither end has a name, copies of superblocks in between are read
/// as well. A failure to read is the caller's to report; it never means that the device is empty.
pub fn probe_device<B: std::ops::Deref<Target = [u8]>, E>(
    device_bytes: u64,
    mut read: impl FnMut(u64, usize) -> Result<B, E>,
) -> Result<Contents, E> {
    // Both fit: they are at most the constants.
    let head_bytes = device_bytes.min(HEAD_BYTES as u64) as usize;
    let tail_bytes = device_bytes.min(TAIL_BYTES as u64) as usize;
    let head = read(0, head_bytes)?;
    let tail = read(device_bytes - tail_bytes as u64, tail_bytes)?;
    match probe(device_bytes, &head, &tail) {
        Contents::Known(findings) => Ok(Contents::Known(findings)),
        other => {
            let copies = probe_copies(device_bytes, 0, read)?;
            Ok(if copies.is_empty() { other } else { Contents::Known(copies) })
        }
    }
}

/// Copies of superblocks and headers behind the first `from` bytes of a device of `device_bytes`, which is read by
/// `read(offset, len)`: what is left of formats whose start was overwritten.
pub(crate) fn probe_copies<B: std::ops::Deref<Target = [u8]>, E>(
    device_bytes: u64,
    from: u64,
    mut read: impl FnMut(u64, usize) -> Result<B, E>,
) -> Result<Vec<Finding>, E> {
    let places = copies::places(device_bytes).into_iter().filter(|(offset, _)| *offset >= from);
    let parts: Vec<(u64, B)> =
        places.map(|(offset, len)| Ok((offset, read(offset, len)?))).collect::<Result<_, E>>()?;
    let windows = parts.iter().map(|(offset, bytes)| (*offset, &**bytes)).collect();
    let mut findings = Vec::new();
    copies::find(&Device { bytes: device_bytes, windows }, &mut findings);
    findings.sort_by_key(|finding| finding.offset);
    Ok(findings)
}

/// A name that another program wrote, on one line: control characters are escaped, and what is no text is shown as `?`.
fn readable(name: &str) -> String {
    let shown = |c: char| match c {
        char::REPLACEMENT_CHARACTER => vec!['?'],
        c if c.is_control() => c.escape_default().collect(),
        c => vec![c],
    };
    name.chars().flat_map(shown).collect()
}

#[cfg(test)]
mod tests;
