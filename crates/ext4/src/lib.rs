//! ext4 without I/O: the structures on disk and the operations of a Linux file system on them.
//!
//! An operation either gives its result, or the blocks that must be given first, or an error; in the last two cases it
//! has changed nothing. Whoever drives it reads blocks, keeps the data of files, and writes what
//! [`Ext4::take_changes`] gives as one atomic write: after each, the image is one that `e2fsck -fn` finds clean. Nothing
//! here reads a disk or a clock, starts a thread or finds chance. Whatever is read may be hostile: it is checked when it
//! is first understood as what it is supposed to be.

mod error;
mod geometry;
mod stubs;
mod types;

pub use error::{Errno, Error, OpenError, Outcome, Stop};
pub use geometry::Geometry;
pub use types::*;

/// A file system.
#[derive(Debug)]
pub struct Ext4 {
    #[expect(dead_code, reason = "used once operations are there")]
    read_only: bool,
}
