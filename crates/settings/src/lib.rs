//! What people may tell the program, on a command line or in a volume file.
//!
//! Apart from the program so that what reads hostile text can be tried by itself (`crates/hostile`). One gate
//! checks each value, whichever way it came: a volume file may say nothing that a flag may not. Nothing here
//! opens a disk or a socket; the only files read are the volume file and the
//! calibration that were named.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod units;

mod cache_device;
mod calibration;
mod coordinate;
mod disk;
mod kept;
mod rest_command;
mod serve;
mod sharing;
mod socket;
mod tuner;
mod volume_file;
mod writes;

pub use cache_device::CacheDevice;
pub use coordinate::{CheckpointTable, PERMITS_MAX, PermitsPlace};
pub use disk::{DiskArgs, IoEngine, Opener};
pub use kept::VolumeFile;
pub use rest_command::RestCommand;
pub use serve::{ServeArgs, second_of_day};
pub use sharing::Sharing;
pub use socket::SocketMode;
pub use tuner::{Change, Setting, Tuned, Tuner, settings_known};
pub use writes::{AckArg, checked_threshold};
