//! The Nearhead engine: small durable writes stay fast and bulk I/O keeps the disk's bandwidth.
//!
//! [`Engine`] is a deterministic state machine between fronts (NBD, replay, library) and disks
//! (real, or models on either clock). It has no sockets, files, clock, threads or randomness of its
//! own: events come in with the time they happened, commands and replies are polled out. The same
//! events give the same bytes, always.
//!
//! Five questions are policies, one file each: where a write goes ([`placement`]), how it is packed
//! (`commit::packing`), who goes first ([`admission`]), how logs are emptied (`cleaning`). What must hold whatever the
//! policies say, the laws of SAFETY.md, is in the files between.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
pub mod admission;
mod allocation;
mod alone_home;
mod barrier;
mod blanks;
pub mod chunks;
pub mod cleaning;
mod commit;
pub mod config;
mod disk_report;
mod disk_watch;
mod dispatch;
mod echo;
mod engine;
mod failed_homes;
mod flusher;
mod gate;
mod head;
mod in_place;
mod invalidation;
mod journal;
pub mod logs;
pub mod map;
pub mod placement;
pub mod range_lock;
mod read;
mod recovery;
mod refusals;
mod sectors;
mod small_write;
mod snapshot;
mod spill;
mod stage;
mod state;
pub mod stats;

pub use activity::{Activities, Activity};
pub use config::{Ack, BlanksFound, Cleaning, Config, JournalPlace, Setup};
pub use disk_report::{
    DiskErrorCounts, DiskErrorReport, DiskEvent, DiskStall, DiskWork, Shortage, disk_error_name,
};
pub use disk_watch::DiskWatch;
pub use engine::Engine;
pub use gate::{ATOMIC_EXTENTS_MAX, REQUEST_BYTES_MAX};
pub use logs::{LogCounts, Occupancy};
pub use recovery::{Doubt, Rebuilt};
pub use stats::{Counter, Stats, Status};

/// Largest payload of one record, in bytes. A burst of writes is emptied one record at a time, so larger is
/// faster; but recovery looks so far ahead in every claimed log (docs/performance.md has both).
pub const RECORD_BYTES_MAX: u32 = 2 << 20;
/// Most ranges with a hint.
pub const HINTS_MAX: usize = 4096;
