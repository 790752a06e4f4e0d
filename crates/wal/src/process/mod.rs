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
//! | `ring.rs` | a ring of words between two that need not trust each other; over `atomics.rs` |
//! | `region.rs` | where two rings lie in shared memory |
//! | `ring_link.rs` | frames through the rings, and the socket as their bell |
//! | `link.rs` | frames either way |
//! | `serve.rs` | the helper: reads requests, answers them |
//! | `handle.rs` | what a handle stands for: a stream, a log, an open file |
//! | `transport_choice.rs` | which way is wished for and taken |
//! | `client.rs` | one helper, started and asked |
//! | `writer.rs` | the mode `process`: durable writes through a helper that is watched |

mod atomics;
mod client;
mod frame;
mod handle;
mod link;
mod message;
mod region;
mod ring;
mod ring_link;
mod serve;
mod transport;
mod transport_choice;
mod writer;

pub use client::{Helper, HelperOptions, OnDeath};

pub use frame::{Ask, BODY_BYTES_MAX, HANDLES_MAX, HEADER_BYTES};
pub use message::{HelloReply, OpenLog, code_of};
pub use serve::{Ended, serve, serve_standard};
pub use transport_choice::Transport;
pub use writer::ProcessWriter;
