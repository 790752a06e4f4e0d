//! What the commands without an engine say and leave, figure by figure: check, repair, dump, forget-log and grow, on volumes
//! whose content and damage the test has chosen. Where a cut hits them is tried by `laws`, in which words a user reads it by
//! the tests of the program.

#![allow(clippy::unwrap_used, reason = "tests")]

mod checking;
mod creating;
mod dumping;
mod forgetting;
mod fragments;
mod generations;
mod growing;
mod losing_superblocks;
mod medium;
mod opening;
mod repairing;
mod snapshots;
#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "../support/mod.rs"]
mod support;
mod watched;
