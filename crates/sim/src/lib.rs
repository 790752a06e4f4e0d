//! Driving a service without a clock of its own: traces, workloads, virtual time, results.
//!
//! Everything here meets a volume, or a bare disk, through the one interface that network fronts
//! use too ([`nearhead_service::Service`]), so what is measured here is what is served there. The
//! crate keeps three things true:
//!
//! - time is virtual: it jumps from event to event, and no result depends on the machine;
//! - the same seed, trace and service give the same replies at the same instants ([`VirtualTime::digest`]);
//! - memory does not grow with the length of a run: traces stream, latencies go into histograms.
//!
//! It must never read a wall clock to decide anything (only to report how fast it ran), and never
//! drop a request: arrivals that a full queue delays are delayed, counted and reported.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod contention;
pub mod fixed_latency;
pub mod latency;
pub mod measured;
pub mod replay;
pub mod trace;
pub mod virtual_time;
pub mod workload;

pub use latency::LatencySummary;
pub use virtual_time::VirtualTime;
