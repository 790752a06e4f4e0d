//! The Nearhead engine (under construction).

pub mod map;
pub mod range_lock;
pub mod range_set;
pub mod request;

pub use request::{ErrorKind, Hint, Operation, Reply, Request, RequestError, RequestId};
