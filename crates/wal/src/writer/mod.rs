//! Who writes: which thread makes the durable writes, and with what I/O priority.
//!
//! | file | what it does |
//! |---|---|
//! | `durable.rs` | one durable write: plainly, with a lent priority, or as a request with one of its own |
//! | `place.rs` | what is known of where a log lies: device, scheduler, page cache; what is permitted |
//! | `choice.rs` | from both to a choice, and to the line that explains it |
//! | `job_thread.rs` | a thread with a priority that writes for callers who have none |

mod choice;
mod durable;
mod job_thread;
mod place;

pub use choice::{Choice, Mode};
pub use durable::{DurableWriter, LendingWriter, PlainWriter, RequestWriter};
pub use job_thread::JobThread;
pub use nearhead_uring::{
    IoPriority, block_signals, scheduler_of, set_thread_priority, thread_priority,
};
pub use place::{Permitted, Place};
