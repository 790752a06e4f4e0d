//! How logs are emptied: the policy asks for jobs, and the movers carry them out: checkpoints take blocks home, swaps move logs in
//! records, and compaction beside them.

mod checkpoint;
mod compaction;
mod copying;
mod cycle;
mod gather;
mod passes;
mod room;
mod schedule;
mod swap;

pub(crate) use checkpoint::{Checkpoint, CheckpointContext, News};
pub(crate) use compaction::Compaction;
pub(crate) use schedule::{CleaningContext, Schedule};
pub(crate) use swap::Swap;
