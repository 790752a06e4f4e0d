//! How logs are emptied: checkpoints, swaps, and when they run.

mod checkpoint;
mod copying;
mod room;
mod schedule;
mod swap;

pub(crate) use checkpoint::Checkpoint;
pub(crate) use schedule::Schedule;
pub(crate) use swap::Swap;
