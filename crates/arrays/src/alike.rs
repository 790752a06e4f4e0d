//! Making one member of a mirror like another by writing no more than what differs.
//!
//! A power cut in the middle of a write may leave anything in each of its sectors, also in one that held the same before, and what it
//! held may have been acknowledged long ago. So of a member that counts nothing is written over but sectors in which it holds
//! something else, of a size that its own disk writes whole or not at all. Sectors in a row are one write.
//!
//! A member that cannot read a range says of none of its sectors what it holds. Such a range is compared in parts, narrower ones around what
//! cannot be read, until that is one sector: this one is written, whatever it held.

use nearhead_disk::{BufferMut, Command, Payload, bytes_of, copy_parts, total_len};
use std::borrow::Cow;
use std::ops::Range;

/// A part is so many times narrower than one in which a member could not read something.
const NARROWER: u64 = 8;

/// The writes that bring what is shown, from byte `offset` on, to a member that holds `held`; none if it cannot say. They are durable at
/// once, for what they replace is also what a power cut would leave.
pub(super) fn repairs(
    offset: u64,
    shown: &Payload,
    held: Option<&Payload>,
    sector_bytes: u32,
) -> Vec<Command> {
    let repair = |run: Range<usize>| {
        let offset = offset + run.start as u64;
        Command::Write { offset, parts: vec![shown.slice(run)], durable: true }
    };
    let everything = || std::iter::once(0..shown.len()).collect();
    let runs = held.map_or_else(everything, |held| differing(shown, held, sector_bytes as usize));
    runs.into_iter().map(repair).collect()
}

/// The sectors in which two of the same length differ, those in a row together.
fn differing(one: &Payload, other: &Payload, sector_bytes: usize) -> Vec<Range<usize>> {
    let (one, other) = (content(one), content(other));
    let mut runs: Vec<Range<usize>> = Vec::new();
    if one == other {
        return runs;
    }
    let sectors = one.chunks(sector_bytes).zip(other.chunks(sector_bytes));
    for (number, (one, _)) in sectors.enumerate().filter(|(_, (one, other))| one != other) {
        let start = number * sector_bytes;
        match runs.last_mut().filter(|run| run.end == start) {
            Some(run) => run.end += one.len(),
            None => runs.push(start..start + one.len()),
        }
    }
    runs
}

/// The content, copied only where it is not there as bytes.
fn content(payload: &Payload) -> Cow<'_, [u8]> {
    if let Payload::Bytes(bytes) = payload {
        return Cow::Borrowed(bytes);
    }
    Cow::Owned(bytes_of(std::slice::from_ref(payload)))
}

/// How many bytes are compared at once: as many as are wanted, and fewer for a while after a member could not read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(u64);

impl Span {
    pub(super) const WIDE: Self = Self(u64::MAX);

    /// At most so many bytes.
    pub(super) fn of(self, bytes: u64) -> u64 {
        self.0.min(bytes)
    }

    /// A member could not read so many. Whether fewer can be read.
    pub(super) fn narrow(&mut self, bytes: u64, sector_bytes: u32) -> bool {
        let sector = u64::from(sector_bytes);
        let fewer = bytes / NARROWER;
        self.0 = (fewer - fewer % sector).max(sector);
        self.0 < bytes
    }

    /// All that were asked could say what they hold, or it is no use to ask for less.
    pub(super) fn widen(&mut self) {
        self.0 = self.0.saturating_mul(2);
    }
}

/// The comparison of a range that somebody reads, in one part or in several.
#[derive(Debug)]
pub struct Walk {
    range: Range<u64>,
    at: u64,
    span: Span,
    /// What is shown of the parts before that.
    shown: Vec<Payload>,
}

impl Walk {
    pub(super) fn new(range: Range<u64>) -> Self {
        Self { at: range.start, range, span: Span::WIDE, shown: Vec::new() }
    }

    /// All of it.
    pub(super) fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// The part that is next, or being compared.
    pub(super) fn part(&self) -> Range<u64> {
        self.at..self.at + self.span.of(self.range.end - self.at)
    }

    /// A member could not read the part. Whether there is a narrower one.
    pub(super) fn narrow(&mut self, sector_bytes: u32) -> bool {
        let part = self.part();
        self.span.narrow(part.end - part.start, sector_bytes)
    }

    /// This is shown of the part; the next one is next.
    pub(super) fn show(&mut self, shown: Payload) {
        self.at = self.part().end;
        self.span.widen();
        self.shown.push(shown);
    }

    /// Whether no part is left.
    pub(super) fn is_whole(&self) -> bool {
        self.at == self.range.end
    }

    /// What is shown of all parts.
    pub(super) fn into_payload(mut self) -> Payload {
        if self.shown.len() == 1 {
            return self.shown.remove(0);
        }
        let mut bytes = BufferMut::zeroed(total_len(&self.shown));
        copy_parts(&self.shown, &mut bytes);
        Payload::Bytes(bytes.freeze())
    }
}
