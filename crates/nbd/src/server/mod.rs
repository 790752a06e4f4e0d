//! The NBD server: sockets, limits, and one event loop.
//!
//! [`ServerBuilder`] says where to listen and how much to allow; [`Server::run`] serves a
//! [`Service`](nearhead_service::Service) on the calling thread until a [`ShutdownHandle`] stops it.
//! One thread, because the engine behind it is one: a request goes from the socket to the engine
//! and back without ever changing threads.

mod builder;
mod byte_access;
mod byte_job;
mod clients;
mod clock;
mod connection;
mod control;
mod error;
mod event_loop;
mod listener;
mod losses;
mod memory;
mod poller;
mod requests;
mod shutdown;
mod statistics;
#[cfg(test)]
pub(crate) mod testing;
mod tls;
mod transport;
mod visits;

pub use builder::{Limits, ServerBuilder};
pub use clock::Clock;
pub use control::Context;
pub use error::ServerError;
pub use event_loop::{Ending, Report, Server};
pub use listener::SocketAccess;
pub use shutdown::ShutdownHandle;
pub use statistics::Statistics;
pub use tls::{TlsFiles, TlsKeys};
pub(crate) use transport::send_some;
