//! The Nearhead engine (under construction).

pub mod request;

pub use request::{ErrorKind, Hint, Operation, Reply, Request, RequestError, RequestId};
