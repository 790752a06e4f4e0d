//! What would help a system that is running: `nearhead wal advise`.
//!
//! Looks at a process or a directory and says what stands between its log and the disk. It reads `/proc` and
//! `/sys`, opens no file of anybody and changes nothing; what it advises can be applied by itself, one thing after
//! the other, each said before it is done.
//!
//! | file | what it does |
//! |---|---|
//! | `facts.rs` | what is: threads, open files, mount, scheduler |
//! | `judge.rs` | from that to advice: the same for the same facts |

mod facts;
mod judge;
mod log_names;

pub use facts::{Facts, OpenFile, Thread};
pub use judge::{Action, Advice, judge};

use crate::error::{Result, WalError};
use crate::storage::from_io;
use nearhead_uring::{IoPriority, set_priority_of, set_scheduler_of};

impl Action {
    /// Does it.
    ///
    /// # Errors
    /// [`crate::WalErrorKind::Permission`] without the privilege.
    pub fn apply(&self) -> Result<()> {
        let outcome = match self {
            Self::Priority { thread, .. } => set_priority_of(*thread, IoPriority::REAL_TIME),
            Self::Scheduler { device: (major, minor), name } => {
                set_scheduler_of(*major, *minor, name)
            }
        };
        outcome.map_err(|error| {
            let WalError { kind, detail } = from_io("apply", self, &error);
            WalError::new(kind, detail)
        })
    }
}
