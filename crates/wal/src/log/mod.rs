//! The log of records: how it lies in segments, how it is written, how it is found again.
//!
//! | file | what it does |
//! |---|---|
//! | `options.rs` | sizes and bounds |
//! | `control_file.rs` | the two slots that say which segments are the log |
//! | `pool.rs` | which segments there are; the next one made ready before it is needed; recycling |
//! | `batch.rs` | records packed behind each other into whole blocks: one durable write |
//! | `scan.rs` | reading records that verify, one after the other |
//! | `recovery.rs` | where the log ends: torn told from corrupt |
//! | `serial.rs` | [`SerialLog`]: the log with one owner, without threads; everything that must hold holds here |
//! | `reader.rs` | [`Records`]: reading it again |
//! | `queue.rs` | records that wait for the next write; the group commit |
//! | `shared.rs` | who writes when: the threads over one serial log |
//! | `handle.rs` | [`Log`]: the log for many threads, blocking or polled |
//! | `ticket.rs` | [`Ticket`]: the promise of a record's durability |

mod batch;
mod control_file;
mod handle;
mod options;
mod pool;
mod queue;
mod reader;
mod recovery;
mod scan;
mod serial;
mod shared;
mod ticket;

pub(crate) use control_file::{CONTROL_NAME, block_bytes_of};
pub use handle::{Log, ThreadStart};
pub use options::LogOptions;
use pool::Pool;
pub use queue::Callback;
pub use reader::Records;
pub use recovery::Recovered;
pub use serial::{SerialLog, read_only};
pub use shared::Driver;
pub use ticket::Ticket;

use std::fmt;

/// Number of a record: 1 for the first of a log, then without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Of the first record of a log.
    pub const FIRST: Self = Self(1);

    /// Of the record that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}
