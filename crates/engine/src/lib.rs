//! The Nearhead engine: small durable writes stay fast and bulk I/O keeps the disk's bandwidth.
//!
//! [`Engine`] is a deterministic state machine between fronts (NBD, replay, library) and disks
//! (real, or models on either clock). It has no sockets, files, clock, threads or randomness of its
//! own: events come in with the time they happened, commands and replies are polled out. The same
//! events give the same bytes, always.
//!
//! A room for each part of the life of a write:
//!
//! | room | what happens there |
//! |---|---|
//! | `engine/requests/` | what clients ask for, from the gate to the reply |
//! | `stage/` | small writes that are accepted and in no record yet |
//! | `commit/` | what waits becomes a record, and the record durable |
//! | `state/` | what the durable records say: map, logs, journal; logged copies are verified here |
//! | `home/` | what goes home without a log |
//! | `cleaning/` | logged blocks go home, or to another log |
//! | `snapshot/` | the map is written down |
//! | `read_cache/` | copies of what the tail of a chain holds, for reads |
//! | `blanks/` | what was never written |
//! | `recovery/` | the volume as it was |
//! | `disk/` | what is on its way to the disk, and what that did wrong |
//! | `placement/`, `packing/`, `admission/`, `cleaner/` | the policies: where a write goes, how much at once, who goes first, how logs are emptied |
//!
//! Every room has an owner, a type with private fields. `core.rs` is what several need, and `engine.rs` with what is below it
//! holds them together: it alone knows two of them at once. What must hold whatever the policies say, the laws of SAFETY.md, is in the rooms.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
pub mod admission;
mod blanks;
pub mod cleaner;
mod cleaning;
mod commit;
pub mod config;
mod core;
mod damage;
mod disk;
mod engine;
mod failure;
mod home;
mod map_pages;
pub mod packing;
mod pass;
pub mod placement;
mod policies;
mod read_cache;
mod recovery;
mod snapshot;
mod stage;
mod state;
pub mod stats;
mod tuning;

pub use activity::{Activities, Activity, Space};
pub use config::{Ack, BlanksFound, Cleaning, Config, JournalPlace, MapPlace, Setup};
pub use damage::{Damage, DamageKind};
pub use disk::drive::DriveStatus;
pub use disk::report::{
    DiskErrorCounts, DiskErrorReport, DiskEvent, DiskStall, DiskWork, Shortage, disk_error_name,
};
pub use disk::watch::DiskWatch;
pub use engine::Engine;
pub use engine::requests::gate::{ATOMIC_EXTENTS_MAX, REQUEST_BYTES_MAX};
pub use engine::requests::range_lock;
pub use failure::Failure;
pub use pass::{Pass, PassReason};
pub use policies::Policies;
pub use read_cache::CACHE_START_BYTES;
pub use recovery::{Doubt, Rebuilt};
pub use state::logs::{LogCounts, Occupancy};
pub use state::{chunks, logs, map};
pub use stats::{
    Counter, LinkRole, LinkStatus, LogDiskState, LogDiskStatus, LogFill, PagedMap, Phase,
    ReadCacheStatus, SnapshotLag, Stats, Status, TailMove,
};
pub use tuning::Tuning;

/// Largest payload of one record, in bytes. A burst of writes is emptied one record at a time, so larger is
/// faster; but recovery looks so far ahead in every claimed log (docs/performance.md has both).
pub const RECORD_BYTES_MAX: u32 = 2 << 20;
/// Most ranges with a hint.
pub const HINTS_MAX: usize = 4096;
