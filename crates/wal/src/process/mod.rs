//! A process of its own that writes: the helper, and the ways to it.
//!
//! After figure 12 of "Mitigating Write-ahead Log Contention on Shared Storage Devices": a child
//! process, started with [`std::process::Command`], gets requests through a pipe and writes with a
//! priority of its own. docs/wal-helper.md is the protocol, for clients in any language.
//!
//! | file | what it does |
//! |---|---|
//! | `frame.rs` | the header of a frame |
//! | `message.rs` | the bodies |
//! | `transport.rs` | frames in and out of descriptors, and open files beside them |
//! | `serve.rs` | the helper: reads requests, answers them |
//! | `handle.rs` | what a handle stands for: a stream, a log, an open file |
//! | `client.rs` | one helper, started and asked |
//! | `writer.rs` | the mode `process`: durable writes through a helper that is watched |

mod client;
mod frame;
mod handle;
mod message;
mod serve;
mod transport;
mod writer;

pub use client::{Helper, HelperOptions, OnDeath};

pub use frame::{Ask, BODY_BYTES_MAX, HANDLES_MAX, HEADER_BYTES};
pub use message::{Begin, HelloReply, OpenLog, OpenStream, code_of};
pub use serve::{Ended, serve, serve_standard};
pub use writer::ProcessWriter;
