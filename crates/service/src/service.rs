//! What a front (NBD, replay, benches) serves: something that takes requests and gives replies.
//!
//! A volume is a service; so is a bare disk, which lets anything else be measured on the very same
//! emulated disk. Whoever owns a service drives it from one thread: submit, `drive`, collect
//! replies, then sleep until [`Wake::at`] or until [`Wake::fd`] is readable.

use crate::{Reply, Request};
use nearhead_disk::Nanos;
use std::os::fd::BorrowedFd;

/// What clients may know before their first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    /// For people: the volume's label or the disk's name.
    pub description: String,
    /// Bytes served.
    pub size_bytes: u64,
    /// Every offset and length is a multiple of this: 512 or 4096.
    pub block_bytes_min: u32,
    /// Requests of this size and alignment are served best.
    pub block_bytes_preferred: u32,
    /// Largest read or write, in bytes.
    pub request_bytes_max: u32,
    /// Whether every write is refused.
    pub read_only: bool,
    /// Whether the medium is mechanical.
    pub rotational: bool,
    /// Whether large `WriteZeroes` are fast (`FAST_ZERO` may be promised).
    pub fast_zero: bool,
}

/// A run of bytes with the same allocation status (NBD `base:allocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length of the run.
    pub len: u64,
    /// Nothing was ever stored here.
    pub hole: bool,
    /// It reads as zeros.
    pub zero: bool,
}

impl Extent {
    /// `len` bytes of which nothing is known without reading them.
    pub fn data(len: u64) -> Self {
        Self { len, hole: false, zero: false }
    }
}

/// When a service wants to be driven.
#[derive(Clone, Copy, Debug)]
pub struct Wake<'a> {
    /// Then at the latest, if nothing else happens before.
    pub at: Option<Nanos>,
    /// Whether a few microseconds matter at `at`: it is an emulated disk's, and so part of the
    /// latencies that it shows. Who waits for it keeps a processor busy at the end.
    pub is_precise: bool,
    /// A descriptor that becomes readable when `drive` should be called.
    pub fd: Option<BorrowedFd<'a>>,
}

impl Wake<'_> {
    /// At `at` to the microsecond, and not before.
    pub fn precisely(at: Option<Nanos>) -> Self {
        Self { at, is_precise: true, fd: None }
    }
}

/// Something that answers block requests.
///
/// Nothing here has a default but [`Service::wake_at`], which follows from [`Service::wake`]: a service that wraps
/// another passes each of them on, or does not compile.
pub trait Service {
    /// Facts for clients.
    fn info(&self) -> ServiceInfo;

    /// Accepts a request; exactly one reply will come out of [`Service::poll_reply`].
    fn submit(&mut self, request: Request, now: Nanos);

    /// Moves everything on as far as it goes at `now`. Call after a batch of submits and after
    /// each wake-up.
    fn drive(&mut self, now: Nanos);

    /// The next reply that is ready. Call until `None` after [`Service::drive`].
    fn poll_reply(&mut self) -> Option<Reply>;

    /// When to call `drive` again.
    fn wake(&self) -> Wake<'_>;

    /// [`Wake::at`] alone.
    fn wake_at(&self) -> Option<Nanos> {
        self.wake().at
    }

    /// Allocation status of `len` bytes at `offset`: at least one run, at most `runs_max`,
    /// from `offset` on, never reaching past `offset + len`; neighbours may be alike. Answered at once: what is not
    /// known without reading is data ([`Extent::data`]).
    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent>;

    /// How often it has lost what was answered and not flushed, and goes on all the same. Whoever serves clients answers
    /// the next flush of each with an error after that, once: nobody else knows who relied on what.
    fn losses(&self) -> u64;

    /// Asks for a graceful stop: new requests are refused, what waits is made durable.
    fn begin_shutdown(&mut self, now: Nanos);

    /// Whether the stop asked for is complete.
    fn is_shut_down(&self) -> bool;
}
