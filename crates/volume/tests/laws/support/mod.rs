//! What every test of the laws shares, beside the harness of `nearhead-laws`: clients beside it, and how a volume looks on
//! an image.

pub(crate) mod beside;
pub(crate) mod seen;

pub(crate) use nearhead_laws::{disk, harness, options, raw, steps};
pub(crate) use nearhead_swarm::content;
