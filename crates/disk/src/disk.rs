//! The trait every disk implements, and how a disk stands before another.
//!
//! A few questions every disk answers by itself. The others are optional, and a disk that stands before another (faults,
//! books, another order of addresses) seldom has anything to say to them: it says once what is below it, and what it
//! leaves out is asked there. It keeps true:
//!
//! - nothing that the disk below knows is lost because who stands before it did not think of it;
//! - a method that is added here reaches every disk that has an answer, through everything that stands before it;
//! - a disk with nothing below it has the answer of a plain disk to what it leaves out.
//!
//! It must never answer by itself what only the disk below can know.

use crate::{Completion, DiskError, Nanos, Properties, Resilver, Side, Submission, Zones};
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

/// Any disk: a real one, a model on either clock, or something that stands before others.
///
/// The caller drives it: `submit` any number of commands (never more outstanding than
/// `properties().queue_depth_max`), then `kick`; call `poll` until it returns `None` whenever
/// `wake_at` has passed or `wake_fd` is readable.
///
/// A disk that stands before one other says so ([`Disk::below`], [`Disk::below_mut`]) and overrides only what it changes:
///
/// - Who shows other addresses than the disk below, or fewer, overrides all that speaks of addresses: `run_at` and `zones`.
/// - Who keeps content by itself overrides what is said of content: `run_at`, and `lost_writes` with `start_over`.
/// - Who stands before several, or can lend the disk below to nobody, has nothing below in this sense and says
///   everything by itself, with `#[warn(clippy::missing_trait_methods)]` on its `impl`, so that it cannot forget either.
pub trait Disk {
    /// The disk that this one stands before; none for a disk by itself, or before several.
    fn below(&self) -> Option<&dyn Disk>;

    /// The same disk as [`Disk::below`] gives, to be told something.
    fn below_mut(&mut self) -> Option<&mut dyn Disk>;

    /// The facts a host can know.
    fn properties(&self) -> &Properties;

    /// Accepts a command. Errors come back as completions, never from here.
    fn submit(&mut self, submission: Submission, now: Nanos);

    /// The next command that is done by `now`, if any.
    fn poll(&mut self, now: Nanos) -> Option<Completion>;

    /// When `poll` will next have something, if the disk itself knows (models do).
    fn wake_at(&self) -> Option<Nanos>;

    /// A descriptor that becomes readable when `poll` may have something (real devices).
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.below()?.wake_fd()
    }

    /// Hands accepted commands on, where that is a step of its own. Call once per batch.
    fn kick(&mut self) {
        if let Some(below) = self.below_mut() {
            below.kick();
        }
    }

    /// How a shingled disk's addresses may be written, where it tells; none for any other disk.
    fn zones(&self) -> Option<&Zones> {
        self.below()?.zones()
    }

    /// What the disk knows of the bytes from `offset` on without reading them: holes of a file, pages never
    /// written. It is of the present; a write that is under way may have had its effect or not. Never waits for
    /// the medium for long.
    fn run_at(&self, offset: u64) -> Run {
        self.below().map_or(Run::UNKNOWN, |below| below.run_at(offset))
    }

    /// Whether it only stands in for a disk that is not there ([`crate::AbsentDisk`]).
    fn is_absent(&self) -> bool {
        self.below().is_some_and(Disk::is_absent)
    }

    /// What people must know about the disk's state now, if anything: a mirror that lost a member.
    /// The same trouble gives the same text.
    fn trouble(&self) -> Option<String> {
        self.below()?.trouble()
    }

    /// Why nothing may be changed any more, if writes that were answered are lost, nobody can say which, and
    /// [`Disk::start_over`] would help. All that is not durable is in doubt, and so is what is read.
    fn lost_writes(&self) -> Option<&str> {
        self.below()?.lost_writes()
    }

    /// After [`Disk::lost_writes`], with no command outstanding: forgets whatever is not on the medium, so that what
    /// is read from here on is what the medium has, and takes changes again, more slowly, each answered with its own
    /// errors. It may wait for the medium. After an error all is as before.
    fn start_over(&mut self) -> Result<(), DiskError> {
        self.below_mut().map_or(Ok(()), Disk::start_over)
    }

    /// The host has nothing more to change: the disk puts down what the next opening would have to find
    /// out otherwise. It has done so when [`Disk::has_left`]; a command that follows after all undoes it.
    fn leave(&mut self) {
        if let Some(below) = self.below_mut() {
            below.leave();
        }
    }

    /// Whether nothing is left to do of what [`Disk::leave`] asked for; `poll` goes on with it.
    fn has_left(&self) -> bool {
        self.below().is_none_or(Disk::has_left)
    }

    /// From now on what the disk can do without may rest once nothing was written for so long: it is asked nothing then, so that
    /// its drive goes to sleep by its own timer. With `None` nothing may.
    fn let_rest(&mut self, after: Option<Nanos>) {
        if let Some(below) = self.below_mut() {
            below.let_rest(after);
        }
    }

    /// Writes are about to come: what rests is woken, so that they need not wait for it.
    fn expect_writes(&mut self, now: Nanos) {
        if let Some(below) = self.below_mut() {
            below.expect_writes(now);
        }
    }

    /// How the parts are that may rest; none if nothing may.
    fn sides(&self, now: Nanos) -> Vec<Side> {
        self.below().map_or_else(Vec::new, |below| below.sides(now))
    }

    /// How far the members of mirrors are apart; none where no mirror knows its members.
    fn resilvers(&self) -> Vec<Resilver> {
        self.below().map_or_else(Vec::new, Disk::resilvers)
    }

    /// Closes a real disk that no command is outstanding on, so that others may open it. Later commands fail as on a disk that is gone.
    fn release(&mut self) {
        if let Some(below) = self.below_mut() {
            below.release();
        }
    }

    /// Releases members of mirrors that were replaced. Returns whether all of them are; one with a command outstanding is not yet.
    fn release_replaced(&mut self) -> bool {
        self.below_mut().is_none_or(Disk::release_replaced)
    }
}

/// A disk whose kind is chosen at run time. It is that disk, and stands before none.
#[warn(clippy::missing_trait_methods)]
impl<D: Disk + ?Sized> Disk for Box<D> {
    fn below(&self) -> Option<&dyn Disk> {
        (**self).below()
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        (**self).below_mut()
    }

    fn properties(&self) -> &Properties {
        (**self).properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        (**self).submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        (**self).poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        (**self).wake_at()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).wake_fd()
    }

    fn kick(&mut self) {
        (**self).kick();
    }

    fn zones(&self) -> Option<&Zones> {
        (**self).zones()
    }

    fn run_at(&self, offset: u64) -> Run {
        (**self).run_at(offset)
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
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

    fn let_rest(&mut self, after: Option<Nanos>) {
        (**self).let_rest(after);
    }

    fn expect_writes(&mut self, now: Nanos) {
        (**self).expect_writes(now);
    }

    fn sides(&self, now: Nanos) -> Vec<Side> {
        (**self).sides(now)
    }

    fn resilvers(&self) -> Vec<Resilver> {
        (**self).resilvers()
    }

    fn release(&mut self) {
        (**self).release();
    }

    fn release_replaced(&mut self) -> bool {
        (**self).release_replaced()
    }
}

#[cfg(test)]
mod tests;
