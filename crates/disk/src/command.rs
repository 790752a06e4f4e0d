//! Commands to a disk, and their completions.
//!
//! Words only: nothing here carries one out or checks it. An error is narrow for those who decide (its kind), and says
//! to people what was asked, where, and what was found.

use crate::{Nanos, Payload, Ticket};
use std::fmt;

/// What a disk is asked to do. Offsets and lengths are bytes, multiples of the sector.
#[derive(Clone, Debug)]
pub enum Command {
    /// Read `len` bytes at `offset`; the completion carries them.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Write `parts`, one after the other, at `offset`.
    Write {
        /// First byte.
        offset: u64,
        /// Contents; every part is a whole number of sectors.
        parts: Vec<Payload>,
        /// Complete only once the bytes survive a power cut (FUA).
        durable: bool,
    },
    /// Make `len` bytes at `offset` read as zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// As for `Write`.
        durable: bool,
    },
    /// The content of these bytes is no longer needed.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Make every write that completed before this was submitted survive a power cut.
    Flush,
}

impl Command {
    /// The first byte that it is about; none of a flush.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Read { offset, .. }
            | Self::Write { offset, .. }
            | Self::WriteZeroes { offset, .. }
            | Self::Trim { offset, .. } => Some(*offset),
            Self::Flush => None,
        }
    }

    /// The same with another first byte: for another device, whose addresses begin elsewhere.
    #[must_use]
    pub fn at(mut self, to: u64) -> Self {
        match &mut self {
            Self::Read { offset, .. }
            | Self::Write { offset, .. }
            | Self::WriteZeroes { offset, .. }
            | Self::Trim { offset, .. } => *offset = to,
            Self::Flush => {}
        }
        self
    }
}

/// Who goes first, where a disk or its scheduler can tell requests apart; highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody waits for durability: log records and flushes.
    Durable,
    /// Somebody waits: small reads and small in-place writes.
    Foreground,
    /// Large transfers, valued for their bandwidth.
    Bulk,
    /// Nobody waits: checkpoints, snapshots, swaps.
    Background,
}

/// A command on its way to a disk.
#[derive(Debug)]
pub struct Submission {
    /// Must be spent exactly once by the disk.
    pub ticket: Ticket,
    /// Urgency.
    pub class: Class,
    /// What to do.
    pub command: Command,
}

/// A command that is done.
#[derive(Debug)]
pub struct Completion {
    /// Which one.
    pub id: crate::CommandId,
    /// The bytes of a read ([`Payload::EMPTY`] for everything else), or why it failed.
    pub result: Result<Payload, DiskError>,
    /// Which members of an array had a part of it, and when each was done; none of a disk that does not tell.
    pub parts: Vec<PartDone>,
}

/// A member of an array was done with its part of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartDone {
    /// Which one.
    pub member: u32,
    /// When.
    pub at: Nanos,
}

/// What kind of failure a disk reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// The medium or the path to it failed for this command (EIO).
    Io,
    /// No space under a sparse image (ENOSPC).
    OutOfSpace,
    /// The disk is no longer there (ENODEV, ENXIO).
    Gone,
    /// The command reaches past the end, is not aligned, or is larger than the limits.
    Invalid,
    /// The disk is read-only.
    ReadOnly,
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub struct DiskError {
    /// For decisions.
    pub kind: DiskErrorKind,
    /// For people: what was asked, where, and what was found.
    pub detail: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.detail)
    }
}

impl std::error::Error for DiskError {}
