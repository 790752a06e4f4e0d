//! The trait every disk implements.
//!
//! A few questions every disk answers by itself; the others have the answer of a plain disk until somebody knows better.
//! A command is accepted in silence and answered by a completion, never both ways.

use crate::{Completion, DiskError, Nanos, Properties, Submission, Zones};
use std::os::fd::BorrowedFd;

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
