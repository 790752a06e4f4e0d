//! A write-ahead log with the latency of a disk of its own on a shared one.
//!
//! Small durable writes beside bulk I/O on one disk are what this is for ("Mitigating Write-ahead
//! Log Contention on Shared Storage Devices"). Three things are offered, each usable by itself:
//!
//! - [`log`]: records with numbers. Group commit; sub-block packing (Okeanos); segments written
//!   before they are needed and recycled; recovery that tells torn from corrupt.
//! - [`stream`]: bytes, for programs that own the format of their log.
//! - [`bulk`]: large writes and reads beside a log, paced so that its latency stays on target.
//!
//! ```text
//!  open  open_stream           from a path to a log, to a stream
//!  log/ shared, tickets        threads, waiting
//!       serial                 one owner: batch -> one durable write -> next
//!       batch  scan  recovery  packing; reading; where the log ends
//!       pool   control_file    which segments there are
//!  stream/                     bytes at the tail of a file, zeros ahead
//!  advise/                     what would help a running system
//!  bulk/                       few pieces in flight, as many as the log's latency permits
//!  codec/                      bytes on disk
//!  guardian/                   zeros ahead of a file: cut off when the program dies
//!  storage/                    files, behind a trait: a directory, or memory that can lose power
//!  process/                    a helper process that writes, and its protocol
//!  writer/                     who makes the system call, with what priority
//! ```
//!
//! What it keeps true:
//!
//! - a record is acknowledged only once it survives a power cut, and then it is read back or its
//!   loss is reported; never silently missing, never changed;
//! - records are read back in the order of their numbers, without gaps, up to some record: one that
//!   was never acknowledged may be there or not, but not after one that is not;
//! - every buffer and queue has a bound;
//! - after a failed write or sync nothing is retried and nothing more is acknowledged.
//!
//! docs/wal.md specifies the format and tells how to use it.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod advise;
pub mod bulk;
mod codec;
mod error;
pub mod guardian;
pub mod log;
pub mod metrics;
mod open;
mod open_stream;
pub mod process;
pub mod storage;
pub mod stream;
pub mod writer;

pub use codec::{Geometry, LogId, Tail};
pub use error::{Result, WalError, WalErrorKind};
pub use log::{Log, LogOptions, Lsn, Records, Recovered, SerialLog, Ticket};
pub use metrics::LogMetrics;
pub use nearhead_basics::Histogram;
pub use nearhead_uring::Awake;
pub use open::{OpenOptions, Opened, read_log};
pub use open_stream::{Begin, OpenStream};
pub use stream::{At, Stream, StreamOptions};
