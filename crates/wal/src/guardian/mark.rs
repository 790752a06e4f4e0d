//! The mark on a file whose content is followed by zeros, and the cut that takes both away.
//!
//! The mark is an extended attribute, `user.nearhead.ahead`: a number of the stream in hexadecimal, a
//! space, and an offset that the content reaches at least. It is durable before the first zero is. The
//! content ends at that offset or behind its last byte that is not zero, whichever is later: a stream
//! whose newest durable byte is a zero moves the offset first.

use super::tail::Tail;
use nearhead_uring::{Lease, take_lease};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, XattrFlags, fgetxattr, fremovexattr, fsetxattr, fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};
use std::io;
use std::path::Path;

const NAME: &str = "user.nearhead.ahead";
/// Bytes looked at in one read.
const PIECE_BYTES: usize = 128 << 10;

/// The mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the stream that wrote the zeros: another stream's mark is another one.
    pub stream: u64,
    /// The content reaches at least to this offset.
    pub end_min: u64,
}

impl Mark {
    /// Sets it. Durable after an `fsync` of the file.
    pub fn set(self, file: impl AsFd) -> io::Result<()> {
        let text = format!("{:x} {}", self.stream, self.end_min);
        Ok(fsetxattr(file, NAME, text.as_bytes(), XattrFlags::empty())?)
    }

    /// Takes it away. Durable after an `fsync` of the file.
    pub fn remove(file: impl AsFd) -> io::Result<()> {
        match fremovexattr(file, NAME) {
            Err(Errno::NODATA) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (stream, end_min) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        let stream = u64::from_str_radix(stream, 16).ok()?;
        Some(Self { stream, end_min: end_min.parse().ok()? })
    }

    fn of(file: impl AsFd) -> io::Result<Option<Self>> {
        let mut text = [0; 64];
        match fgetxattr(file, NAME, &mut text) {
            Ok(len) => Ok(Self::parse(&text[..len])),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the file at `path` has a mark; false where that cannot be asked.
pub fn marked(path: impl rustix::path::Arg) -> bool {
    let mut text = [0; 64];
    rustix::fs::getxattr(path, NAME, &mut text).is_ok()
}

/// Outcome for a file that may have zeros behind its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The file has this length now, and no mark.
    Cut(u64),
    /// The file has no mark: nothing was done.
    Unmarked,
    /// A process has it open: nothing was done.
    OpenElsewhere,
    /// There is something behind the content that no stream wrote: only the mark was taken away.
    Changed,
}

/// Cuts the file at `path` to its content, if it has a mark and no process has it open.
///
/// # Errors
/// Errors of the system calls; the mark is still there then.
pub fn repair(path: &Path) -> io::Result<Settled> {
    let Some((file, mark)) = alone(path)? else { return Ok(Settled::OpenElsewhere) };
    let Some(mark) = mark else { return Ok(Settled::Unmarked) };
    let size = fstat(&file)?.st_size as u64;
    let end = last_byte_before(&file, size)?.max(mark.end_min.min(size));
    finish(&file, end)
}

/// Leaves the file at `path` as a program that is no more wrote it.
pub(super) fn settle(path: &Path, stream: u64, tail: &Tail) -> io::Result<Settled> {
    let Some((file, mark)) = alone(path)? else { return Ok(Settled::OpenElsewhere) };
    if mark.is_none_or(|mark| mark.stream != stream) {
        return Ok(Settled::Unmarked);
    }
    let ending = tail.get()?;
    let size = fstat(&file)?.st_size as u64;
    let is_changed = size < ending.durable.min(ending.end)
        || last_byte_before(&file, size)? > ending.end.max(ending.dirty_end);
    if is_changed {
        Mark::remove(&file)?;
        return Ok(Settled::Changed);
    }
    let unsynced = tail.unsynced(&ending)?;
    write_all(&file, &unsynced, ending.durable)?;
    ftruncate(&file, ending.end)?;
    finish(&file, ending.size.max(ending.end))
}

/// Opens the file and proves that nothing else has it open, for as long as the descriptor lives.
fn alone(path: &Path) -> io::Result<Option<(OwnedFd, Option<Mark>)>> {
    // An opening that would wait for another lease fails instead.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::AGAIN) => return Ok(None),
        file => file?,
    };
    match take_lease(&file)? {
        Lease::OpenElsewhere => Ok(None),
        Lease::Taken => {
            let mark = Mark::of(&file)?;
            Ok(Some((file, mark)))
        }
    }
}

fn finish(file: &OwnedFd, len: u64) -> io::Result<Settled> {
    ftruncate(file, len)?;
    Mark::remove(file)?;
    rustix::fs::fsync(file)?;
    Ok(Settled::Cut(len))
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Offset behind the last byte before `size` that is not zero.
fn last_byte_before(file: &OwnedFd, size: u64) -> io::Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut end = size;
    while end > 0 {
        let start = end.saturating_sub(PIECE_BYTES as u64);
        let piece = &mut piece[..(end - start) as usize];
        let mut read = 0;
        while read < piece.len() {
            match pread(file, &mut piece[read..], start + read as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => read += len,
            }
        }
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;
