//! Profiles of measured drives: read from parameter packages, and fitted to what was measured.
//!
//! - [`import`]: a package of DiskSim's as a [`Profile`](nearhead_models::Profile), with the source of each table;
//! - [`fit`]: the few constants that a package leaves open, from the first half of a trace.
//!
//! What runs a profile is in `nearhead-models`, which knows nothing of where it came from.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fit;
pub mod import;
