//! What every test of the laws shares: recognisable content, the oracle, a disk that fails on
//! demand, and the harness that drives a volume over it step by step.

pub(crate) mod content;
pub(crate) mod disk;
pub(crate) mod harness;
pub(crate) mod oracle;
pub(crate) mod steps;
