//! The laws of SAFETY.md as a suite: [`System::conforms`] is the one call by which a system shows that it keeps them.
//!
//! A system is a preset: a value, made here or in any other crate. What it is tried with:
//!
//! - [`exhaustive`]: short workloads, a cut at every moment, every outcome of the cut;
//! - [`random_cuts`]: long workloads with cuts, kills, orderly stops, failing disks and logs that are too small;
//! - the lives of `nearhead-swarm`: several clients, arrays, map devices, growth, rot;
//! - the first lives with random cuts twice, with the same result.
//!
//! The harness below drives a volume step by step over a disk that loses, tears, reorders and fails, and an oracle that knows
//! only what was asked and answered watches it. It belongs to tests: it panics where a law is broken, and says what repeats it.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "it belongs to tests, and a broken law is a panic"
)]
#![allow(missing_docs, reason = "tools of tests, whose names say what they are")]

pub mod disk;
pub mod exhaustive;
pub mod harness;
pub mod options;
pub mod random_cuts;
pub mod raw;
pub mod status;
pub mod steps;
mod stop;
mod system;

pub use stop::stop;
pub use system::{Effort, Report, System};
