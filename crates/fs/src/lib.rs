//! A mounted file system as a state machine over a service: the data of files, transactions, commits.
//!
//! The metadata and its format are `nearhead-ext4`'s, where a transaction's parts go is `nearhead-journal`'s. What this crate keeps true:
//!
//! - a commit is one atomic record: after any crash the volume holds the state of a commit, whole, and `e2fsck -fn` finds nothing;
//! - what an `fsync` was answered for is in a record that is durable, and so is the data that its metadata names;
//! - new blocks of a file count as unwritten until their bytes are durable, so nobody ever reads what was there before;
//! - memory is bounded: writers wait while too much of what they wrote is on its way.
//!
//! It has no thread, clock or file: time is an argument, the service is handed in.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod ahead;
mod background;
mod changed_bytes;
mod commit;
mod commit_scope;
mod core;
mod durability;
mod error;
mod file;
mod flags;
mod fragments;
mod io;
mod jobs;
mod mounted;
mod names;
mod packing;
mod pages;
mod reading;
mod record_room;
mod replacing;
mod report;
mod request;
mod room;
mod survival;
mod trim;
mod waiting;
mod write_out;
mod writing;

pub use access::AccessTimes;
pub use core::COMMIT_AFTER;
pub use durability::DurableName;
pub use error::FsError;
pub use flags::DURABILITY_ONLY_FLAG;
pub use mounted::{FsOptions, Mounted, Phase};
pub use report::{FsCounts, FsReport};
pub use request::{Answer, FsOperation, FsReply, FsRequest, RoomChange, Sought};
pub use survival::{Batch, SurvivalLog, Survived, replay};
