//! A front that whoever drives a service holds beside it, on the same thread: the kernel's side of a block device or a file.
//!
//! What every one of them keeps true: a request reaches the service as the kernel made it; an answer is given once and never early; and
//! **what was taken and not answered is for a successor**, who is asked for it again when this process is no more. It never waits.

use crate::{Reply, Request, RequestId, ServiceInfo};
use std::io;
use std::os::fd::BorrowedFd;

/// Requests of such a front are numbered from here on; those of clients are below.
pub const LASTING_FRONT_IDS: u64 = 1 << 62;

/// The front. Its owner takes requests for the service ([`LastingFront::receive`]) and brings its replies ([`LastingFront::reply`]).
pub trait LastingFront {
    /// Readable when it or the service has something to do.
    fn wake_fd(&self) -> BorrowedFd<'_>;

    /// Whether a reply to `id` is for this front.
    fn is_mine(&self, id: RequestId) -> bool;

    /// The next request for the service, if there is one at this moment. `losses` is what the service tells of
    /// ([`crate::Service::losses`]).
    ///
    /// # Errors
    /// The kernel's side fails; there will be nothing more.
    fn receive(&mut self, losses: u64) -> io::Result<Option<Request>>;

    /// Answers whoever waits for `reply`, at the latest with the next [`LastingFront::send`].
    ///
    /// # Errors
    /// The kernel's side fails.
    fn reply(&mut self, reply: Reply) -> io::Result<()>;

    /// Hands over answers that were given.
    ///
    /// # Errors
    /// The kernel's side fails.
    fn send(&mut self) -> io::Result<()>;

    /// From here on nothing more is taken: it is for the successor. What was taken is answered.
    fn leave(&mut self);

    /// The service is as `info` says from here on: it has grown.
    fn resized(&mut self, info: &ServiceInfo);

    /// Whether the device or file was taken away: nobody asks anything any more.
    fn has_ended(&self) -> bool;
}
