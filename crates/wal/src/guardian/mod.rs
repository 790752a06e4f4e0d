//! Zeros ahead of a log file that is not this library's: who cuts them off when the program dies.
//!
//! `nearhead run --ahead` writes zeros ahead of the log files of a program that is known to skip them.
//! While the program lives, the stream in it knows where the content ends. This module keeps that
//! knowledge for every kind of death:
//!
//! - the program dies: a small process that `run` left behind, the guardian, waits for that. It writes
//!   what the program had written and not synced, and cuts the file to what the program wrote;
//! - everything dies (power, or the guardian, too): a mark on the file says that zeros follow its
//!   content. The next program under `run`, or `nearhead run --repair FILE`, cuts them off.
//!
//! Both act only under a lease, which proves that no process has the file open.
//!
//! | file | what it does |
//! |---|---|
//! | `mark.rs` | the mark, and the cut |
//! | `tail.rs` | the end of the content in shared memory, as the program keeps it |
//! | `client.rs` | the program's connection to the guardian |
//! | `serve.rs` | the guardian |

mod client;
mod mark;
mod serve;
mod tail;

pub use client::{Client, Watched};
pub use mark::{Mark, Settled, marked, repair};
pub use serve::{listen, serve};
pub use tail::{Ending, TAIL_BYTES_MAX};
