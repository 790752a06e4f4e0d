//! Disk models: the same code in virtual time (simulator) and in real time (emulated disk).
//!
//! - [`HddModel`]: a hard disk with zones, skews, a seek curve, rotation by absolute phase, an
//!   on-disk cache and a command queue, described by a [`Profile`];
//! - [`InstantDisk`]: completes everything at once, for measuring what stands above it;
//! - [`CrashDisk`]: remembers what a power cut may lose, so that a test can try every outcome;
//! - [`Store`]: the bytes behind a model: none, in memory, or in a sparse file.
//!
//! A model never reads a clock: it is told `now` and does what it would have done until then. It
//! never tells a host more than a host can know.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fit;
pub mod import;
pub mod measured;

pub use profile_parts::{DatasheetSpec, ExchangeSpec, ReadAhead};

mod angle;
mod crash;
#[cfg(test)]
mod crash_tests;
mod geometry;
#[cfg(test)]
mod geometry_tests;
mod hdd;
#[cfg(test)]
mod hdd_tests;
mod instant;
mod layout;
mod limits;
mod mechanics;
mod profile;
mod profile_parts;
mod random;
mod seek;
mod spec;
mod store;
mod validate;

pub use angle::{Angle, Spindle};
pub use crash::{CrashDisk, UnflushedWrite};
pub use geometry::{Geometry, Layout, Skews, Track, Zone, ZoneStart};
pub use hdd::{HddModel, HddOptions, Stats};
pub use instant::{InstantDisk, plain_properties};
pub use layout::{SpareScheme, SurfaceOrder, TreeRow, TreeSpec, ZonedSpec, ZonedZone};
pub use limits::Interruption;
pub use mechanics::{ArmPosition, Mechanics, Motion};
pub use profile::{
    CacheSpec, CommandSpec, InterfaceSpec, LayoutSpec, Profile, ProfileError, QueuePolicy,
    QueueSpec, SeekSpec, SkewSpec, ZoneSpec,
};
pub use random::SplitMix;
pub use seek::SeekCurve;
pub use spec::{Content, ModelSpec, PREFIX as MODEL_PREFIX, SpecError};
pub use store::{Dataless, FileStore, MemoryStore, Store};
