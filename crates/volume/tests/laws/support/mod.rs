//! What every test of the laws shares: recognisable content, the oracle, a disk that fails on
//! demand, and the harness that drives a volume over it step by step.

pub(crate) mod beside;
pub(crate) mod disk;
pub(crate) mod harness;
pub(crate) mod options;
pub(crate) mod raw;
pub(crate) mod seen;
pub(crate) mod status;
pub(crate) mod steps;

pub(crate) use nearhead_swarm::{content, oracle};
