//! Disk models: the same code in virtual time (simulator) and in real time (emulated disk).
//!
//! - [`HddModel`]: a hard disk with zones, skews, a seek curve, rotation by absolute phase, an
//!   on-disk cache and a command queue, described by a [`Profile`];
//! - [`SmrModel`]: a shingled disk on the parts of a hard disk: bands, persistent cache, cleaning;
//! - [`FlashModel`]: channels, dies and planes behind a page-level translation layer;
//! - [`Stripe`] and [`Mirror`]: RAID-0 and mirror over any disks, real ones too;
//! - [`InstantDisk`]: completes everything at once, for measuring what stands above it;
//! - [`CrashDisk`]: remembers what a power cut may lose, so that a test can try every outcome;
//! - [`faults`]: a layer over any disk that cuts, tears, loses, misdirects, rots, fails and hangs;
//! - [`Powered`]: a layer over any disk that books what a drive draws, and lets it sleep;
//! - [`Store`]: the bytes behind a model: none, in memory, in a sparse file, or a word for each block that repeats one.
//!
//! A model never reads a clock: it is told `now` and does what it would have done until then. It
//! never tells a host more than a host can know.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod faults;
pub mod measured;

pub use profile_parts::{DatasheetSpec, ExchangeSpec, ReadAhead};

mod angle;
mod crash;
mod drive;
mod first_bytes;
mod flash;
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
mod model;
#[cfg(test)]
mod model_laws;
mod overlay;
mod pending;
mod power;
mod profile;
mod profile_parts;
mod profile_text;
mod seek;
mod served;
mod smr;
mod spec;
mod store;
mod tear;

pub use angle::{Angle, Spindle};
pub use crash::{CrashDisk, UnflushedWrite};
pub use drive::Drive;
pub use first_bytes::FirstBytes;
pub use flash::{FlashModel, FlashProfile, FlashSpec, FlashStats};
pub use geometry::{Geometry, Layout, Skews, Track, Zone, ZoneStart};
pub use hdd::{HddModel, HddOptions, Stats};
pub use instant::{InstantDisk, plain_properties};
pub use layout::{
    Origins, RunMap, SpareScheme, SurfaceOrder, TreeRemap, TreeRow, TreeSpec, ZonedSpec, ZonedZone,
};
pub use mechanics::{ArmPosition, Mechanics, Motion};
pub use model::{Model, Report};
pub use power::{PowerSpec, PowerTimes, Powered};
pub use profile::{
    CacheSpec, CommandSpec, InterfaceSpec, LayoutSpec, Profile, QueuePolicy, QueueSpec, SeekSpec,
    SkewSpec, ZoneSpec,
};
pub use profile_text::ProfileError;
pub use seek::SeekCurve;
pub use served::Served;
pub use smr::{OutOfOrder, ShingledSpec, SmrKind, SmrModel, SmrProfile, SmrStats, SurfaceSpec};
pub use spec::{
    Content, MODEL_OPTIONS, ModelSpec, PREFIX as MODEL_PREFIX, SpecError, model_option_values,
};
pub use store::{Dataless, FileStore, MemoryStore, PatternStore, Store};
