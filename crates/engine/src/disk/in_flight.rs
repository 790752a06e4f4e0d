//! A command on its way to one disk: what it is for, what of the disk it is about, when it left.
//!
//! Facts only: when it may leave is its dispatcher's business, and what follows from its end that of whoever issued it.

use crate::disk::drive::Moved;
use crate::disk::purpose::Purpose;
use crate::disk::report::DiskWork;
use nearhead_disk::{Class, Command, Nanos};

/// What sort of command it is, as far as that matters once it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Read,
    Trim,
    Other,
}

/// A command that left or waits to leave.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(super) purpose: Purpose,
    pub(super) class: Class,
    pub(super) bytes: u64,
    /// First device byte after the transfer (0 for flushes).
    pub(super) end_offset: u64,
    /// What of the device it is about, for those who tell of it: first byte and length, none for a flush.
    pub(super) extent: Option<(u64, u64)>,
    /// It leaves with the one before it.
    pub(super) follows: bool,
    pub(super) sort: Sort,
    /// Its bytes may be lost until a flush, if it is a write.
    pub(super) needs_flush: bool,
    pub(super) has_left: bool,
    pub(super) left_at: Nanos,
    /// Reading of the clock of durable writes when it was issued.
    pub(super) durable_time: Nanos,
}

impl InFlight {
    /// Who issued it, and for what.
    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// When it left for the disk; until then when it was issued.
    pub(crate) fn left_at(&self) -> Nanos {
        self.left_at
    }

    /// First byte and length of what it is about; none for a flush.
    pub(crate) fn extent(&self) -> Option<(u64, u64)> {
        self.extent
    }

    /// What it is for, in the words of those who count errors.
    pub(crate) fn work(&self) -> DiskWork {
        match self.purpose {
            Purpose::InPlace { .. } if self.sort == Sort::Trim => DiskWork::Trim,
            Purpose::InPlace { .. } | Purpose::Spill | Purpose::CheckpointWrite => {
                DiskWork::HomeWrite
            }
            Purpose::Record | Purpose::Torn | Purpose::CompactionWrite => DiskWork::LogWrite,
            Purpose::Journal
            | Purpose::SnapshotBody { .. }
            | Purpose::SnapshotHeader
            | Purpose::SnapshotCopy
            | Purpose::LoneHeader
            | Purpose::Blanks => DiskWork::MapWrite,
            Purpose::CacheWrite { .. } => DiskWork::Cache,
            Purpose::Recovery if self.extent.is_none() => DiskWork::Flush,
            Purpose::Flush => DiskWork::Flush,
            Purpose::Read { .. }
            | Purpose::CheckpointRead { .. }
            | Purpose::SwapRead { .. }
            | Purpose::CompactionRead { .. }
            | Purpose::SnapshotRead
            | Purpose::MapPage { .. }
            | Purpose::Recovery
            | Purpose::Reposition => DiskWork::Read,
        }
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// First device byte and length of what it transfers; nothing of a trim or a flush. Not `bytes`, which is what it
    /// counts for: of commands that leave together the first counts for all.
    pub(crate) fn transferred(&self) -> (u64, u64) {
        self.extent.filter(|_| self.end_offset > 0).unwrap_or_default()
    }

    /// Whether a disk with a volatile cache may lose what it did, until it is flushed.
    pub(crate) fn needs_flush(&self) -> bool {
        self.needs_flush
    }

    /// As far as it matters to an arm, on a device whose first byte has the address `start`.
    pub(super) fn moved(&self, start: u64) -> Moved {
        let (offset, bytes) = self.transferred();
        Moved::new(offset.saturating_sub(start), bytes, self.sort != Sort::Read)
    }

    /// Whether it is a transfer of what a client reads, or writes in place: near-head placement stays with
    /// those, not with the engine's own work.
    pub(super) fn is_for_client(&self) -> bool {
        let of_client = matches!(self.purpose, Purpose::Read { .. } | Purpose::InPlace { .. });
        of_client && self.bytes > 0
    }
}

fn transfer(command: &Command) -> (u64, u64) {
    match command {
        Command::Read { offset, len } => (u64::from(*len), offset + u64::from(*len)),
        Command::Write { offset, parts, .. } => {
            let len = nearhead_disk::total_len(parts) as u64;
            (len, offset + len)
        }
        Command::WriteZeroes { offset, len, .. } => (*len, offset + len),
        Command::Trim { .. } | Command::Flush => (0, 0),
    }
}

fn extent(command: &Command) -> Option<(u64, u64)> {
    match command {
        Command::Read { offset, len } => Some((*offset, u64::from(*len))),
        Command::Write { offset, parts, .. } => {
            Some((*offset, nearhead_disk::total_len(parts) as u64))
        }
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
            Some((*offset, *len))
        }
        Command::Flush => None,
    }
}

fn needs_flush(command: &Command) -> bool {
    match command {
        Command::Write { durable, .. } | Command::WriteZeroes { durable, .. } => !durable,
        Command::Trim { .. } => true,
        Command::Read { .. } | Command::Flush => false,
    }
}

impl InFlight {
    pub(super) fn new(purpose: Purpose, class: Class, command: &Command, now: Nanos) -> Self {
        let (bytes, end_offset) = transfer(command);
        Self {
            purpose,
            class,
            bytes,
            end_offset,
            extent: extent(command),
            sort: match command {
                Command::Read { .. } => Sort::Read,
                Command::Trim { .. } => Sort::Trim,
                Command::Write { .. } | Command::WriteZeroes { .. } | Command::Flush => Sort::Other,
            },
            needs_flush: needs_flush(command),
            has_left: false,
            left_at: now,
            durable_time: Nanos::ZERO,
            follows: false,
        }
    }
}
