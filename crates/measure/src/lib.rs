//! What is measured and shown: the benches, the demo, models beside measured drives.
//!
//! - [`bench`](mod@bench): every number the project claims, side by side in one run;
//! - [`demo`]: what Nearhead does, on an emulated disk;
//! - [`drives`]: packages and traces of measured drives, and how near a model comes to them;
//! - [`will_it_help`]: a trace of somebody's own on the bare disk and on volumes, and what that comes to;
//! - `busy`: whether the machine had time for us while something was measured.
//!
//! Nothing here is a test: a number that is not met is told, and nothing fails for it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
mod busy;
pub mod demo;
pub mod drives;
pub mod will_it_help;
