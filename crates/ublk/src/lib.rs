//! A service as a block device of the kernel, through its driver `ublk_drv` (Linux 6.0), whose server may change.
//!
//! Two parts: [`Control`] makes and ends devices, and is for whoever supervises; [`Ublk`] is the front
//! ([`nearhead_service::LastingFront`]) of the process that serves one. What they keep true:
//!
//! - the kernel's requests reach the service as they are: a write that is to be durable (FUA) is one durable write, no flush;
//! - **a server that is no more is a pause**: the device keeps what it had not answered, and asks its successor (Linux 6.1,
//!   `UBLK_F_USER_RECOVERY_REISSUE`). Carrying out a request twice is harmless, as with `nearhead-one-file`;
//! - what the kernel lends is bounded by the depth of the queue and the largest request.
//!
//! A write that was answered and not flushed is none of its business (`nearhead-handover`). The numbers are those of `linux/ublk_cmd.h`.
//! Bytes are copied once by the kernel, and a small write once more; the zero copy of Linux 6.15 binds a request's pages to a
//! file that it goes to as it is, which a log record never does.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod control;
mod front;
mod words;

pub use control::{Control, Device, State, block_device, open_for_server, why_missing};
pub use front::{BlockShape, Ublk};
