//! Bulk writing and reading that leaves a log on the same disk alone.
//!
//! A durable write waits behind whatever the device has accepted before it, so what bounds its
//! latency is the number of bulk bytes in flight, not the rate of bulk: small pieces, few at a
//! time, keep nearly all of the bandwidth and a small part of the wait (docs/wal-performance.md). How many are few depends on the device
//! and on who else uses it, so the bound is found, and found again, from the log's own latencies.
//!
//! | file | what it does |
//! |---|---|
//! | `pace.rs` | from the latencies of a window to a bound: no clock, no threads |
//! | `gate.rs` | lets only that many pieces in flight, for all bulk streams that share it |
//! | `pieces.rs` | threads that carry out pieces |
//! | `writer.rs`, `reader.rs` | [`BulkWriter`], [`BulkReader`] |

mod gate;
mod pace;
mod pieces;
mod reader;
mod writer;

pub use gate::{BulkReport, Gate, LatencySource};
pub use pace::{Pace, PaceOptions};
pub use reader::BulkReader;
pub use writer::BulkWriter;

/// Bytes of a piece. Smaller ones cost processor time, larger ones make each durable write wait longer: the device needs two in
/// flight to have something to do all the time, and with two of 128 KiB one write in a hundred takes half as long again (docs/wal-performance.md).
pub const PIECE_BYTES: usize = 64 << 10;
