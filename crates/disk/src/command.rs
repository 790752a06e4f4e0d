//! Commands to a disk, their completions, and the trait every disk implements.

use crate::{Nanos, Payload, Properties, Ticket, Zones};
use std::fmt;
use std::os::fd::BorrowedFd;

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

/// A run of bytes, and whether the disk knows without reading them that they are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length in bytes, at least 1; it may reach past the end of the disk.
    pub len: u64,
    /// Every byte of it certainly reads as zero. If not, nothing is said.
    pub zero: bool,
}

impl Run {
    /// Nothing is known of anything.
    pub const UNKNOWN: Self = Self { len: u64::MAX, zero: false };
}

/// Any disk: a real one, or a model on either clock.
///
/// The caller drives it: `submit` any number of commands (never more outstanding than
/// `properties().queue_depth_max`), then `kick`; call `poll` until it returns `None` whenever
/// `wake_at` has passed or `wake_fd` is readable.
pub trait Disk {
    /// The facts a host can know.
    fn properties(&self) -> &Properties;

    /// Accepts a command. Errors come back as completions, never from here.
    fn submit(&mut self, submission: Submission, now: Nanos);

    /// Hands accepted commands on, where that is a step of its own. Call once per batch.
    fn kick(&mut self) {}

    /// The next command that is done by `now`, if any.
    fn poll(&mut self, now: Nanos) -> Option<Completion>;

    /// When `poll` will next have something, if the disk itself knows (models do).
    fn wake_at(&self) -> Option<Nanos>;

    /// Where in this disk's address space, past its capacity, a small fast device for the map is
    /// joined to it: first byte and length.
    fn map_region(&self) -> Option<(u64, u64)> {
        None
    }

    /// How a shingled disk's addresses may be written, where it tells; none for any other disk.
    fn zones(&self) -> Option<&Zones> {
        None
    }

    /// How many devices share the work: the members of a striped array, 1 for anything else. Who bounds
    /// what is on the disk at once needs as much for each of them.
    fn width(&self) -> u32 {
        1
    }

    /// What the disk knows of the bytes from `offset` on without reading them: holes of a file, pages never
    /// written. It is of the present; a write that is under way may have had its effect or not. Never waits for
    /// the medium for long.
    fn run_at(&self, offset: u64) -> Run {
        let _ = offset;
        Run::UNKNOWN
    }

    /// What people must know about the disk's state now, if anything: a mirror that lost a member.
    /// The same trouble gives the same text.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Why nothing may be changed any more, if writes that were answered are lost, nobody can say which, and
    /// [`Disk::start_over`] would help. All that is not durable is in doubt, and so is what is read.
    fn lost_writes(&self) -> Option<&str> {
        None
    }

    /// After [`Disk::lost_writes`], with no command outstanding: forgets whatever is not on the medium, so that what
    /// is read from here on is what the medium has, and takes changes again, more slowly, each answered with its own
    /// errors. It may wait for the medium. After an error all is as before.
    fn start_over(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    /// The host has nothing more to change: the disk puts down what the next opening would have to find
    /// out otherwise. It has done so when [`Disk::has_left`]; a command that follows after all undoes it.
    fn leave(&mut self) {}

    /// Whether nothing is left to do of what [`Disk::leave`] asked for; `poll` goes on with it.
    fn has_left(&self) -> bool {
        true
    }

    /// A descriptor that becomes readable when `poll` may have something (real devices).
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A disk whose kind is chosen at run time.
impl<D: Disk + ?Sized> Disk for Box<D> {
    fn properties(&self) -> &Properties {
        (**self).properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        (**self).submit(submission, now);
    }

    fn kick(&mut self) {
        (**self).kick();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        (**self).poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        (**self).wake_at()
    }

    fn map_region(&self) -> Option<(u64, u64)> {
        (**self).map_region()
    }

    fn zones(&self) -> Option<&Zones> {
        (**self).zones()
    }

    fn width(&self) -> u32 {
        (**self).width()
    }

    fn run_at(&self, offset: u64) -> Run {
        (**self).run_at(offset)
    }

    fn trouble(&self) -> Option<String> {
        (**self).trouble()
    }

    fn lost_writes(&self) -> Option<&str> {
        (**self).lost_writes()
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        (**self).start_over()
    }

    fn leave(&mut self) {
        (**self).leave();
    }

    fn has_left(&self) -> bool {
        (**self).has_left()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).wake_fd()
    }
}
