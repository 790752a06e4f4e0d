//! The disk as the engine sees it: what is on its way there and in which order, where its head should be, what it did wrong.
//!
//! Nothing else of the engine knows how many commands a disk takes, nor which of them wait.

pub(crate) mod dispatch;
pub(crate) mod flusher;
pub(crate) mod head;
pub(crate) mod report;
pub(crate) mod watch;
