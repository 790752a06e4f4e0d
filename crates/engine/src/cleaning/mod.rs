//! How logs are emptied: the policy asks for jobs, and the movers carry them out: checkpoints take blocks home, swaps move logs.

mod checkpoint;
mod copying;
mod home_and_swap;
mod policy;
mod room;
mod schedule;
mod swap;

pub(crate) use checkpoint::Checkpoint;
pub use home_and_swap::HomeAndSwap;
pub use policy::{AsNeeded, Cleaner, CleaningView, Move, WhenFull, Why};
pub(crate) use schedule::Schedule;
pub(crate) use swap::Swap;
