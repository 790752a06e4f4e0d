//! What can go wrong with a disk, kind by kind, and how often it did.
//!
//! A kind is a name, a place in the counts and one of three families: what a power cut leaves, what
//! the disk reports, what it does silently. Nothing here injects anything.

use std::fmt;

/// One way in which a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A power cut loses an unflushed write as a whole.
    CutLost,
    /// A power cut leaves some sectors of an unflushed write.
    CutTorn,
    /// A power cut leaves a sector of an unflushed write that is neither old nor new.
    CutGarbled,
    /// A read fails, once.
    ReadError,
    /// A write fails, once, with or without having had its effect.
    WriteError,
    /// A write fails after part of it reached the medium.
    ShortWrite,
    /// A flush fails.
    FlushError,
    /// Everything that touches a range fails from then on.
    StickyError,
    /// Writes fail for want of space for a while.
    Full,
    /// The disk is gone until it is reset.
    Gone,
    /// A command takes a thousand times as long.
    Slow,
    /// A command is never answered until the disk is reset.
    Hang,
    /// A read returns another place's bytes.
    MisdirectedRead,
    /// A read returns some sectors as they never were.
    TornRead,
    /// A write is reported complete and only some of its sectors were written.
    TornWrite,
    /// A write is reported complete and nothing was written.
    LostWrite,
    /// A write is reported complete and went to another place.
    MisdirectedWrite,
    /// Bits of a sector that was written long ago turn over.
    BitRot,
}

impl FaultKind {
    /// Every kind, in the order of the counts.
    pub const ALL: [Self; 18] = [
        Self::CutLost,
        Self::CutTorn,
        Self::CutGarbled,
        Self::ReadError,
        Self::WriteError,
        Self::ShortWrite,
        Self::FlushError,
        Self::StickyError,
        Self::Full,
        Self::Gone,
        Self::Slow,
        Self::Hang,
        Self::MisdirectedRead,
        Self::TornRead,
        Self::TornWrite,
        Self::LostWrite,
        Self::MisdirectedWrite,
        Self::BitRot,
    ];

    /// What it is called in reports and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::CutLost => "cut-lost",
            Self::CutTorn => "cut-torn",
            Self::CutGarbled => "cut-garbled",
            Self::ReadError => "read-error",
            Self::WriteError => "write-error",
            Self::ShortWrite => "short-write",
            Self::FlushError => "flush-error",
            Self::StickyError => "sticky-error",
            Self::Full => "full",
            Self::Gone => "gone",
            Self::Slow => "slow",
            Self::Hang => "hang",
            Self::MisdirectedRead => "misdirected-read",
            Self::TornRead => "torn-read",
            Self::TornWrite => "torn-write",
            Self::LostWrite => "lost-write",
            Self::MisdirectedWrite => "misdirected-write",
            Self::BitRot => "bit-rot",
        }
    }

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the disk says nothing about it: only checksums can find it.
    pub fn is_silent(self) -> bool {
        self >= Self::MisdirectedRead
    }

    /// Whether it is a choice of what a power cut leaves, not something that hits a command.
    pub fn is_of_a_cut(self) -> bool {
        self <= Self::CutGarbled
    }
}

/// Number of kinds.
pub(super) const KINDS: usize = FaultKind::ALL.len();

/// How often each kind happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; KINDS]);

impl FaultCounts {
    /// How often `kind` happened.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    /// One more of `kind`.
    pub fn note(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    /// Adds what somebody else counted.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// All that hit a command; what cuts left is not among them.
    pub fn of_commands(&self) -> u64 {
        FaultKind::ALL.iter().filter(|kind| !kind.is_of_a_cut()).map(|kind| self.of(*kind)).sum()
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for kind in FaultKind::ALL.into_iter().filter(|kind| self.of(*kind) > 0) {
            write!(formatter, "{separator}{} {}", kind.name(), self.of(kind))?;
            separator = ", ";
        }
        if separator.is_empty() { write!(formatter, "none") } else { Ok(()) }
    }
}
