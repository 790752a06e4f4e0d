//! Volumes: presets, create and open, over any disk, and the service that fronts speak to.
//!
//! The engine knows policies and layout but not where they come from; this crate knows names,
//! superblocks and devices. It never touches a file or a socket: the disk is handed in.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backup;
pub mod bare;
pub mod blanks;
pub mod cache_device;
pub mod check;
pub mod create;
mod data_devices;
pub mod dump;
pub mod forget;
mod gathered;
pub mod generations;
pub mod grow;
mod lanes;
mod losses;
pub mod lost_superblock;
mod map_device;
pub mod open;
mod opening;
pub mod presets;
pub mod probe;
mod reopening;
pub mod repair;
mod resting;
mod sizes;
pub mod sync_io;
pub mod tracks;
mod volume;
mod whole_logs;
pub mod without_log;

pub use bare::BareDisk;
pub use create::{CreateError, CreateOptions, create, create_to_grow};
pub use gathered::GatheredDisk;
pub use lanes::Lanes;
pub use losses::{LossEvent, LossReport};
pub use open::{OpenError, find_superblock};
pub use opening::Clock;
pub use presets::{DEFAULT_PRESET, Facts, NamedPreset, PRESETS, Presets, UnknownPreset};
pub use probe::{
    Contents, Finding, HEAD_BYTES as PROBED_START_BYTES, TAIL_BYTES as PROBED_END_BYTES, probe,
    probe_device,
};
pub use reopening::ReopeningVolume;
pub use sync_io::{SyncIo, tell_of_waits};
pub use volume::Volume;
pub use whole_logs::whole_logs;
