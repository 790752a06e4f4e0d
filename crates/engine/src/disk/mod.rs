//! The disks as the engine sees them: what is on its way there and in which order, where a head should be, what they did wrong.
//!
//! Nothing else of the engine knows how many commands a disk takes, nor which of them wait.

pub(crate) mod dispatch;
pub(crate) mod drive;
pub(crate) mod drives;
mod durable_clock;
pub(crate) mod flusher;
pub(crate) mod head;
mod in_flight;
pub(crate) mod lanes;
pub(crate) mod purpose;
pub(crate) mod report;
mod together;
pub(crate) mod watch;
