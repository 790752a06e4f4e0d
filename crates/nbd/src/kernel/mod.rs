//! The kernel as the one client: its module `nbd` makes a block device of a connection, and keeps the device when the connection ends.
//!
//! Two parts: [`Nbd`] tells the kernel over netlink which socket a device is to use, and is for whoever supervises; [`KernelFront`] is the
//! front ([`nearhead_service::LastingFront`]) of the process at the other end of that socket. There is no handshake, as both ends are
//! told the same by whoever made the socket. What they keep true:
//!
//! - a device whose connection ended waits for the next one, and what was not answered on the old one is sent again on the new one, once
//!   it is overdue ([`OVERDUE`]): the kernel has no other way to see that it is lost (`nbd_xmit_timeout`). Carrying out a request
//!   twice is harmless, as with `nearhead-one-file`;
//! - a request that takes longer than that ends its connection, whoever serves it: the next process goes on, and it is sent again.

mod device;
mod front;
#[cfg(test)]
mod front_tests;
mod netlink;

pub use device::{Attached, Nbd, OVERDUE, block_device, offered_flags};
pub use front::{KernelFront, ended_connection};
