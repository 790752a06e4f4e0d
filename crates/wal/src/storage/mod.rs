//! Where a log's files lie: the few operations a log needs of a directory, behind a trait.
//!
//! [`Directory`] is the real one. [`Memory`] is one that remembers what was not synced yet and can
//! lose power, so that every crash can be tried. What both promise, and the log relies on:
//!
//! - bytes given to [`StoredFile::write_durable`] survive a power cut once it returns, and so does
//!   everything written before a [`StoredFile::sync`] that returned;
//! - anything else may survive or not, per sector of 512 bytes;
//! - a change of names survives once [`Storage::sync_names`] returns; those before it survive in
//!   the order in which they were made;
//! - after an error nothing is known of what was under way. Nobody may retry a sync alone.

mod directory;
mod memory;

pub use directory::Directory;
pub(crate) use directory::{from_io, from_open, sync_directory};
pub use memory::{Cut, Memory, PendingSector, SectorFate};

use crate::error::Result;
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading one that exists.
    Read,
    /// Reading and writing one that exists.
    Write,
    /// The same, and it must be made.
    Create,
}

/// A directory with a log's files.
pub trait Storage: Send + Sync {
    /// The names of all files.
    fn names(&self) -> Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn StoredFile>>;
    /// Gives a file another name. A file that had it is gone.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes every change of names so far durable.
    fn sync_names(&self) -> Result<()>;
    /// What to call it in messages.
    fn describe(&self) -> String;
}

/// An open file. Offsets, lengths and memory are multiples of a block, except where reading
/// reaches the end of the file.
pub trait StoredFile: Send + Sync {
    /// What to call it in messages.
    fn name(&self) -> &str;
    /// Keeps every other writer out until it is closed; fails at once if one is in.
    fn lock(&self) -> Result<()>;
    /// Its length.
    fn len_bytes(&self) -> Result<u64>;
    /// Reads up to the end of the file; returns how much that was.
    fn read(&self, offset: u64, memory: &mut [u8]) -> Result<usize>;
    /// Writes; durable some time, or after a sync.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Writes; durable when it returns.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> Result<()>;
    /// Cuts the file off or extends it with zeros. Durable after a sync.
    fn set_len(&self, bytes: u64) -> Result<()>;
}
