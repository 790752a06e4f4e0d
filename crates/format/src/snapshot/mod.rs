//! The map snapshot: everything recovery needs besides the logs touched since.
//!
//! Two slots alternate; snapshot number `n` goes to slot `n % 2`. The body is written first and
//! flushed, then the header durably, so that a header never names a body that is not there, and a
//! cut at any moment leaves the other slot whole.
//!
//! ```text
//! slot   | header 4 KiB | entries 20 B each | log states 12 B | claims 4 B | hints 16 B | cells 64 B | zeros | ... | copy 4 KiB |
//!                         ^ body, a multiple of 4 KiB, one CRC32C over all of it             ^
//! ```
//!
//! The last block of a slot is a copy of its header, written when the header is durable and before
//! anything is used again that only the older snapshot needs: a header that rots is found out, and
//! made good.
//!
//! Every list is sorted and free of overlaps, which lets a reader build its map in one pass. Both
//! [`BodyWriter`] and [`BodyReader`] work in pieces of any size the caller likes and hold no more
//! than one item themselves.

mod cell;
#[cfg(test)]
mod cell_tests;
mod error;
mod header;
mod item;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use cell::{CELL_CONTENT_BYTES, FRAGMENT_CELL_BYTES, FragmentCell};
pub use error::SnapshotError;
pub use header::{
    FLAG_CLEAN_SHUTDOWN, FLAG_RECORDS_ANYWHERE, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, SnapshotHeader,
};
pub use item::{BodyItem, BodySummary, HintRange, LogState};
pub use reader::BodyReader;
pub use writer::BodyWriter;

/// Size of the header at the start of a slot; the body follows.
pub const SNAPSHOT_HEADER_BYTES: u64 = 4096;
