//! NBD: the protocol as a state machine, and a server for it.
//!
//! [`protocol`] turns bytes into requests and replies into bytes; it never touches a socket.
//! [`server`] owns the sockets, the limits and the one event loop that drives a
//! [`Service`](nearhead_service::Service) with the requests of all clients. A client can be slow,
//! hostile or gone; it can never make the server panic, hold unbounded memory, or lose the reply
//! of another. [`client`] is the other side: somebody's export as a disk; [`kernel`] makes a block device of a connection.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod kernel;
pub mod protocol;
pub mod server;

pub use protocol::TlsMode;
pub use server::{
    Clock, Context, Ending, Limits, Report, Server, ServerBuilder, ServerError, ShutdownHandle,
    SocketAccess, Statistics, TlsFiles, TlsKeys,
};
