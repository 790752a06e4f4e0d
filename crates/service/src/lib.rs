//! The words between a front and what it serves: [`Request`], [`Reply`], and the [`Service`] that takes the one and
//! gives the other.
//!
//! A front (NBD, one file, replay, benches) needs this crate and no engine; a volume, a bare disk or a test double
//! implements it. What it keeps true: every request gets exactly one reply, also when the service fails or stops, and
//! a service that wraps another cannot forget a method of it: none whose loss changes anything has a default.
//!
//! It decides nothing, and has no sockets, files, clock or threads: times are given by the caller.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod lasting_front;
mod request;
mod service;

pub use lasting_front::{LASTING_FRONT_IDS, LastingFront};
pub use request::{Changed, ErrorKind, Hint, Operation, Reply, Request, RequestError, RequestId};
pub use service::{Extent, Service, ServiceInfo, Wake};
